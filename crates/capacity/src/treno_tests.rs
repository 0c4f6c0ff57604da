//! Tests of TReno: step by step with explicit times, over a bottleneck, and with arbitrary answers.

use super::*;
use proptest::prelude::*;

const MSS: u64 = 1460;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

#[test]
fn a_window_that_holds_no_probe_is_refused() {
    let of = |max_window| TrenoOptions { max_window, ..TrenoOptions::default() }.validate();
    assert_eq!(of(1499).unwrap_err().to_string(), "max_window = 1499: must be at least a probe (mtu)");
    assert_eq!(of(1500), Ok(()));
}

fn treno(options: TrenoOptions) -> Treno {
    options.validate().unwrap();
    Treno::new(options)
}

/// Everything that may be sent now.
fn send(treno: &mut Treno, now: Timestamp) -> Vec<u64> {
    std::iter::from_fn(|| treno.poll_transmit(now)).map(|probe| probe.number).collect()
}

#[test]
fn slow_start_doubles_and_avoidance_adds_a_segment_in_a_round_trip() {
    let mut t = treno(TrenoOptions::default());
    let mut sent = send(&mut t, at(0));
    assert_eq!(sent, [0, 1]);
    for round in 1..=3 {
        let mut next = Vec::new();
        for number in sent {
            t.on_reply(at(100 * round), number, ProbeReply::Echo);
            next.extend(send(&mut t, at(100 * round)));
        }
        sent = next;
    }
    assert_eq!((sent.len(), t.cwnd()), (16, 16 * MSS));
    // At the threshold it still is slow start: one segment for the first answer, then avoidance.
    t.ssthresh = 16 * MSS;
    for number in sent {
        t.on_reply(at(400), number, ProbeReply::Echo);
    }
    let grown = t.cwnd() - 16 * MSS;
    assert!((MSS..2 * MSS).contains(&grown), "{grown}");
    assert_eq!(t.results().data_bytes, 30 * MSS);
    assert_eq!((t.results().rtt_min_ns, t.results().rtt_count), (100_000_000, 30));
}

#[test]
fn probes_that_are_out_at_the_end_for_longer_than_answers_take_are_overdue() {
    let options =
        TrenoOptions { initial_window: 6, duration: TimeDelta::from_millis(1000), ..TrenoOptions::default() };
    let mut t = treno(options);
    assert_eq!(send(&mut t, at(0)).len(), 6);
    t.on_reply(at(100), 0, ProbeReply::TimeExceeded);
    // What is sent shortly before the end has had no time.
    let late = send(&mut t, at(950));
    assert!(!late.is_empty());
    t.handle_timeout(at(1000));
    assert_eq!(t.outcome(), Some(TrenoOutcome::Complete));
    assert_eq!((t.results().overdue, t.results().lost), (5, 0));
}

#[test]
fn a_loss_halves_the_rate_for_a_round_trip_and_then_the_window_less_what_was_lost() {
    let mut t = treno(TrenoOptions { initial_window: 20, ..TrenoOptions::default() });
    let sent = send(&mut t, at(0));
    assert_eq!(sent.len(), 20);
    // Probes 0 and 1 are lost; the answer to number 3 leaves 0, that to number 4 leaves 1 three behind.
    let mut sent_in_recovery = Vec::new();
    for number in 2..20 {
        t.on_reply(at(100), number, ProbeReply::Echo);
        sent_in_recovery.extend(send(&mut t, at(100)));
    }
    assert_eq!(t.results().lost, 2);
    // One answer let two probes out in slow start before the loss was seen; from then on one for two answers.
    assert!((8..=10).contains(&sent_in_recovery.len()), "{sent_in_recovery:?}");
    let old = 20 * MSS + MSS;
    for number in sent_in_recovery {
        if t.halving.is_some() {
            t.on_reply(at(200), number, ProbeReply::Echo);
        }
    }
    assert_eq!(t.results().recoveries, 1);
    assert!(t.cwnd() <= (old - 2 * MSS) / 2 && t.cwnd() >= 9 * MSS, "{}", t.cwnd());
    assert_eq!(t.ssthresh(), t.cwnd());
    assert_eq!(t.results().retransmits, 2, "lost data goes first");
}

