//! What BBR does, step by step and on a bottleneck.

use super::super::testbed::{Bottleneck, MSS, config, event, sample};
use super::super::{Algorithm, CcConfig, Controller};
use super::*;

fn new(segments: u64) -> Bbr {
    Bbr::new(&BbrParams::default(), &config(segments))
}

const fn ms(millis: u64) -> TimeDelta {
    TimeDelta::from_millis(millis)
}

/// A path that carries 1 MB/s, a segment per millisecond, with an RTT of 100 ms: 100 segments fill it.
struct Path {
    bbr: Bbr,
    millis: u64,
    delivered: u64,
    /// Bytes delivered when what is acknowledged now was sent.
    prior: u64,
    rate: u64,
    rtt: u64,
    in_flight: u64,
    phase: Phase,
    app_limited: bool,
}

impl Path {
    fn new() -> Path {
        let mut bbr = new(10);
        bbr.on_established(Timestamp::from_millis(1000), ms(100), ms(100));
        let (millis, phase) = (1000, Phase::Open);
        Path {
            bbr,
            millis,
            delivered: 0,
            prior: 0,
            rate: 8_000_000,
            rtt: 100,
            in_flight: 100 * MSS,
            phase,
            app_limited: false,
        }
    }
    fn ack(&mut self, acked: u64) {
        self.delivered += acked;
        self.bbr.on_ack(&AckSample {
            rtt: Some(ms(self.rtt)),
            delivered: self.delivered,
            prior_delivered: self.prior,
            delivery_rate: Some(Rate::from_bps(self.rate)),
            app_limited: self.app_limited,
            in_flight: self.in_flight,
            prior_in_flight: self.in_flight + acked,
            phase: self.phase,
            ..sample(self.millis, acked)
        });
    }
    /// A round trip with an acknowledgement of a segment per millisecond; `watch` sees the state after each.
    fn round(&mut self, mut watch: impl FnMut(&Bbr)) {
        let begin = self.delivered;
        for _ in 0..100 {
            self.millis += 1;
            self.ack(MSS);
            watch(&self.bbr);
        }
        self.prior = begin + MSS;
    }
    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round(|_| ());
        }
    }
    /// A path whose pipe was found full.
    fn steady() -> Path {
        let mut path = Path::new();
        path.rounds(10);
        assert_eq!(path.bbr.mode, Mode::ProbeBw);
        path
    }
    fn lose(&mut self, bytes: u64) {
        let (now, sent_at) = (Timestamp::from_millis(self.millis), Timestamp::from_millis(self.millis - 150));
        let trigger = LossTrigger::Rack;
        self.bbr.on_lost(&LostSegment {
            now,
            bytes,
            sent_at,
            delivered: self.prior,
            app_limited: false,
            trigger,
        });
    }
}

