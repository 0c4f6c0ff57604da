//! Load for measurements, each kind in a process of its own: what it sends and receives are ordinary packets of ordinary sockets.
//!
//! ```text
//! echo ADDRESS COUNT GAP_US BYTES          round trips of single pings, which the far kernel answers
//! udp-sink PORT [stamps]                   counts datagrams, or returns them if they ask for that
//! udp ADDRESS:PORT SECONDS RATE BYTES BURST  datagrams one way, RATE a second (0: as fast as can be), after BURST at once
//! return ADDRESS:PORT SECONDS WINDOW       datagrams there and back, WINDOW of them under way
//! tcp-sink PORT                            takes in streams
//! tcp ADDRESS:PORT SECONDS RATE CONTROL    one stream, at most RATE bit/s (0: no limit), with that congestion control
//! ```
//!
//! Sources print what they measured, with what the sink told them, as one JSON object. Instants of arrival are the kernel's stamps
//! (`SO_TIMESTAMPNS`) where it matters, so that waking up a measuring program is not part of what is measured.

mod echo;
mod tcp;
mod udp;

use std::io::{self, Write as _};

use rustix::event::{Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;

/// Why a load could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The words are not understood.
    #[error("these words make no load: {0}")]
    Words(String),
    /// The system did not do something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
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
    /// From before the sending to the kernel's stamp of the answer.
    pub stamped: Vec<u64>,
    /// From before the sending until the program had the answer.
    pub seen: Vec<u64>,
    /// Pings without an answer.
    pub lost: u64,
}

/// What a sink of datagrams has seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sunk {
    /// Datagrams.
    pub packets: u64,
    /// Time from one datagram to the next on the part with the source in the lead, in nanoseconds: the slope below which no
    /// arrival lies. With stamps only, and where enough came in.
    pub spacing_ns: Option<f64>,
    /// Time under way in microseconds: smallest, median, largest. With stamps only.
    pub under_way_us: Option<[f64; 3]>,
}

/// What a source of datagrams has sent, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Datagrams sent.
    pub packets: u64,
    /// For how long, in seconds.
    pub seconds: f64,
    /// What the sink says.
    pub sunk: Sunk,
}

/// Datagrams that came back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Returned {
    /// Datagrams sent.
    pub packets: u64,
    /// Datagrams that came back.
    pub returned: u64,
    /// Over how long, in seconds.
    pub seconds: f64,
}

/// What became of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Streamed {
    /// Bytes that the sink has taken in.
    pub bytes: u64,
    /// From the first byte that it took in to the last, in seconds.
    pub seconds: f64,
    /// Bytes taken in during each tenth of a second.
    pub tenths: Vec<u64>,
}

/// Does what the words say, and prints what came of it.
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
        ["tcp-sink", port] => tcp::sink(number(port)? as u16)?,
        ["tcp", address, seconds, rate, control] => {
            text(serde_json::to_string(&tcp::send(address, span(seconds)?, number(rate)?, control)?))?
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

/// Time since some instant, in nanoseconds.
fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds since 1970, as the kernel's stamps.
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
