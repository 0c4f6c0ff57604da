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
/// A connection whose last data passed that shortly before the end of the capture goes on, unless it has ended.
const GOES_ON: f64 = 1.0;
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

/// The scenario. `cc` is the congestion control of its flows.
pub(super) fn scenario(name: &str, traffic: &Traffic, path: &Path, cc: &str) -> String {
    let mut text = format!(
        "# Proposed by `warpline infer {name}`: {} packets in {:.3} s.\n",
        traffic.packets, traffic.end
    );
    let [out, back] = &path.ways;
    let known = [out, back]
        .into_iter()
        .filter_map(|way| way.rate)
        .fold(None, |most: Option<f64>, rate| Some(most.map_or(rate, |most| most.max(rate))));
    let edge = EDGE * known.unwrap_or(0.0).max(out.most).max(back.most).max(1e6);
    let _ = write!(
        text,
        "name = \"inferred\"\nduration = {}\n\n# The path, seen from the capture.\n[[link]]\nbetween = [\"r1\", \"r2\"]\n",
        seconds(traffic.end.max(0.001))
    );
    let one = line(&mut text, out, known.unwrap_or(edge), "");
    text += &one;
    match path.rtt {
        Some(rtt) => {
            let _ = writeln!(
                text,
                "delay = {:<24} # half of the shortest round trip, {}",
                seconds(rtt / 2.0),
                seconds(rtt)
            );
        }
        None => text += "# delay: no round trip was seen\n",
    }
    let mut other = String::new();
    let keys = line(&mut other, back, known.unwrap_or(edge), "  ");
    text += &other;
    let keys: Vec<&str> = keys
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
        .collect();
    let _ = writeln!(text, "reverse = {{ {} }}", keys.join(", "));
    let nodes = Nodes { path };
    text += "\n# The hosts.\n";
    let near = path.near.iter().map(|&address| (address, 0.0, "r1"));
    let far = path.far.iter().map(|&(address, extra)| (address, extra, "r2"));
    for (number, (address, extra, router)) in near.chain(far).enumerate() {
        let node = nodes.of(address).unwrap_or_default();
        // Where the capture was.
        let record = if number == 0 { "\nrecord = [\"pcap\"]" } else { "" };
        let _ = write!(
            text,
            "[[link]]  # {address}\nbetween = [\"{node}\", \"{router}\"]\nrate = {}\ndelay = {}\nqueue = \"unlimited\"{record}\n\n",
            rate(edge),
            seconds(extra / 2.0)
        );
    }
    flows(&mut text, traffic, &nodes, cc);
    text
}

/// The keys of the path in one direction. What is said of them goes to `text` where it is no key.
fn line(text: &mut String, way: &Direction, otherwise: f64, place: &str) -> String {
    let mut keys = String::new();
    match way.rate {
        Some(found) => {
            let _ = writeln!(keys, "rate = {:<25} # while there was a queue", rate(found));
        }
        None => {
            let which = if place.is_empty() { "from the capture's side" } else { "to the capture's side" };
            let _ = writeln!(text, "# No queue was seen {which}: the rate is at least {}.", rate(way.most));
            let _ = writeln!(keys, "rate = {}", rate(otherwise));
        }
    }
    match way.queue() {
        Some(packets) => {
            let _ = writeln!(
                keys,
                "queue = {:<24} # the longest wait was {}",
                format!("\"{packets:.0}p\""),
                seconds(way.queueing)
            );
        }
        None if way.rate.is_some() => {
            let _ =
                writeln!(text, "# The queue was never full. The longest wait was {}.", seconds(way.queueing));
            keys += "queue = \"unlimited\"\n";
        }
        None => keys += "queue = \"unlimited\"\n",
    }
    let loss = way.loss();
    if loss > 0.0 {
        let _ = writeln!(
            keys,
            "loss = {:<25} # {} of {} packets, without a full queue",
            format!("\"{:.4}%\"", loss * 100.0),
            way.lost,
            way.packets
        );
    } else {
        keys += "loss = \"none\"\n";
    }
    keys
}

fn flows(text: &mut String, traffic: &Traffic, nodes: &Nodes<'_>, cc: &str) {
    let mut flows: Vec<Flow> = Vec::new();
    for connection in &traffic.connections {
        for (own, half) in connection.halves.iter().enumerate() {
            let Some((first, last)) = half.times else { continue };
            let goes_on = !half.is_over && traffic.end - last < GOES_ON;
            let what = if goes_on {
                "app = \"bulk\"".to_owned()
            } else {
                format!("app = \"transfer\"\nsize = \"{}B\"", half.payload())
            };
            flows.push(Flow {
                from: connection.ends[own],
                to: connection.ends[1 - own],
                bytes: half.payload(),
                keys: format!("{what}\ncc = \"{cc}\"\nstart = {}", seconds(first)),
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
                "app = \"cbr\"\nrate = {}\npacket_size = \"{size}B\"\nstart = {}\nstop = {}",
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
pub(super) fn seconds(value: f64) -> String {
    format!("\"{}\"", TimeDelta::from_secs_f64((value * 1e6).round() / 1e6))
}

/// A rate as scenarios have it, to four digits.
pub(super) fn rate(value: f64) -> String {
    let mut step = 1.0;
    while value / step >= 10_000.0 {
        step *= 10.0;
    }
    let value = (value / step).round().max(1.0) * step;
    format!("\"{}\"", Rate::from_bps(value as u64))
}
