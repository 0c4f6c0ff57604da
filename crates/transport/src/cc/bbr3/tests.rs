//! What BBR 3 does, step by step and on a bottleneck.

use warpline_core::record::LossTrigger;

use super::super::testbed::{Bottleneck, MSS, config, event, sample};
use super::super::{Algorithm, CcConfig, Controller};
use super::*;

const fn ms(millis: u64) -> TimeDelta {
    TimeDelta::from_millis(millis)
}

/// A path that carries 1 MB/s, a segment per millisecond, with an RTT of 100 ms: 100 segments fill it.
struct Path {
    bbr: Bbr3,
    millis: u64,
    delivered: u64,
    /// Bytes delivered when what is acknowledged now was sent.
    prior: u64,
    rate: u64,
    rtt: u64,
    in_flight: u64,
    phase: Phase,
    app_limited: bool,
    /// It has what it wants in flight in PROBE_RTT.
    obeys: bool,
    /// It uses up its window.
    fills: bool,
}

impl Path {
    fn new() -> Path {
        let mut bbr = Bbr3::new(&Bbr3Params::default(), &config(10));
        bbr.on_established(Timestamp::from_millis(1000), ms(100), ms(100));
        Path {
            bbr,
            millis: 1000,
            delivered: 0,
            prior: 0,
            rate: 8_000_000,
            rtt: 100,
            in_flight: 100 * MSS,
            phase: Phase::Open,
            app_limited: false,
            obeys: true,
            fills: false,
        }
    }
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis)
    }
    /// An acknowledgement of something sent an RTT ago; something is sent for it.
    fn ack(&mut self, acked: u64) {
        self.delivered += acked;
        let now = self.now();
        let probes = self.fills || self.obeys && self.bbr.state == State::ProbeRtt;
        let in_flight = if probes { self.bbr.cwnd() } else { self.in_flight };
        self.bbr.on_ack(&AckSample {
            rtt: Some(ms(self.rtt)),
            delivered: self.delivered,
            prior_delivered: self.prior,
            delivery_rate: Some(Rate::from_bps(self.rate)),
            app_limited: self.app_limited,
            sent_at: now.saturating_sub(ms(self.rtt)),
            in_flight,
            prior_in_flight: in_flight + acked,
            phase: self.phase,
            ..sample(self.millis, acked)
        });
        self.bbr.on_sent(now, MSS, in_flight);
    }
    /// A round trip with an acknowledgement of a segment per millisecond, until `done`. Returns whether it came to that.
    fn round_until(&mut self, mut done: impl FnMut(&Bbr3) -> bool) -> bool {
        for _ in 0..100 {
            self.millis += 1;
            self.prior = self.delivered.saturating_sub(99 * MSS);
            self.ack(MSS);
            if done(&self.bbr) {
                return true;
            }
        }
        false
    }
    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round_until(|_| false);
        }
    }
    fn until(&mut self, state: State) {
        for _ in 0..100 {
            if self.round_until(|bbr| bbr.state == state) {
                return;
            }
        }
        panic!("never in {state:?}, but in {:?}", self.bbr.state);
    }
    /// A segment that was sent `ago` milliseconds before is lost.
    fn lose(&mut self, bytes: u64, ago: u64) {
        self.bbr.on_lost(&LostSegment {
            now: self.now(),
            bytes,
            sent_at: self.now().saturating_sub(ms(ago)),
            delivered: self.prior,
            app_limited: self.app_limited,
            trigger: LossTrigger::Rack,
        });
    }
}

