//! One direction of a path: its rate, queue and losses.

use std::net::IpAddr;

use super::half::{Half, Loss, Sample};
use super::traffic::{Datagrams, Traffic};
use super::waits::Waits;

/// The shortest time over which the rate of users is taken, in seconds.
const WINDOW: f64 = 0.1;
/// How long a queue must be seen before a rate is that of the path, and not of its users: at a time, and in all, in seconds.
const BUSY: (f64, f64) = (0.02, 0.5);
/// The least wait that is taken for one in a queue: in seconds, and as a share of the round trip.
const LEAST: (f64, f64) = (0.001, 0.02);
/// From which share of the longest wait, or of the most packets, on the queue is full.
const FULL: f64 = 0.7;
/// The quantile of waits that is taken for that of a full queue. Longer ones are those of acknowledgements that a receiver has delayed.
const LONGEST: f64 = 0.98;
/// Bytes of a full packet.
const PACKET: u32 = 1500;
/// Losses at random, beside those of a full queue, below which they are taken for chance.
const RANDOM: (usize, f64) = (3, 0.1);
/// The share of packets outside of a full queue below which they are too few to tell how many of them are lost.
const CALM: f64 = 0.05;
/// A direction with less data than this share of the other one's has no queue of its own.
const TWO_WAY: f64 = 0.01;
/// A connection has met an empty path if its shortest round trip is longer than that of all by this share of the longest wait at the most.
const EMPTY: f64 = 0.1;
/// What clocks of timestamps may count at the most, as a share of the longest wait.
const COARSE: f64 = 0.1;
/// A mean rate of at least this share of the largest is that of a queue which is always there, if packets are lost as well.
const STEADY: f64 = 0.8;
/// Windows without packets that are counted, one after the other.
const IDLE: f64 = 10_000.0;

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
    /// The packets that its queue held when it was full.
    pub held: f64,
    /// Packets lost while the queue was full, or nearly.
    pub dropped: usize,
    /// Packets lost at other times.
    pub lost: usize,
    /// The share of packets that passed at those other times.
    pub calm: f64,
    /// Whether its queue could not be told from that of the other direction. Then its rate is a lower bound, and all losses while there was a queue are taken for those of a
    /// full one.
    pub is_mixed: bool,
    /// Whether its packets may have been through a queue before the capture, which then shows in none of their waits: they came at a steady rate, and some
    /// were lost.
    pub is_behind: bool,
    /// Packets with payload that was sent again, as a share.
    pub resent: f64,
    /// Quantiles of the round-trip time in seconds: 50 and 95 %.
    pub rtt: Option<(f64, f64)>,
}

impl Direction {
    /// The probability with which packets are lost at random; 0 if that may be chance.
    pub fn loss(&self) -> f64 {
        let all = self.lost + self.dropped;
        if self.lost < RANDOM.0 || (self.lost as f64) < RANDOM.1 * all as f64 || self.calm < CALM {
            return 0.0;
        }
        (self.lost as f64 / (self.packets as f64 * self.calm).max(1.0)).min(1.0)
    }

    /// The packets that its queue holds; none if it was never seen full.
    pub fn queue(&self) -> Option<f64> {
        (self.dropped > 0).then(|| self.held.round().max(1.0))
    }
}

/// What the estimates of both directions rest on.
pub(super) struct Evidence<'a> {
    traffic: &'a Traffic,
    /// Connections across the path by their numbers, and which of their ends is near.
    crossing: &'a [(usize, usize)],
    near: &'a [IpAddr],
    /// Round trips from the near end. Both directions are part of them; where one has no queue, they tell of the other one.
    trips: Vec<Sample>,
    /// How long those took in seconds, in order.
    sorted: Vec<f64>,
    /// Bytes of payload in each direction.
    payload: [u64; 2],
    /// The waits on the way back, where there is data both ways and they can be told.
    waits: Option<Waits>,
}

