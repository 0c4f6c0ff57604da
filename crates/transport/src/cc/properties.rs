//! Properties that hold for every algorithm under any sequence of calls.

use proptest::prelude::*;
use warpline_core::record::LossTrigger;
use warpline_core::{Rate, TimeDelta, Timestamp};

use super::*;

/// A call of the interface, with numbers of any size.
#[derive(Clone, Debug)]
enum Call {
    Sent(u64),
    Ack {
        acked: u64,
        rtt: Option<u64>,
        delay: Option<u64>,
        limited: bool,
        phase: Phase,
        round: bool,
        marked: bool,
    },
    Event(LossTrigger),
    Rto,
    Exit,
    Undo,
    Idle {
        idle: u64,
        rto: u64,
    },
}

/// Mostly plausible values up to `plausible`, sometimes zero or as large as can be.
fn number(plausible: u64) -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..=plausible, 1 => Just(0), 1 => 0..=1u64 << 50]
}

fn call() -> impl Strategy<Value = Call> {
    let phase = prop_oneof![
        6 => Just(Phase::Open),
        1 => Just(Phase::Disorder),
        1 => Just(Phase::Cwr),
        1 => Just(Phase::Recovery),
        1 => Just(Phase::Loss),
    ];
    let trigger = prop_oneof![Just(LossTrigger::DupAcks), Just(LossTrigger::Rack), Just(LossTrigger::Ecn)];
    let rtt = || proptest::option::weighted(0.9, number(300_000_000));
    prop_oneof![
        2 => number(100_000).prop_map(Call::Sent),
        30 => (number(30_000), rtt(), rtt(), prop::bool::weighted(0.9), phase, prop::bool::weighted(0.2), prop::bool::weighted(0.1))
            .prop_map(|(acked, rtt, delay, limited, phase, round, marked)| {
                Call::Ack { acked, rtt, delay, limited, phase, round, marked }
            }),
        2 => trigger.prop_map(Call::Event),
        1 => Just(Call::Rto),
        1 => Just(Call::Exit),
        1 => Just(Call::Undo),
        1 => (number(10_000_000_000), number(1_000_000_000)).prop_map(|(idle, rto)| Call::Idle { idle, rto }),
    ]
}

/// Every algorithm with its defaults, and the variants that change the code taken.
fn algorithms() -> Vec<Algorithm> {
    let mut all = Algorithm::all();
    let acks = SlowStartParams { counting: AckCounting::Acks, limit: 2, hystart: Hystart::Rfc9406 };
    all.push(Algorithm::Reno(RenoParams {
        slow_start: acks,
        reduce_from: ReduceFrom::Flight,
        ..RenoParams::default()
    }));
    all.push(Algorithm::Cubic(CubicParams {
        reno_friendly: false,
        slow_start: SlowStartParams::default(),
        ..CubicParams::default()
    }));
    all.push(Algorithm::Vegas(VegasParams {
        alternate_slow_start: true,
        min_samples: 1,
        ..VegasParams::default()
    }));
    all.push(Algorithm::Nice(NiceParams { floor: 1.0, ..NiceParams::default() }));
    all.push(Algorithm::Lp(LpParams { variant: LpVariant::Linux, ..LpParams::default() }));
    all.push(Algorithm::Ledbat(LedbatParams { slow_start: true, ..LedbatParams::default() }));
    all
}

/// Smallest window and threshold that `algorithm` may have, in bytes.
fn floors(algorithm: &Algorithm, mss: u64) -> (u64, u64) {
    match algorithm {
        Algorithm::Nice(params) => {
            let floor = ((params.floor * mss as f64).ceil() as u64).max(1);
            (floor, floor)
        }
        Algorithm::Fixed(params) => {
            let window = (params.segments * mss as f64) as u64;
            (window, window)
        }
        _ => (mss, 2 * mss),
    }
}

