//! Load generators for measurements, each in a process of its own: they send and receive ordinary packets through ordinary sockets.
//!
//! ```text
//! echo ADDRESS COUNT GAP_US BYTES          round trips of single pings, which the far kernel answers
//! udp-sink PORT [stamps]                   counts datagrams, or returns them if they request that
//! udp ADDRESS:PORT SECONDS RATE BYTES BURST  datagrams one way, RATE per second (0: as fast as possible), after BURST at once
//! return ADDRESS:PORT SECONDS WINDOW       datagrams there and back, WINDOW of them in flight
//! trips ADDRESS:PORT SECONDS RATE BYTES    datagrams there and back, RATE per second whatever comes back
//! tcp-sink PORT                            receives streams
//! tcp ADDRESS:PORT SECONDS RATE CONTROL [prompt]  one stream, at most RATE bit/s (0: no limit), with that congestion control; it may end with little unsent
//! clock COUNT GAP_US                       readings of the clock beside the processor's counter, and timers
//! ```
//!
//! Sources print what they measured, with the sink's report, as one JSON object. Arrival times are the kernel's timestamps
//! (`SO_TIMESTAMPNS`) where it matters, so the wake-up of a measuring program does not count.

pub mod clock;
mod echo;
mod tcp;
mod udp;

use std::io::{self, Write as _};

use rustix::event::{Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;

/// Why a load generator failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The words are not understood.
    #[error("these words make no load: {0}")]
    Words(String),
    /// The system did not do something.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The other end did not answer.
    #[error("the other end does not answer")]
    Silence,
}

fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> LoadError {
    move |source| LoadError::System { what, source: source.into() }
}

/// Round trips, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trips {
    /// From before the send to the kernel's timestamp of the answer.
    pub stamped: Vec<u64>,
    /// From before the send until the program had the answer.
    pub seen: Vec<u64>,
    /// Pings without an answer.
    pub lost: u64,
}

/// Readings of a clock and of the time-stamp counter, and timers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// The counter, then `CLOCK_MONOTONIC` in nanoseconds, then the counter again.
    pub readings: Vec<[u64; 3]>,
    /// How late timers were, in nanoseconds of the same clock.
    pub late: Vec<u64>,
}

/// The report of a sink of datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sunk {
    /// Datagrams.
    pub packets: u64,
    /// Time from one datagram to the next while the source is ahead, in nanoseconds: the slope below which no
    /// arrival lies. With timestamps only, and only if enough arrived.
    pub spacing_ns: Option<f64>,
    /// Transit time in microseconds while the source is ahead: smallest, median, largest. With timestamps only.
    pub under_way_us: Option<[f64; 3]>,
}

/// The report of a source of datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Datagrams sent.
    pub packets: u64,
    /// For how long, in seconds.
    pub seconds: f64,
    /// The sink's report.
    pub sunk: Sunk,
}

/// The report on datagrams that came back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Returned {
    /// Datagrams sent.
    pub packets: u64,
    /// Datagrams that came back.
    pub returned: u64,
    /// Over how long, in seconds.
    pub seconds: f64,
}

/// The report on a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Streamed {
    /// Bytes that the sink has received.
    pub bytes: u64,
    /// From the first byte that the sink received to the last, in seconds.
    pub seconds: f64,
    /// Bytes received during each tenth of a second.
    pub tenths: Vec<u64>,
}

/// Runs the load generator that the words name, and prints its report.
///
/// # Errors
/// If the words are not understood, or the system or the other end fails.
pub fn run(words: &[String]) -> Result<(), LoadError> {
    let not_understood = || LoadError::Words(words.join(" "));
    let number = |word: &str| word.parse::<u64>().map_err(|_| not_understood());
    let span = |word: &str| word.parse::<f64>().map_err(|_| not_understood()).map(TimeDelta::from_secs_f64);
    let text = |value: serde_json::Result<String>| value.map_err(io::Error::from).map_err(system("say it"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = match words[..] {
        ["echo", address, count, gap, bytes] => {
            let address = address.parse().map_err(|_| not_understood())?;
            let gap = TimeDelta::from_micros(number(gap)?);
            text(serde_json::to_string(&echo::trips(address, number(count)?, gap, number(bytes)? as usize)?))?
        }
        ["clock", count, gap] => {
            let read = clock::read(number(count)?, TimeDelta::from_micros(number(gap)?));
            text(serde_json::to_string(&read))?
        }
        ["udp-sink", port] => udp::sink(number(port)? as u16, false)?,
        ["udp-sink", port, "stamps"] => udp::sink(number(port)? as u16, true)?,
        ["udp", address, seconds, rate, bytes, burst] => {
            let what = udp::Stream {
                span: span(seconds)?,
                rate: number(rate)?,
                bytes: number(bytes)? as usize,
                burst: number(burst)?,
            };
            text(serde_json::to_string(&udp::send(address, &what)?))?
        }
        ["return", address, seconds, window] => {
            text(serde_json::to_string(&udp::there_and_back(address, span(seconds)?, number(window)?)?))?
        }
        ["trips", address, seconds, rate, bytes] => {
            let what = udp::Stream {
                span: span(seconds)?,
                rate: number(rate)?,
                bytes: number(bytes)? as usize,
                burst: 0,
            };
            text(serde_json::to_string(&udp::paced(address, &what)?))?
        }
        ["tcp-sink", port] => tcp::sink(number(port)? as u16)?,
        ["tcp", address, seconds, rate, control, ref rest @ ..] if matches!(rest, [] | ["prompt"]) => {
            let sent = tcp::send(address, span(seconds)?, number(rate)?, control, !rest.is_empty())?;
            text(serde_json::to_string(&sent))?
        }
        _ => return Err(not_understood()),
    };
    let mut out = io::stdout().lock();
    out.write_all(said.as_bytes()).and_then(|()| out.flush()).map_err(system("say it"))
}

/// A clock's reading in nanoseconds.
fn read(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Monotonic time in nanoseconds.
fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds since 1970, like the kernel's timestamps.
fn realtime() -> u64 {
    read(ClockId::Realtime)
}

fn timespec(span: TimeDelta) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// Sleeps.
fn nap(span: TimeDelta) {
    let _ = poll(&mut [], Some(&timespec(span)));
}