impl<'a> Evidence<'a> {
    pub(super) fn of(
        traffic: &'a Traffic,
        crossing: &'a [(usize, usize)],
        near: &'a [IpAddr],
    ) -> Evidence<'a> {
        let mut all = Evidence {
            traffic,
            crossing,
            near,
            trips: Vec::new(),
            sorted: Vec::new(),
            payload: [0; 2],
            waits: None,
        };
        for back in [false, true] {
            let datagrams = all.datagrams(back).map(|datagrams| datagrams.payload);
            all.payload[usize::from(back)] = all.senders(back).map(Half::payload).chain(datagrams).sum();
        }
        all.trips = all.senders(false).flat_map(|half| &half.samples).copied().collect();
        all.sorted = all.trips.iter().map(|trip| trip.rtt).collect();
        all.sorted.sort_by(f64::total_cmp);
        if let Some((&shortest, longest)) = all.sorted.first().zip(quantile(&all.sorted, LONGEST))
            && all.is_two_way()
        {
            let longest = longest - shortest;
            let far_ends: Vec<(&Half, bool)> = crossing
                .iter()
                .map(|&(number, near_end)| {
                    let halves = &traffic.connections[number].halves;
                    let own = halves[near_end].shortest();
                    let has_met_empty = own.is_some_and(|own| own - shortest <= EMPTY * longest);
                    (&halves[1 - near_end], has_met_empty)
                })
                .collect();
            all.waits = Waits::of(&far_ends, COARSE * longest);
        }
        all
    }

    /// What sends in a direction: `back` is the one to the near end.
    fn senders(&self, back: bool) -> impl Iterator<Item = &'a Half> + use<'a> {
        let connections = &self.traffic.connections;
        self.crossing.iter().map(move |&(number, near_end)| {
            &connections[number].halves[if back { 1 - near_end } else { near_end }]
        })
    }

    /// Datagrams in a direction.
    fn datagrams(&self, back: bool) -> impl Iterator<Item = &'a Datagrams> + use<'a> {
        let near = self.near;
        let from_near = move |address: &IpAddr| near.binary_search(address).is_ok();
        let all = self.traffic.datagrams.iter();
        all.filter(move |((from, _), _)| from_near(&from.ip()) != back).map(|(_, datagrams)| datagrams)
    }

    /// Whether a direction has too little data for a queue of its own.
    fn is_idle(&self, back: bool) -> bool {
        let [own, other] = [back, !back].map(|way| self.payload[usize::from(way)] as f64);
        own == 0.0 || own < TWO_WAY * other
    }

    fn is_two_way(&self) -> bool {
        !self.is_idle(false) && !self.is_idle(true)
    }
}

/// A packet that has come through a direction.
struct Crossing {
    /// When it passed the capture: before the path, or, on the way back, behind it.
    passed: f64,
    /// When it had left the path. On the way out that is when its answer passed the capture, or would have passed it on an empty way back.
    left: f64,
    /// For how long it waited, and was sent.
    wait: f64,
    /// Packets that left the path in that time.
    packets: f64,
}

/// What came out of a path: when, and bytes.
struct Carried {
    times: Vec<f64>,
    /// Bytes and packets before each of them, and in all.
    sums: Vec<(u64, u64)>,
}

impl Carried {
    /// Of what has come out, in the order of its times.
    fn of(carried: &[(f64, u32)]) -> Carried {
        let mut sums = vec![(0, 0)];
        let (mut bytes, mut packets) = (0, 0);
        for &(_, more) in carried {
            bytes += u64::from(more);
            packets += u64::from(more.div_ceil(PACKET));
            sums.push((bytes, packets));
        }
        Carried { times: carried.iter().map(|&(at, _)| at).collect(), sums }
    }

    /// The mean rate in bit/s from the first to the last of it; none if that is not long enough to tell. Over shorter times more may seem to come out than the path
    /// carries: acknowledgements that wait in the queue of the other direction arrive all at once.
    fn mean(&self) -> Option<f64> {
        let (begin, end) = (*self.times.first()?, *self.times.last()?);
        (end - begin >= BUSY.1).then(|| self.between(begin, end).0 * 8.0 / (end - begin))
    }

    /// Bytes and packets after a time and until another one.
    fn between(&self, begin: f64, end: f64) -> (f64, f64) {
        let [first, last] = [begin, end].map(|time| self.sums[self.times.partition_point(|&at| at <= time)]);
        ((last.0 - first.0) as f64, (last.1 - first.1) as f64)
    }
}

