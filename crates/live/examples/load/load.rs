//! The measuring itself.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

/// Payload of a packet of 64 bytes from the IPv4 header on.
const PAYLOAD: usize = 36;
const BATCH: usize = 32;

/// Does what the words say.
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["sink", port] => sink(port.parse()?),
        ["rtt", address, count, gap] => rtt(address, count.parse()?, gap.parse()?),
        ["flood", address, seconds, rate] => flood(address, seconds.parse()?, rate.parse()?),
        ["pingpong", address, seconds, window] => pingpong(address, seconds.parse()?, window.parse()?),
        ["shell", spin, linger, rate, delay, queue, "--", ref command @ ..] => {
            shell([spin, linger, rate, delay, queue].map(|word| word.parse().unwrap_or(0)), command)
        }
        _ => Err("see the head of load.rs for the words".into()),
    }
}

fn shell(
    [spin, linger, rate, delay, queue]: [u64; 5],
    command: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    use warpline_core::{NodeId, Rate, TimeDelta};
    use warpline_live::clock::Waiting;
    use warpline_live::emulator::EmulatorConfig;
    use warpline_live::shell::{ShellConfig, run};
    use warpline_net::qdisc::{Limit, QdiscConfig};
    use warpline_net::{LinkConfig, RateConfig};
    let link = |name: &str| LinkConfig {
        rate: if rate == 0 { RateConfig::Unlimited } else { RateConfig::Constant(Rate::from_bps(rate)) },
        delay: TimeDelta::from_micros(delay),
        qdisc: QdiscConfig::DropTail {
            limit: if queue == 0 { Limit::NONE } else { Limit::packets(queue as u32) },
        },
        ..LinkConfig::new(name, NodeId(0), NodeId(1))
    };
    let waiting = Waiting { spin: TimeDelta::from_micros(spin), linger: TimeDelta::from_micros(linger) };
    let precedence = std::env::var_os("LOAD_NO_FIFO").is_none();
    let outcome = run(ShellConfig {
        up: link("up"),
        down: link("down"),
        seed: 1,
        emulator: EmulatorConfig { waiting, precedence, ..EmulatorConfig::default() },
        command: command.iter().map(Into::into).collect(),
        base_command: None,
        nat: false,
    })?;
    println!("{}{:?}", outcome.audit.render(), outcome.links);
    Ok(())
}

fn big_buffers(socket: &UdpSocket) -> nix::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};
    let _ = setsockopt(socket, sockopt::RcvBufForce, &(8 << 20));
    let _ = setsockopt(socket, sockopt::SndBufForce, &(8 << 20));
    Ok(())
}

/// "n" counts, "e" echoes, "q" answers the count and starts anew.
fn sink(port: u16) -> Result<(), Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind(("0.0.0.0", port))?;
    big_buffers(&socket)?;
    let mut count = 0u64;
    let mut buffers = vec![[0u8; 2048]; BATCH];
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut out = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    loop {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let mut got: Vec<(usize, Option<SockaddrStorage>)> = Vec::with_capacity(BATCH);
        for message in
            recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::MSG_WAITFORONE, None)?
        {
            got.push((message.bytes, message.address));
        }
        let (mut echo, mut to) = (Vec::new(), Vec::new());
        for (buffer, (len, from)) in buffers.iter().zip(&got) {
            match buffer[0] {
                b'e' => {
                    echo.push([IoSlice::new(&buffer[..*len])]);
                    to.push(*from);
                }
                b'q' => {
                    if let Some(from) = from {
                        nix::sys::socket::sendto(
                            socket.as_raw_fd(),
                            &count.to_be_bytes(),
                            from,
                            MsgFlags::empty(),
                        )?;
                    }
                    count = 0;
                }
                _ => count += 1,
            }
        }
        if !echo.is_empty() {
            let _ = sendmmsg(socket.as_raw_fd(), &mut out, &echo, &to, [], MsgFlags::empty());
        }
    }
}

fn connected(address: &str) -> Result<UdpSocket, Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    big_buffers(&socket)?;
    Ok(socket)
}