/// FACK's "overdamping": what was sent before the loss was found is lost to the same congestion.
#[test]
fn a_window_is_reduced_once_for_its_losses_however_late_they_are_found() {
    let mut t = treno(TrenoOptions { initial_window: 20, ..TrenoOptions::default() });
    assert_eq!(send(&mut t, at(0)).len(), 20);
    // Probe 0 is lost, and the last one that leaves before that is found.
    for number in 1..3 {
        t.on_reply(at(100), number, ProbeReply::Echo);
    }
    assert!(t.halving.is_none() && t.in_slow_start());
    let last = *send(&mut t, at(100)).last().unwrap();
    t.on_reply(at(101), 3, ProbeReply::Echo);
    assert!(t.halving.is_some());
    let mut number = 4;
    while number < t.next && t.next < last + 20 {
        if number != last {
            t.on_reply(at(200), number, ProbeReply::Echo);
            send(&mut t, at(200));
        }
        number += 1;
    }
    let results = t.results();
    assert_eq!((results.lost, results.recoveries, results.congestion_signals), (2, 1, 1));
    assert!(t.halving.is_none() && t.cwnd() >= 10 * MSS, "{}", t.cwnd());
    // A later loss is another one.
    let lost = t.next;
    send(&mut t, at(300));
    (number..lost).chain(lost + 1..lost + 5).for_each(|number| {
        t.on_reply(at(400), number, ProbeReply::Echo);
        send(&mut t, at(400));
    });
    assert_eq!(t.results().recoveries, 2);
}

#[test]
fn a_time_out_quarters_the_threshold_and_backs_off() {
    let mut t = treno(TrenoOptions { initial_window: 16, ..TrenoOptions::default() });
    assert_eq!(send(&mut t, at(0)).len(), 16);
    assert_eq!(t.poll_timeout(), at(3000));
    t.handle_timeout(at(3000));
    assert_eq!((t.cwnd(), t.ssthresh()), (MSS, 4 * MSS));
    assert_eq!(send(&mut t, at(3000)), [16]);
    assert_eq!(t.poll_timeout(), at(9000));
    t.handle_timeout(at(9000));
    assert_eq!(t.ssthresh(), 4 * MSS, "no new congestion");
    assert_eq!((t.results().timeouts, t.results().congestion_signals), (2, 1));
    // The answer to the first probe, which had been given up: its data is not sent a third time.
    let waiting = t.lost.len();
    t.on_reply(at(9100), 3, ProbeReply::Echo);
    assert_eq!((t.lost.len(), t.results().stray_replies), (waiting - 1, 1));
    assert_eq!(t.results().data_bytes, MSS);
}

#[test]
fn answers_are_taken_in_pairs_where_acknowledgements_are_delayed() {
    let wait = TimeDelta::from_millis(200);
    let mut t = treno(TrenoOptions { initial_window: 4, delayed_ack: Some(wait), ..TrenoOptions::default() });
    assert_eq!(send(&mut t, at(0)).len(), 4);
    t.on_reply(at(50), 0, ProbeReply::Echo);
    assert!(send(&mut t, at(50)).is_empty(), "not acknowledged yet");
    t.on_reply(at(51), 1, ProbeReply::Echo);
    assert_eq!(send(&mut t, at(51)).len(), 4, "two that left, and two by which the window grew");
    t.on_reply(at(52), 2, ProbeReply::Echo);
    assert_eq!(t.poll_timeout(), at(252));
    t.handle_timeout(at(252));
    assert_eq!(send(&mut t, at(252)).len(), 2);
    assert_eq!(t.cwnd(), 7 * MSS);
}

/// RFC 3465: the bytes count, however many acknowledgements tell of them.
#[test]
fn above_the_threshold_a_pair_of_answers_counts_for_both() {
    let windows = [None, Some(TimeDelta::from_millis(200))].map(|delayed_ack| {
        let mut t = treno(TrenoOptions { initial_window: 10, delayed_ack, ..TrenoOptions::default() });
        t.ssthresh = 5 * MSS;
        let sent = send(&mut t, at(0));
        assert_eq!(sent.len(), 10);
        for (number, time) in sent.into_iter().zip(50..) {
            t.on_reply(at(time), number, ProbeReply::Echo);
        }
        t.cwnd() as f64 / MSS as f64
    });
    for window in windows {
        assert!((10.95..11.0).contains(&window), "a segment more in a round trip: {windows:?}");
    }
}

#[test]
fn the_path_makes_probes_smaller_without_congestion() {
    let mut t = treno(TrenoOptions { initial_window: 4, ..TrenoOptions::default() });
    send(&mut t, at(0));
    for liar in [20, 1500, 9000] {
        t.on_too_big(at(1), liar);
    }
    assert_eq!(t.results().mtu_reductions, 0);
    t.on_too_big(at(10), 1400);
    let probe = t.poll_transmit(at(10)).unwrap();
    assert_eq!((probe.size, probe.retransmit), (1400, true));
    assert_eq!(send(&mut t, at(10)).len(), 3);
    assert_eq!((t.cwnd(), t.results().congestion_signals), (4 * 1360, 0));
}

