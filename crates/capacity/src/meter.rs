//! The sender's results, from the records of its connection: times and bytes by phase, losses and how they cluster, and
//! the state of the acknowledgement clock (RFC 3148 section 3).

use warpline_core::record::{LossTrigger, Phase, TcpEvent};
use warpline_core::{TimeDelta, Timestamp};

use super::results::SenderResults;

/// The sender's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    SlowStart,
    Avoidance,
    Recovery,
    Timeout,
}

/// A recovery episode.
#[derive(Clone, Copy, Debug)]
struct Episode {
    timeout: bool,
    /// Bytes outstanding when it began.
    flight: u64,
    losses: u64,
    sent: u64,
}

/// Counts a connection's records. Nothing counts before the first data segment or after [`finish`](Meter::finish).
#[derive(Clone, Debug)]
pub struct Meter {
    results: SenderResults,
    started: Option<Timestamp>,
    finished: bool,
    doing: Doing,
    since: Timestamp,
    /// Only the advertised window limits sending.
    window_limited: bool,
    episode: Option<Episode>,
    /// Losses found before the state change that begins an episode.
    found: u64,
    last_was_timeout: bool,
    /// Whether data has been sent since the last acknowledgement, other than by a timer.
    answered: bool,
    una: u64,
    nxt: u64,
    ssthresh: u64,
    cwnd: u64,
    in_flight: u64,
    segment: u64,
    /// Bytes acknowledged; the caller remembers the value at the beginning of an interval.
    delivered: u64,
}

impl Meter {
    /// A meter for a connection whose full segments carry this many bytes of payload.
    pub fn new(segment: u64) -> Self {
        Meter {
            results: SenderResults::default(),
            started: None,
            finished: false,
            doing: Doing::SlowStart,
            since: Timestamp::ZERO,
            window_limited: false,
            episode: None,
            found: 0,
            last_was_timeout: false,
            answered: false,
            una: 1,
            nxt: 1,
            ssthresh: u64::MAX,
            cwnd: 0,
            in_flight: 0,
            segment: segment.max(1),
            delivered: 0,
        }
    }