fn rtt(address: &str, count: usize, gap: u64) -> Result<(), Box<dyn std::error::Error>> {
    let socket = connected(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(3)))?;
    let mut all = Vec::new();
    let mut payload = [b'e'; PAYLOAD];
    for number in 0..count + 5 {
        payload[1..9].copy_from_slice(&number.to_be_bytes());
        let start = Instant::now();
        socket.send(&payload)?;
        let mut answer = [0; 2048];
        socket.recv(&mut answer)?;
        if number >= 5 {
            all.push(start.elapsed().as_nanos() as f64 / 1e3);
        }
        std::thread::sleep(Duration::from_micros(gap));
    }
    all.sort_by(f64::total_cmp);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let deviation = (all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
    println!(
        "min {:.1} median {:.1} mean {mean:.1} stddev {deviation:.1} p99 {:.1} max {:.1} us",
        all[0],
        all[all.len() / 2],
        all[all.len() * 99 / 100],
        all[all.len() - 1]
    );
    Ok(())
}

fn ask(socket: &UdpSocket) -> Result<u64, Box<dyn std::error::Error>> {
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    for _ in 0..20 {
        socket.send(b"q")?;
        let mut answer = [0; 8];
        match socket.recv(&mut answer) {
            Ok(8) => return Ok(u64::from_be_bytes(answer)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err("the sink does not answer".into())
}

fn flood(address: &str, seconds: f64, rate: u64) -> Result<(), Box<dyn std::error::Error>> {
    let socket = connected(address)?;
    ask(&socket)?;
    let payload = [b'n'; PAYLOAD];
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let to = vec![None; BATCH];
    let start = Instant::now();
    let mut sent = 0u64;
    while start.elapsed().as_secs_f64() < seconds {
        let due = if rate == 0 { u64::MAX } else { (start.elapsed().as_secs_f64() * rate as f64) as u64 };
        let now = (due.saturating_sub(sent) as usize).min(BATCH);
        if now == 0 {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        let slices = vec![[IoSlice::new(&payload)]; now];
        sent += sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &to[..now], [], MsgFlags::empty())?
            .count() as u64;
    }
    let took = start.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(300));
    let received = ask(&socket)?;
    println!(
        "sent {:.0}/s received {:.0}/s lost {:.4} %",
        sent as f64 / took,
        received as f64 / took,
        100.0 * (1.0 - received as f64 / sent as f64)
    );
    Ok(())
}

fn pingpong(address: &str, seconds: f64, window: usize) -> Result<(), Box<dyn std::error::Error>> {
    let socket = connected(address)?;
    let payload = [b'e'; PAYLOAD];
    let mut out = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut into = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let to = vec![None; BATCH];
    let mut buffers = vec![[0u8; 256]; BATCH];
    let (mut sent, mut returned) = (0u64, 0u64);
    let start = Instant::now();
    let mut last = Instant::now();
    let mut lost = 0u64;
    while start.elapsed().as_secs_f64() < seconds {
        let under_way = (sent - returned - lost) as usize;
        let room = (window.saturating_sub(under_way)).min(BATCH);
        if room > 0 {
            let slices = vec![[IoSlice::new(&payload)]; room];
            sent += sendmmsg(socket.as_raw_fd(), &mut out, &slices, &to[..room], [], MsgFlags::empty())?
                .count() as u64;
        }
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        match recvmmsg(socket.as_raw_fd(), &mut into, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
            Ok(messages) => {
                returned += messages.count() as u64;
                last = Instant::now();
            }
            Err(nix::errno::Errno::EAGAIN) => {
                if last.elapsed() > Duration::from_millis(100) {
                    lost += sent - returned - lost;
                    last = Instant::now();
                } else {
                    let mut poll = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::IN)];
                    let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                    rustix::event::poll(&mut poll, Some(&wait))?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    println!(
        "round trips {:.0}/s lost {:.4} %",
        returned as f64 / start.elapsed().as_secs_f64(),
        100.0 * lost as f64 / sent.max(1) as f64
    );
    Ok(())
}