#[test]
fn a_smaller_mtu_in_a_recovery_ends_it_and_sending_goes_on() {
    let mut t = treno(TrenoOptions { initial_window: 20, ..TrenoOptions::default() });
    send(&mut t, at(0));
    (1..5).for_each(|number| {
        t.on_reply(at(100), number, ProbeReply::Echo);
        send(&mut t, at(100));
    });
    assert!(t.halving.is_some());
    t.on_too_big(at(110), 576);
    assert!(t.halving.is_none() && !send(&mut t, at(110)).is_empty());
    let window = t.cwnd() / t.mss;
    assert!((9..=11).contains(&window), "half of what it was, in segments: {window}");
    assert_eq!((t.ssthresh(), t.poll_timeout().is_set()), (t.cwnd(), true));
    // And once more, without a recovery.
    t.on_too_big(at(120), 552);
    assert_eq!((t.cwnd() / t.mss, t.ssthresh() / t.mss), (window, window));
}

#[test]
fn a_probe_that_the_interface_cannot_carry_was_not_refused_by_a_full_queue() {
    let mut t = treno(TrenoOptions { mtu: 9000, ..TrenoOptions::default() });
    let probe = t.poll_transmit(at(0)).unwrap();
    t.on_not_sent(probe.number);
    t.on_too_big(at(0), 1500);
    assert_eq!(t.poll_transmit(at(0)).unwrap().size, 1500);
    let results = t.results();
    assert_eq!((results.refused_sends, results.probes, results.probe_wire_bytes), (0, 1, 1500));
}

#[test]
fn silence_at_the_end_is_not_measured() {
    let mut t = treno(TrenoOptions {
        duration: TimeDelta::from_secs(60),
        patience: TimeDelta::from_secs(5),
        initial_window: 10,
        ..TrenoOptions::default()
    });
    let sent = send(&mut t, at(0));
    sent.iter().for_each(|&number| {
        t.on_reply(at(1000), number, ProbeReply::Echo);
    });
    send(&mut t, at(1000));
    // Whoever guesses numbers does not keep the test going, and his errors are none of the path.
    t.on_reply(at(3000), 0, ProbeReply::Unreachable);
    while t.outcome().is_none() {
        let due = t.poll_timeout();
        t.handle_timeout(due);
        send(&mut t, due);
    }
    assert_eq!(t.outcome(), Some(TrenoOutcome::Silent));
    let r = t.results();
    assert_eq!((r.elapsed_ns, r.data_bytes), (1_000_000_000, 10 * MSS));
    assert_eq!(r.slow_start_ns + r.avoidance_ns + r.recovery_ns, r.elapsed_ns);
    assert_eq!((r.unreachable, r.stray_replies, r.echoes), (0, 1, 10));
}

#[test]
fn what_the_kernel_refuses_was_not_on_the_path() {
    let mut t = treno(TrenoOptions::default());
    assert_eq!(send(&mut t, at(0)), [0, 1]);
    t.on_refused(1);
    assert_eq!((t.results().refused_sends, t.results().probes, t.results().lost), (1, 1, 0));
    assert_eq!(send(&mut t, at(5)), [2]);
    assert_eq!(t.results().retransmits, 0, "its data was sent for the first time");
    // A probe that is sent again, and refused, is sent again once.
    t.handle_timeout(at(4000));
    assert_eq!((send(&mut t, at(4000)), t.results().retransmits), (vec![3], 1));
    t.on_refused(3);
    assert_eq!((send(&mut t, at(4005)), t.results().retransmits), (vec![4], 1));
}

#[test]
fn silence_and_the_end_are_told_apart() {
    let mut t = treno(TrenoOptions { patience: TimeDelta::from_secs(5), ..TrenoOptions::default() });
    send(&mut t, at(0));
    t.handle_timeout(at(5000));
    assert_eq!(t.outcome(), Some(TrenoOutcome::NoAnswer));
    let mut t = treno(TrenoOptions { patience: TimeDelta::from_secs(5), ..TrenoOptions::default() });
    send(&mut t, at(0));
    t.on_reply(at(10), 0, ProbeReply::TimeExceeded);
    t.handle_timeout(at(5010));
    assert_eq!(t.outcome(), Some(TrenoOutcome::Silent));
    let mut t = treno(TrenoOptions { duration: TimeDelta::from_secs(1), ..TrenoOptions::default() });
    send(&mut t, at(0));
    t.on_reply(at(500), 0, ProbeReply::Echo);
    t.handle_timeout(at(1000));
    assert_eq!(t.outcome(), Some(TrenoOutcome::Complete));
    assert_eq!((t.results().elapsed_ns, t.poll_timeout()), (1_000_000_000, Timestamp::NEVER));
    assert!(t.poll_transmit(at(1001)).is_none());
}

