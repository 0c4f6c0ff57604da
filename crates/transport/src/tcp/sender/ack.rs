//! Acknowledgements: what they deliver, the samples they give, and the report to congestion control. The common case
//! (in order, nothing lost, nothing selectively acknowledged) is straight-line code. Everything else is in a function
//! of its own.

use warpline_core::record::TcpEvent;
use warpline_core::{Flags, Segment, TimeDelta, Timestamp};

use super::pacing::burst_interval;
use super::rack::Rack;
use super::sent::Sent;
use super::{Log, Sender, Usage};
use crate::cc::{AckSample, CongestionControl, Marks, Phase};

/// What one acknowledgement delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// Bytes delivered, cumulatively or selectively, and segments.
    pub bytes: u64,
    pub segments: u32,
    /// The segment among them that was sent last.
    pub newest: Option<Sent>,
    /// The same of those for which it is known which transmission arrived: what RACK goes by (RFC 8985 section 6.2 step 2).
    pub known: Option<Sent>,
    /// Something was selectively acknowledged.
    pub sacked: bool,
    /// The lowest end of one among them that was sent once.
    pub lowest_once: u64,
    /// Send times of the oldest and the newest segment among them that was sent once (Karn); `NEVER` for none.
    pub oldest_once: Timestamp,
    pub newest_once: Timestamp,
    /// A segment sent once was delivered although one above it had been before (RFC 8985 section 6.2 step 3).
    pub reordered: bool,
    /// A segment sent more than once was acknowledged cumulatively: those with it may have waited for it at the receiver,
    /// so their times say nothing about the path (Karn; Linux FLAG_RETRANS_DATA_ACKED).
    pub ambiguous: bool,
    /// Marks are reported.
    pub marked: bool,
}

impl Delivery {
    const NONE: Delivery = Delivery {
        bytes: 0,
        segments: 0,
        newest: None,
        known: None,
        sacked: false,
        lowest_once: u64::MAX,
        oldest_once: Timestamp::NEVER,
        newest_once: Timestamp::NEVER,
        reordered: false,
        ambiguous: false,
        marked: false,
    };

    /// `sent` was delivered; bytes up to `forward` had been delivered before, in part. `known`: which of its transmissions arrived is known.
    fn note(&mut self, sent: &Sent, forward: u64, known: bool) {
        self.bytes += u64::from(sent.len);
        self.segments += 1;
        let newer =
            |other: &Option<Sent>| other.is_none_or(|o| (o.sent_at, o.end()) < (sent.sent_at, sent.end()));
        if newer(&self.newest) {
            self.newest = Some(*sent);
        }
        if known && newer(&self.known) {
            self.known = Some(*sent);
        }
        if !sent.was_retransmitted() {
            self.lowest_once = self.lowest_once.min(sent.end());
            self.oldest_once = self.oldest_once.min(sent.sent_at);
            if !self.newest_once.is_set() || sent.sent_at > self.newest_once {
                self.newest_once = sent.sent_at;
            }
            self.reordered |= sent.end() <= forward;
        }
    }
}

/// The fields of an acknowledgement without its SACK blocks: few enough to stay in registers.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct AckFields {
    ack: u64,
    timestamps: Option<(u32, u32)>,
    /// Bytes that it reports as marked, once that is known.
    ce: u64,
}

impl AckFields {
    #[inline]
    pub(in crate::tcp) fn of(segment: &Segment) -> AckFields {
        AckFields { ack: segment.ack, timestamps: segment.timestamps, ce: 0 }
    }
    /// The timestamp that it echoes.
    fn echo(&self) -> Option<u32> {
        self.timestamps.map(|(_, echo)| echo)
    }
    /// For an acknowledgement that does not advance. It echoes the timestamp of the last segment that came in order, which may be older by a round
    /// trip or more (RFC 7323 section 4.1). When the segment left that it answers stands in for that, as far as is known; `NEVER` where it is not.
    fn answer(&mut self, sent_at: Timestamp) {
        let known = self.timestamps.filter(|_| sent_at.is_set());
        self.timestamps = known.map(|(value, _)| (value, sent_at.as_millis() as u32));
    }
}

