//! The average, the gaps between drops, the thresholds, and how the probability adapts.

use super::*;
use crate::qdisc::tests::packet;
use warpline_core::{Ecn, Streams};

fn red(params: RedParams) -> Red {
    Red::new(&params, &Sizing::default(), Streams::new(1).stream("red"))
}

/// The paper's thresholds.
fn paper() -> RedParams {
    RedParams {
        limit: QueueLimit::Packets(50),
        min_threshold: Some(QueueLimit::Packets(5)),
        max_threshold: Some(QueueLimit::Packets(15)),
        ..RedParams::default()
    }
}

/// Offers `n` packets with the average held at `average`; returns how many lie between one signal and the next.
fn gaps(mut queue: Red, average: f64, n: u32) -> Vec<u32> {
    let (mut gaps, mut last) = (Vec::new(), 0);
    for i in 0..n {
        queue.average = average;
        if queue.decide(1000) != Signal::None {
            gaps.push(i - last);
            last = i;
        }
    }
    gaps
}

/// The paper's second method: with p_a = p_b / (1 - count p_b) the gap between marks is uniform on 1 .. 1/p_b, with mean
/// 1/(2 p_b) + 1/2.
#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn gaps_between_marks_are_uniform() {
    // avg 10 is half way: p_b = 0.02 / 2 = 0.01.
    let gaps = gaps(red(RedParams { max_probability: 0.02, ..paper() }), 10.0, 500_000);
    let gaps = &gaps[1..];
    let n = gaps.len() as f64;
    let mean = gaps.iter().map(|&g| f64::from(g)).sum::<f64>() / n;
    // A uniform gap on 1..=100 has standard deviation 28.9.
    assert!((mean - 50.5).abs() < 4.0 * 28.9 / n.sqrt(), "{mean}");
    assert!(gaps.iter().all(|&g| (1..=100).contains(&g)));
    for quarter in 0..4 {
        let share = gaps.iter().filter(|&&g| (g - 1) / 25 == quarter).count() as f64 / n;
        assert!((share - 0.25).abs() < 4.0 * (0.25f64 * 0.75 / n).sqrt(), "{quarter}: {share}");
    }
}

#[test]
fn the_average_is_the_paper_s_filter() {
    // The paper's upper bound for w_q: after L arrivals that make the queue grow from 0 to L packets, the average is
    // L + 1 + ((1 - w)^(L+1) - 1) / w, so that w = 0.001 lets a burst of L = 100 leave it at 4.88.
    let config = RedParams {
        weight: 0.001,
        limit: QueueLimit::Packets(10_000_000),
        min_threshold: Some(QueueLimit::Packets(1_000_000)),
        max_threshold: Some(QueueLimit::Packets(2_000_000)),
        ..paper()
    };
    let mut queue = red(config);
    queue.idle = Idle::No;
    for slot in 0..101 {
        queue.enqueue(Timestamp::ZERO, packet(slot, 1000), &mut Dropped::default());
    }
    let expected = 101.0 + (float::powf(0.999, 101.0) - 1.0) / 0.001;
    assert!((queue.average() - expected).abs() < 1e-9, "{} {expected}", queue.average());
    assert!((queue.average() - 4.88).abs() < 0.01);
}

#[test]
fn the_average_decays_over_idle_time() {
    let mut queue = red(paper());
    let mut dropped = Dropped::default();
    queue.set_rate(Rate::from_bps(8_000_000)); // 1000 bytes take 1 ms
    queue.average = 4.0;
    let decayed = |ms: i32| 4.0 * float::powf(0.998, f64::from(ms));
    // Empty queue, but the link is still busy with the packet given out at 100 ms: a sample of 0.
    queue.enqueue(Timestamp::from_millis(100), packet(0, 1000), &mut dropped);
    assert!((queue.average() - decayed(100)).abs() < 1e-9); // idle since the start
    queue.average = 4.0;
    queue.dequeue(Timestamp::from_millis(100), &mut dropped);
    queue.enqueue(Timestamp::from_nanos(100_500_000), packet(1, 1000), &mut dropped);
    assert!((queue.average() - decayed(1)).abs() < 1e-9);
    // Idle from 102 ms on, told by an unanswered dequeue; 10 packet times pass.
    queue.dequeue(Timestamp::from_millis(101), &mut dropped);
    queue.average = 4.0;
    assert!(queue.dequeue(Timestamp::from_millis(102), &mut dropped).is_none());
    queue.enqueue(Timestamp::from_millis(112), packet(2, 1000), &mut dropped);
    assert!((queue.average() - decayed(10)).abs() < 1e-9);
    // The same if the link never asks.
    queue.dequeue(Timestamp::from_millis(112), &mut dropped);
    queue.average = 4.0;
    queue.enqueue(Timestamp::from_millis(123), packet(3, 1000), &mut dropped);
    assert!((queue.average() - decayed(10)).abs() < 1e-9);
}

#[test]
fn the_gentle_slope_reaches_one_at_twice_max_th() {
    let mut queue = red(paper());
    for (average, p_b) in [(5.0, Some(0.0)), (10.0, Some(0.05)), (15.0, Some(0.1)), (22.5, Some(0.55))] {
        queue.average = average;
        assert!((queue.early_probability().unwrap() - p_b.unwrap()).abs() < 1e-12);
    }
    queue.average = 30.0;
    assert_eq!(queue.early_probability(), None);
    queue.params.gentle = false;
    queue.average = 15.0;
    assert_eq!(queue.early_probability(), None);
}

