//! The scenario that reproduces a path and its traffic, as text that says what was measured and what was assumed.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use warpline_core::{Rate, TimeDelta};

use super::path::{Direction, Path};
use super::traffic::Traffic;

/// Flows at the most. Of a capture with more connections, those with the most bytes.
const FLOWS: usize = 200;
/// The rate of what is not the bottleneck, as a multiple of it.
const EDGE: f64 = 100.0;
/// Bytes of headers of a datagram of UDP over IPv4, which the size of a packet counts.
const UDP_HEADERS: u64 = 28;

/// The nodes of the scenario: the hosts of each end.
struct Nodes<'a> {
    path: &'a Path,
}

impl Nodes<'_> {
    fn of(&self, address: IpAddr) -> Option<String> {
        let name = |end: &str, place: usize, count: usize| {
            if count == 1 { end.to_owned() } else { format!("{end}{place}") }
        };
        if let Some(place) = self.path.near.iter().position(|&near| near == address) {
            return Some(name("near", place, self.path.near.len()));
        }
        let place = self.path.far.iter().position(|&(far, _)| far == address)?;
        Some(name("far", place, self.path.far.len()))
    }
}

/// A flow.
struct Flow {
    from: SocketAddr,
    to: SocketAddr,
    bytes: u64,
    keys: String,
}

/// A key of the path, and what it rests on.
struct Key {
    name: &'static str,
    value: String,
    why: String,
}

/// What is said of the path in one direction: its keys, and remarks on what does not show.
#[derive(Default)]
struct Way {
    keys: Vec<Key>,
    remarks: Vec<String>,
}

impl Way {
    fn key(&mut self, name: &'static str, value: String, why: String) {
        self.keys.push(Key { name, value, why });
    }

    /// What is said of a direction, whose name is `to`. Where its rate does not show, it is `otherwise`.
    fn of(way: &Direction, to: &str, otherwise: f64) -> Way {
        let mut said = Way::default();
        match way.rate {
            Some(found) => said.key("rate", rate(found), "while there was a queue".to_owned()),
            None => {
                said.remarks.push(match way.most {
                    0.0 => format!("No data went to the {to}, so that the rate of that way does not show."),
                    _ => format!(
                        "No queue was seen to the {to}: the rate of that way is at least {}.",
                        rate(way.most)
                    ),
                });
                said.key("rate", rate(otherwise), String::new());
            }
        }
        match way.queue() {
            Some(packets) => said.key(
                "queue",
                format!("{packets:.0}p"),
                format!("the longest wait was {}", seconds(way.queueing)),
            ),
            None => {
                if way.rate.is_some() {
                    said.remarks.push(format!(
                        "The queue to the {to} was never full. The longest wait was {}.",
                        seconds(way.queueing)
                    ));
                }
                said.key("queue", "unlimited".to_owned(), String::new());
            }
        }
        match way.loss() {
            0.0 => said.key("loss", "none".to_owned(), String::new()),
            loss => said.key(
                "loss",
                format!("{:.4}%", loss * 100.0),
                format!("{} packets while the queue was not full", way.lost),
            ),
        }
        said
    }

    fn write_remarks(&self, text: &mut String) {
        for remark in &self.remarks {
            let _ = writeln!(text, "# {remark}");
        }
    }
}

