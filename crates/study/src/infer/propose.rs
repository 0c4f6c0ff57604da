//! The scenario that reproduces a path and its traffic, as text that says what was measured and what was assumed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use warpline_core::parameter::Parameters as _;
use warpline_core::{Rate, TimeDelta};
use warpline_scenario::application::Cbr;

use super::direction::Direction;
use super::path::Path;
use super::traffic::Traffic;

/// Flows at the most. Of a capture with more connections, those with the most bytes.
const FLOWS: usize = 200;
/// The rate of what is not the bottleneck, as a multiple of it.
const EDGE: f64 = 100.0;
/// Bytes of headers of a datagram of UDP over IPv4, which the size of a packet counts.
const UDP_HEADERS: u64 = 28;
/// A sender that always has data is not without any on its way for longer than this: in seconds, and as a multiple of a long round trip.
const PAUSE: (f64, f64) = (0.2, 4.0);
/// The key of a flow at a constant rate that has the size of its packets.
const PACKET_SIZE: &str = "packet_size";

/// A host.
struct Host {
    /// The name of its node.
    node: String,
    /// What its round trip takes beyond that of the nearest one, in seconds.
    extra: f64,
}

/// The hosts of each end, by their addresses.
struct Hosts {
    near: BTreeMap<IpAddr, Host>,
    far: BTreeMap<IpAddr, Host>,
}

impl Hosts {
    /// Those that flows use. Of an end without any it is the first, so that the path has two ends.
    fn of(path: &Path, flows: &[Flow]) -> Hosts {
        let used: BTreeSet<IpAddr> = flows.iter().flat_map(|flow| [flow.from.ip(), flow.to.ip()]).collect();
        let named = |end: &str, all: &[(IpAddr, f64)]| -> BTreeMap<IpAddr, Host> {
            let mut own = all.to_vec();
            own.retain(|(address, _)| used.contains(address));
            if own.is_empty() {
                own.extend(all.first());
            }
            let count = own.len();
            let host = |(place, (address, extra)): (usize, (IpAddr, f64))| {
                let node = if count == 1 { end.to_owned() } else { format!("{end}{place}") };
                (address, Host { node, extra })
            };
            own.into_iter().enumerate().map(host).collect()
        };
        let near: Vec<(IpAddr, f64)> = path.near.iter().map(|&address| (address, 0.0)).collect();
        Hosts { near: named("near", &near), far: named("far", &path.far) }
    }