#[test]
fn the_first_rate_is_of_the_handshake_and_nominal_without_it() {
    let mut bbr = new(10);
    // 10 kB per millisecond, times 2.885, less a hundredth.
    assert!((bbr.pacing / 28_561_500.0 - 1.0).abs() < 1e-9, "{}", bbr.pacing);
    bbr.on_established(Timestamp::from_millis(40), ms(40), ms(40));
    assert_eq!(bbr.pacing_rate(), Some(Rate::from_bps(5_712_300)));
    assert_eq!(bbr.min_rtt(), ms(40));
    // Without a sample of the handshake, the first acknowledgement brings it.
    let mut bbr = new(10);
    bbr.on_established(Timestamp::from_millis(40), TimeDelta::ZERO, TimeDelta::ZERO);
    bbr.on_ack(&sample(50, 1000));
    assert!(bbr.pacing < 3e5, "{}", bbr.pacing);
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drains() {
    let mut path = Path::new();
    // A round trip at half the rate, one at the whole, three more: full.
    path.rate = 4_000_000;
    path.rounds(1);
    path.rate = 8_000_000;
    path.in_flight = 250 * MSS;
    let mut rounds = 0;
    while path.bbr.mode == Mode::Startup {
        assert_eq!(path.bbr.pacing_gain, 2.885);
        path.rounds(1);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!(rounds, 4, "it grew in the first of them");
    assert_eq!(path.bbr.mode, Mode::Drain);
    assert!((path.bbr.pacing - 1e6 / 2.885 * 0.99).abs() < 1.0);
    // 100 segments, and three bursts of two.
    assert_eq!(path.bbr.ssthresh(), 106 * MSS);
    path.in_flight = 106 * MSS;
    path.ack(MSS);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
}

#[test]
fn an_application_without_data_does_not_end_startup() {
    let mut path = Path::new();
    path.app_limited = true;
    path.rounds(20);
    assert_eq!(path.bbr.mode, Mode::Startup);
    // Of such samples only those count that raise the bandwidth.
    assert_eq!(path.bbr.bandwidth(), 1e6);
    path.rate /= 2;
    path.rounds(20);
    assert_eq!(path.bbr.bandwidth(), 1e6);
}

#[test]
fn the_cycle_probes_drains_and_cruises_by_the_smallest_rtt() {
    let mut path = Path::steady();
    // More in flight than a probe wants: only time counts.
    path.in_flight = 150 * MSS;
    let (mut gains, mut lengths) = (vec![], vec![]);
    for _ in 0..20 {
        path.round(|bbr| {
            if gains.last() != Some(&bbr.pacing_gain) {
                gains.push(bbr.pacing_gain);
                lengths.push(0);
            }
            *lengths.last_mut().unwrap() += 1;
        });
    }
    let probe = gains.iter().position(|&gain| gain == 1.25).unwrap();
    assert_eq!(gains[probe..probe + 6], [1.25, 0.75, 1.0, 1.25, 0.75, 1.0]);
    assert_eq!(lengths[probe + 1..probe + 4], [101, 606, 101], "a phase lasts longer than the RTT");
}

#[test]
fn a_probe_waits_for_what_it_wants_in_flight_or_a_loss_and_draining_for_an_empty_queue() {
    for lost in [false, true] {
        let mut path = Path::steady();
        while path.bbr.phase != 0 {
            path.rounds(1);
        }
        path.in_flight = 110 * MSS;
        path.rounds(5);
        assert_eq!(path.bbr.phase, 0, "125 segments are not in flight");
        if lost {
            path.lose(MSS);
        } else {
            path.in_flight = 135 * MSS;
        }
        path.millis += 1;
        path.ack(MSS);
        assert_eq!(path.bbr.phase, 1);
        path.in_flight = 105 * MSS;
        path.millis += 1;
        path.ack(MSS);
        assert_eq!(path.bbr.phase, 2, "the queue is empty");
    }
}

#[test]
fn the_first_phase_is_random_and_never_the_one_that_drains() {
    let mut seen = [0; 8];
    for seed in 0..200 {
        let mut bbr = Bbr::new(&BbrParams::default(), &CcConfig { seed, ..config(10) });
        bbr.enter_probe_bw(Timestamp::ZERO);
        seen[bbr.phase] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!(seen.iter().enumerate().all(|(phase, &count)| phase == 1 || count > 10), "{seen:?}");
}

#[test]
fn the_window_is_twice_the_product_and_room_for_bursts() {
    let mut path = Path::steady();
    path.rounds(20);
    let probe = if path.bbr.phase == 0 { 2 } else { 0 };
    // A segment per acknowledgement is an excess of one.
    assert_eq!(path.bbr.cwnd(), (200 + 6 + 2 + probe) * MSS);
    // 64 times as fast: bursts of a millisecond are of 64 segments, and 65 kB the most.
    path.bbr.pacing = 64e6;
    assert_eq!(path.bbr.inflight(64e6, 1.0), (6400 + 3 * 64 + probe) * MSS);
    path.bbr.pacing = 1e9;
    assert_eq!(path.bbr.inflight(64e6, 1.0), (6400 + 3 * 65 + 1 + probe) * MSS);
    path.bbr.pacing = 1e5;
    assert_eq!(path.bbr.inflight(1e5, 1.0), (10 + 3 + 1 + probe) * MSS);
}

#[test]
fn probe_rtt_has_four_segments_in_flight_for_200_ms_and_a_round() {
    let mut path = Path::steady();
    let before = path.bbr.cwnd();
    path.rtt = 150;
    let mut entered = None;
    for _ in 0..120 {
        if path.bbr.mode != Mode::ProbeRtt {
            path.round(|_| ());
            entered = Some(path.millis);
        }
    }
    // The first RTT of 100 ms came with the first round, at 1.1 s; equal ones change nothing.
    assert!((11_100..=11_200).contains(&entered.unwrap()), "{entered:?}");
    assert!(path.bbr.holds_back());
    assert_eq!((path.bbr.cwnd(), path.bbr.pacing_gain), (4 * MSS, 1.0));
    path.rounds(5);
    assert_eq!(path.bbr.mode, Mode::ProbeRtt, "more than four segments are still in flight");
    (path.in_flight, path.rtt) = (4 * MSS, 100);
    path.rounds(2);
    assert_eq!(path.bbr.mode, Mode::ProbeRtt);
    path.rounds(1);
    assert_eq!((path.bbr.mode, path.bbr.min_rtt()), (Mode::ProbeBw, ms(100)));
    // A probe has two segments more.
    assert!(path.bbr.cwnd() + 2 * MSS >= before, "{} of {before}", path.bbr.cwnd());
    assert!(!path.bbr.holds_back());
}

#[test]
fn a_smaller_rtt_puts_off_probe_rtt_and_an_equal_one_does_not() {
    for (step, mode) in [(1, Mode::ProbeBw), (0, Mode::ProbeRtt)] {
        let mut path = Path::steady();
        for turn in 1..=4 {
            path.rtt = 100 - step * turn;
            path.rounds(1);
            assert_eq!(path.bbr.min_rtt(), ms(path.rtt));
            path.rtt = 150;
            path.rounds(30);
        }
        assert_eq!(path.bbr.mode, mode, "{step} ms less each time");
    }
}

#[test]
fn recovery_conserves_packets_for_a_round_and_then_grows_and_the_end_restores() {
    let mut path = Path::steady();
    let before = path.bbr.cwnd();
    path.bbr.on_congestion_event(&event(path.millis, 0));
    assert_eq!(path.bbr.cwnd(), before, "a loss reduces nothing");
    path.lose(10 * MSS);
    (path.phase, path.in_flight) = (Phase::Recovery, 80 * MSS);
    path.millis += 1;
    // What was sent before the recovery is acknowledged in its first round.
    path.prior = path.delivered - 50 * MSS;
    path.ack(MSS);
    assert_eq!(path.bbr.cwnd(), 81 * MSS);
    path.in_flight = 60 * MSS;
    path.ack(2 * MSS);
    assert_eq!(path.bbr.cwnd(), 81 * MSS, "never less than what is in flight and arrives, nor more");
    path.prior = path.delivered;
    path.ack(2 * MSS);
    assert_eq!(path.bbr.cwnd(), 83 * MSS, "after a round trip it grows");
    path.lose(MSS);
    path.ack(2 * MSS);
    assert_eq!(path.bbr.cwnd(), 84 * MSS, "and what is lost is taken off");
    path.phase = Phase::Open;
    path.ack(MSS);
    assert!(path.bbr.cwnd() >= before, "{} of {before}", path.bbr.cwnd());
    assert_eq!(path.bbr.bandwidth(), 1e6);
}

#[test]
fn a_time_out_leaves_a_segment_and_the_window_comes_back() {
    let mut path = Path::steady();
    let before = path.bbr.cwnd();
    path.bbr.on_rto(&event(path.millis, 0));
    assert_eq!(path.bbr.cwnd(), MSS);
    assert_eq!(path.bbr.pacing_rate(), Some(Rate::from_bps((8.0 * path.bbr.pacing) as u64)));
    path.phase = Phase::Loss;
    path.ack(MSS);
    assert_eq!(path.bbr.cwnd(), 4 * MSS);
    path.phase = Phase::Open;
    path.ack(MSS);
    assert!(path.bbr.cwnd() >= before);
}

#[test]
fn undo_looks_for_a_full_pipe_anew() {
    let mut path = Path::new();
    path.rounds(3);
    assert!(path.bbr.full_rounds > 0);
    path.bbr.on_rto(&event(path.millis, 0));
    path.bbr.undo(Timestamp::from_millis(path.millis));
    assert_eq!((path.bbr.full_bandwidth, path.bbr.full_rounds), (0.0, 0));
}

#[test]
fn after_a_pause_it_paces_at_the_bandwidth_and_needs_no_probe_rtt() {
    let mut path = Path::steady();
    while path.bbr.phase != 0 {
        path.rounds(1);
    }
    path.millis += 20_000;
    let now = Timestamp::from_millis(path.millis);
    path.bbr.on_restart(now, false);
    assert!(
        (path.bbr.pacing - 1.2375e6).abs() < 1.0,
        "a pause that was not the application's changes nothing"
    );
    path.bbr.on_restart(now, true);
    assert!((path.bbr.pacing - 0.99e6).abs() < 1.0);
    path.ack(MSS);
    assert_eq!(path.bbr.mode, Mode::ProbeBw);
}

#[test]
fn a_policer_is_found_and_kept_to() {
    for found in [true, false] {
        let mut path = Path::steady();
        path.bbr.params.policers = found;
        // The path delivers a third of what it did before: one of three is lost.
        for _ in 0..12 {
            path.lose(30 * MSS);
            path.rounds(1);
        }
        // The samples of the burst would count for ten round trips.
        path.bbr.bandwidth.take(10, path.bbr.rounds, 3e6);
        let expected = if found { 1e6 } else { 3e6 };
        assert!((path.bbr.bandwidth() / expected - 1.0).abs() < 0.05, "{}", path.bbr.bandwidth());
        path.rounds(3);
        if found {
            assert_eq!(path.bbr.pacing_gain, 1.0);
        }
    }
}

fn flows(count: u64) -> Vec<Controller> {
    let of = |seed| Algorithm::Bbr(BbrParams::default()).build(&CcConfig { seed, ..config(10) });
    (0..count).map(of).collect()
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn alone_it_fills_the_path_and_not_the_queue() {
    // 50 packets fill the path; the queue is as long as ten of it.
    let outcome = Bottleneck::new(flows(1), 1000, 50, 500).measure(5, 65);
    assert!(outcome.shares[0] > 0.96, "{}", outcome.shares[0]);
    assert!(outcome.queue < 15.0, "{}", outcome.queue);
    assert_eq!(outcome.losses[0], 0);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn losses_that_are_not_congestion_cost_nothing_but_themselves() {
    let mut link = Bottleneck::new(flows(1), 1000, 50, 50);
    link.lose_every = 50;
    let outcome = link.measure(5, 65);
    // One packet in 50 is lost, and every ten seconds PROBE_RTT takes a quarter of a second, and the time in which recovery fills the path again.
    assert!(outcome.shares[0] > 0.86, "{}", outcome.shares[0]);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn two_share_in_the_long_run() {
    let mut link = Bottleneck::new(flows(2), 1000, 50, 500);
    link.stagger(TimeDelta::from_secs(3));
    let outcome = link.measure(60, 240);
    let (a, b) = (outcome.shares[0], outcome.shares[1]);
    assert!(a + b > 0.95, "{a} and {b}");
    assert!(a.max(b) / a.min(b) < 1.5, "{a} and {b}");
}
