//! A capacity test with the TCP of `cap` and no software at the far end.
//!
//! Both ends of the connection are here. A segment crosses the path as a probe of its size. When the probe's answer has come back, the segment arrives at the
//! receiver, whose acknowledgements reach the sender at once. So loss recovery, congestion control and delayed acknowledgements are those of
//! a test with a server, and the differences are those of the path: data crosses it in both directions, where an answer is as large as its probe, and a
//! lost answer looks like a lost segment. No acknowledgement is lost.

use std::collections::{BTreeMap, VecDeque};

use warpline_core::{TimeDelta, Timestamp};
use warpline_transport::tcp::Stats;

use super::client::{Outcome, Unreachable};
use super::link::{Link, LinkParts, Progress, Traced};
use super::options::CapOptions;
use super::prober::{Probe, Prober};
use super::results::{HostResults, ReceiverResults, Report};
use super::treno_results::ProbeReply;
use super::wire::read_segment;

/// Most probes that are remembered: answers to older ones no longer count. A socket cannot distinguish more of them
/// (numbers of UDP probes repeat after 32,102).
const MEMORY: u64 = 1 << 14;

/// A capacity test from one side.
#[derive(Debug)]
pub struct SenderOnly {
    options: CapOptions,
    /// Bytes of a full probe on the wire.
    packet: u32,
    patience: TimeDelta,
    sender: Link,
    receiver: Link,
    /// Unanswered probes: the segments in them, as datagrams.
    out: BTreeMap<u64, Vec<u8>>,
    /// Probes that the kernel refused, to be sent before others; with their sizes.
    refused: VecDeque<Probe>,
    /// How often it did.
    refusals: u64,
    /// Buffers for later datagrams.
    spare: Vec<Vec<u8>>,
    next: u64,
    begun: bool,
    /// When the path last answered, or the test began.
    heard: Timestamp,
    answered: bool,
    /// Whether a probe came back as undeliverable.
    returned: bool,
    too_big: Option<u32>,
    host: HostResults,
    outcome: Option<Outcome>,
}

impl SenderOnly {
    /// A test that begins when it is first polled. `options` should have passed [`CapOptions::validate`]; their direction has no meaning
    /// here. `phase` is that of the heartbeat, if they have one. `patience` is how long the path may be silent.
    pub fn new(options: CapOptions, phase: TimeDelta, ipv6: bool, patience: TimeDelta, trace: bool) -> Self {
        let parts = |sends: bool| LinkParts {
            token: 0,
            from_server: !sends,
            sends,
            key: None,
            phase,
            wall_us: 0,
            headers: if ipv6 { 48 } else { 28 },
            // The receiver would show every segment a second time.
            trace: trace && sends,
        };
        SenderOnly {
            sender: Link::new(&options, parts(true)),
            receiver: Link::new(&options, parts(false)),
            packet: options.packet(ipv6),
            options,
            patience,
            out: BTreeMap::new(),
            refused: VecDeque::new(),
            refusals: 0,
            spare: Vec::new(),
            next: 0,
            begun: false,
            heard: Timestamp::ZERO,
            answered: false,
            returned: false,
            too_big: None,
            host: HostResults::default(),
            outcome: None,
        }
    }