/// The scenario. `cc` is the congestion control of its flows.
pub(super) fn scenario(name: &str, traffic: &Traffic, path: &Path, cc: &str) -> String {
    let mut text = format!(
        "# Proposed by `warpline infer {name}`: {} packets in {:.3} s.\n",
        traffic.packets, traffic.end
    );
    // A whole number of milliseconds that holds the last packet.
    let duration = seconds(((traffic.end * 1e3).floor() + 1.0) / 1e3);
    let _ = writeln!(
        text,
        "name = \"inferred\"\nduration = \"{duration}\"\n\n# The path, seen from the capture.\n[[link]]"
    );
    let known = path.ways.iter().filter_map(|way| way.rate).fold(0.0, f64::max);
    let most = path.ways.iter().map(|way| way.most).fold(known, f64::max);
    let edge = EDGE * most.max(1e6);
    let otherwise = if known > 0.0 { known } else { edge };
    let [out, back] = [("far end", &path.ways[0]), ("near end", &path.ways[1])]
        .map(|(to, way)| Way::of(way, to, otherwise));
    text += "between = [\"r1\", \"r2\"]\n";
    match path.rtt {
        Some(rtt) => {
            let _ = writeln!(
                text,
                "delay = {:<20} # half of the shortest round trip",
                format!("\"{}\"", seconds(rtt / 2.0))
            );
        }
        None => text += "# No round trip was seen, so that there is no delay.\n",
    }
    out.write_remarks(&mut text);
    for Key { name, value, why } in &out.keys {
        let why = if why.is_empty() { String::new() } else { format!(" # {why}") };
        let line = format!("{:<28}{why}", format!("{name} = \"{value}\""));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    back.write_remarks(&mut text);
    for Key { name, why, .. } in back.keys.iter().filter(|key| !key.why.is_empty()) {
        let _ = writeln!(text, "# {name} of the way back: {why}.");
    }
    let keys: Vec<String> =
        back.keys.iter().map(|Key { name, value, .. }| format!("{name} = \"{value}\"")).collect();
    let _ = writeln!(
        text,
        "reverse = {{ {} }}\n\n# The hosts. Captures are where this one was made.",
        keys.join(", ")
    );
    let nodes = Nodes { path };
    let near = path.near.iter().map(|&address| (address, 0.0, "r1\"]\nrecord = [\"pcap"));
    let far = path.far.iter().map(|&(address, extra)| (address, extra, "r2"));
    for (address, extra, router) in near.chain(far) {
        let node = nodes.of(address).unwrap_or_default();
        let _ = writeln!(
            text,
            "[[link]]  # {address}\nbetween = [\"{node}\", \"{router}\"]\nrate = \"{}\"\ndelay = \"{}\"\nqueue = \"unlimited\"\n",
            rate(edge),
            seconds(extra / 2.0)
        );
    }
    flows(&mut text, traffic, &nodes, cc);
    text
}

fn flows(text: &mut String, traffic: &Traffic, nodes: &Nodes<'_>, cc: &str) {
    let rtt = nodes.path.rtt.unwrap_or(0.0);
    let mut flows: Vec<Flow> = Vec::new();
    for connection in &traffic.connections {
        for (own, half) in connection.halves.iter().enumerate() {
            let Some((first, last)) = half.times else { continue };
            // It has ended by a FIN or a RST, or has been silent for longer than ever before at the end of the capture.
            let goes_on = !half.is_over && traffic.end - last <= half.patience();
            let what = if goes_on {
                "app = \"bulk\"".to_owned()
            } else {
                format!("app = \"transfer\"\nsize = \"{}B\"", half.payload())
            };
            flows.push(Flow {
                from: connection.ends[own],
                to: connection.ends[1 - own],
                bytes: half.payload(),
                keys: format!(
                    "{what}\ncc = \"{cc}\"\nstart = \"{}\"",
                    seconds((first - rtt).max(connection.opened))
                ),
            });
        }
    }
    for (&(from, to), datagrams) in &traffic.datagrams {
        let time = datagrams.last - datagrams.first;
        // A question and its answer have no rate.
        if datagrams.packets < 2 || time <= 0.0 {
            continue;
        }
        let size = datagrams.payload / datagrams.packets + UDP_HEADERS;
        // The rate counts whole packets. The last of them ends the time.
        let found = (datagrams.packets - 1) as f64 * size as f64 * 8.0 / time;
        flows.push(Flow {
            from,
            to,
            bytes: datagrams.payload,
            keys: format!(
                "app = \"cbr\"\nrate = \"{}\"\npacket_size = \"{size}B\"\nstart = \"{}\"\nstop = \"{}\"",
                rate(found),
                seconds(datagrams.first),
                seconds(datagrams.last)
            ),
        });
    }
    let all = flows.len();
    if all > FLOWS {
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
        flows.truncate(FLOWS);
        let _ = writeln!(text, "# The {FLOWS} largest of {all} flows.");
    }
    for (number, flow) in flows.iter().enumerate() {
        let (Some(from), Some(to)) = (nodes.of(flow.from.ip()), nodes.of(flow.to.ip())) else { continue };
        if from == to {
            continue;
        }
        let _ = write!(
            text,
            "[[flow]]  # {} to {}\nname = \"flow{number}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{}\n\n",
            flow.from, flow.to, flow.keys
        );
    }
}

/// A time as scenarios have it, to the microsecond.
fn seconds(value: f64) -> TimeDelta {
    TimeDelta::from_secs_f64((value * 1e6).round() / 1e6)
}

/// A rate as scenarios have it, to four digits.
fn rate(value: f64) -> String {
    let mut step = 1.0;
    while value / step >= 10_000.0 {
        step *= 10.0;
    }
    let value = (value / step).round().max(1.0) * step;
    Rate::from_bps(value as u64).to_string()
}
