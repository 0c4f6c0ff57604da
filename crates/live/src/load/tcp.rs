//! One TCP stream: as fast as possible, or at a rate.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use nix::{libc, setsockopt_impl, sockopt_impl};
use warpline_core::TimeDelta;

use super::{LoadError, Streamed, nap, now, system};

/// Bytes written or read at a time.
const CHUNK: usize = 1 << 18;
/// Bytes of a stream that is to end promptly: those written at a time, and those that may wait to be sent for the first time.
const PROMPT: usize = 1 << 15;
/// A tenth of a second, in nanoseconds.
const TENTH: u64 = 100_000_000;

sockopt_impl!(
    /// How many bytes may wait to be sent for the first time (tcp(7), `TCP_NOTSENT_LOWAT`).
    UnsentLimit,
    SetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_NOTSENT_LOWAT,
    u32
);

/// Receives streams, one after another, and reports to each sender what arrived, until it is killed.
pub(super) fn sink(port: u16) -> Result<String, LoadError> {
    let listener = TcpListener::bind(("0.0.0.0", port)).map_err(system("listen"))?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let (mut stream, _) = listener.accept().map_err(system("accept a stream"))?;
        let mut streamed = Streamed::default();
        let mut start = 0;
        let mut last = 0;
        // A stream that breaks is reported as far as it got.
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            last = now();
            if streamed.bytes == 0 {
                start = last;
            }
            let tenth = ((last - start) / TENTH) as usize;
            streamed.tenths.resize(tenth + 1, 0);
            streamed.tenths[tenth] += len as u64;
            streamed.bytes += len as u64;
        }
        streamed.seconds = (last - start) as f64 / 1e9;
        let _ = stream.write_all(&serde_json::to_vec(&streamed).unwrap_or_default());
    }
}

/// Sends a stream for `span`; `rate` is in bit/s, 0 for as fast as possible. A `prompt` stream has little that waits to be sent, which the kernel would still send
/// after `span`.
pub(super) fn send(
    address: &str,
    span: TimeDelta,
    rate: u64,
    control: &str,
    prompt: bool,
) -> Result<Streamed, LoadError> {
    let mut tries = 0;
    let mut stream = loop {
        match TcpStream::connect(address) {
            // The sink is not listening yet.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && tries < 100 => {
                tries += 1;
                nap(TimeDelta::from_millis(20));
            }
            other => break other.map_err(system("reach the sink"))?,
        }
    };
    setsockopt(&stream, TcpCongestion, &OsString::from(control))
        .map_err(system("choose the congestion control (sysctl net.ipv4.tcp_allowed_congestion_control)"))?;
    stream.set_nonblocking(false).map_err(system("set up the stream"))?;
    if prompt {
        setsockopt(&stream, UnsentLimit, &(PROMPT as u32)).map_err(system("set up the stream"))?;
    }
    let chunk = vec![
        0u8;
        if rate > 0 {
            1448
        } else if prompt {
            PROMPT
        } else {
            CHUNK
        }
    ];
    let (start, mut sent) = (now(), 0u64);
    loop {
        let passed = now() - start;
        if passed >= span.as_nanos() {
            break;
        }
        if rate > 0 && u128::from(sent) * 8_000_000_000 > u128::from(passed) * u128::from(rate) {
            nap(TimeDelta::from_micros(500));
            continue;
        }
        stream.write_all(&chunk).map_err(system("send"))?;
        sent += chunk.len() as u64;
    }
    stream.shutdown(Shutdown::Write).map_err(system("end the stream"))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(system("receive the sink's report"))?;
    serde_json::from_slice(&answer).map_err(|_| LoadError::Silence)
}
