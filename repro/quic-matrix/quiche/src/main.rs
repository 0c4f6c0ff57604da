//! A transfer over QUIC with quiche. The README of the folder above says what it speaks.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quiche::{Config, Connection, ConnectionId, RecvInfo};
use ring::rand::{SecureRandom, SystemRandom};

type Outcome = Result<(), Box<dyn Error>>;

/// The bytes of a transfer repeat after this many.
const PERIOD: u64 = 251;
/// Largest datagram in bytes.
const DATAGRAM: usize = 1452;
/// The client's first stream in both directions.
const STREAM: u64 = 0;
/// Most bytes that a peer may have sent and that were not read.
const WINDOW: u64 = 16 << 20;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", certificate, key, port] => serve(certificate, key, port.parse()?),
        ["client", host, port, bytes] => fetch(SocketAddr::new(host.parse()?, port.parse()?), bytes.parse()?),
        _ => Err("usage: server CERTIFICATE KEY PORT | client ADDRESS PORT BYTES".into()),
    }
}

fn config() -> quiche::Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"hq-interop"])?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_streams_bidi(1);
    // Packets leave when quiche gives them: there is no timer below this program that could hold them.
    config.enable_pacing(false);
    Ok(config)
}

/// A connection identifier at random.
fn identifier() -> Result<ConnectionId<'static>, Box<dyn Error>> {
    let mut bytes = vec![0; quiche::MAX_CONN_ID_LEN];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "no random numbers")?;
    Ok(ConnectionId::from_vec(bytes))
}

/// Sends whatever there is to send, waits for a datagram or a timer, and passes it on.
fn step(socket: &UdpSocket, connection: &mut Connection, buffer: &mut [u8]) -> Outcome {
    flush(socket, connection, buffer)?;
    let wait = connection.timeout().unwrap_or(Duration::from_secs(1));
    // A timeout of zero would mean none at all.
    socket.set_read_timeout(Some(wait.max(Duration::from_micros(1))))?;
    match socket.recv_from(buffer) {
        Ok((count, from)) => {
            let info = RecvInfo { from, to: socket.local_addr()? };
            // A datagram that cannot be read is dropped, as the RFC says.
            let _ = connection.recv(&mut buffer[..count], info);
        }
        Err(_) => connection.on_timeout(),
    }
    Ok(())
}

fn flush(socket: &UdpSocket, connection: &mut Connection, buffer: &mut [u8]) -> Outcome {
    loop {
        match connection.send(&mut buffer[..DATAGRAM]) {
            Ok((count, info)) => socket.send_to(&buffer[..count], info.to).map(drop)?,
            Err(quiche::Error::Done) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn serve(certificate: &str, key: &str, port: u16) -> Outcome {
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(certificate)?;
    config.load_priv_key_from_pem_file(key)?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
    println!("ready");
    loop {
        if let Err(error) = answer(&socket, &mut config) {
            eprintln!("{error}");
        }
    }
}

/// Takes the next connection, and answers its first request. There is one connection at a time.
fn answer(socket: &UdpSocket, config: &mut Config) -> Outcome {
    let mut buffer = vec![0; 65536];
    socket.set_read_timeout(None)?;
    let (count, from) = socket.recv_from(&mut buffer)?;
    let header = quiche::Header::from_slice(&mut buffer[..count], quiche::MAX_CONN_ID_LEN)?;
    if header.ty != quiche::Type::Initial {
        return Ok(());
    }
    let to = socket.local_addr()?;
    let mut connection = quiche::accept(&identifier()?, None, to, from, config)?;
    connection.recv(&mut buffer[..count], RecvInfo { from, to })?;
    let mut request = Vec::new();
    let (mut bytes, mut sent) = (None, 0);
    while !connection.is_closed() {
        let mut part = [0; 64];
        while let Ok((count, end)) = connection.stream_recv(STREAM, &mut part) {
            request.extend_from_slice(&part[..count]);
            if end {
                let text = std::str::from_utf8(&request)?.trim();
                bytes = Some(text.strip_prefix("GET /").ok_or("no request")?.parse::<u64>()?);
            }
        }
        while let Some(bytes) = bytes.filter(|bytes| sent < *bytes) {
            let end = bytes.min(sent + 64 * PERIOD);
            let chunk: Vec<u8> = (sent..end).map(|at| (at % PERIOD) as u8).collect();
            match connection.stream_send(STREAM, &chunk, end == bytes) {
                Ok(0) | Err(quiche::Error::Done) => break,
                Ok(count) => sent += count as u64,
                Err(error) => return Err(error.into()),
            }
        }
        step(socket, &mut connection, &mut buffer)?;
    }
    Ok(())
}

fn fetch(server: SocketAddr, bytes: u64) -> Outcome {
    let mut config = config()?;
    // The server's certificate is its own, made when the programs are built.
    config.verify_peer(false);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(server)?;
    let local = socket.local_addr()?;
    // Sent with send_to, so that both sides are written in the same way.
    let socket = {
        drop(socket);
        UdpSocket::bind(local)?
    };
    let begun = Instant::now();
    let mut connection = quiche::connect(Some("server"), &identifier()?, local, server, &mut config)?;
    let mut buffer = vec![0; 65536];
    let mut asked = false;
    let (mut read, mut ended) = (0, false);
    while !ended {
        if connection.is_closed() {
            return Err(format!("the connection ended after {read} bytes of {bytes}").into());
        }
        if connection.is_established() && !asked {
            connection.stream_send(STREAM, format!("GET /{bytes}\r\n").as_bytes(), true)?;
            asked = true;
        }
        step(&socket, &mut connection, &mut buffer)?;
        while let Ok((count, end)) = connection.stream_recv(STREAM, &mut buffer) {
            for (at, byte) in (read..).zip(&buffer[..count]) {
                if u64::from(*byte) != at % PERIOD {
                    return Err(format!("byte {at} is wrong").into());
                }
            }
            read += count as u64;
            ended |= end;
        }
    }
    if read != bytes {
        return Err(format!("{read} bytes of {bytes} came").into());
    }
    println!("{:.6}", begun.elapsed().as_secs_f64());
    connection.close(true, 0, b"")?;
    flush(&socket, &mut connection, &mut buffer)
}