/// Estimates one direction: `back` is the one to the near end.
pub(super) fn estimate(evidence: &Evidence<'_>, back: bool) -> Direction {
    let mut found = Direction { calm: 1.0, ..Direction::default() };
    let mut losses: Vec<Loss> = Vec::new();
    let mut resent = 0;
    for sender in evidence.senders(back) {
        found.packets += sender.packets;
        found.payload += sender.payload();
        resent += sender.resent;
        losses.extend(&sender.losses);
    }
    found.resent = if found.packets == 0 { 0.0 } else { resent as f64 / found.packets as f64 };
    let waits = evidence.waits.as_ref();
    let shortest = evidence.sorted.first().copied().unwrap_or(0.0);
    let mut crossings = crossings(evidence, shortest, back);
    let carried = carried(evidence, &crossings, shortest, back);
    let rates = rates(&carried, WINDOW.max(shortest));
    found.most = rates.into_iter().fold(0.0, f64::max);
    found.rtt = quantile(&evidence.sorted, 0.5).zip(quantile(&evidence.sorted, 0.95));
    if crossings.is_empty() {
        found.lost = losses.len();
        return found;
    }
    found.queueing = highest(crossings.iter().map(|crossing| crossing.wait));
    found.is_mixed = waits.is_none() && evidence.is_two_way();
    let least = LEAST.0.max(LEAST.1 * shortest) + waits.map_or(0.0, |waits| waits.tick);
    let carried = Carried::of(&carried);
    let has_queue = found.queueing > least;
    // A direction without data of its own is not what the queue is of.
    if has_queue && !evidence.is_idle(back) {
        let rate = if found.is_mixed { carried.mean() } else { rate(&crossings, &carried, least) };
        found.rate = rate.filter(|&rate| rate > 0.5 * found.most);
    }
    if found.rate.is_some() || (has_queue && waits.is_some()) {
        for crossing in &mut crossings {
            crossing.packets = carried.between(crossing.left - crossing.wait, crossing.left).1;
        }
        blame(&mut found, &losses, &crossings, least, waits.is_some());
    } else {
        found.lost = losses.len();
        let is_steady = carried.mean().is_some_and(|mean| mean >= STEADY * found.most);
        found.is_behind = !back && is_steady && found.lost >= RANDOM.0;
    }
    // What is lost behind the queue has taken its time there, too.
    let arrived = 1.0 - found.loss();
    if arrived > 0.0 {
        found.rate = found.rate.map(|rate| rate / arrived);
    }
    found
}

/// Packets whose wait is known, in the order in which they passed and left.
fn crossings(evidence: &Evidence<'_>, shortest: f64, back: bool) -> Vec<Crossing> {
    let mut found: Vec<Crossing> = match &evidence.waits {
        Some(waits) if back => {
            let all = waits.all.iter();
            all.map(|&(at, wait)| Crossing { passed: at, left: at, wait, packets: 0.0 }).collect()
        }
        waits => {
            let trips = evidence.trips.iter().filter_map(|trip| {
                let answered = trip.sent + trip.rtt;
                // Unless it is known how long the answer waited, it is not known of the packet.
                let left = match waits {
                    Some(waits) => answered - waits.at(answered)?,
                    None => answered,
                };
                let passed = if back { answered } else { trip.sent };
                let wait = (left - trip.sent - shortest).max(0.0);
                Some(Crossing { passed, left, wait, packets: 0.0 })
            });
            trips.collect()
        }
    };
    found.sort_by(|one, two| one.passed.total_cmp(&two.passed));
    // What comes first leaves first. An answer that came late, such as an acknowledgement that its sender has delayed, would make a wait too long.
    if back {
        let mut came = f64::NEG_INFINITY;
        for crossing in &mut found {
            came = came.max(crossing.left - crossing.wait);
            crossing.wait = (crossing.left - came).max(0.0);
        }
    } else {
        let mut left = f64::INFINITY;
        for crossing in found.iter_mut().rev() {
            left = left.min(crossing.left);
            crossing.left = left;
            crossing.wait = (left - crossing.passed - shortest).max(0.0);
        }
    }
    found
}

/// What came out of the path, in order: when, and how many bytes. On the way out that shows by acknowledgements; on the way back, as it passes.
fn carried(evidence: &Evidence<'_>, crossings: &[Crossing], shortest: f64, back: bool) -> Vec<(f64, u32)> {
    let waits = evidence.waits.as_ref();
    let left = |&(at, bytes): &(f64, u32)| (if back { at } else { exit(crossings, at, shortest) }, bytes);
    let mut carried: Vec<(f64, u32)> = Vec::new();
    for sender in evidence.senders(back) {
        if back {
            carried.extend(&sender.passed);
        } else {
            let wait = |at: f64| waits.map_or(0.0, |waits| waits.near(at));
            carried.extend(sender.delivered.iter().map(|&(at, bytes)| (at - wait(at), bytes)));
        }
        // Where there is data both ways, acknowledgements take a part of the rate.
        if waits.is_some() {
            carried.extend(sender.answers.iter().map(left));
        }
    }
    for datagrams in evidence.datagrams(back) {
        carried.extend(datagrams.passed.iter().map(left));
    }
    carried.sort_by(|one, two| one.0.total_cmp(&two.0));
    carried
}