    /// The node of an address.
    fn node(&self, address: IpAddr) -> Option<&str> {
        let host = self.near.get(&address).or_else(|| self.far.get(&address));
        host.map(|host| host.node.as_str())
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
            Some(found) if way.is_mixed => {
                said.remarks.push(format!(
                    "Data went both ways, and no timestamps tell the two queues apart. So the rate to the {to} is at least this one."
                ));
                if way.dropped > 0 {
                    said.remarks.push(format!(
                        "Losses to the {to} while there was a queue are taken for those of a full one."
                    ));
                }
                said.key("rate", rate(found), "at least, while there was a queue".to_owned());
            }
            Some(found) => said.key("rate", rate(found), "while there was a queue".to_owned()),
            None => {
                let least = rate(way.most);
                said.remarks.push(if way.most == 0.0 {
                    format!("Too little data went to the {to} for the rate of that way to show.")
                } else if way.queue().is_some() {
                    format!(
                        "The queue to the {to} was a short one: the rate of that way is at least {least}."
                    )
                } else {
                    format!("No queue was seen to the {to}: the rate of that way is at least {least}.")
                });
                if way.is_behind {
                    said.remarks.push(format!(
                        "Packets to the {to} came at a steady rate, and some were lost: they may have been through a full queue before the capture, which does not show it. Then capture at the sender, before that queue."
                    ));
                }
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

/// The scenario; none if there is no flow between the ends of the path. `cc` is the congestion control of its flows.
pub(super) fn scenario(name: &str, traffic: &Traffic, path: &Path, cc: &str) -> Option<String> {
    let (flows, all) = flows(traffic, path, cc);
    if flows.is_empty() {
        return None;
    }
    let mut text = format!(
        "# Proposed by `warpline infer {name}`: {} packets in {:.3} s.\n",
        traffic.packets, traffic.end
    );
    for name in &traffic.cut {
        let _ = writeln!(text, "# {name} ends in the middle of a packet. What is before that was read.");
    }
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
    let hosts = Hosts::of(path, &flows);
    let near = hosts.near.iter().map(|(address, host)| (address, host, "r1\"]\nrecord = [\"pcap"));
    let far = hosts.far.iter().map(|(address, host)| (address, host, "r2"));
    for (address, Host { node, extra }, router) in near.chain(far) {
        let _ = writeln!(
            text,
            "[[link]]  # {address}\nbetween = [\"{node}\", \"{router}\"]\nrate = \"{}\"\ndelay = \"{}\"\nqueue = \"unlimited\"\n",
            rate(edge),
            seconds(extra / 2.0)
        );
    }
    write_flows(&mut text, &flows, all, &hosts);
    Some(text)
}

/// The flows between the ends of the path, and how many the capture has.
fn flows(traffic: &Traffic, path: &Path, cc: &str) -> (Vec<Flow>, usize) {
    let rtt = path.rtt.unwrap_or(0.0);
    let long = path.ways[0].rtt.map_or(0.0, |(_, long)| long);
    let pause = PAUSE.0.max(PAUSE.1 * long);
    // Whatever its letters are, it stays a text of TOML.
    let cc = toml::Value::from(cc);
    let mut flows: Vec<Flow> = Vec::new();
    for connection in &traffic.connections {
        // An end that closes its half of the connection expects no more than what answers it.
        let is_over = connection.halves.iter().any(|half| half.is_over);
        for (own, half) in connection.halves.iter().enumerate() {
            let Some((first, _)) = half.times else { continue };
            let what = if !is_over && half.always_sends(pause, traffic.end) {
                "app = \"bulk\"".to_owned()
            } else {
                format!("app = \"transfer\"\nsize = \"{}B\"", half.payload())
            };
            flows.push(Flow {
                from: connection.ends[own],
                to: connection.ends[1 - own],
                bytes: half.payload(),
                keys: format!(
                    "{what}\ncc = {cc}\nstart = \"{}\"",
                    seconds((first - rtt).max(connection.opened))
                ),
            });
        }
    }
    for (&(from, to), datagrams) in &traffic.datagrams {
        let time = datagrams.last - datagrams.first;
        let (start, stop) = (seconds(datagrams.first), seconds(datagrams.last));
        // A question and its answer have no rate.
        if datagrams.packets < 2 || stop <= start {
            continue;
        }
        let size = packet_size(datagrams.payload / datagrams.packets + UDP_HEADERS);
        // The rate counts whole packets. The last of them ends the time.
        let found = (datagrams.packets - 1) as f64 * size as f64 * 8.0 / time;
        flows.push(Flow {
            from,
            to,
            bytes: datagrams.payload,
            keys: format!(
                "app = \"cbr\"\nrate = \"{}\"\n{PACKET_SIZE} = \"{size}B\"\nstart = \"{start}\"\nstop = \"{stop}\"",
                rate(found)
            ),
        });
    }
    let ends: BTreeSet<IpAddr> =
        path.near.iter().copied().chain(path.far.iter().map(|&(address, _)| address)).collect();
    flows.retain(|flow| {
        let (from, to) = (flow.from.ip(), flow.to.ip());
        from != to && ends.contains(&from) && ends.contains(&to)
    });
    let all = flows.len();
    if all > FLOWS {
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
        flows.truncate(FLOWS);
    }
    (flows, all)
}

/// The size nearest to `size` that a scenario allows for packets at a constant rate.
fn packet_size(size: u64) -> u64 {
    let mut cbr = Cbr::default();
    let field = cbr.fields().into_iter().find(|field| field.name == PACKET_SIZE);
    let range = field.map(|field| (field.range)()).unwrap_or_default();
    let least = range.low.map_or(0, |end| end.size as u64);
    let most = range.high.map_or(u64::MAX, |end| end.size as u64);
    size.max(least).min(most)
}

/// Writes the flows, of which there would be `all`.
fn write_flows(text: &mut String, flows: &[Flow], all: usize, hosts: &Hosts) {
    if all > flows.len() {
        let _ = writeln!(text, "# The {} largest of {all} flows.", flows.len());
    }
    for (number, flow) in flows.iter().enumerate() {
        let (Some(from), Some(to)) = (hosts.node(flow.from.ip()), hosts.node(flow.to.ip())) else {
            continue;
        };
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