impl<C: CongestionControl> Sender<C> {
    /// The acknowledgement field of any segment, which acknowledges nothing that was never sent.
    #[inline(always)]
    pub(in crate::tcp) fn on_ack(&mut self, now: Timestamp, segment: &Segment, log: &mut Log) {
        let bare = segment.sack.is_bare() || self.has_known_option(segment);
        let plain = bare && self.uses.ecn.is_quiet(segment.flags);
        self.offered.largest = self.offered.largest.max(u64::from(segment.window));
        if plain && segment.ack == self.una && self.una == self.nxt && self.tail_probe.is_none() {
            // Nothing is in flight: the usual case of a receiver.
            self.take_window(segment);
            self.settle_window_probes();
        } else if plain
            && segment.ack > self.una
            && self.is_calm()
            && self.takes_plain_acks()
            // Of so many packets, marked ones may go round the counter unseen.
            && (!self.uses.ecn.is_accurate() || segment.ack - self.una < 8 * self.mss)
            && self.board.front().is_some_and(|first| first.end() <= segment.ack)
        {
            self.take_window(segment);
            self.on_plain_ack(now, log, AckFields::of(segment));
        } else {
            let segment = *segment;
            self.on_eventful_ack(now, log, &segment);
        }
    }

    /// Takes the window that a segment offers, which acknowledges `una` at least, unless a newer segment offered another (RFC 9293 section
    /// 3.10.7.4). Of equally new ones the larger window counts, since the network may have reordered them, and an empty one (Linux
    /// tcp_may_update_window).
    #[inline(always)]
    fn take_window(&mut self, segment: &Segment) {
        let end = segment.ack + u64::from(segment.window);
        let news = segment.ack > self.una || segment.seq > self.offered_at;
        if news || segment.seq == self.offered_at && (end > self.offered.end || segment.window == 0) {
            self.offered.end = end;
            self.offered_at = segment.seq;
        }
    }

    /// How much of the window is used, before an acknowledgement is taken: that is when most is outstanding.
    #[inline(always)]
    fn note_usage(&mut self, in_flight: u64) {
        let outstanding = self.nxt - self.una;
        let full = self.limited_until == self.nxt || in_flight + self.mss > self.window;
        if full || self.una >= self.usage.end || !self.usage.full && outstanding > self.usage.peak {
            self.usage = Usage { end: self.nxt, peak: outstanding, full };
        }
    }

    /// Whether all that an acknowledgement has beside its usual fields is an AccECN option that says nothing new of marks.
    #[inline(never)]
    fn has_known_option(&self, segment: &Segment) -> bool {
        segment.sack.is_empty()
            && self.uses.ecn.is_accurate()
            && segment.accecn().is_some_and(|option| self.marked.knows(&option))
    }

    #[inline]
    fn settle_window_probes(&mut self) {
        if self.window_probes > 0 {
            self.retries = 0;
            if self.offered.end > self.nxt {
                self.window_probes = 0;
            }
        }
    }

    /// New data is acknowledged, one whole segment at least, [nothing is wrong](Self::is_calm), and there are neither SACK blocks nor an ECN
    /// echo. Losses are not looked for: what RACK could find, sent before a retransmission that has arrived or marked before an undo, is left to
    /// the next acknowledgement that is not plain, and to the timers.
    #[inline(never)]
    fn on_plain_ack(&mut self, now: Timestamp, log: &mut Log, fields: AckFields) {
        let prior_in_flight = self.nxt - self.una;
        let acked = fields.ack - self.una;
        self.note_usage(prior_in_flight);
        let taken = self.board.take_clean(fields.ack, |sent| log.note_latency(now, sent.first_sent_at));
        let Some((&first, &newest)) = taken else { return };
        if newest.end() != fields.ack {
            self.board.trim(fields.ack);
        }
        self.una = fields.ack;
        self.retries = 0;
        let sample = if first.was_retransmitted() || newest.was_retransmitted() {
            self.echo_rtt(now, fields)
        } else {
            let rtt = now.saturating_since(newest.sent_at);
            self.rtt.sample(now.saturating_since(first.sent_at), self.una, self.nxt);
            self.rtt.note_min(rtt);
            Some(rtt)
        };
        if let Some(rtt) = sample {
            log.stats.note_rtt(rtt);
        }
        if self.uses.rack && Rack::is_known(now, &newest, fields.echo(), self.rtt.min()) {
            self.rack.advance(now, &newest);
        }
        self.report::<true>(now, fields, acked, Some(&newest), sample, prior_in_flight, true);
        self.rearm_in::<true>(now);
        self.look_ahead::<true>();
        if log.is_recording() {
            self.record_ack(now, log, fields, acked, sample);
        }
    }