#[test]
fn ecn_capable_packets_are_marked_not_dropped_within_the_range() {
    let config = RedParams { ecn: true, max_probability: 1.0, ..paper() };
    let mut dropped = Dropped::default();
    let mut offer = |average: f64, ecn: Ecn, config: &RedParams| {
        let mut queue = red(*config);
        queue.idle = Idle::No;
        queue.average = average;
        queue.count = 1000;
        let verdict = queue.enqueue(Timestamp::ZERO, Queued { ecn, ..packet(0, 1000) }, &mut dropped);
        (verdict, queue.dequeue(Timestamp::ZERO, &mut dropped).map(|p| p.ecn))
    };
    let aqm = Verdict::Dropped(DropReason::Aqm);
    assert_eq!(offer(12.0, Ecn::Ect0, &config), (Verdict::Marked, Some(Ecn::Ce)));
    assert_eq!(offer(12.0, Ecn::NotEct, &config), (aqm, None));
    assert_eq!(offer(40.0, Ecn::Ect0, &config), (aqm, None));
    let soft = RedParams { hard_drop: false, ..config };
    assert_eq!(offer(40.0, Ecn::Ect1, &soft), (Verdict::Marked, Some(Ecn::Ce)));
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn byte_mode_spares_small_packets() {
    let config = RedParams {
        min_threshold: Some(QueueLimit::Bytes(5000)),
        max_threshold: Some(QueueLimit::Bytes(15_000)),
        max_probability: 0.02,
        limit: QueueLimit::Bytes(1_000_000_000),
        ..paper()
    };
    let mut queue = red(config);
    let mut hits = [0u32; 2];
    for i in 0..400_000usize {
        queue.average = 10e3;
        hits[i % 2] += u32::from(queue.decide([1000, 100][i % 2]) != Signal::None);
    }
    // At least in proportion to the size; more so, as the spacing makes a large one ever more due.
    assert!(hits[1] > 50 && hits[0] > 10 * hits[1], "{hits:?}");
}

#[test]
fn thresholds_count_as_the_limit_does() {
    let of = |params: &RedParams| {
        let Thresholds { bytes, min, max, .. } = Thresholds::new(params, &Sizing::default());
        (bytes, min, max)
    };
    assert_eq!(of(&RedParams::default()), (false, 250.0, 750.0));
    let limit = QueueLimit::Bytes(60_000);
    assert_eq!(of(&RedParams { limit, ..RedParams::default() }), (true, 15e3, 45e3));
    let min_threshold = Some(QueueLimit::Packets(5));
    assert_eq!(of(&RedParams { limit, min_threshold, ..RedParams::default() }), (true, 7500.0, 45e3));
    let inverted = RedParams { min_threshold: Some(QueueLimit::Packets(800)), ..RedParams::default() };
    let fault = Red::fault(&inverted, &Sizing::default()).unwrap();
    assert_eq!(
        fault.to_string(),
        "`max_threshold` is 750 packets on this link; allowed: above `min_threshold` (800 packets)"
    );
}

#[test]
fn an_adaptive_queue_rises_by_steps_and_falls_by_shares() {
    let params = RedParams { adaptive: true, max_probability: 0.02, ..paper() };
    let after = |params: RedParams, average: f64, millis: u64| {
        let mut queue = red(params);
        queue.average = average;
        queue.adapt(Timestamp::from_millis(millis));
        queue.params.max_probability
    };
    let close = |given: f64, expected: f64| assert!((given - expected).abs() < 1e-12, "{given} {expected}");
    // From 5 to 15 packets: nothing between 9 and 11.
    close(after(params, 12.0, 499), 0.02);
    close(after(params, 11.0, 60_000), 0.02);
    close(after(params, 9.0, 60_000), 0.02);
    // A quarter of itself while that is less than 0.01, and a tenth less.
    close(after(params, 11.1, 500), 0.025);
    close(after(params, 11.1, 1000), 0.03125);
    close(after(RedParams { max_probability: 0.1, ..params }, 12.0, 1000), 0.12);
    close(after(params, 8.9, 1000), 0.02 * 0.81);
    // The ends of the range.
    assert!((0.5..0.511).contains(&after(params, 20.0, 3_600_000)));
    assert!((0.009..0.01).contains(&after(params, 0.0, 3_600_000)));
    close(after(RedParams { adaptive: false, ..params }, 12.0, 60_000), 0.02);
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn an_adaptive_queue_comes_to_the_middle_of_its_range() {
    // 1100 packets come per second, and 1000 leave, whatever is dropped.
    let average = |adaptive: bool| {
        let mut queue = red(RedParams { adaptive, max_probability: 0.01, gentle: false, ..paper() });
        queue.set_rate(Rate::from_bps(8_000_000));
        let (mut none, mut sum) = (Dropped::default(), 0.0);
        for n in 0..110_000u32 {
            let now = Timestamp::from_nanos(u64::from(n) * 909_091);
            queue.enqueue(now, packet(0, 1000), &mut none);
            if n % 11 != 0 {
                queue.dequeue(now, &mut none);
            }
            sum += if n >= 55_000 { queue.average() / 55_000.0 } else { 0.0 };
        }
        sum
    };
    let (fixed, adaptive) = (average(false), average(true));
    assert!((9.0..11.5).contains(&adaptive) && fixed > 13.5, "{adaptive} {fixed}");
}
