//! The path that a capture shows: in each direction its rate, queue and losses; and its delay.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::half::Sample;
use super::traffic::Traffic;

/// The shortest time over which a rate is taken, in seconds.
const WINDOW: f64 = 0.1;
/// Windows in which a queue must be seen before a rate is that of the path, and not of its users.
const BUSY: usize = 5;
/// The least delay of all packets of a window that is taken for a queue: in seconds, and as a share of the round trip. (Single packets are also late where a
/// receiver delays acknowledgements.)
const LEAST: (f64, f64) = (0.001, 0.02);
/// From which share of the longest wait on the queue is full.
const FULL: f64 = 0.7;
/// Bytes of a full packet, and of an acknowledgement.
const PACKET: f64 = 1500.0;
/// Losses at random, beside those of a full queue, below which they are taken for chance.
const RANDOM: (usize, f64) = (3, 0.1);

/// A path in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Direction {
    /// Packets with payload that were seen.
    pub packets: u64,
    /// Bytes of payload.
    pub payload: u64,
    /// Its rate in bit/s, if it was busy long enough.
    pub rate: Option<f64>,
    /// The largest rate of its users in bit/s, over a tenth of a second or a round trip.
    pub most: f64,
    /// The longest wait in its queue, in seconds.
    pub queueing: f64,
    /// Packets lost while the queue was full, or nearly.
    pub dropped: usize,
    /// Packets lost at other times.
    pub lost: usize,
    /// The share of packets that passed at those other times.
    pub calm: f64,
    /// Packets with payload that was sent again, as a share.
    pub resent: f64,
    /// Quantiles of the round-trip time in seconds: 50 and 95 %.
    pub rtt: Option<(f64, f64)>,
}

impl Direction {
    /// The probability with which packets are lost at random; 0 if that may be chance.
    pub fn loss(&self) -> f64 {
        let all = self.lost + self.dropped;
        if self.lost < RANDOM.0 || (self.lost as f64) < RANDOM.1 * all as f64 {
            return 0.0;
        }
        (self.lost as f64 / (self.packets as f64 * self.calm).max(1.0)).min(1.0)
    }

    /// The packets that its queue holds; none if it was never seen full.
    pub fn queue(&self) -> Option<f64> {
        let rate = self.rate?;
        (self.dropped > 0).then(|| (self.queueing * rate / 8.0 / PACKET + 1.0).round())
    }
}

/// A path, from the capture's side to the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path {
    /// The addresses at each end, in order: those near the capture, and the far ones with what their round trip takes beyond that of the nearest of them, in seconds.
    pub near: Vec<IpAddr>,
    /// See `near`.
    pub far: Vec<(IpAddr, f64)>,
    /// The shortest round trip of an empty path, without what its packets take to be sent, in seconds.
    pub rtt: Option<f64>,
    /// From the near end to the far one, and back.
    pub ways: [Direction; 2],
}

impl Path {
    /// Estimates the path of what was captured.
    pub(super) fn of(traffic: &Traffic) -> Path {
        let near = traffic.near();
        let mut path = Path { near: near.clone(), ..Path::default() };
        // Of each connection: the end that is near, if the other is not.
        let crossing: Vec<(usize, usize)> = traffic
            .connections
            .iter()
            .enumerate()
            .filter_map(|(number, connection)| {
                let [first, second] = connection.ends.map(|end| is_among(&near, end.ip()));
                (first != second).then_some((number, usize::from(second)))
            })
            .collect();
        for back in [false, true] {
            path.ways[usize::from(back)] = direction(traffic, &crossing, &near, back);
        }
        // Round trips by far address, of both halves together.
        let mut far: BTreeMap<IpAddr, f64> = BTreeMap::new();
        for &(number, near_end) in &crossing {
            let connection = &traffic.connections[number];
            let address = connection.ends[1 - near_end].ip();
            let beyond = path.shortest(&connection.halves[near_end].samples);
            let before = path.shortest(&connection.halves[1 - near_end].samples).unwrap_or(0.0);
            let whole = beyond.map_or(f64::INFINITY, |beyond| beyond + before);
            let shortest = far.entry(address).or_insert(f64::INFINITY);
            *shortest = shortest.min(whole);
        }
        for (from, to) in traffic.datagrams.keys() {
            for address in [from.ip(), to.ip()] {
                if !is_among(&near, address) {
                    far.entry(address).or_insert(f64::INFINITY);
                }
            }
        }
        let shortest = far.values().copied().fold(f64::INFINITY, f64::min);
        path.rtt = shortest.is_finite().then_some(shortest.max(0.0));
        path.far = far
            .into_iter()
            .map(|(address, rtt)| (address, if rtt.is_finite() { rtt - shortest } else { 0.0 }))
            .collect();
        path
    }

    /// The shortest of some round trips, less what their packets take to be sent at the path's rate.
    fn shortest(&self, samples: &[Sample]) -> Option<f64> {
        let rate = self.ways.iter().filter_map(|way| way.rate).fold(f64::INFINITY, f64::min);
        let empty = |sample: &Sample| sample.rtt - f64::from(sample.bytes) * 8.0 / rate;
        samples.iter().map(empty).min_by(f64::total_cmp).map(|shortest| shortest.max(0.0))
    }
}