    /// How it ended, when it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }
    /// The options.
    pub fn options(&self) -> &CapOptions {
        &self.options
    }
    /// The MTU that ended the test because segments are larger.
    pub fn too_big(&self) -> Option<u32> {
        self.too_big
    }
    /// Whether data is being transferred.
    pub fn is_running(&self) -> bool {
        self.outcome.is_none() && self.sender.started().is_some()
    }
    /// How often the kernel refused to send.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }
    /// Sets what happened within this host so far.
    pub fn set_host(&mut self, host: HostResults) {
        self.host = host;
    }
    /// The counters of both ends. The receiver's have no acknowledgements, as none crossed the path, and no one-way delays.
    pub fn report(&self) -> Report {
        let receiver = self.receiver.receiver_results().map(|results| ReceiverResults {
            acks_sent: 0,
            acks_wire_bytes: 0,
            delay_count: 0,
            delay_min_us: 0,
            delay_mean_us: 0,
            delay_p50_us: 0,
            delay_p95_us: 0,
            delay_p99_us: 0,
            delay_max_us: 0,
            ..results
        });
        Report { sender: self.sender.sender_results(), receiver, host: self.host }
    }
    /// Counters of the sender's connection.
    pub fn stats(&self) -> &Stats {
        self.sender.connection.stats()
    }
    /// The progress so far.
    pub fn progress(&self, now: Timestamp) -> Progress {
        self.sender.progress(now)
    }
    /// The trace since the last call.
    pub fn drain_trace(&mut self) -> impl Iterator<Item = Traced> + '_ {
        self.sender.drain_trace()
    }

    fn finish(&mut self, at: Timestamp, outcome: Outcome) {
        if self.outcome.is_none() {
            self.sender.finish(at);
            self.outcome = Some(outcome);
            self.out.clear();
            self.refused.clear();
        }
    }

    fn begin(&mut self, now: Timestamp) {
        if !self.begun {
            self.begun = true;
            self.heard = now;
            self.sender.connection.open(now);
        }
    }

    fn deadline(&self) -> Timestamp {
        self.sender.started().map_or(Timestamp::NEVER, |started| started + self.options.duration)
    }

    /// Hands the receiver's acknowledgements to the sender.
    fn acknowledge(&mut self, now: Timestamp) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        loop {
            bytes.clear();
            if self.receiver.poll(now, &mut bytes).is_none() {
                break;
            }
            if let Some((wire, header)) = read_segment(&bytes) {
                self.sender.handle(now, &wire, (&bytes, header), false);
            }
        }
        self.spare.push(bytes);
    }
}

impl Prober for SenderOnly {
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Probe> {
        self.begin(now);
        if now >= self.deadline() {
            self.finish(self.deadline(), Outcome::Complete);
        }
        if self.outcome.is_some() {
            return None;
        }
        if let Some(probe) = self.refused.pop_front() {
            return Some(probe);
        }
        let before = self.stats().retransmitted_segments;
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        let Some(datagram) = self.sender.poll(now, &mut bytes) else {
            self.spare.push(bytes);
            return None;
        };
        let number = self.next;
        self.next += 1;
        self.out.insert(number, bytes);
        while let Some(oldest) = self.out.first_entry()
            && *oldest.key() + MEMORY <= number
        {
            self.spare.push(oldest.remove());
        }
        Some(Probe {
            number,
            size: datagram.len as u32 + self.sender.headers(),
            retransmit: self.stats().retransmitted_segments > before,
        })
    }

    fn on_refused(&mut self, number: u64) {
        self.refusals += 1;
        if let Some(bytes) = self.out.get(&number) {
            let size = bytes.len() as u32 + self.sender.headers();
            self.refused.push_front(Probe { number, size, retransmit: false });
        }
    }

    fn on_too_big(&mut self, now: Timestamp, mtu: u32) {
        // The segments of a connection keep their size. A router that could carry them says nothing.
        if self.outcome.is_none() && mtu < self.packet {
            self.too_big = Some(mtu);
            self.finish(now, Outcome::Stopped);
        }
    }

    fn is_out(&self, number: u64) -> bool {
        self.out.contains_key(&number)
    }

    fn on_reply(&mut self, now: Timestamp, number: u64, kind: ProbeReply) -> bool {
        if self.outcome.is_some() || !self.is_out(number) {
            return false;
        }
        if matches!(kind, ProbeReply::Unreachable | ProbeReply::TimeExceeded) {
            // It came back because it could not arrive. A single such message is not believed.
            self.returned = true;
            return true;
        }
        self.heard = now;
        self.answered = true;
        let Some(bytes) = self.out.remove(&number) else { return false };
        if let Some((wire, header)) = read_segment(&bytes) {
            self.receiver.handle(now, &wire, (&bytes, header), false);
        }
        self.spare.push(bytes);
        self.acknowledge(now);
        true
    }