    /// When the first data segment was sent.
    pub fn started(&self) -> Option<Timestamp> {
        self.started
    }
    /// Bytes acknowledged since the beginning, cumulatively or selectively.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    fn accrue(&mut self, now: Timestamp) {
        let span = now.saturating_since(self.since).as_nanos();
        self.since = self.since.max(now);
        if self.started.is_none() {
            return;
        }
        *match self.doing {
            Doing::SlowStart => &mut self.results.slow_start_ns,
            Doing::Avoidance => &mut self.results.avoidance_ns,
            Doing::Recovery => &mut self.results.recovery_ns,
            Doing::Timeout => &mut self.results.timeout_ns,
        } += span;
        if self.window_limited {
            self.results.window_limited_ns += span;
        }
    }

    /// Counts a record of the connection.
    pub fn record(&mut self, now: Timestamp, event: &TcpEvent) {
        if self.finished {
            return;
        }
        match *event {
            TcpEvent::Sent { seq, len, retransmit, probe } => {
                self.answered |= len > 0 && !probe;
                self.on_sent(now, seq, len, retransmit);
            }
            TcpEvent::Acked { ack, window_end, newly_acked, rtt, .. } => {
                self.answered = false;
                self.on_acked(now, ack, window_end, newly_acked, rtt);
            }
            TcpEvent::Sacked { .. } => self.answered = false,
            TcpEvent::Metrics { cwnd, ssthresh, in_flight, rto, .. } => {
                self.cwnd = cwnd;
                self.in_flight = in_flight;
                self.ssthresh = ssthresh;
                self.results.rto_max_ns = self.results.rto_max_ns.max(rto.as_nanos());
                let peak = match self.doing {
                    Doing::SlowStart => &mut self.results.max_cwnd_slow_start,
                    Doing::Avoidance => &mut self.results.max_cwnd_avoidance,
                    Doing::Recovery | Doing::Timeout => &mut 0,
                };
                *peak = (*peak).max(cwnd);
                if matches!(self.doing, Doing::SlowStart | Doing::Avoidance) {
                    self.turn(now, if cwnd < ssthresh { Doing::SlowStart } else { Doing::Avoidance });
                }
            }
            TcpEvent::Lost { trigger, .. } => {
                self.results.lost_segments += 1;
                match &mut self.episode {
                    Some(episode) if trigger != LossTrigger::Rto || episode.timeout => {
                        episode.losses += 1;
                    }
                    _ => self.found += 1,
                }
            }
            TcpEvent::State { state } => self.on_state(now, state),
            TcpEvent::Undo => {
                if self.last_was_timeout {
                    self.results.false_timeouts += 1;
                } else {
                    self.results.false_recoveries += 1;
                }
            }
            TcpEvent::Established | TcpEvent::Closed { .. } => {}
        }
    }

    fn turn(&mut self, now: Timestamp, doing: Doing) {
        if self.doing != doing {
            self.accrue(now);
            self.doing = doing;
        }
    }

    fn on_sent(&mut self, now: Timestamp, seq: u64, len: u32, retransmit: bool) {
        if len == 0 {
            return;
        }
        if self.started.is_none() {
            self.started = Some(now);
            self.since = now;
        }
        self.nxt = self.nxt.max(seq + u64::from(len));
        if let Some(episode) = &mut self.episode {
            episode.sent += 1;
        }
        self.results.sent_segments += 1;
        self.results.retransmitted_segments += u64::from(retransmit);
    }

    fn on_acked(
        &mut self,
        now: Timestamp,
        ack: u64,
        window_end: u64,
        newly_acked: u32,
        rtt: Option<TimeDelta>,
    ) {
        self.accrue(now);
        // Data that a receiver discarded after a selective acknowledgement (RFC 2018, section 8) is acknowledged again: it counts once.
        let bytes = u64::from(newly_acked).min((self.nxt - 1).saturating_sub(self.delivered));
        *match self.doing {
            Doing::SlowStart => &mut self.results.slow_start_bytes,
            Doing::Avoidance => &mut self.results.avoidance_bytes,
            Doing::Recovery => &mut self.results.recovery_bytes,
            Doing::Timeout => &mut self.results.timeout_bytes,
        } += bytes;
        self.delivered += bytes;
        self.una = self.una.max(ack);
        if let Some(rtt) = rtt {
            let rtt = rtt.as_nanos();
            let results = &mut self.results;
            results.rtt_min_ns = if results.rtt_count == 0 { rtt } else { results.rtt_min_ns.min(rtt) };
            results.rtt_max_ns = results.rtt_max_ns.max(rtt);
            results.rtt_sum_ns += rtt;
            results.rtt_count += 1;
        }
        // Before the segments that this acknowledgement releases are sent: the remaining window is what it opened. It limits sending if
        // the congestion window reaches beyond it.
        let offered = window_end.saturating_sub(self.una);
        self.window_limited =
            self.cwnd >= offered && matches!(self.doing, Doing::SlowStart | Doing::Avoidance);
    }

    fn on_state(&mut self, now: Timestamp, state: Phase) {
        let open = if self.cwnd < self.ssthresh { Doing::SlowStart } else { Doing::Avoidance };
        let doing = match state {
            Phase::Recovery | Phase::Cwr => Doing::Recovery,
            Phase::Loss => Doing::Timeout,
            Phase::Open | Phase::Disorder => open,
        };
        self.turn(now, doing);
        match doing {
            Doing::Recovery | Doing::Timeout => {
                let timeout = doing == Doing::Timeout;
                let previous = self.episode.take();
                if let Some(previous) = previous {
                    self.close(previous, timeout);
                }
                self.last_was_timeout = timeout;
                if timeout {
                    self.results.timeout_episodes += 1;
                    if self.answered {
                        self.results.entire_windows += 1;
                    } else {
                        self.results.lost_opportunities += 1;
                    }
                } else if state == Phase::Recovery {
                    self.results.recoveries += 1;
                } else {
                    self.results.ecn_reductions += 1;
                }
                let flight = self.nxt.saturating_sub(self.una);
                self.episode =
                    Some(Episode { timeout, flight, losses: std::mem::take(&mut self.found), sent: 0 });
            }
            Doing::SlowStart | Doing::Avoidance => {
                if let Some(episode) = self.episode.take() {
                    self.close(episode, false);
                }
            }
        }
    }

    fn count_losses(&mut self, losses: u64) {
        let r = &mut self.results;
        r.max_cluster = r.max_cluster.max(losses);
        r.loss_episodes += u64::from(losses > 0);
        *match losses {
            0 => return,
            1 => &mut r.episodes_of_1,
            2 => &mut r.episodes_of_2,
            3 => &mut r.episodes_of_3,
            4..=7 => &mut r.episodes_of_4,
            8..=15 => &mut r.episodes_of_8,
            16.. => &mut r.episodes_of_16,
        } += 1;
    }

    fn close(&mut self, episode: Episode, by_timeout: bool) {
        self.count_losses(episode.losses);
        let results = &mut self.results;
        if !episode.timeout {
            results.heroic_recoveries +=
                u64::from(!by_timeout && episode.losses * self.segment * 2 > episode.flight);
            results.failed_recoveries += u64::from(by_timeout);
            if self.ssthresh != u64::MAX {
                results.unsent_segments += (self.ssthresh / self.segment).saturating_sub(episode.sent);
            }
        }
    }

    /// The measurement has ended: nothing later counts. `now` may lie before the last record, which then does not count.
    pub fn finish(&mut self, now: Timestamp) {
        if self.finished {
            return;
        }
        self.accrue(now);
        let r = &mut self.results;
        let mut over = self.since.saturating_since(now).as_nanos();
        for span in [&mut r.timeout_ns, &mut r.recovery_ns, &mut r.avoidance_ns, &mut r.slow_start_ns] {
            let less = over.min(*span);
            *span -= less;
            over -= less;
        }
        self.results.elapsed_ns = self.started.map_or(0, |started| now.saturating_since(started).as_nanos());
        if let Some(episode) = self.episode.take() {
            // An interrupted episode did not have its chance to send.
            self.count_losses(episode.losses);
        }
        self.results.final_cwnd = self.cwnd;
        self.finished = true;
    }

    /// The counts so far.
    pub fn results(&self) -> &SenderResults {
        &self.results
    }
    pub(super) fn results_mut(&mut self) -> &mut SenderResults {
        &mut self.results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }
    fn sent(seq: u64) -> TcpEvent {
        TcpEvent::Sent { seq, len: MSS as u32, retransmit: false, probe: false }
    }
    fn again(seq: u64) -> TcpEvent {
        TcpEvent::Sent { seq, len: MSS as u32, retransmit: true, probe: false }
    }
    fn acked(ack: u64, newly_acked: u32) -> TcpEvent {
        let rtt = Some(TimeDelta::from_millis(100));
        TcpEvent::Acked { ack, window_end: ack + 1_000_000, newly_acked, ce: 0, rtt }
    }
    fn metrics(cwnd: u64, ssthresh: u64) -> TcpEvent {
        let zero = TimeDelta::ZERO;
        TcpEvent::Metrics { cwnd, ssthresh, in_flight: 0, srtt: zero, min_rtt: zero, rto: zero }
    }
    fn lost(seq: u64, trigger: LossTrigger) -> TcpEvent {
        TcpEvent::Lost { seq, len: MSS as u32, trigger }
    }
    fn state(state: Phase) -> TcpEvent {
        TcpEvent::State { state }
    }
    fn measured(events: &[(u64, TcpEvent)], end: u64) -> SenderResults {
        let mut meter = Meter::new(MSS);
        for (time, event) in events {
            meter.record(at(*time), event);
        }
        meter.finish(at(end));
        *meter.results()
    }

    #[test]
    fn time_and_bytes_go_to_the_phase_they_belong_to() {
        let r = measured(
            &[
                (50, metrics(2000, u64::MAX)),
                (100, sent(1)),
                (100, sent(1001)),
                (200, acked(2001, 2000)),
                (200, metrics(4000, u64::MAX)),
                (200, sent(2001)),
                (200, sent(3001)),
                (200, sent(4001)),
                (200, sent(5001)),
                (300, acked(6001, 4000)),
                (300, metrics(4000, 4000)),
                (300, sent(6001)),
                (300, sent(7001)),
                (300, sent(8001)),
                (300, sent(9001)),
                (450, acked(10_001, 4000)),
                (450, metrics(5000, 4000)),
            ],
            500,
        );
        assert_eq!((r.elapsed_ns, r.slow_start_ns, r.avoidance_ns), (400_000_000, 200_000_000, 200_000_000));
        assert_eq!((r.slow_start_bytes, r.avoidance_bytes), (6000, 4000));
        assert_eq!((r.max_cwnd_slow_start, r.max_cwnd_avoidance), (4000, 5000));
        assert_eq!((r.rtt_count, r.rtt_min_ns), (3, 100_000_000));
    }

    #[test]
    fn what_a_receiver_took_back_counts_once() {
        let r = measured(
            &[
                (100, sent(1)),
                (100, sent(1001)),
                (100, sent(2001)),
                (200, acked(1, 2000)),
                (300, again(1)),
                (400, acked(3001, 3000)),
            ],
            500,
        );
        assert_eq!(r.slow_start_bytes + r.avoidance_bytes, 3000);
    }

    #[test]
    fn a_recovery_tells_its_cluster_its_heroism_and_what_it_did_not_send() {
        let mut events: Vec<_> = (0..10).map(|i| (0, sent(1 + i * MSS))).collect();
        events.push((1, metrics(10_000, 10_000)));
        events.extend((0..6).map(|i| (100, lost(1 + i * MSS, LossTrigger::Rack))));
        events.push((100, state(Phase::Recovery)));
        events.push((100, metrics(5000, 5000)));
        events.push((101, again(1)));
        events.push((102, again(1001)));
        events.push((200, acked(10_001, 10_000)));
        events.push((200, state(Phase::Open)));
        let r = measured(&events, 300);
        assert_eq!((r.recoveries, r.max_cluster, r.loss_episodes), (1, 6, 1));
        assert_eq!(r.heroic_recoveries, 1, "six of ten were lost and no time-out came");
        assert_eq!(r.unsent_segments, 3, "five were allowed, two were sent");
        assert_eq!((r.episodes_of_4, r.episodes_of_1), (1, 0));
        assert_eq!((r.recovery_ns, r.recovery_bytes, r.retransmitted_segments), (100_000_000, 10_000, 2));
    }

    #[test]
    fn time_outs_tell_an_entire_window_from_a_failed_recovery_and_a_false_one() {
        let r = measured(
            &[
                (0, sent(1)),
                (0, sent(1001)),
                (1000, lost(1, LossTrigger::Rto)),
                (1000, lost(1001, LossTrigger::Rto)),
                (1000, state(Phase::Loss)),
                (1100, acked(2001, 2000)),
                (1100, state(Phase::Open)),
            ],
            2000,
        );
        assert_eq!((r.timeout_episodes, r.entire_windows, r.false_timeouts, r.max_cluster), (1, 1, 0, 2));
        let r = measured(
            &[
                (0, sent(1)),
                (0, sent(1001)),
                (90, TcpEvent::Sacked { start: 1001, end: 2001 }),
                (90, lost(1, LossTrigger::Rack)),
                (90, state(Phase::Recovery)),
                (1000, lost(1, LossTrigger::Rto)),
                (1000, state(Phase::Loss)),
                (1001, TcpEvent::Undo),
            ],
            2000,
        );
        assert_eq!((r.entire_windows, r.failed_recoveries, r.false_timeouts), (0, 1, 1));
    }

    #[test]
    fn the_last_event_before_a_time_out_says_whether_an_opportunity_or_a_window_was_lost() {
        let probe = TcpEvent::Sent { seq: 3001, len: MSS as u32, retransmit: false, probe: true };
        let timeout = [(1000, lost(1001, LossTrigger::Rto)), (1000, state(Phase::Loss))];
        let counted = |before: &[(u64, TcpEvent)]| {
            let r = measured(&[before, &timeout].concat(), 2000);
            (r.lost_opportunities, r.entire_windows)
        };
        let start = [(0, sent(1)), (0, sent(1001))];
        assert_eq!(counted(&start), (0, 1), "no acknowledgement at all came");
        let silent = [&start[..], &[(100, acked(1001, 1000))]].concat();
        assert_eq!(counted(&silent), (1, 0), "one came and let nothing out");
        let probed = [&silent[..], &[(300, probe)]].concat();
        assert_eq!(counted(&probed), (1, 0), "what a timer sent is no answer to it");
        let answered = [&silent[..], &[(100, sent(2001))]].concat();
        assert_eq!(counted(&answered), (0, 1), "one came, let a segment out, and no other came");
    }

    #[test]
    fn nothing_counts_before_the_first_segment_or_after_the_end() {
        let mut meter = Meter::new(MSS);
        meter.record(at(500), &metrics(1000, u64::MAX));
        meter.record(at(1000), &sent(1));
        meter.finish(at(2000));
        meter.record(at(2500), &acked(1001, 1000));
        assert_eq!(meter.results().elapsed_ns, 1_000_000_000);
        assert_eq!((meter.delivered(), meter.results().slow_start_ns), (0, 1_000_000_000));
    }

    #[test]
    fn an_end_in_the_past_leaves_the_waiting_out() {
        let r = measured(
            &[
                (0, sent(1)),
                (100, acked(1001, 1000)),
                (100, metrics(2000, 1000)),
                (400, state(Phase::Loss)),
                (900, lost(1001, LossTrigger::Rto)),
                (900, acked(1001, 0)),
            ],
            100,
        );
        assert_eq!((r.elapsed_ns, r.timeout_ns, r.avoidance_ns), (100_000_000, 0, 0));
        assert_eq!(r.slow_start_ns, 100_000_000);
    }

    #[test]
    fn the_advertised_window_is_told_from_the_congestion_window() {
        let mut meter = Meter::new(MSS);
        meter.record(at(0), &metrics(50_000, u64::MAX));
        meter.record(at(0), &sent(1));
        let full = TcpEvent::Acked { ack: 1001, window_end: 11_001, newly_acked: 1000, ce: 0, rtt: None };
        meter.record(at(100), &full);
        let wide = TcpEvent::Acked { ack: 2001, window_end: 92_001, newly_acked: 1000, ce: 0, rtt: None };
        meter.record(at(300), &wide);
        meter.finish(at(400));
        assert_eq!(meter.results().window_limited_ns, 200_000_000);
    }
}
