//! Properties that hold for every algorithm under any sequence of calls.

use proptest::prelude::*;
use warpline_core::parameter::{Given, Kind};
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
    Lost(u64),
    Restart(bool),
    Rto,
    Exit,
    Undo,
    Idle {
        idle: u64,
        rto: u64,
    },
    /// Window, round-trip time and loss interval of each subflow, and its own place.
    Subflows([(u64, u64, u64); 3], usize),
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
        2 => number(3000).prop_map(Call::Lost),
        1 => any::<bool>().prop_map(Call::Restart),
        1 => Just(Call::Rto),
        1 => Just(Call::Exit),
        1 => Just(Call::Undo),
        1 => (number(10_000_000_000), number(1_000_000_000)).prop_map(|(idle, rto)| Call::Idle { idle, rto }),
        1 => (prop::array::uniform3((number(100_000), number(300_000_000), number(1_000_000))), 0usize..4)
            .prop_map(|(subflows, own)| Call::Subflows(subflows, own)),
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
    all.push(Algorithm::Scalable(ScalableParams { legacy_window: 16.0, ..ScalableParams::default() }));
    all.push(Algorithm::Cdg(CdgParams {
        loss_tolerance: true,
        ineffectual: 0,
        shadow: false,
        ..CdgParams::default()
    }));
    all.push(Algorithm::Nv(NvParams {
        base_rtt: TimeDelta::from_millis(20),
        raise_growth: 2,
        ..NvParams::default()
    }));
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
                let ack = AckSample {
                    now: at,
                    acked,
                    mss,
                    rtt,
                    srtt: rtt.unwrap_or_default(),
                    min_rtt: rtt.unwrap_or_default() / 2,
                    one_way_delay: delay.map(TimeDelta::from_nanos),
                    delivery_rate: rates.then(|| Rate::from_bps(acked)),
                    app_limited: rates && acked % 7 == 0,
                    sent_at: Timestamp::from_nanos(now.saturating_sub(acked)),
                    delivered,
                    prior_delivered,
                    prior_in_flight: before.max(acked),
                    in_flight: before.saturating_sub(acked),
                    next_seq: delivered.saturating_add(before),
                    ack: delivered,
                    ce: if marked { acked } else { 0 },
                    cwnd_limited: limited,
                    phase,
                };
                if ack.ce > 0 {
                    cc.on_marks(&Marks::from(&ack));
                }
                cc.on_ack(&ack);
                // That marks do not hold growth up is what L4S is about.
                let held = phase == Phase::Recovery || phase == Phase::Cwr && cc.ecn_need() != EcnNeed::L4s;
                if (!limited || held) && !cc.governs_recovery() {
                    prop_assert!(cc.cwnd() <= before, "step {step}: grew to {} in {phase:?}", cc.cwnd());
                }
            }
            Call::Event(trigger) => {
                cc.on_congestion_event(&event(trigger));
                prop_assert!(cc.cwnd() <= before, "step {step}: an event raised the window");
                former = Some(before);
            }
            Call::Lost(bytes) => {
                let sent_at = Timestamp::from_nanos(now / 2);
                let trigger = LossTrigger::Rack;
                let lost =
                    LostSegment { now: at, bytes, sent_at, delivered: round, app_limited: false, trigger };
                cc.on_lost(&lost);
                prop_assert!(cc.cwnd() <= before, "step {step}: a loss raised the window");
            }
            Call::Restart(limited) => cc.on_restart(at, limited),
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
                    // Where recovery is the algorithm's own, the window is back by the next acknowledgement.
                    Some(former) if !cc.governs_recovery() => {
                        prop_assert!(cc.cwnd() >= former, "step {step}: {} < {former}", cc.cwnd())
                    }
                    None if !cc.governs_recovery() => {
                        prop_assert_eq!(cc.cwnd(), before, "nothing to undo at step {}", step)
                    }
                    _ => {}
                }
            }
            Call::Subflows(subflows, own) => {
                let subflow = |(cwnd, srtt, loss_interval)| Subflow {
                    cwnd,
                    srtt: TimeDelta::from_nanos(srtt),
                    loss_interval,
                };
                cc.on_subflows(&subflows.map(subflow), own);
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
        let config = CcConfig { mss, initial_window: initial * mss, initial_ssthresh: ssthresh, seed: 7, saved: None };
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
    fn segments_of_another_size_leave_a_new_connection_as_if_built_for_it(
        mss in 64u64..=65_483,
        segments in 2u64..=20,
        ssthresh in prop_oneof![Just(None), Just(Some(20u64))],
    ) {
        let config = |mss| CcConfig {
            mss,
            initial_window: segments * mss,
            initial_ssthresh: ssthresh.map_or(u64::MAX, |segments| segments * mss),
            seed: 7,
            saved: None,
        };
        // A multiple, so that nothing is lost in rounding.
        let change = MssChange { before: config(mss), after: config(3 * mss) };
        for algorithm in algorithms() {
            let mut cc = algorithm.build(&change.before);
            cc.on_mss(&change);
            let built = algorithm.build(&change.after);
            prop_assert_eq!(cc.cwnd(), built.cwnd(), "{:?}", &algorithm);
            prop_assert_eq!(format!("{:?}", cc), format!("{:?}", built));
            // The same number of segments at any time.
            let event = CongestionEvent { mss: 3 * mss, ..testbed::event(1, cc.cwnd()) };
            cc.on_congestion_event(&event);
            let before = cc.cwnd();
            cc.on_mss(&MssChange { before: change.after, after: config(6 * mss) });
            prop_assert!(cc.cwnd() == 2 * before || before == built.cwnd(), "{:?}: {before} {}", &algorithm, cc.cwnd());
        }
    }

    #[test]
    fn no_parameters_make_it_panic(
        numbers in prop::collection::vec(prop_oneof![any::<f64>(), Just(f64::NAN), -2.0..2.0f64], 8),
        count in prop_oneof![Just(0u32), Just(u32::MAX), 0u32..100],
        calls in prop::collection::vec(call(), 1..60),
    ) {
        let config = CcConfig { mss: 1448, initial_window: 0, initial_ssthresh: 0, seed: 0, saved: None };
        for mut algorithm in Algorithm::all() {
            let fields = algorithm.parameters().fields().into_iter().filter(|field| !field.preset);
            for (field, number) in fields.zip(numbers.iter().cycle()) {
                let value = match field.value.kind() {
                    Kind::Flag => Given::Flag(*number > 0.0),
                    Kind::Whole(most) => Given::Whole(u64::from(count).min(most)),
                    Kind::Number => Given::Number(*number),
                    Kind::Time => Given::Text(format!("{count}ns")),
                    Kind::Words(vocabulary) => Given::Text(vocabulary.words[count as usize % vocabulary.words.len()].name.to_owned()),
                    other => panic!("how should {} be set, {other}?", field.name),
                };
                prop_assert!(field.value.take(&value), "{} takes no {value}", field.name);
            }
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
