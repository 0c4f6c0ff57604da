//! From a capture to a scenario that reproduces it: the path's rate, delay, queue and losses, and the traffic, as they show in the packets.
//!
//! The capture was made at one point, at either end of the path or close to it. What is far from it is measured by the time between a packet and its
//! answer. The rate of a path shows only while there is a queue: then the packets that come out of it have the rate of its slowest link. Where users are
//! slower than the path, only a lower bound is known, and the scenario says so.

mod capture;
mod direction;
mod half;
mod path;
mod propose;
mod reproduce;
mod traffic;
mod waits;

#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path as File, PathBuf};

use warpline_scenario::{Diagnostics, Scenario, Source};

pub use direction::Direction;
pub use path::Path;
pub use reproduce::{Comparison, Row};

use capture::{Damage, Ending, Packet};
use traffic::Traffic;

/// Why nothing can be inferred.
#[derive(Debug, thiserror::Error)]
pub enum InferError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no capture, or damaged.
    #[error("{} is no capture that can be read: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It shows no path.
    #[error(
        "{name}: {packets} packets of IP, but no two hosts that exchange TCP or UDP; capture at one end of the path, in both directions (tcpdump -i eth0 -w FILE)"
    )]
    NoPath {
        /// The files.
        name: String,
        /// Their packets.
        packets: u64,
    },
    /// Packets of one direction are missing.
    #[error(
        "{name}: packets from {from} to {to}, but none from {to} to {from}; capture both directions (tcpdump -i eth0 -w FILE), or name the capture of the other direction, too"
    )]
    OneWay {
        /// The files.
        name: String,
        /// Who sent what was captured.
        from: IpAddr,
        /// Who received it.
        to: IpAddr,
    },
    /// Two of the files hold the same packets.
    #[error(
        "{} and {} hold the same packets, which would count twice; name each capture once",
        first.display(),
        second.display()
    )]
    Twice {
        /// The file that was named first.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// It shows a path, but nothing that used it.
    #[error(
        "{name}: too little to propose a flow, which takes a TCP connection with data, or two datagrams of UDP from one host to another; capture while the path is used (tcpdump -i eth0 -w FILE)"
    )]
    TooLittle {
        /// The files.
        name: String,
        /// Their packets.
        packets: u64,
    },
    /// The proposed scenario cannot be run.
    #[error("the proposed scenario cannot be run: {0}")]
    Run(String),
    /// It was stopped.
    #[error("stopped")]
    Stopped,
}

/// What a capture shows.
#[derive(Clone, Debug)]
pub struct Inferred {
    /// Packets of IP in it.
    pub packets: u64,
    /// Seconds from its first packet to its last.
    pub seconds: f64,
    /// Connections of TCP.
    pub connections: usize,
    /// The path.
    pub path: Path,
    /// The scenario, as TOML.
    pub scenario: String,
}

/// Reads a capture (pcap or pcapng) and proposes a scenario. One that ends in the middle of a packet is read up to there. Of several files, such as one for each direction, the packets are put in the order of their
/// times. `cc` is the congestion control of its TCP, which packets do not tell.
///
/// # Errors
/// If a file cannot be read, two of them are the same, one direction is missing, or they show no path or no flow on it.
pub fn infer(files: &[PathBuf], cc: &str) -> Result<Inferred, InferError> {
    let mut traffic = Traffic::default();
    let mut endings = Vec::new();
    if let [file] = files {
        endings.push(capture::read(file, |packet| traffic.on_packet(&packet))?);
    } else {
        let mut captures: Vec<Vec<Packet>> = Vec::new();
        for file in files {
            let mut packets = Vec::new();
            endings.push(capture::read(file, |packet| packets.push(packet))?);
            let same = captures.iter().position(|other| !other.is_empty() && *other == packets);
            if let Some(same) = same {
                return Err(InferError::Twice { first: files[same].clone(), second: file.clone() });
            }
            captures.push(packets);
        }
        let mut packets: Vec<Packet> = captures.into_iter().flatten().collect();
        packets.sort_by_key(|packet| packet.at);
        packets.iter().for_each(|packet| traffic.on_packet(packet));
    }
    let names: Vec<String> = files.iter().map(|file| named(file)).collect();
    let cut = names.iter().zip(endings).filter(|(_, ending)| *ending == Ending::Cut);
    traffic.cut = cut.map(|(name, _)| name.clone()).collect();
    Inferred::of(&names.join(" "), &traffic, cc)
}

impl Inferred {
    /// The scenario, read and checked as `warpline run` does it. Paths in it, of which it has none, are relative to the current directory.
    ///
    /// # Errors
    /// Everything that is wrong with it, such as a congestion control that does not exist.
    pub fn load(&self) -> Result<Scenario, Diagnostics> {
        Source::from_text("the proposed scenario", &self.scenario, File::new("")).load(&[])
    }

    fn of(name: &str, traffic: &Traffic, cc: &str) -> Result<Inferred, InferError> {
        let name = name.to_owned();
        let packets = traffic.packets;
        if let Some((from, to)) = traffic.one_way() {
            return Err(InferError::OneWay { name, from, to });
        }
        let path = Path::of(traffic);
        if path.near.is_empty() || path.far.is_empty() {
            return Err(InferError::NoPath { name, packets });
        }
        let Some(scenario) = propose::scenario(&name, traffic, &path, cc) else {
            return Err(InferError::TooLittle { name, packets });
        };
        let connections = traffic.connections.len();
        Ok(Inferred { packets, seconds: traffic.end, connections, path, scenario })
    }
}

/// A file's name, as a comment can have it.
fn named(file: &File) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.chars().filter(|letter| !letter.is_control()).collect()
}

/// What the bytes of a capture show; none if [`infer`] has nothing to propose for it. For tests with damaged captures.
///
/// # Errors
/// What is wrong with the bytes.
pub fn infer_from(bytes: impl Read, cc: &str) -> Result<Option<Inferred>, String> {
    const NAME: &str = "capture";
    let mut traffic = Traffic::default();
    let ending = capture::read_from(bytes, |packet| traffic.on_packet(&packet));
    let ending = ending.map_err(|damage| match damage {
        Damage::Io(error) => error.to_string(),
        Damage::Format(why) => why,
    })?;
    if ending == Ending::Cut {
        traffic.cut.push(NAME.to_owned());
    }
    Ok(Inferred::of(NAME, &traffic, cc).ok())
}