#[test]
fn the_states_follow_each_other_with_their_gains() {
    let mut path = Path::new();
    path.in_flight = 250 * MSS;
    let mut seen = vec![];
    let note = |seen: &mut Vec<(State, f64)>, bbr: &Bbr3| {
        let next = (bbr.state, (bbr.pacing / 1e6 / 0.99 * 100.0).round() / 100.0);
        if seen.last() != Some(&next) {
            seen.push(next);
        }
    };
    for round in 0..80 {
        if round == 7 {
            // The queue is empty.
            path.in_flight = 100 * MSS;
        }
        path.round_until(|bbr| {
            note(&mut seen, bbr);
            false
        });
    }
    let states: Vec<State> = seen.iter().map(|&(state, _)| state).collect();
    let order = [
        State::Startup,
        State::Drain,
        // There is room, so DOWN is over at once.
        State::Cruise,
        State::Refill,
        State::Up,
        State::Down,
        State::Cruise,
    ];
    assert_eq!(states[..7], order, "{seen:?}");
    let gains: Vec<f64> = seen[..7].iter().map(|&(_, gain)| gain).collect();
    assert_eq!(gains[1..], [0.5, 1.0, 1.0, 1.25, 0.9, 1.0]);
}

#[test]
fn draining_ends_after_three_round_trips_though_the_queue_is_not_empty() {
    let mut path = Path::new();
    path.in_flight = 250 * MSS;
    path.until(State::Drain);
    let began = path.bbr.rounds;
    path.until(State::Down);
    assert_eq!(path.bbr.rounds - began, 4, "more than three have ended");
}

#[test]
fn a_probe_comes_after_two_to_three_seconds_or_as_many_rounds_as_reno_needs() {
    // 100 segments at 100 ms: 2 to 3 s are 20 to 30 round trips, fewer than 63.
    let mut path = Path::new();
    path.until(State::Cruise);
    let mut waits = vec![];
    for _ in 0..10 {
        path.until(State::Refill);
        waits.push(path.now().saturating_since(path.bbr.cycle_began).as_millis());
        path.until(State::Down);
    }
    assert!(waits.iter().all(|wait| (2000..=3101).contains(wait)), "{waits:?}");
    assert!(waits.iter().max().unwrap() - waits.iter().min().unwrap() > 200, "at random: {waits:?}");
    // Ten segments: ten round trips, less one at most.
    let mut path = Path::new();
    path.rate = 800_000;
    path.in_flight = 10 * MSS;
    path.until(State::Cruise);
    let began = path.bbr.rounds;
    path.until(State::Refill);
    assert!((8..=11).contains(&(path.bbr.rounds - began)), "{}", path.bbr.rounds - began);
}

#[test]
fn startup_ends_when_a_round_of_recovery_loses_too_much_in_several_places() {
    for (losses, share, over) in [(7, 3, true), (4, 10, false), (7, 0, false)] {
        let mut path = Path::new();
        path.rounds(2);
        path.bbr.on_congestion_event(&event(path.millis, 0));
        path.phase = Phase::Recovery;
        path.prior = path.delivered - 50 * MSS;
        for _ in 0..losses {
            path.millis += 1;
            path.lose(share * MSS + 1, 50);
            path.ack(MSS);
        }
        // The round trip since the first loss is over; the bandwidth goes on growing.
        path.prior = path.delivered;
        path.rate *= 2;
        path.ack(MSS);
        assert_eq!(path.bbr.state != State::Startup, over, "{losses} of {share}");
        assert_eq!(path.bbr.inflight_longterm != UNBOUNDED, over);
        if over {
            path.bbr.undo(path.now());
            assert_eq!((path.bbr.state, path.bbr.full), (State::Startup, false), "the losses were none");
            assert_eq!(path.bbr.inflight_longterm, UNBOUNDED);
        }
    }
}

