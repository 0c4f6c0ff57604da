//! The ledger of a constant-rate FIFO: when packets arrive and leave, for as long as that can still matter.
//!
//! Such a queue needs no list of waiting packets, only their departure times, which are known on arrival. Entries are made
//! in the order of arrival, possibly ahead of time (see `Part::forward` on express hops). The sums count packets that have
//! departed; a reading adds what has happened to the others by then, so the counters are exact at every instant.

use warpline_core::{TimeDelta, Timestamp};

use crate::fate::Fate;
use crate::ring::Ring;

/// One packet's stay in the queue and transmitter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// When it was offered.
    pub(crate) arrival: Timestamp,
    /// When its transmission begins.
    pub(crate) start: Timestamp,
    /// When its transmission is complete.
    pub(crate) departure: Timestamp,
    pub(crate) load: Load,
}

/// Bytes on the wire, what will become of them there, and whether the packet was marked on arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load(u64);

impl Load {
    /// The fate is in the three highest bits, the mark below.
    const FATE: u32 = 61;
    const MARKED: u64 = 1 << 60;

    #[inline]
    pub(crate) fn new(bytes: u64, fate: Fate, marked: bool) -> Load {
        Load(bytes | u64::from(fate.bits()) << Load::FATE | if marked { Load::MARKED } else { 0 })
    }
    #[inline]
    fn bytes(self) -> u64 {
        self.0 & (Load::MARKED - 1)
    }
    #[inline]
    fn fate(self) -> Fate {
        Fate::of((self.0 >> Load::FATE) as u8)
    }
    #[inline]
    fn is_marked(self) -> bool {
        self.0 & Load::MARKED != 0
    }
}

/// Why a packet was not taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue was full.
    #[default]
    Full,
    /// It should have been marked, but is not ECN-capable.
    Early,
}

/// A packet that was not taken in.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    arrival: Timestamp,
    why: Refusal,
}

impl Entry {
    /// Nanoseconds in the queue.
    fn queued(&self) -> u64 {
        (self.start - self.arrival).as_nanos()
    }
    /// The same; 0 for a transmission that began before `interval`.
    fn queued_in(&self, interval: Timestamp) -> u64 {
        if self.start < interval { 0 } else { self.queued() }
    }
}

/// What a link has carried and lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Of all packets whose transmission has begun.
    pub(crate) queued_time: u64,
    pub(crate) queued_max: u64,
    pub(crate) lost: u64,
    /// Packets that found the queue full.
    pub(crate) overflows: u64,
    /// Packets dropped in place of a mark.
    pub(crate) early_drops: u64,
    /// Packets marked on arrival.
    pub(crate) marks: u64,
}

impl Sums {
    #[inline]
    fn count_refusal(&mut self, why: Refusal) {
        match why {
            Refusal::Full => self.overflows += 1,
            Refusal::Early => self.early_drops += 1,
        }
    }
}

/// The queue of a link at some instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Packets waiting, without the one in transmission.
    pub(crate) packets: u32,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Whether a packet is in transmission.
    pub(crate) busy: bool,
}

/// The stays of packets that have not all departed yet.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Ledger {
    entries: Ring<Entry>,
    /// Bytes of all entries.
    held: u64,
    /// Of packets that are no longer among the entries, since they have departed, and of those that were refused.
    sums: Sums,
    /// When the present interval of `queued_max` begins: transmissions that began before do not belong to it.
    interval: Timestamp,
    extra: Option<Box<Extra>>,
}

/// What not every ledger needs.
#[derive(Debug, Default)]
struct Extra {
    /// Packets that were not taken in and had not arrived yet.
    refused: Ring<Refused>,
    /// Those whose transmission will have begun at the instant for which it was last asked what waits, if that was ahead of time.
    begun: Passed,
    /// Those that had arrived at the last reading.
    arrived: Passed,
    /// Packets that have departed and have a copy, and those that were changed.
    befallen: (u64, u64),
}

/// The packets, of all entered, that have passed some point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    packets: u64,
    bytes: u64,
    marks: u64,
}