/// Probes through a queue of `limit` packets before a link that takes a millisecond for each, 40 ms back and forth. Returns the
/// results after ten seconds.
fn over_bottleneck(options: TrenoOptions, limit: usize) -> TrenoResults {
    let mut t = treno(options);
    let mut free_at = Timestamp::ZERO;
    let mut answers: VecDeque<(Timestamp, u64)> = VecDeque::new();
    let mut now = Timestamp::ZERO;
    while t.outcome().is_none() {
        while let Some(probe) = t.poll_transmit(now) {
            let start = free_at.max(now);
            if start.saturating_since(now) <= TimeDelta::from_millis(limit as u64) {
                free_at = start + TimeDelta::from_millis(1);
                answers.push_back((free_at + TimeDelta::from_millis(40), probe.number));
            }
        }
        let due = t.poll_timeout();
        match answers.front() {
            Some(&(when, number)) if when <= due => {
                answers.pop_front();
                now = when;
                t.on_reply(now, number, ProbeReply::Echo);
            }
            _ => {
                now = due;
                t.handle_timeout(now);
            }
        }
    }
    t.results().clone()
}

#[test]
fn a_bottleneck_is_filled() {
    for delayed_ack in [None, Some(TimeDelta::from_millis(200))] {
        let r = over_bottleneck(TrenoOptions { delayed_ack, ..TrenoOptions::default() }, 40);
        // 1460 bytes a millisecond.
        let share = r.data_bytes as f64 * 8.0 / (r.elapsed_ns as f64 / 1e9) / 11.68e6;
        assert!((0.75..1.0).contains(&share), "{share} of the bottleneck, {r:?}");
        assert!(r.recoveries >= 1 && r.avoidance_ns > r.slow_start_ns);
        assert_eq!(r.slow_start_ns + r.avoidance_ns + r.recovery_ns, r.elapsed_ns);
        assert_eq!(r.slow_start_bytes + r.avoidance_bytes + r.recovery_bytes, r.data_bytes);
    }
}

#[test]
fn an_answer_that_nobody_asked_for_is_told_from_one_that_was_awaited() {
    let mut t = treno(TrenoOptions { initial_window: 2, ..TrenoOptions::default() });
    while t.poll_transmit(at(0)).is_some() {}
    assert!(t.is_out(1) && !t.is_out(2));
    assert!(!t.on_reply(at(1), 7, ProbeReply::TimeExceeded), "never sent");
    assert!(t.on_reply(at(2), 1, ProbeReply::Echo));
    assert!(!t.on_reply(at(3), 1, ProbeReply::Echo), "answered before");
    assert!(!t.is_out(1));
}

proptest! {
    /// With any answers at any times, counts stay consistent and sending ends.
    #[test]
    fn answers_to_anything_do_no_harm(steps in prop::collection::vec((0u64..400, 0u64..40, 0u8..8), 1..400)) {
        let mut t = treno(TrenoOptions { delayed_ack: Some(TimeDelta::from_millis(50)), ..TrenoOptions::default() });
        let mut now = Timestamp::ZERO;
        for (number, wait, kind) in steps {
            now += TimeDelta::from_millis(wait * wait);
            match kind {
                0 => t.on_too_big(now, (number * 10) as u32),
                1 => t.handle_timeout(now),
                2 => t.on_refused(t.next.saturating_sub(number % 3 + 1)),
                3 => assert!(!t.on_reply(now, number, ProbeReply::Unreachable) || number < t.next),
                _ => {
                    t.on_reply(now, t.next.saturating_sub(number % 30 + 1), ProbeReply::TimeExceeded);
                }
            }
            let mut sent = 0;
            while t.poll_transmit(now).is_some() {
                sent += 1;
                prop_assert!(sent < 100_000);
            }
            let awaited = t.alarm.is_set() || t.held.is_some();
            prop_assert!(awaited || t.outcome.is_some() || t.started.is_none(), "nothing is sent, and nothing is awaited");
            let out: u64 = t.out.values().map(|out| u64::from(out.bytes)).sum();
            prop_assert!(t.in_flight >= out && t.in_flight <= out + 1460, "{} {out}", t.in_flight);
            prop_assert!(t.cwnd >= t.mss && t.results.data_bytes <= t.next_data * 1460);
            if t.poll_timeout() <= now {
                t.handle_timeout(now);
                while t.poll_transmit(now).is_some() {}
            }
            prop_assert!(t.poll_timeout() > now, "a deadline stays in the past");
        }
    }
}