/// When a packet that passed the capture at `at` had left the way out: between the packets before it and behind it.
fn exit(crossings: &[Crossing], at: f64, shortest: f64) -> f64 {
    let next = crossings.partition_point(|crossing| crossing.passed < at);
    match crossings[..next].last().zip(crossings.get(next)) {
        Some((last, next)) => {
            let share = (at - last.passed) / (next.passed - last.passed);
            last.left + share * (next.left - last.left)
        }
        None => at + shortest,
    }
}

/// The rate in bit/s at which packets left while each one came before the one ahead of it had left; none if that was not seen for long enough.
fn rate(crossings: &[Crossing], carried: &Carried, least: f64) -> Option<f64> {
    let (mut time, mut bytes) = (0.0, 0.0);
    for run in crossings.chunk_by(|one, two| two.left - two.wait + least <= one.left) {
        let (begin, end) = (run[0].left, run[run.len() - 1].left);
        if end - begin >= BUSY.0 {
            time += end - begin;
            bytes += carried.between(begin, end).0;
        }
    }
    (time >= BUSY.1 && bytes > 0.0).then(|| bytes * 8.0 / time)
}

/// Counts the losses in a full queue, and the random ones. `is_apart`: whether the waits are those of this direction alone.
fn blame(found: &mut Direction, losses: &[Loss], crossings: &[Crossing], least: f64, is_apart: bool) {
    let most = highest(crossings.iter().map(|crossing| crossing.packets));
    // A queue that is full of acknowledgements is a short one.
    let long = if found.is_mixed { least } else { FULL * found.queueing };
    let is_full =
        |crossing: &Crossing| crossing.wait >= long || (is_apart && crossing.packets >= FULL * most);
    // How many packets before each one have met a full queue.
    let mut full = vec![0];
    for crossing in crossings {
        full.push(full[full.len() - 1] + usize::from(is_full(crossing)));
    }
    let mut held: Vec<f64> = Vec::new();
    let (mut dropped, mut lost) = (0, 0);
    for loss in losses {
        let first = crossings.partition_point(|crossing| crossing.passed < loss.after.min(loss.at));
        let last = crossings.partition_point(|crossing| crossing.passed < loss.at);
        let (first, last) = (first.saturating_sub(2), (last + 2).min(crossings.len()));
        if full[last] > full[first] {
            dropped += 1;
            let beside = crossings[first..last].iter().take(4);
            held.push(beside.map(|crossing| crossing.packets).fold(0.0, f64::max));
        } else {
            lost += 1;
        }
    }
    found.calm = 1.0 - full[crossings.len()] as f64 / crossings.len() as f64;
    (found.dropped, found.lost) = (dropped, lost);
    // Losses at random fall into the time of a long queue, too. A full queue loses more.
    let chance = found.loss() * found.packets as f64 * (1.0 - found.calm);
    let is_chance = dropped as f64 <= chance + 2.0 * chance.sqrt();
    if !found.is_mixed && (is_chance || (found.rate.is_none() && dropped < RANDOM.0)) {
        (found.dropped, found.lost, found.calm) = (0, dropped + lost, 1.0);
    }
    held.sort_by(f64::total_cmp);
    found.held = match found.rate {
        Some(rate) if !is_apart => found.queueing * rate / 8.0 / f64::from(PACKET),
        // One of them is being sent.
        _ => quantile(&held, 0.5).unwrap_or(0.0) - 1.0,
    };
}

/// A quantile of sorted values; none of none.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    sorted.get((sorted.len().saturating_sub(1) as f64 * share) as usize).copied()
}

/// The quantile of some values that is taken for that of a full queue.
fn highest(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, LONGEST).unwrap_or(0.0)
}

/// Rates in bit/s over windows, one after the other. The last one, which may not be whole, is left out.
fn rates(carried: &[(f64, u32)], window: f64) -> Vec<f64> {
    let mut rates: Vec<f64> = Vec::new();
    let Some(&(mut begin, _)) = carried.first() else { return rates };
    let mut bytes = 0.0;
    for &(at, more) in carried {
        while at >= begin + window {
            rates.push(bytes * 8.0 / window);
            bytes = 0.0;
            // A capture may have been idle for a year.
            begin = if at - begin > IDLE * window { at } else { begin + window };
        }
        bytes += f64::from(more);
    }
    rates
}
