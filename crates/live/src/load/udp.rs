//! Datagrams one way, and there and back.
//!
//! The first byte of a datagram says what to do with it: count it, return it, or answer with the count.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, ReceiveTimestampns, SndBuf, SndBufForce};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, setsockopt,
};
use nix::sys::time::TimeSpec;
use rustix::event::{PollFd, PollFlags, poll};
use warpline_core::TimeDelta;

use super::{LoadError, Returned, Sent, Sunk, nap, now, realtime, system, timespec};
use crate::calibrate::statistics::{lower_slope, quantile};

/// Bytes of an IPv4 and of a UDP header.
const HEADERS: usize = 20 + 8;
/// Datagrams for one system call.
const BATCH: usize = 64;
/// Bytes that sockets buffer, if the system allows it.
const BUFFER: usize = 16 << 20;

const COUNT: u8 = b'n';
const RETURN: u8 = b'e';
const ASK: u8 = b'q';

/// A stream of datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) span: TimeDelta,
    /// Datagrams per second; 0 for as many as possible.
    pub(super) rate: u64,
    /// Bytes of one from the IP header on.
    pub(super) bytes: usize,
    /// Datagrams sent at once at the beginning.
    pub(super) burst: u64,
}

fn big_buffers(socket: &UdpSocket) {
    // For root beyond the system's limit, for others up to it.
    let _ = setsockopt(socket, RcvBufForce, &BUFFER).or_else(|_| setsockopt(socket, RcvBuf, &BUFFER));
    let _ = setsockopt(socket, SndBufForce, &BUFFER).or_else(|_| setsockopt(socket, SndBuf, &BUFFER));
}

/// What a sink records of the datagrams that it counts.
#[derive(Debug, Default)]
struct Notes {
    packets: u64,
    /// The number that the source gave it, and its timestamp.
    arrivals: Vec<(f64, f64)>,
    under_way: Vec<f64>,
}

impl Notes {
    /// Records a datagram that the kernel saw at `stamp`.
    fn stamped(&mut self, datagram: &[u8], stamp: u64) {
        let Some(sent) = datagram.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes)
        else {
            return;
        };
        self.arrivals.push((self.packets as f64, stamp as f64));
        self.under_way.push(stamp.saturating_sub(sent) as f64 / 1e3);
    }

    fn report(&mut self) -> Sunk {
        let packets = self.packets;
        let first = self.arrivals.first().map_or(0.0, |arrival| arrival.1);
        for arrival in &mut self.arrivals {
            arrival.1 -= first;
        }
        // At the beginning the queue is filling, and at the end the source is no longer ahead.
        let (from, to) = (self.arrivals.len() / 10, self.arrivals.len() * 9 / 10);
        let spacing_ns = lower_slope(&self.arrivals[from..to]);
        let mut under_way = self.under_way.drain(..to).skip(from).collect::<Vec<_>>();
        under_way.sort_by(f64::total_cmp);
        let under_way_us = (!under_way.is_empty())
            .then(|| [0.0, 0.5, 1.0].map(|share| quantile(&under_way, share).unwrap_or_default()));
        Sunk { packets, spacing_ns, under_way_us }
    }
}

/// Counts and returns datagrams until it is killed.
pub(super) fn sink(port: u16, stamps: bool) -> Result<String, LoadError> {
    let socket = UdpSocket::bind(("0.0.0.0", port)).map_err(system("listen"))?;
    big_buffers(&socket);
    if stamps {
        setsockopt(&socket, ReceiveTimestampns, &true).map_err(system("switch arrival timestamps on"))?;
    }
    let mut notes = Notes::default();
    let mut last = Sunk::default();
    let mut buffers = vec![[0u8; 2048]; BATCH];
    let space = stamps.then(|| nix::cmsg_space!(TimeSpec));
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, space);
    let mut out = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut got: Vec<(usize, Option<SockaddrStorage>, u64)> = Vec::with_capacity(BATCH);
    loop {
        got.clear();
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let messages =
            recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::MSG_WAITFORONE, None)
                .map_err(system("receive"))?;
        for message in messages {
            let mut stamp = 0;
            if stamps {
                for one in message.cmsgs().into_iter().flatten() {
                    if let ControlMessageOwned::ScmTimestampns(time) = one {
                        stamp = time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
                    }
                }
            }
            got.push((message.bytes, message.address, stamp));
        }
        let (mut echo, mut to) = (Vec::new(), Vec::new());
        for (buffer, &(len, from, stamp)) in buffers.iter().zip(&got) {
            let datagram = &buffer[..len];
            match datagram.first() {
                Some(&RETURN) => {
                    echo.push([IoSlice::new(datagram)]);
                    to.push(from);
                }
                Some(&ASK) => {
                    // Asked again because the answer was lost: nothing has arrived since.
                    if notes.packets > 0 {
                        last = notes.report();
                        notes = Notes::default();
                    }
                    let text = serde_json::to_vec(&last).unwrap_or_default();
                    if let Some(from) = from {
                        let answer =
                            nix::sys::socket::sendto(socket.as_raw_fd(), &text, &from, MsgFlags::empty());
                        answer.map_err(system("answer"))?;
                    }
                }
                _ => {
                    if stamps {
                        notes.stamped(datagram, stamp);
                    }
                    notes.packets += 1;
                }
            }
        }
        if !echo.is_empty() {
            // Datagrams that cannot be sent are lost; the other end counts them.
            let _ = sendmmsg(socket.as_raw_fd(), &mut out, &echo, &to, [], MsgFlags::empty());
        }
    }
}