    fn poll_timeout(&self) -> Timestamp {
        if self.outcome.is_some() {
            return Timestamp::NEVER;
        }
        if !self.begun {
            return Timestamp::ZERO;
        }
        let ends = self.sender.connection.poll_timeout().min(self.receiver.connection.poll_timeout());
        ends.min(self.deadline()).min(self.heard + self.patience)
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.begin(now);
        self.receiver.handle_timeout(now);
        self.acknowledge(now);
        self.sender.handle_timeout(now);
        if now >= self.deadline() {
            self.finish(self.deadline(), Outcome::Complete);
        } else if now >= self.heard + self.patience || self.sender.failed() {
            // Waiting for a path that is silent is not part of the measurement.
            let outcome = match (self.answered, self.returned) {
                (true, _) => Outcome::Silent,
                (false, true) => Outcome::Unreachable(Unreachable::Host),
                (false, false) => Outcome::NoAnswer,
            };
            self.finish(self.heard, outcome);
        }
    }

    fn stop(&mut self, now: Timestamp) {
        self.finish(now, Outcome::Stopped);
    }

    fn is_over(&self) -> bool {
        self.outcome.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use warpline_core::Rate;

    use super::*;

    /// A path with a rate, a round trip without load, and a queue, that loses each probe of `lost`.
    fn measure(mut test: SenderOnly, megabits: u64, queue: usize, lost: &[u64]) -> SenderOnly {
        let (rate, round_trip) = (Rate::from_bps(megabits * 1_000_000), TimeDelta::from_millis(20));
        let (mut now, mut free_at) = (Timestamp::ZERO, Timestamp::ZERO);
        let mut answers: VecDeque<(Timestamp, u64)> = VecDeque::new();
        while !test.is_over() {
            test.handle_timeout(now);
            while let Some(probe) = test.poll_transmit(now) {
                let waiting = answers.iter().filter(|&&(at, _)| at > now + round_trip).count();
                if waiting < queue && !lost.contains(&probe.number) {
                    free_at = free_at.max(now) + rate.time_for(probe.size.into());
                    answers.push_back((free_at + round_trip, probe.number));
                }
            }
            if test.is_over() {
                break;
            }
            let next = answers.front().map_or(Timestamp::NEVER, |&(at, _)| at).min(test.poll_timeout());
            now = now.max(next);
            if let Some((at, number)) = answers.pop_front_if(|&mut (at, _)| at <= now) {
                assert!(test.on_reply(at, number, ProbeReply::Echo));
                assert!(!test.on_reply(at, number, ProbeReply::Echo), "a copy of an answer does not count");
            }
        }
        test
    }

    fn test(options: CapOptions) -> SenderOnly {
        SenderOnly::new(options, TimeDelta::ZERO, false, TimeDelta::from_secs(5), false)
    }

    fn options(seconds: u64) -> CapOptions {
        CapOptions { duration: TimeDelta::from_secs(seconds), ..CapOptions::default() }
    }

    #[test]
    fn the_rate_of_the_path_is_measured() {
        let done = measure(test(options(5)), 12, 40, &[]);
        assert_eq!(done.outcome(), Some(Outcome::Complete));
        let report = done.report();
        let sender = report.sender.unwrap();
        assert_eq!(sender.elapsed_ns, 5_000_000_000);
        let megabits = sender.data_bytes as f64 * 8e-6 / 5.0;
        // Of the 12 Mbit/s, headers take 52 bytes in 1500.
        assert!((11.3..11.6).contains(&megabits), "{megabits} Mbit/s");
        assert!(sender.recoveries > 0, "{sender:?}");
        let receiver = report.receiver.unwrap();
        // The last window is still on its way.
        assert!(receiver.data_bytes.abs_diff(sender.data_bytes) < 150_000, "{receiver:?}");
        assert_eq!((receiver.acks_sent, receiver.delay_count), (0, 0));
    }

    #[test]
    fn a_lost_answer_is_a_lost_segment_that_is_sent_again() {
        let done = measure(test(options(2)), 12, 1000, &[30]);
        let report = done.report();
        let (sender, receiver) = (report.sender.unwrap(), report.receiver.unwrap());
        assert_eq!((sender.lost_segments, sender.retransmitted_segments, sender.recoveries), (1, 1, 1));
        assert_eq!((receiver.missing, receiver.duplicate_bytes), (1, 0));
    }

    #[test]
    fn a_path_that_never_answers_or_falls_silent_ends_the_test() {
        let mut never = test(options(60));
        let mut now = Timestamp::ZERO;
        while !never.is_over() {
            while never.poll_transmit(now).is_some() {}
            now = never.poll_timeout();
            never.handle_timeout(now);
        }
        assert_eq!((never.outcome(), now), (Some(Outcome::NoAnswer), Timestamp::from_secs(5)));

        // A router that sends it back has not delivered it.
        for kind in [ProbeReply::Unreachable, ProbeReply::TimeExceeded] {
            let mut returned = test(options(60));
            let probe = returned.poll_transmit(Timestamp::ZERO).unwrap();
            assert!(returned.on_reply(Timestamp::from_secs(1), probe.number, kind));
            returned.handle_timeout(Timestamp::from_secs(5));
            assert_eq!(returned.outcome(), Some(Outcome::Unreachable(Unreachable::Host)));
        }

        let silent: Vec<u64> = (500..1_000_000).collect();
        let done = measure(test(options(60)), 12, 1000, &silent);
        assert_eq!(done.outcome(), Some(Outcome::Silent));
        let sender = done.report().sender.unwrap();
        assert!(sender.elapsed_ns < 2_000_000_000, "waiting for a silent path is not measured: {sender:?}");
    }

    #[test]
    fn a_refused_probe_is_sent_again_and_is_no_loss() {
        let mut one = test(options(1));
        let probe = one.poll_transmit(Timestamp::ZERO).unwrap();
        assert_eq!(one.poll_transmit(Timestamp::ZERO), None);
        one.on_refused(probe.number);
        assert_eq!(
            one.poll_transmit(Timestamp::ZERO).map(|again| (again.number, again.size)),
            Some((probe.number, probe.size))
        );
        assert_eq!(one.refusals(), 1);
    }

    #[test]
    fn a_segment_that_is_too_large_ends_the_test() {
        let mut one = test(options(1));
        one.poll_transmit(Timestamp::ZERO);
        one.on_too_big(Timestamp::ZERO, 1500);
        assert_eq!(one.outcome(), None);
        one.on_too_big(Timestamp::ZERO, 1280);
        assert_eq!((one.outcome(), one.too_big()), (Some(Outcome::Stopped), Some(1280)));
    }

    #[test]
    fn over_ipv6_it_is_the_probe_on_the_wire_that_must_fit() {
        let begun = |options: CapOptions| {
            let mut one = SenderOnly::new(options, TimeDelta::ZERO, true, TimeDelta::from_secs(5), false);
            let (now, later) = (Timestamp::ZERO, Timestamp::from_millis(20));
            let first = one.poll_transmit(now).unwrap();
            assert!(one.on_reply(later, first.number, ProbeReply::Echo));
            let largest = std::iter::from_fn(|| one.poll_transmit(later)).map(|probe| probe.size).max();
            one.on_too_big(later, 1500);
            (largest, one.outcome(), one.too_big())
        };
        let mut fits = options(1);
        fits.set_packet(1500, true).unwrap();
        assert_eq!(begun(fits), (Some(1500), None, None));
        assert_eq!(begun(options(1)), (Some(1520), Some(Outcome::Stopped), Some(1500)));
    }
}