/// Whether an address is one of these, which are in order.
fn is_among(addresses: &[IpAddr], address: IpAddr) -> bool {
    addresses.binary_search(&address).is_ok()
}

/// A quantile of sorted values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// Estimates one direction: `back` is the one to the near end.
fn direction(traffic: &Traffic, crossing: &[(usize, usize)], near: &[IpAddr], back: bool) -> Direction {
    // What passes the capture before the path is seen again by its acknowledgements; what comes out of it, as it passes.
    let mut carried: Vec<(f64, u32)> = Vec::new();
    let mut trips: Vec<Sample> = Vec::new();
    let mut losses: Vec<f64> = Vec::new();
    let mut found = Direction::default();
    let mut resent = 0;
    for &(number, near_end) in crossing {
        let halves = &traffic.connections[number].halves;
        let sender = &halves[if back { 1 - near_end } else { near_end }];
        carried.extend(if back { &sender.passed } else { &sender.delivered });
        losses.extend(sender.losses.iter().map(|loss| loss.at));
        // Both directions are part of the round trip from the near end. It tells of the one that is busy.
        trips.extend(&halves[near_end].samples);
        found.packets += sender.packets;
        found.payload += sender.payload();
        resent += sender.resent;
    }
    for ((from, _), datagrams) in &traffic.datagrams {
        if is_among(near, from.ip()) != back {
            carried.extend(&datagrams.passed);
        }
    }
    found.resent = if found.packets == 0 { 0.0 } else { resent as f64 / found.packets as f64 };
    carried.sort_by(|one, two| one.0.total_cmp(&two.0));
    let mut sorted: Vec<f64> = trips.iter().map(|trip| trip.rtt).collect();
    sorted.sort_by(f64::total_cmp);
    found.calm = 1.0;
    if sorted.is_empty() {
        found.most = rates(&carried, WINDOW).into_iter().map(|(_, rate)| rate).fold(0.0, f64::max);
        found.lost = losses.len();
        return found;
    }
    let (shortest, longest) = (sorted[0], quantile(&sorted, LONGEST));
    found.rtt = Some((quantile(&sorted, 0.5), quantile(&sorted, 0.95)));
    found.queueing = longest - shortest;
    let window = WINDOW.max(shortest);
    let rates = rates(&carried, window);
    found.most = rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    // Round trips by when they began, and by when they ended.
    let mut ended: Vec<(f64, f64)> = trips.iter().map(|trip| (trip.sent + trip.rtt, trip.rtt)).collect();
    let mut begun: Vec<(f64, f64)> = trips.iter().map(|trip| (trip.sent, trip.rtt)).collect();
    ended.sort_by(|one, two| one.0.total_cmp(&two.0));
    begun.sort_by(|one, two| one.0.total_cmp(&two.0));
    let least = LEAST.0.max(LEAST.1 * shortest);
    if found.queueing > least {
        let level = shortest + least;
        let busy: Vec<f64> = rates
            .iter()
            .filter(|&&(begin, _)| {
                let first = ended.partition_point(|&(at, _)| at < begin);
                let last = ended.partition_point(|&(at, _)| at < begin + window);
                first < last && ended[first..last].iter().all(|&(_, rtt)| rtt >= level)
            })
            .map(|&(_, rate)| rate)
            .collect();
        // A direction that only carries acknowledgements is not what the queue is of.
        let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        if busy.len() >= BUSY && mean > 0.5 * found.most {
            found.rate = Some(mean);
        }
    }
    let full = shortest + FULL * found.queueing;
    for at in losses {
        // One that is lost before the capture shows by what comes out of the path; one that is lost after it, when it would have been answered.
        let trips = if back { &ended } else { &begun };
        let next = trips.partition_point(|&(time, _)| time < at);
        let close = &trips[next.saturating_sub(2)..(next + 2).min(trips.len())];
        let is_full = found.rate.is_some() && close.iter().any(|&(_, rtt)| rtt >= full);
        if is_full { found.dropped += 1 } else { found.lost += 1 }
    }
    if found.rate.is_some() {
        found.calm = sorted.partition_point(|&rtt| rtt < full) as f64 / sorted.len() as f64;
    }
    // What is lost behind the queue has taken its time there, too.
    let arrived = 1.0 - found.loss();
    if arrived > 0.0 {
        found.rate = found.rate.map(|rate| rate / arrived);
    }
    found
}

/// The quantile of round trips that is taken for that of a full queue. Longer ones are those of acknowledgements that a receiver has delayed.
const LONGEST: f64 = 0.98;
/// Windows without packets that are counted, one after the other.
const IDLE: f64 = 10_000.0;

/// Rates in bit/s over windows, one after the other, with their begins. The last one, which may not be whole, is left out.
fn rates(carried: &[(f64, u32)], window: f64) -> Vec<(f64, f64)> {
    let mut rates: Vec<(f64, f64)> = Vec::new();
    let Some(&(start, _)) = carried.first() else { return rates };
    let mut bytes = 0.0;
    let mut begin = start;
    for &(at, more) in carried {
        while at >= begin + window {
            rates.push((begin, bytes * 8.0 / window));
            bytes = 0.0;
            // A capture may have been idle for a year.
            begin = if at - begin > IDLE * window { at } else { begin + window };
        }
        bytes += f64::from(more);
    }
    rates
}