#[test]
fn too_much_loss_in_a_probe_ends_it_and_bounds_what_is_in_flight() {
    let mut path = Path::new();
    path.until(State::Up);
    path.in_flight = 125 * MSS;
    path.round_until(|_| false);
    // 2 % of 125 are 2.5 segments: the third is too much, by half of it.
    for lost in 1..=3 {
        assert_eq!(path.bbr.state, State::Up, "{lost}");
        path.lose(MSS, 20);
    }
    assert_eq!(path.bbr.state, State::Down);
    // 124 before it, and the part of it at which two and that part are 2 % of 124 and that part.
    let crossed = 124.0 + (0.02 * 124.0 - 2.0) / 0.98;
    let bound = path.bbr.inflight_longterm as f64 / MSS as f64;
    assert!((bound - crossed).abs() < 0.01, "{bound} and {crossed}");
    // Once per probe.
    path.lose(50 * MSS, 20);
    assert_eq!(path.bbr.inflight_longterm as f64 / MSS as f64, bound);
    // Nothing was lost after all: the pipe is filled, and probed again.
    path.bbr.undo(path.now());
    assert_eq!((path.bbr.state, path.bbr.inflight_longterm), (State::Refill, UNBOUNDED));
}

#[test]
fn a_bound_is_not_below_beta_of_the_product_and_leaves_headroom() {
    let mut path = Path::new();
    path.until(State::Up);
    path.in_flight = 30 * MSS;
    path.round_until(|_| false);
    path.lose(2 * MSS, 20);
    assert_eq!(path.bbr.inflight_longterm, 70 * MSS);
    path.in_flight = 65 * MSS;
    // 15 % of it are left free, in DOWN by what is in flight and in CRUISE by the window.
    path.rounds(1);
    assert_eq!(path.bbr.state, State::Down);
    path.in_flight = 59 * MSS;
    path.rounds(1);
    assert_eq!(path.bbr.state, State::Cruise);
    path.rounds(2);
    assert_eq!(path.bbr.cwnd(), 70 * MSS * 85 / 100);
    // The safe volume raises it again: an acknowledgement of what was sent with 90 segments in flight.
    path.in_flight = 90 * MSS;
    path.rounds(3);
    assert_eq!(path.bbr.inflight_longterm, 90 * MSS);
}

#[test]
fn a_probe_within_its_bound_raises_it_faster_each_round() {
    let mut path = Path::new();
    path.until(State::Up);
    (path.bbr.inflight_longterm, path.bbr.cwnd) = (110 * MSS, 110 * MSS);
    path.bbr.up_rounds = 0;
    path.bbr.steepen();
    path.fills = true;
    let mut bounds = vec![110];
    for _ in 0..5 {
        path.round_until(|_| false);
        bounds.push(path.bbr.inflight_longterm / MSS);
        assert_eq!(path.bbr.state, State::Up, "it is not the path that holds it back");
    }
    let growth: Vec<u64> = bounds.windows(2).map(|two| two[1] - two[0]).collect();
    // By 1, 2, 4, 8 and 16 segments a window of 110 segments and more.
    assert!(growth.is_sorted() && (120..=141).contains(&bounds[5]), "{bounds:?}");
}

#[test]
fn losses_between_probes_lower_the_short_term_bounds_and_the_next_probe_lifts_them() {
    let mut path = Path::new();
    path.until(State::Cruise);
    let cwnd = path.bbr.cwnd();
    path.lose(MSS, 50);
    assert_eq!(path.bbr.cwnd(), cwnd, "not before the round trip ends");
    path.rounds(2);
    assert_eq!(path.bbr.bandwidth(), 1e6, "it delivers as before");
    let bound = path.bbr.inflight_shortterm;
    assert!((140 * MSS..=142 * MSS).contains(&bound), "{bound}: of twice the product, and a segment");
    assert_eq!(path.bbr.cwnd(), bound);
    // The path delivers less than beta of what it did.
    path.rate = 4_000_000;
    path.rounds(1);
    path.lose(MSS, 50);
    path.rounds(2);
    assert!((path.bbr.bandwidth() - 0.7e6).abs() < 1.0, "{}", path.bbr.bandwidth());
    path.rounds(5);
    assert!((path.bbr.bandwidth() - 0.7e6).abs() < 1.0, "without losses it stays");
    path.until(State::Refill);
    assert_eq!(path.bbr.bandwidth(), 1e6);
}