impl Ledger {
    /// Enters a packet. `now` is the current time; only a late packet may have arrived before it.
    #[inline]
    pub(crate) fn enter(&mut self, now: Timestamp, entry: Entry) {
        debug_assert!(entry.start >= entry.arrival && entry.departure >= entry.start);
        debug_assert!(self.entries.back().is_none_or(|last| last.arrival <= entry.arrival), "out of order");
        if self.entries.is_full() {
            self.make_room(now);
        }
        self.held += entry.load.bytes();
        self.entries.push_within(entry);
    }

    /// Packets entered so far, and arrivals until now that were refused.
    #[inline]
    pub(crate) fn entered(&self) -> u64 {
        self.sums.packets + self.entries.len() as u64 + self.sums.overflows + self.sums.early_drops
    }

    /// Enters an arrival that was not taken in.
    pub(crate) fn refuse(&mut self, now: Timestamp, arrival: Timestamp, why: Refusal) {
        self.count_refused(now);
        if arrival <= now {
            self.sums.count_refusal(why);
        } else {
            self.extra.get_or_insert_default().refused.push(Refused { arrival, why });
        }
    }

    fn count_refused(&mut self, now: Timestamp) {
        let Some(extra) = &mut self.extra else { return };
        while let Some(refused) = extra.refused.front()
            && refused.arrival <= now
        {
            self.sums.count_refusal(refused.why);
            extra.refused.pop();
        }
    }

    /// When the last packet that has not been forgotten arrived.
    pub(crate) fn last_arrival(&self) -> Option<Timestamp> {
        self.entries.back().map(|entry| entry.arrival)
    }

    /// Packets and bytes of the entries, departed or not: an upper bound of the queue.
    #[inline]
    pub(crate) fn held(&self) -> (usize, u64) {
        (self.entries.len(), self.held)
    }