    /// An RTT sample from the echoed timestamp (RFC 7323 section 4), for acknowledgements of what was sent more than once.
    #[cold]
    pub(super) fn echo_rtt(&mut self, now: Timestamp, fields: AckFields) -> Option<TimeDelta> {
        if !self.uses.timestamps {
            return None;
        }
        let millis = (now.as_millis() as u32).wrapping_sub(fields.echo()?);
        // The resolution is a millisecond, which also stands for less. An echo from before the run began is no
        // sample.
        if millis > i32::MAX as u32 {
            return None;
        }
        let rtt = TimeDelta::from_millis(u64::from(millis.max(1)));
        self.rtt.sample(rtt, self.una, self.nxt);
        Some(rtt)
    }

    /// Reports to congestion control, and takes over its window. `CALM`: [nothing is wrong](Self::is_calm).
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "inlined twice; a struct would say no more")]
    fn report<const CALM: bool>(
        &mut self,
        now: Timestamp,
        fields: AckFields,
        acked: u64,
        newest: Option<&Sent>,
        rtt: Option<TimeDelta>,
        prior_in_flight: u64,
        advanced: bool,
    ) {
        let min_rtt = self.rtt.min();
        let (delivery_rate, prior_delivered) = match newest {
            Some(newest) => (self.rate.on_delivered(now, acked, newest, min_rtt), newest.delivered),
            None => {
                self.rate.delivered += acked;
                (None, self.rate.delivered - acked)
            }
        };
        // Behind a bound, the window would grow without end and no longer fall with losses (Linux snd_cwnd_clamp).
        let bound = self.cc.cwnd() >= self.max_window;
        let limited = !bound && (self.usage.full || self.is_doubling() || !self.config.cwnd_validation);
        let sample = AckSample {
            now,
            acked,
            mss: self.mss,
            rtt,
            srtt: self.rtt.srtt(),
            min_rtt,
            one_way_delay: match fields.timestamps {
                Some((value, echo)) if self.uses.timestamps => {
                    Some(TimeDelta::from_millis(u64::from(value.wrapping_sub(echo))))
                }
                _ => None,
            },
            delivery_rate,
            app_limited: newest.is_some_and(|newest| newest.flags & Sent::APP_LIMITED != 0),
            sent_at: newest.map_or(Timestamp::NEVER, |newest| newest.sent_at),
            delivered: self.rate.delivered,
            prior_delivered,
            prior_in_flight,
            in_flight: if CALM { self.nxt - self.una } else { self.in_flight() },
            next_seq: self.nxt,
            ack: self.una,
            ce: if CALM { 0 } else { fields.ce },
            cwnd_limited: limited && self.may_grow(advanced) && self.ramp == u64::MAX,
            phase: if CALM { Phase::Open } else { self.episode.phase() },
        };
        let cwnd = self.cc.cwnd_after(&sample);
        if self.rate.is_sampled() && self.cc.holds_back() {
            self.rate.mark_limited(sample.in_flight);
        }
        if self.ramp != u64::MAX {
            self.ramp += acked.min(2 * self.mss);
            if self.ramp >= cwnd {
                self.ramp = u64::MAX;
            }
        }
        self.use_window::<CALM>(cwnd);
    }

    /// Nothing grows on duplicates (RFC 3042 section 2), unless segments are known to come late by many (Linux tcp_may_raise_cwnd).
    #[inline]
    fn may_grow(&self, advanced: bool) -> bool {
        advanced || self.uses.sack && self.reordering > self.config.dupack_threshold
    }

    /// Linux tcp_is_cwnd_limited: in slow start it is enough that half the window was used in this round trip.
    #[inline]
    fn is_doubling(&self) -> bool {
        let cwnd = self.cc.cwnd();
        cwnd < 2 * self.usage.peak && cwnd < self.cc.ssthresh()
    }

    /// Bound of the congestion window.
    #[inline]
    pub(super) fn window_bound(&self) -> u64 {
        self.ramp.min(self.max_window)
    }

    /// The window that is in force now.
    #[inline]
    pub(super) fn refresh_window(&mut self) {
        self.use_window::<false>(self.cc.cwnd());
    }

    /// Takes over `cwnd`, which is congestion control's window. `CALM`: [nothing is wrong](Self::is_calm).
    #[inline(always)]
    fn use_window<const CALM: bool>(&mut self, cwnd: u64) {
        let clamp = self.window_bound();
        let cwnd = cwnd.min(clamp);
        self.small_window = cwnd < self.burst_bytes;
        if self.small_window {
            self.rewait_for_burst(cwnd);
        }
        self.window = if self.small_window {
            self.burst_bytes
        } else if !CALM && let Some(prr) = self.episode.prr() {
            prr.cwnd.min(clamp)
        } else {
            cwnd
        };
    }

    #[cold]
    fn rewait_for_burst(&mut self, cwnd: u64) {
        if self.pacer.next > Timestamp::ZERO {
            let burst = self.small_window_burst();
            self.pacer.rewait(burst_interval(burst, self.mss, cwnd, self.rtt.srtt()));
        }
    }

    #[cold]
    fn record_ack(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        fields: AckFields,
        acked: u64,
        rtt: Option<TimeDelta>,
    ) {
        let event = TcpEvent::Acked {
            ack: fields.ack,
            window_end: self.offered.end,
            newly_acked: u32::try_from(acked).unwrap_or(u32::MAX),
            ce: u32::try_from(fields.ce).unwrap_or(u32::MAX),
            rtt,
        };
        log.record(now, event);
        self.record_metrics(now, log);
    }

    /// Everything that is not plain: duplicates, SACK, ECN echoes, and every acknowledgement outside the open state.
    #[inline(never)]
    fn on_eventful_ack(&mut self, now: Timestamp, log: &mut Log, segment: &Segment) {
        self.forget_outlook();
        let mut fields = AckFields::of(segment);
        // One that the network delayed: its SACK blocks may be news, and nothing else (Linux tcp_ack, old_ack).
        let old = segment.ack < self.una;
        if old && (segment.sack.is_empty() || !self.uses.sack || self.una == self.nxt) {
            return;
        }
        let prior_end = self.offered.end;
        if !old {
            self.take_window(segment);
            self.settle_window_probes();
        }
        let same_window = self.offered.end == prior_end;
        let prior_in_flight = self.in_flight();
        self.note_usage(prior_in_flight);
        let prior_una = self.una;
        let forward = self.una.max(self.board.sacked_end);
        let advanced = segment.ack > self.una;
        let mut delivery = Delivery::NONE;
        let min_rtt = self.rtt.min();
        let echo = if advanced { fields.echo() } else { None };
        let is_known = |sent: &Sent| Rack::is_known(now, sent, echo, min_rtt);
        if advanced {
            self.acknowledge_cumulatively(now, log, segment.ack, forward, &mut delivery, is_known);
        }
        let dsack = self.uses.sack
            && !segment.sack.is_empty()
            && self.on_sack(now, log, segment, forward, &mut delivery, is_known);
        // RFC 5681 section 2: neither data, nor a FIN, nor another window.
        let repeats = !advanced && same_window && segment.seq_len() == 0;
        let duplicate = !self.uses.sack && repeats && self.una < self.nxt;
        if duplicate {
            self.on_duplicate_ack(&mut delivery);
        }
        let sample = if old { None } else { self.sample_rtt(now, log, segment, &delivery, advanced) };
        if delivery.reordered {
            self.rack.note_reordering();
            let highest = self.board.highest(self.una) + self.mss;
            self.allow_lateness(highest.saturating_sub(delivery.lowest_once));
        }
        if self.uses.rack
            && let Some(newest) = &delivery.known
        {
            self.rack.advance(now, newest);
        }
        if !old {
            fields.ce = self.take_marks(segment, &mut delivery);
        }
        if fields.ce > 0 {
            let marks = Marks { acked: delivery.bytes, ce: fields.ce, next_seq: self.nxt, ack: self.una };
            self.cc.on_marks(&marks);
        }
        if !advanced {
            fields.answer(delivery.newest_once);
        }
        self.on_probe_ack(now, log, segment, repeats, dsack);
        let looks = self.try_undo(now, log, segment, prior_una);
        self.judge_time_out(now, log, advanced, duplicate, &delivery);
        let newly_lost = looks && self.on_signs(now, log, advanced, prior_una, &delivery);
        let in_flight = self.in_flight();
        if let Some(prr) = self.episode.prr() {
            prr.on_ack(delivery.bytes, advanced && !newly_lost, in_flight, self.mss);
        }
        if delivery.bytes > 0 {
            self.report::<false>(
                now,
                fields,
                delivery.bytes,
                delivery.newest.as_ref(),
                sample,
                prior_in_flight,
                advanced,
            );
        }
        self.refresh_window();
        if advanced {
            self.retries = 0;
            self.rearm_unless_impatient(now);
            self.hasten_after_reneging(now);
        }
        self.rearm_reordering(now);
        self.look_ahead::<false>();
        if log.is_recording() {
            self.record_ack(now, log, fields, delivery.bytes, sample);
        }
    }

    /// What an acknowledgement that delivers this says of marks: returns how many bytes of it were marked.
    fn take_marks(&mut self, segment: &Segment, delivery: &mut Delivery) -> u64 {
        let flags = segment.flags;
        if !self.uses.ecn.is_accurate() {
            delivery.marked =
                self.uses.ecn.is_on() && flags.contains(Flags::ECE) && !flags.contains(Flags::SYN);
            return if delivery.marked { delivery.bytes } else { 0 };
        }
        // One that delivers nothing may be old, and the next one says the same. It may also be the first one, which has no counter (RFC 9768
        // section 3.2.2.1).
        if delivery.bytes == 0 || flags.contains(Flags::SYN) {
            return 0;
        }
        let option = segment.accecn().and_then(|option| self.marked.take(&option));
        let packets = delivery.segments.max(1);
        // As on the plain path: of small segments, more than the counter can tell are not looked for.
        let few = delivery.bytes < 8 * self.mss;
        let marked = self.uses.ecn.count(flags, if few { packets.min(7) } else { packets }).min(packets);
        let bytes = option.map_or_else(
            || {
                // Packets were counted: their mean size stands for each.
                let bytes = (u128::from(delivery.bytes) * u128::from(marked) / u128::from(packets)) as u64;
                self.marked.estimate(bytes as u32);
                bytes
            },
            |bytes| u64::from(bytes).min(delivery.bytes),
        );
        delivery.marked = bytes > 0;
        bytes
    }

    fn acknowledge_cumulatively(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        ack: u64,
        forward: u64,
        delivery: &mut Delivery,
        is_known: impl Fn(&Sent) -> bool,
    ) {
        let acked = ack - self.una;
        // Duplicate acknowledgements stood for segments that are now counted themselves.
        let emulated = if self.uses.sack { 0 } else { self.board.sacked };
        self.board.sacked -= emulated;
        let outstanding = self.board.len();
        while let Some(sent) = self.board.pop(ack) {
            if sent.flags & Sent::SACKED == 0 {
                log.note_latency(now, sent.first_sent_at);
                delivery.note(&sent, forward, is_known(&sent));
                delivery.ambiguous |= sent.was_retransmitted();
            }
        }
        delivery.bytes += self.board.trim(ack);
        self.una = ack;
        if let Some(signs) = self.episode.signs() {
            signs.dupacks = 0;
        }
        if emulated > 0 {
            // One of the segments acknowledged is the one that was missing (Linux tcp_remove_reno_sacks).
            let explained = acked.saturating_sub(self.mss).min(emulated);
            delivery.bytes = delivery.bytes.saturating_sub(explained);
            delivery.segments = delivery.segments.saturating_sub((explained / self.mss) as u32);
            let (left, room) = (emulated - explained, self.room_for_duplicates());
            if self.episode.is_recovery() {
                self.board.sacked = left.min(room);
            }
            if left > room {
                self.note_lateness(outstanding);
            }
        }
    }

    /// Takes SACK blocks. Returns whether one of them reported that a retransmission was not needed.
    fn on_sack(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        segment: &Segment,
        forward: u64,
        delivery: &mut Delivery,
        is_known: impl Fn(&Sent) -> bool,
    ) -> bool {
        let mut reported = segment.sack.iter(segment.ack);
        let duplicate = if reports_duplicate(segment) { reported.next() } else { None };
        log.stats.dsacks_received += u64::from(duplicate.is_some());
        let needless = duplicate.filter(|&range| self.is_of_a_retransmission(log, range));
        if let Some((start, end)) = needless {
            // A retransmission that was not needed has arrived all the same (Linux tcp_dsack_seen).
            delivery.bytes += end.saturating_sub(start).min(self.mss);
            delivery.segments += 1;
            if let Some(undo) = &mut self.undo {
                undo.on_dsack(end);
            }
            if self.uses.rack {
                self.rack.on_dsack(self.una, self.nxt);
            }
        }
        let (una, nxt) = (self.una, self.nxt);
        let blocks = reported.filter(|&(start, end)| start >= una && start < end && end <= nxt);
        self.board.sack(blocks, |sent| {
            log.note_latency(now, sent.first_sent_at);
            log.record(now, TcpEvent::Sacked { start: sent.seq, end: sent.end() });
            delivery.note(sent, forward, is_known(sent));
            delivery.sacked = true;
        });
        needless.is_some()
    }

    /// Whether a D-SACK tells of a retransmission, and not of a packet that the network has doubled. More reports than retransmissions tell of the
    /// network (Linux tcp_dsack_seen), and so does one of a segment in flight that was sent once (Linux tcp_sacktag_one).
    fn is_of_a_retransmission(&self, log: &Log, (start, end): (u64, u64)) -> bool {
        log.stats.dsacks_received <= log.stats.retransmitted_segments
            && self.board.between(start, end).all(Sent::was_retransmitted)
    }

    /// A duplicate acknowledgement (RFC 5681 section 2) without SACK stands for one segment that arrived.
    #[inline(never)]
    fn on_duplicate_ack(&mut self, delivery: &mut Delivery) {
        let (phase, outstanding) = (self.episode.phase(), self.nxt - self.una);
        match self.episode.signs() {
            Some(signs) => {
                signs.dupacks += 1;
                if signs.dupacks == 1 && phase == Phase::Open {
                    signs.flight = outstanding;
                }
                // Where recovery is barred (RFC 6582 section 3.2 step 2), limited transmit ends after two all the same (RFC 3042);
                // else every new segment would cause a duplicate that lets out the next.
                if self.una <= self.recover && signs.dupacks >= self.reordering {
                    return;
                }
            }
            None if phase == Phase::Loss => return,
            None => {}
        }
        let bytes = self.mss.min(self.room_for_duplicates().saturating_sub(self.board.sacked));
        self.board.sacked += bytes;
        delivery.bytes += bytes;
        if bytes < self.mss {
            self.note_lateness(self.board.len());
        }
    }

    /// How many bytes duplicate acknowledgements can stand for: all but what counts as lost, or but one segment, which is missing at least (Linux
    /// tcp_limit_reno_sacked).
    fn room_for_duplicates(&self) -> u64 {
        let missing = self.board.front().map_or(0, |sent| u64::from(sent.len)).max(self.board.lost);
        (self.nxt - self.una).saturating_sub(missing)
    }

    /// More duplicate acknowledgements came than segments can have arrived beside a missing one, so none was missing, and one came late: behind all that
    /// were `outstanding`, at most (Linux tcp_check_reno_reordering).
    fn note_lateness(&mut self, outstanding: u64) {
        let most = self.config.max_reordering;
        if most > 0 {
            self.reordering = outstanding.clamp(1, u64::from(most)) as u32;
            let known = self.board.len().saturating_sub(1) as u32;
            if let Some(signs) = self.episode.signs() {
                signs.dupacks = signs.dupacks.min(known);
            }
        }
    }

    fn sample_rtt(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        segment: &Segment,
        delivery: &Delivery,
        advanced: bool,
    ) -> Option<TimeDelta> {
        let sample = if delivery.newest_once.is_set() && !delivery.ambiguous {
            let rtt = now.saturating_since(delivery.newest_once);
            self.rtt.sample(now.saturating_since(delivery.oldest_once), self.una, self.nxt);
            self.rtt.note_min(rtt);
            Some(rtt)
        } else if advanced {
            self.echo_rtt(now, AckFields::of(segment))
        } else {
            None
        };
        if let Some(rtt) = sample {
            log.stats.note_rtt(rtt);
        }
        sample
    }
}

/// Whether the first SACK block reports a duplicate: it is below the cumulative acknowledgement, or within the second block (RFC 2883 section 4).
fn reports_duplicate(segment: &Segment) -> bool {
    let mut blocks = segment.sack.iter(segment.ack);
    let Some((start, end)) = blocks.next() else { return false };
    start < segment.ack || blocks.next().is_some_and(|(from, to)| from <= start && end <= to)
}