#[test]
fn the_bandwidth_is_of_this_cycle_of_probing_and_the_last() {
    let mut path = Path::new();
    path.until(State::Cruise);
    path.bbr.params.probe_rtt_interval = TimeDelta::from_secs(1000);
    path.until(State::Up);
    path.until(State::Cruise);
    path.rate = 4_000_000;
    path.until(State::Up);
    assert_eq!(path.bbr.bandwidth(), 1e6, "of the last cycle");
    path.until(State::Cruise);
    path.rounds(1);
    assert_eq!(path.bbr.bandwidth(), 0.5e6);
}

#[test]
fn probe_rtt_comes_every_five_seconds_with_half_in_flight() {
    let mut path = Path::new();
    path.until(State::Cruise);
    path.rtt = 150;
    path.obeys = false;
    path.rounds(1);
    let last = path.bbr.probe_rtt_min_at;
    let before = path.bbr.cwnd();
    path.until(State::ProbeRtt);
    assert_eq!(path.now().saturating_since(last).as_millis(), 5001);
    assert_eq!(
        (path.bbr.cwnd(), path.bbr.min_rtt()),
        (50 * MSS, ms(100)),
        "the smallest RTT is ten seconds old at most"
    );
    assert!(path.bbr.holds_back());
    path.rounds(4);
    assert_eq!(path.bbr.state, State::ProbeRtt, "more is still in flight");
    (path.in_flight, path.rtt) = (50 * MSS, 100);
    path.rounds(2);
    assert_eq!(path.bbr.state, State::ProbeRtt);
    path.rounds(1);
    assert_eq!(path.bbr.state, State::Cruise);
    assert!(path.bbr.cwnd() + MSS >= before.min(200 * MSS), "{} of {before}", path.bbr.cwnd());
}

#[test]
fn a_time_out_leaves_a_segment_and_the_window_comes_back() {
    let mut path = Path::new();
    path.until(State::Cruise);
    path.bbr.on_rto(&event(path.millis, 0));
    assert_eq!(path.bbr.cwnd(), MSS);
    path.phase = Phase::Loss;
    path.ack(MSS);
    assert_eq!(path.bbr.cwnd(), 4 * MSS);
    path.phase = Phase::Open;
    path.ack(MSS);
    assert!(path.bbr.cwnd() >= 100 * MSS, "{}", path.bbr.cwnd());
}

#[test]
fn after_a_pause_it_paces_at_the_bandwidth() {
    let mut path = Path::new();
    path.until(State::Up);
    path.bbr.on_restart(path.now(), false);
    assert!((path.bbr.pacing - 1.2375e6).abs() < 1.0);
    path.millis += 20_000;
    path.bbr.on_restart(path.now(), true);
    assert!((path.bbr.pacing - 0.99e6).abs() < 1.0);
    path.ack(MSS);
    assert_ne!(path.bbr.state, State::ProbeRtt);
}

fn flows(count: u64) -> Vec<Controller> {
    let of = |seed| Algorithm::Bbr3(Bbr3Params::default()).build(&CcConfig { seed, ..config(10) });
    (0..count).map(of).collect()
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn alone_it_fills_the_path_and_not_the_queue() {
    let outcome = Bottleneck::new(flows(1), 1000, 50, 500).measure(5, 65);
    assert!(outcome.shares[0] > 0.96, "{}", outcome.shares[0]);
    assert!(outcome.queue < 10.0, "{}", outcome.queue);
    assert_eq!(outcome.losses[0], 0);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn losses_below_the_threshold_cost_little() {
    let mut link = Bottleneck::new(flows(1), 1000, 50, 50);
    // Reno has a quarter of it. Here CRUISE loses a little in each round trip with a loss, and the next probe finds it again.
    link.lose_every = 100;
    let outcome = link.measure(5, 65);
    assert!(outcome.shares[0] > 0.75, "{}", outcome.shares[0]);
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