/// Makes the calls; checks each and returns the windows after each. `rates`: acknowledgements bring delivery rates.
fn drive(
    algorithm: &Algorithm,
    config: &CcConfig,
    calls: &[Call],
    rates: bool,
) -> Result<Vec<(u64, u64)>, TestCaseError> {
    let mss = config.mss;
    let mut cc = algorithm.build(config);
    let fixed = matches!(algorithm, Algorithm::Fixed(_));
    let (floor, ssthresh_floor) = floors(algorithm, mss);
    let (mut now, mut delivered, mut round) = (0u64, 0u64, 0u64);
    let mut former: Option<u64> = None;
    let mut windows = vec![];
    for (step, call) in calls.iter().enumerate() {
        let before = cc.cwnd();
        now = now.saturating_add(777_777);
        let at = Timestamp::from_nanos(now);
        let event = |trigger| CongestionEvent {
            now: at,
            trigger,
            in_flight: before / 2,
            mss,
            min_rtt: TimeDelta::from_millis(10),
            srtt: TimeDelta::from_millis(20),
        };
        match *call {
            Call::Sent(bytes) => cc.on_sent(at, bytes, before),
            Call::Ack { acked, rtt, delay, limited, phase, round: ends, marked } => {
                let prior_delivered = if ends { delivered } else { round };
                round = prior_delivered;
                delivered = delivered.saturating_add(acked);
                let rtt = rtt.map(TimeDelta::from_nanos);
                cc.on_ack(&AckSample {
                    now: at,
                    acked,
                    mss,
                    rtt,
                    srtt: rtt.unwrap_or_default(),
                    min_rtt: rtt.unwrap_or_default() / 2,
                    one_way_delay: delay.map(TimeDelta::from_nanos),
                    delivery_rate: rates.then(|| Rate::from_bps(acked)),
                    delivered,
                    prior_delivered,
                    prior_in_flight: before.max(acked),
                    in_flight: before.saturating_sub(acked),
                    next_seq: delivered.saturating_add(before),
                    ack: delivered,
                    ce: if marked { acked } else { 0 },
                    cwnd_limited: limited,
                    phase,
                });
                // That marks do not hold growth up is what L4S is about.
                let held = phase == Phase::Recovery || phase == Phase::Cwr && cc.ecn_need() != EcnNeed::L4s;
                if !limited || held {
                    prop_assert!(cc.cwnd() <= before, "step {step}: grew to {} in {phase:?}", cc.cwnd());
                }
            }
            Call::Event(trigger) => {
                cc.on_congestion_event(&event(trigger));
                prop_assert!(cc.cwnd() <= before, "step {step}: an event raised the window");
                former = Some(before);
            }
            Call::Rto => {
                cc.on_rto(&event(LossTrigger::Rto));
                prop_assert!(fixed || cc.cwnd() <= before.min(mss.max(floor)), "step {step}");
                former = Some(before);
            }
            Call::Exit => {
                cc.on_recovery_exit(at);
                // Westwood takes what it has measured then, which may be more.
                prop_assert!(cc.cwnd() <= before || cc.name() == "westwood", "step {step}");
            }
            Call::Undo => {
                cc.undo(at);
                match former.take() {
                    Some(former) => {
                        prop_assert!(cc.cwnd() >= former, "step {step}: {} < {former}", cc.cwnd())
                    }
                    None => prop_assert_eq!(cc.cwnd(), before, "nothing to undo at step {}", step),
                }
            }
            Call::Idle { idle, rto } => {
                now = now.saturating_add(idle);
                cc.on_idle(
                    Timestamp::from_nanos(now),
                    TimeDelta::from_nanos(idle),
                    TimeDelta::from_nanos(rto),
                );
                prop_assert!(cc.cwnd() <= before, "step {step}: idle time raised the window");
            }
        }
        prop_assert!(
            (floor..=MAX_WINDOW).contains(&cc.cwnd()),
            "step {step} {call:?}: window {} outside {floor}..",
            cc.cwnd()
        );
        prop_assert!(cc.ssthresh() >= ssthresh_floor, "step {step} {call:?}: ssthresh {}", cc.ssthresh());
        windows.push((cc.cwnd(), cc.ssthresh()));
    }
    Ok(windows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn windows_stay_within_bounds_and_calls_decide_alone(
        calls in prop::collection::vec(call(), 1..300),
        mss in prop_oneof![Just(1u64), Just(536), Just(1448), 1u64..=65_535],
        initial in prop_oneof![4 => 1u64..=20, 1 => 1u64..=1 << 34],
        ssthresh in prop_oneof![Just(u64::MAX), number(1_000_000)],
    ) {
        let config = CcConfig { mss, initial_window: initial * mss, initial_ssthresh: ssthresh };
        for algorithm in algorithms() {
            let once = drive(&algorithm, &config, &calls, true)
                .map_err(|error| TestCaseError::fail(format!("{algorithm:?}: {error}")))?;
            // Without the rates if it does not read them.
            let rates = algorithm.build(&config).reads_delivery_rate();
            let again = drive(&algorithm, &config, &calls, rates)?;
            prop_assert_eq!(once, again, "{:?} is not deterministic, or reads rates and does not say so", algorithm);
        }
    }

    #[test]
    fn no_parameters_make_it_panic(
        numbers in prop::collection::vec(prop_oneof![any::<f64>(), Just(f64::NAN), -2.0..2.0f64], 8),
        count in prop_oneof![Just(0u32), Just(u32::MAX), 0u32..100],
        calls in prop::collection::vec(call(), 1..60),
    ) {
        let n = |i: usize| numbers[i];
        let target = TimeDelta::from_nanos(u64::from(count));
        let slow_start = SlowStartParams { limit: count, ..SlowStartParams::default() };
        let config = CcConfig { mss: 1448, initial_window: 0, initial_ssthresh: 0 };
        for algorithm in [
            Algorithm::Reno(RenoParams { slow_start, beta: n(0), beta_ecn: n(1), reduce_from: ReduceFrom::Flight }),
            Algorithm::Cubic(CubicParams { c: n(0), beta: n(1), beta_ecn: n(2), ..CubicParams::default() }),
            Algorithm::Vegas(VegasParams { alpha: n(0), beta: n(1), gamma: n(2), min_samples: count, ..VegasParams::default() }),
            Algorithm::Bic(BicParams { beta: n(0), max_increment: count, low_window: count, smooth_part: count, ..BicParams::default() }),
            Algorithm::Htcp(HtcpParams { beta: n(0), beta_max: n(1), low_speed: target, slow_start, ..HtcpParams::default() }),
            Algorithm::Westwood(WestwoodParams { min_sample: target, smoothing: n(0), ..WestwoodParams::default() }),
            Algorithm::Ledbat(LedbatParams { target, gain: n(0), allowed_increase: n(1), floor: n(2), base_history: count, current_filter: count, slow_start: true }),
            Algorithm::LedbatPlusPlus(LedbatPlusPlusParams { target, decrease: n(0), max_gain_divisor: count, ..LedbatPlusPlusParams::default() }),
            Algorithm::Lp(LpParams { threshold: n(0), smoothing: n(1), inference: n(2), ..LpParams::default() }),
            Algorithm::Nice(NiceParams { threshold: n(0), fraction: n(1), decrease: n(2), floor: n(3), burst: count, alpha: n(4), beta: n(5), gamma: n(6), slow_start, ..NiceParams::default() }),
            Algorithm::Fixed(FixedParams { segments: n(0) }),
            Algorithm::Prague(PragueParams { gain: n(0), virtual_rtt: target, rtt_transition: count, slow_start }),
            Algorithm::Dctcp(DctcpParams { gain: n(0), initial_alpha: n(1), slow_start }),
        ] {
            let mut cc = algorithm.build(&config);
            let mut delivered = 0;
            for call in &calls {
                if let Call::Ack { acked, rtt, phase, .. } = *call {
                    delivered += acked;
                    let rtt = rtt.map(TimeDelta::from_nanos);
                    cc.on_ack(&AckSample { rtt, delivered, ack: delivered, prior_delivered: delivered - acked, phase, ..testbed::sample(1, acked) });
                } else if let Call::Event(trigger) = *call {
                    cc.on_congestion_event(&CongestionEvent { trigger, ..testbed::event(1, 0) });
                } else if let Call::Rto = call {
                    cc.on_rto(&testbed::event(1, 0));
                }
                prop_assert!((1..=MAX_WINDOW).contains(&cc.cwnd()), "{:?}: {}", algorithm, cc.cwnd());
            }
        }
    }
}