    /// Forgets departed packets, so that the ledger grows with the queue and not with the run.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, now: Timestamp) {
        self.forget(now);
        // Growing unless a quarter became free keeps the cost per packet constant.
        if self.entries.len() * 4 >= self.entries.capacity() * 3 {
            self.entries.grow();
        }
    }

    fn forget(&mut self, now: Timestamp) {
        let Ledger { entries, held, sums, interval, extra } = self;
        // One or two have departed since the last packet: a search would cost more.
        entries.pop_while(|entry| {
            let departed = entry.departure <= now;
            if departed {
                let (bytes, fate) = (entry.load.bytes(), entry.load.fate());
                *held -= bytes;
                sums.packets += 1;
                sums.bytes += bytes;
                sums.queued_time += entry.queued();
                sums.queued_max = sums.queued_max.max(entry.queued_in(*interval));
                sums.marks += u64::from(entry.load.is_marked());
                if !fate.is_whole() {
                    sums.lost += u64::from(fate.is_lost());
                    let (copied, damaged) = &mut extra.get_or_insert_default().befallen;
                    *copied += u64::from(fate.is_copied());
                    *damaged += u64::from(fate.is_damaged());
                }
            }
            departed
        });
    }

    /// The packets that have passed a point: all that have departed, and the first ones of the others, for which `has` says so. `known` is where an earlier
    /// search ended. This one begins there, so that it does not look again at what has been looked at.
    #[inline]
    fn passed(&self, known: Passed, has: impl Fn(&Entry) -> bool) -> Passed {
        let Sums { packets: gone, bytes, marks, .. } = self.sums;
        let mut passed = if known.packets > gone { known } else { Passed { packets: gone, bytes, marks } };
        while let Some(next) = self.entries.at((passed.packets - gone) as usize)
            && has(&next)
        {
            passed.packets += 1;
            passed.bytes += next.load.bytes();
            passed.marks += u64::from(next.load.is_marked());
        }
        while passed.packets > gone
            && let Some(last) = self.entries.at((passed.packets - gone - 1) as usize)
            && !has(&last)
        {
            passed.packets -= 1;
            passed.bytes -= last.load.bytes();
            passed.marks -= u64::from(last.load.is_marked());
        }
        passed
    }

    /// Packets and bytes that wait at `at`, without the packet in transmission.
    pub(crate) fn waiting(&mut self, now: Timestamp, at: Timestamp) -> (u32, u64) {
        self.forget(now);
        // An arrival now finds one packet in transmission. One far ahead of time finds many that have yet to depart, most of which the one before it
        // has found, too.
        let known = self.extra.as_ref().map(|extra| extra.begun).unwrap_or_default();
        let begun = self.passed(known, |entry| entry.start <= at);
        if at > now {
            self.extra.get_or_insert_default().begun = begun;
        }
        let (packets, bytes) = (self.sums.packets + self.entries.len() as u64, self.sums.bytes + self.held);
        ((packets - begun.packets) as u32, bytes - begun.bytes)
    }

    /// The sums over packets that have departed by `now`, and the queue at that time.
    pub(crate) fn read(&mut self, now: Timestamp) -> (Sums, Backlog) {
        self.forget(now);
        self.count_refused(now);
        let known = self.extra.as_ref().map(|extra| extra.arrived).unwrap_or_default();
        let arrived = self.passed(known, |entry| entry.arrival <= now);
        let mut sums = Sums { marks: arrived.marks, ..self.sums };
        let mut waiting = (arrived.packets - sums.packets, arrived.bytes - sums.bytes);
        if waiting.0 > 0 {
            self.extra.get_or_insert_default().arrived = arrived;
        }
        // Packets are sent one after the other: only the first can be in transmission.
        let sending = self.entries.front().filter(|entry| entry.start <= now);
        if let Some(entry) = sending {
            sums.queued_time += entry.queued();
            sums.queued_max = sums.queued_max.max(entry.queued_in(self.interval));
            waiting = (waiting.0 - 1, waiting.1 - entry.load.bytes());
        }
        (sums, Backlog { packets: waiting.0 as u32, bytes: waiting.1, busy: sending.is_some() })
    }

    /// Of the packets that have departed by `now`, those of which a copy was made on the wire, and those that were changed there.
    pub(crate) fn befallen(&mut self, now: Timestamp) -> (u64, u64) {
        self.forget(now);
        self.extra.as_ref().map_or((0, 0), |extra| extra.befallen)
    }

    /// Packets that have departed by `now`, without a look at those that have not.
    pub(crate) fn departed(&mut self, now: Timestamp) -> u64 {
        self.forget(now);
        self.sums.packets
    }

    /// Packets that will be lost only after `now`, on the wire or on arrival.
    pub(crate) fn doomed(&self, now: Timestamp) -> usize {
        let lost = self.ahead(now).filter(|fate| fate.is_lost()).count();
        let refused = self.extra.iter().flat_map(|extra| extra.refused.iter());
        lost + refused.filter(|refused| refused.arrival > now).count()
    }

    /// What will become of the packets that leave after `now`.
    pub(crate) fn ahead(&self, now: Timestamp) -> impl Iterator<Item = Fate> + '_ {
        self.entries.iter().filter(move |entry| entry.departure > now).map(|entry| entry.load.fate())
    }

    /// Starts a new interval for `queued_max`.
    pub(crate) fn reset_queued_max(&mut self, now: Timestamp) {
        self.forget(now);
        self.sums.queued_max = 0;
        self.interval = now + TimeDelta::from_nanos(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }
    fn entry(arrival: u64, start: u64, departure: u64, lost: bool) -> Entry {
        Entry {
            arrival: at(arrival),
            start: at(start),
            departure: at(departure),
            load: Load::new(100, if lost { Fate::of(1) } else { Fate::WHOLE }, false),
        }
    }
    /// Sent, bytes, waits, longest wait, lost, overflows; waiting, their bytes, in transmission; to be lost later.
    fn read(ledger: &mut Ledger, now: u64) -> ([u64; 6], (u32, u64, bool), usize) {
        let (sums, backlog) = ledger.read(at(now));
        let Sums { packets, bytes, queued_time, queued_max, lost, overflows, .. } = sums;
        (
            [packets, bytes, queued_time, queued_max, lost, overflows],
            (backlog.packets, backlog.bytes, backlog.busy),
            ledger.doomed(at(now)),
        )
    }

    #[test]
    fn the_packets_that_have_departed_are_those_of_a_reading() {
        let mut ledger = Ledger::default();
        for n in 0..20 {
            ledger.enter(at(0), entry(n * 3, n * 7, n * 7 + 7, n % 4 == 1));
        }
        for now in [0, 6, 7, 8, 60, 139, 140, 200] {
            let departed = ledger.departed(at(now));
            assert_eq!(departed, (now / 7).min(20));
            assert_eq!(departed, read(&mut ledger, now).0[0], "at {now}");
        }
    }

    #[test]
    fn a_reading_tells_what_has_happened_by_then_and_nothing_else() {
        let mut ledger = Ledger::default();
        ledger.enter(at(0), entry(0, 0, 10, false));
        ledger.enter(at(0), entry(5, 10, 20, true));
        ledger.enter(at(0), entry(12, 20, 30, false));
        ledger.refuse(at(0), at(13), Refusal::Full);
        assert_eq!(read(&mut ledger, 0), ([0; 6], (0, 0, true), 2));
        assert_eq!(read(&mut ledger, 9), ([0; 6], (1, 100, true), 2));
        assert_eq!(read(&mut ledger, 10), ([1, 100, 5, 5, 0, 0], (0, 0, true), 2));
        assert_eq!(read(&mut ledger, 13), ([1, 100, 5, 5, 0, 1], (1, 100, true), 1));
        assert_eq!(read(&mut ledger, 20), ([2, 200, 13, 8, 1, 1], (0, 0, true), 0));
        assert_eq!(read(&mut ledger, 30), ([3, 300, 13, 8, 1, 1], (0, 0, false), 0));
    }

    #[test]
    fn what_becomes_of_a_packet_is_known_until_it_has_left() {
        let mut ledger = Ledger::default();
        let load = Load::new(100, Fate::of(6), true);
        assert!(load.is_marked() && load.bytes() == 100);
        ledger.enter(at(0), Entry { load, ..entry(0, 0, 10, false) });
        let ahead = |now| ledger.ahead(at(now)).map(Fate::bits).collect::<Vec<_>>();
        assert_eq!([ahead(9), ahead(10)], [vec![6], vec![]]);
    }

    /// Sent, bytes, waits, longest wait, lost, copied, changed, marked; waiting, their bytes, in transmission.
    type Counts = ([u64; 8], (u32, u64, bool));

    fn counts(ledger: &mut Ledger, now: Timestamp) -> Counts {
        let (sums, backlog) = ledger.read(now);
        let (copied, damaged) = ledger.befallen(now);
        let Sums { packets, bytes, queued_time, queued_max, lost, marks, .. } = sums;
        (
            [packets, bytes, queued_time, queued_max, lost, copied, damaged, marks],
            (backlog.packets, backlog.bytes, backlog.busy),
        )
    }

    /// The same by definition; the longest wait is of transmissions that began at `since` or later.
    fn defined(all: &[Entry], now: Timestamp, since: Timestamp) -> Counts {
        let by = |when: fn(&Entry) -> Timestamp| {
            all.iter().copied().filter(|entry| when(entry) <= now).collect::<Vec<Entry>>()
        };
        let sum = |of: &[Entry], what: fn(&Entry) -> u64| of.iter().map(what).sum::<u64>();
        let bytes = |entry: &Entry| entry.load.bytes();
        let (arrived, begun) = (by(|entry| entry.arrival), by(|entry| entry.start));
        let departed = by(|entry| entry.departure);
        let longest = begun.iter().filter(|entry| entry.start >= since).map(Entry::queued).max();
        let fates =
            |is: fn(Fate) -> bool| departed.iter().filter(|entry| is(entry.load.fate())).count() as u64;
        let sums = [
            departed.len() as u64,
            sum(&departed, bytes),
            sum(&begun, Entry::queued),
            longest.unwrap_or(0),
            fates(Fate::is_lost),
            fates(Fate::is_copied),
            fates(Fate::is_damaged),
            sum(&arrived, |entry| u64::from(entry.load.is_marked())),
        ];
        let waiting = (arrived.len() - begun.len()) as u32;
        (sums, (waiting, sum(&arrived, bytes) - sum(&begun, bytes), begun.len() > departed.len()))
    }

    proptest! {
        /// Whenever it is asked, for whichever time, and whether packets are entered when they arrive or before.
        #[test]
        fn what_waits_and_what_is_read_are_as_defined(
            packets in prop::collection::vec((0u64..20, 1u64..30, 0u8..8, any::<bool>()), 1..100),
            asked in prop::collection::vec((0u64..20, 0u64..300, 0u8..4), 1..100),
        ) {
            let (mut ledger, mut all) = (Ledger::default(), Vec::new());
            let (mut arrival, mut free, mut now, mut since) = (0, 0, 0, 0);
            let (mut packets, mut asked) = (packets.into_iter(), asked.into_iter());
            loop {
                let packet = packets.next().map(|(gap, service, fate, marked)| {
                    arrival = now.max(arrival + gap);
                    let start = arrival.max(free);
                    free = start + service;
                    let load = Load::new(40 + service, Fate::of(fate), marked);
                    Entry { load, ..entry(arrival, start, free, false) }
                });
                let ask = asked.next();
                if packet.is_none() && ask.is_none() {
                    break;
                }
                if let Some(packet) = packet {
                    ledger.enter(at(now), packet);
                    all.push(packet);
                }
                let Some((later, ahead, question)) = ask else { continue };
                now += later;
                if question == 0 {
                    ledger.reset_queued_max(at(now));
                    since = now + 1;
                }
                if question < 2 {
                    prop_assert_eq!(counts(&mut ledger, at(now)), defined(&all, at(now), at(since)));
                } else {
                    let waiting: Vec<_> = all.iter().filter(|entry: &&Entry| entry.start > at(now + ahead)).collect();
                    let bytes = waiting.iter().map(|entry| entry.load.bytes()).sum();
                    prop_assert_eq!(ledger.waiting(at(now), at(now + ahead)), (waiting.len() as u32, bytes));
                }
            }
        }
    }

    #[test]
    fn what_has_passed_is_not_looked_at_again() {
        let mut ledger = Ledger::default();
        for n in 0..100 {
            ledger.enter(at(0), entry(n, n * 10, n * 10 + 10, false));
        }
        let passed = |packets: u64| Passed { packets, bytes: 100 * packets, marks: 0 };
        for (ahead, begun) in [(300, 31), (305, 31), (800, 81)] {
            assert_eq!(ledger.waiting(at(0), at(ahead)), (100 - begun, 100 * u64::from(100 - begun)));
            assert_eq!(ledger.extra.as_ref().unwrap().begun, passed(u64::from(begun)));
        }
        for now in [30, 35, 90] {
            ledger.read(at(now));
            assert_eq!(ledger.extra.as_ref().unwrap().arrived, passed(now + 1));
        }
    }

    #[test]
    fn a_reading_does_not_depend_on_those_before() {
        let build = || {
            let mut ledger = Ledger::default();
            for n in 0..20 {
                ledger.enter(at(0), entry(n * 3, n * 7, n * 7 + 7, n % 4 == 1));
                if n % 5 == 0 {
                    ledger.refuse(at(0), at(n * 3), Refusal::Full);
                }
            }
            ledger
        };
        let mut often = build();
        for now in 0..150 {
            assert_eq!(read(&mut often, now), read(&mut build(), now), "at {now}");
        }
    }

    #[test]
    fn the_longest_wait_is_of_the_interval() {
        let mut ledger = Ledger::default();
        ledger.enter(at(0), entry(0, 40, 50, false));
        ledger.enter(at(0), entry(30, 50, 60, false));
        assert_eq!(read(&mut ledger, 39).0[3], 0);
        assert_eq!(read(&mut ledger, 45).0[3], 40);
        ledger.reset_queued_max(at(45));
        assert_eq!(read(&mut ledger, 49).0[3], 0);
        assert_eq!(read(&mut ledger, 80).0[3], 20);
    }

    #[test]
    fn it_grows_with_the_queue_and_not_with_the_run() {
        let mut ledger = Ledger::default();
        for n in 0..100_000 {
            ledger.enter(at(n * 10), entry(n * 10, n * 10, n * 10 + 30, false));
            ledger.refuse(at(n * 10), at(n * 10 + n % 3), Refusal::Full);
        }
        assert!(
            ledger.entries.capacity() <= 64
                && ledger.extra.as_ref().is_some_and(|extra| extra.refused.len() <= 3)
        );
        assert_eq!(read(&mut ledger, 2_000_000).0[..2], [100_000, 10_000_000]);
    }

    #[test]
    fn waits_that_never_end_do_not_overflow_the_sum() {
        let mut ledger = Ledger::default();
        let never = u64::MAX;
        ledger.enter(at(0), entry(0, 0, never, false));
        for n in 1..4 {
            ledger.enter(at(0), entry(n, never, never, false));
        }
        assert_eq!(read(&mut ledger, 10), ([0; 6], (3, 300, true), 0));
    }
}