fn connected(address: &str) -> Result<UdpSocket, LoadError> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(system("open a socket"))?;
    socket.connect(address).map_err(system("reach the sink"))?;
    big_buffers(&socket);
    Ok(socket)
}

/// Asks the sink for its report, which resets it.
fn ask(socket: &UdpSocket) -> Result<Sunk, LoadError> {
    let wait = Duration::from_millis(700);
    socket.set_read_timeout(Some(wait)).map_err(system("wait for the sink"))?;
    for _ in 0..30 {
        socket.send(&[ASK]).map_err(system("ask the sink"))?;
        let mut answer = [0; 2048];
        match socket.recv(&mut answer) {
            Ok(len) => {
                if let Ok(sunk) = serde_json::from_slice(&answer[..len]) {
                    return Ok(sunk);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The sink is not listening yet.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => nap(TimeDelta::from_millis(20)),
            Err(error) => return Err(system("receive the sink's report")(error)),
        }
    }
    Err(LoadError::Silence)
}

/// Sends a stream of datagrams to a sink.
pub(super) fn send(address: &str, what: &Stream) -> Result<Sent, LoadError> {
    let socket = connected(address)?;
    ask(&socket)?;
    crate::clock::be_punctual();
    let mut payload = vec![COUNT; what.bytes.saturating_sub(HEADERS).max(16)];
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let to = [None; BATCH];
    let start = now();
    let mut sent = 0u64;
    loop {
        let passed = now() - start;
        if passed >= what.span.as_nanos() {
            break;
        }
        let due = match what.rate {
            0 => u64::MAX,
            rate => what.burst + (u128::from(passed) * u128::from(rate) / 1_000_000_000) as u64,
        };
        let count = due.saturating_sub(sent).min(BATCH as u64) as usize;
        if count == 0 {
            nap(TimeDelta::from_micros(50));
            continue;
        }
        payload[8..16].copy_from_slice(&realtime().to_be_bytes());
        let slices = vec![[IoSlice::new(&payload)]; count];
        match sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &to[..count], [], MsgFlags::empty()) {
            Ok(messages) => sent += messages.count() as u64,
            Err(nix::errno::Errno::ENOBUFS | nix::errno::Errno::EAGAIN) => {}
            Err(errno) => return Err(system("send")(errno)),
        }
    }
    let seconds = (now() - start) as f64 / 1e9;
    nap(TimeDelta::from_millis(300));
    Ok(Sent { packets: sent, seconds, sunk: ask(&socket)? })
}

/// Keeps `window` small datagrams in flight to a sink that returns them.
pub(super) fn there_and_back(address: &str, span: TimeDelta, window: u64) -> Result<Returned, LoadError> {
    let socket = connected(address)?;
    ask(&socket)?;
    let payload = [RETURN; 64 - HEADERS];
    let mut out = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut into = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let to = [None; BATCH];
    let mut buffers = vec![[0u8; 64]; BATCH];
    let (mut sent, mut returned, mut lost) = (0u64, 0u64, 0u64);
    let start = now();
    let mut last = start;
    while now() - start < span.as_nanos() {
        let room = window.saturating_sub(sent - returned - lost).min(BATCH as u64) as usize;
        if room > 0 {
            let slices = vec![[IoSlice::new(&payload)]; room];
            let messages =
                sendmmsg(socket.as_raw_fd(), &mut out, &slices, &to[..room], [], MsgFlags::empty());
            sent += messages.map_err(system("send"))?.count() as u64;
        }
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        match recvmmsg(socket.as_raw_fd(), &mut into, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
            Ok(messages) => {
                returned += messages.count() as u64;
                // Some of those may come late after all.
                lost = lost.min(sent.saturating_sub(returned));
                last = now();
            }
            Err(nix::errno::Errno::EAGAIN) if now() - last > 100_000_000 => {
                // Nothing for this long: the rest is lost.
                lost = sent - returned;
                last = now();
            }
            Err(nix::errno::Errno::EAGAIN) => {
                let mut fds = [PollFd::new(&socket, PollFlags::IN)];
                let waited = poll(&mut fds, Some(&timespec(TimeDelta::from_millis(10))));
                waited.map_err(system("wait"))?;
            }
            Err(errno) => return Err(system("receive")(errno)),
        }
    }
    Ok(Returned { packets: sent, returned, seconds: (now() - start) as f64 / 1e9 })
}

/// How long the last datagrams may be under way, in nanoseconds: more than the round trip of any link that is measured.
const STRAGGLERS: u64 = 1_500_000_000;

/// Sends datagrams at a rate to a sink that returns them, whatever comes back, and waits for the last of them.
pub(super) fn paced(address: &str, what: &Stream) -> Result<Returned, LoadError> {
    let socket = connected(address)?;
    ask(&socket)?;
    crate::clock::be_punctual();
    let payload = vec![RETURN; what.bytes.saturating_sub(HEADERS).max(1)];
    let mut out = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut into = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let to = [None; BATCH];
    let mut buffers = vec![[0u8; 2048]; BATCH];
    let (mut sent, mut returned, mut seconds) = (0u64, 0u64, 0.0);
    let start = now();
    let mut last = start;
    loop {
        let passed = now() - start;
        let ended = passed >= what.span.as_nanos();
        let due = what.burst + (u128::from(passed) * u128::from(what.rate) / 1_000_000_000) as u64;
        let count = if ended { 0 } else { due.saturating_sub(sent).min(BATCH as u64) as usize };
        if count > 0 {
            let slices = vec![[IoSlice::new(&payload)]; count];
            match sendmmsg(socket.as_raw_fd(), &mut out, &slices, &to[..count], [], MsgFlags::empty()) {
                Ok(messages) => sent += messages.count() as u64,
                Err(nix::errno::Errno::ENOBUFS | nix::errno::Errno::EAGAIN) => {}
                Err(errno) => return Err(system("send")(errno)),
            }
            seconds = (now() - start) as f64 / 1e9;
            last = now();
        }
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        match recvmmsg(socket.as_raw_fd(), &mut into, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
            Ok(messages) => {
                returned += messages.count() as u64;
                last = now();
            }
            Err(nix::errno::Errno::EAGAIN) if count == 0 => {
                let mut fds = [PollFd::new(&socket, PollFlags::IN)];
                let waited = poll(&mut fds, Some(&timespec(TimeDelta::from_micros(50))));
                waited.map_err(system("wait"))?;
            }
            Err(nix::errno::Errno::EAGAIN) => {}
            Err(errno) => return Err(system("receive")(errno)),
        }
        if ended && (returned >= sent || now() - last > STRAGGLERS) {
            return Ok(Returned { packets: sent, returned, seconds });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_stream_counts_what_comes_back() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = far.local_addr().unwrap().to_string();
        // Every fourth datagram is lost.
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            let mut count = 0;
            while let Ok((len, from)) = far.recv_from(&mut buffer) {
                if buffer[0] == ASK {
                    let none = serde_json::to_vec(&Sunk::default()).unwrap();
                    far.send_to(&none, from).unwrap();
                    continue;
                }
                assert_eq!(len + HEADERS, 100);
                count += 1;
                if count % 4 != 0 {
                    far.send_to(&buffer[..len], from).unwrap();
                }
            }
        });
        let what = Stream { span: TimeDelta::from_millis(100), rate: 400, bytes: 100, burst: 4 };
        let returned = paced(&address, &what).unwrap();
        assert!((4..=44).contains(&returned.packets), "{returned:?}");
        assert_eq!(returned.returned, returned.packets - returned.packets / 4);
    }
}
