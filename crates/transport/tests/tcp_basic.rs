//! Handshake, data transfer, flow control and the end of connections.

mod common;

use common::*;
use warpline_core::{Bytes, Ecn, Flags, TimeDelta, Timestamp};
use warpline_transport::tcp::{Outcome, State, TcpConfig};

const SEC: fn(u64) -> Timestamp = Timestamp::from_secs;

fn complete(wire: &Wire) -> bool {
    wire.client.outcome() == Some(Outcome::Complete) && wire.server.outcome() == Some(Outcome::Complete)
}

#[test]
fn a_transfer_on_a_clean_path_is_complete_and_exact() {
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.open();
    assert_eq!(wire.client.write(1_000_000), 1_000_000);
    wire.client.close();
    wire.server.close();
    assert!(wire.run_until(SEC(60), complete), "{:?} {:?}", wire.client.state(), wire.server.state());
    assert_eq!(wire.server.bytes_delivered(), 1_000_000);
    assert_eq!(wire.client.bytes_acked(), 1_000_000);
    let stats = wire.client.stats();
    assert_eq!((stats.retransmitted_segments, stats.rtos, stats.lost_segments), (0, 0, 0));
    assert_eq!(stats.rtt_min_ns, 20_000_000);
    assert_eq!(stats.data_segments_sent, 1_000_000_u64.div_ceil(1448));
}

#[test]
fn the_syn_is_retransmitted_with_back_off_and_the_window_starts_at_one_segment() {
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.channels[0].drop_any = vec![0, 1];
    wire.client.set_unlimited(true);
    wire.open();
    wire.run(Timestamp::from_millis(3_035));
    let syns: Vec<_> =
        wire.seen.iter().filter(|s| s.from_client && s.segment.flags.contains(Flags::SYN)).collect();
    assert_eq!(syns.iter().map(|s| s.at.as_millis()).collect::<Vec<_>>(), [0, 1000, 3000]);
    // RFC 5681 section 3.1: one segment, then two on its acknowledgement.
    assert_eq!(wire.data_sent().len(), 1, "one segment in the first round trip");
    wire.run(Timestamp::from_millis(3_050));
    assert!(wire.data_sent().len() <= 3);
    wire.run(Timestamp::from_millis(3_500));
    assert!(wire.data_sent().len() > 100, "it grows again");
}

#[test]
fn rfc_6298_section_5_7_the_time_out_is_three_seconds_after_the_loss_of_a_syn() {
    for (timestamps, rto) in [(false, 3000), (true, 220)] {
        let config = TcpConfig { timestamps, tlp: false, ..TcpConfig::default() };
        let mut wire = Wire::plain(&config, 10);
        wire.channels[0].drop_any = vec![0];
        wire.establish();
        assert_eq!(wire.client.rto().as_millis(), rto, "timestamps {timestamps}");
        assert_eq!(wire.client.srtt().as_millis(), if timestamps { 20 } else { 0 });
    }
}

#[test]
fn a_short_lossy_connection_packet_by_packet() {
    // The golden trace: handshake, ten segments of which the fourth is lost, SACK, recovery, close.
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.channels[0].drop_data = vec![3];
    wire.channels[0].rate = Some(warpline_core::Rate::from_bps(100_000_000));
    wire.client.write(14_000);
    wire.client.close();
    wire.server.close();
    wire.open();
    wire.run(SEC(5));
    assert!(complete(&wire));
    let mut trace = String::new();
    for s in &wire.seen {
        let segment = &s.segment;
        trace += &format!(
            "{:>12} {} {:?} {}:{}({}) ack {} win {}",
            s.at.as_nanos(),
            if s.from_client { ">" } else { "<" },
            segment.flags,
            segment.seq,
            segment.seq + segment.seq_len(),
            segment.len,
            segment.ack,
            segment.window
        );
        if let Some((value, echo)) = segment.timestamps {
            trace += &format!(" ts {value}/{echo}");
        }
        for (start, end) in segment.sack.iter(segment.ack) {
            trace += &format!(" sack {start}-{end}");
        }
        trace += "\n";
    }
    insta::assert_snapshot!(trace);
}

#[test]
fn a_lost_syn_ack_is_sent_again() {
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.channels[1].drop_any = vec![0];
    wire.establish();
    assert!(wire.now >= SEC(1));
}

#[test]
fn a_connection_that_nobody_answers_times_out() {
    let config = TcpConfig { syn_retries: 2, ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 10);
    wire.channels[0].loss = 1.0;
    wire.open();
    wire.run(SEC(100));
    assert_eq!(wire.client.outcome(), Some(Outcome::TimedOut));
    assert_eq!(wire.seen.len(), 3);
    assert!(!wire.client.poll_timeout().is_set());
}

#[test]
fn a_simultaneous_open_makes_one_connection() {
    let config = TcpConfig::default();
    let mut wire = Wire::new(client(&config), client(&config), Channel::clean(10), Channel::clean(10), 1);
    wire.client.open(wire.now);
    wire.server.open(wire.now);
    assert!(wire.run_until(SEC(5), |w| w.client.is_established() && w.server.is_established()));
    wire.client.write(5000);
    wire.server.write(7000);
    wire.run(SEC(10));
    assert_eq!((wire.server.bytes_delivered(), wire.client.bytes_delivered()), (5000, 7000));
}

#[test]
fn options_are_used_only_if_both_sides_offer_them() {
    let old = TcpConfig {
        timestamps: false,
        sack: false,
        window_scaling: false,
        mss: Bytes(536),
        ..TcpConfig::default()
    };
    let config = TcpConfig::default();
    let mut wire = Wire::new(client(&config), server(&old), Channel::clean(10), Channel::clean(10), 1);
    wire.establish();
    wire.client.write(100_000);
    wire.run(SEC(20));
    assert_eq!(wire.server.bytes_delivered(), 100_000);
    assert_eq!(wire.client.segment_payload(), 536);
    for s in wire.seen.iter().filter(|s| !s.segment.flags.contains(Flags::SYN)) {
        assert!(s.segment.timestamps.is_none() && s.segment.sack.is_empty());
        assert!(s.segment.window <= 65_535);
    }
}

#[test]
fn a_full_segment_with_timestamps_is_1500_bytes_and_windows_are_multiples_of_the_scale() {
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.establish();
    wire.client.write(100_000);
    wire.run(SEC(5));
    let largest = wire.seen.iter().map(|s| s.segment.wire_size()).max();
    assert_eq!(largest, Some(1500));
    for s in wire.acks() {
        assert_eq!(s.segment.window % 1024, 0);
    }
}

#[test]
fn the_initial_window_is_ten_segments() {
    let mut wire = Wire::plain(&TcpConfig::default(), 50);
    wire.client.set_unlimited(true);
    wire.establish();
    wire.run(Timestamp::from_millis(190));
    assert_eq!(wire.data_sent().len(), 10);
}

#[test]
fn every_second_segment_is_acknowledged_and_a_lone_one_after_the_delay() {
    let mut wire = Wire::plain(&TcpConfig { quick_acks: 0, ..TcpConfig::default() }, 10);
    wire.establish();
    wire.client.write(1448 * 4);
    wire.run(SEC(1));
    assert_eq!(wire.acks().len(), 2);
    wire.client.write(100);
    let start = wire.now;
    wire.run(SEC(2));
    let last = *wire.acks().last().unwrap();
    assert_eq!(last.at.saturating_since(start), TimeDelta::from_millis(10 + 40));
    let every = TcpConfig { delayed_ack: TimeDelta::ZERO, ..TcpConfig::default() };
    let mut wire = Wire::plain(&every, 10);
    wire.establish();
    wire.client.write(1448 * 4);
    wire.run(SEC(1));
    assert_eq!(wire.acks().len(), 4);
}

#[test]
fn a_closed_window_is_probed_and_opens_again() {
    let config = TcpConfig { receive_buffer: Bytes(20_000), ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 10);
    wire.establish();
    wire.server.set_auto_read(false);
    wire.client.write(100_000);
    wire.run(SEC(8));
    assert_eq!(wire.server.readable(), 20_000, "the buffer is full");
    assert!(wire.client.stats().window_probes >= 3);
    assert_eq!(wire.client.stats().rtos, 0, "probes are no time-outs");
    let mut read = 0;
    for _ in 0..400 {
        read += wire.server.read(1000);
        wire.run_for(TimeDelta::from_millis(50));
    }
    assert_eq!(read, 100_000);
}

#[test]
fn a_lost_window_update_is_asked_for() {
    let config = TcpConfig { receive_buffer: Bytes(10_000), ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 10);
    wire.establish();
    wire.server.set_auto_read(false);
    wire.client.write(30_000);
    wire.run(SEC(1));
    wire.channels[1].loss = 1.0;
    assert_eq!(wire.server.read(10_000), 10_000);
    wire.run_for(TimeDelta::from_millis(50));
    wire.channels[1].loss = 0.0;
    wire.run_for(TimeDelta::from_secs(30));
    assert_eq!(wire.server.readable(), 10_000);
}

#[test]
fn small_writes_do_not_make_silly_segments() {
    // Nagle: one small segment at a time is out.
    let mut wire = Wire::plain(&TcpConfig::default(), 50);
    wire.establish();
    for _ in 0..100 {
        wire.client.write(10);
        wire.run_for(TimeDelta::from_millis(1));
    }
    wire.run_for(TimeDelta::from_secs(2));
    assert_eq!(wire.server.bytes_delivered(), 1000);
    assert!(wire.data_sent().len() <= 3, "{} segments", wire.data_sent().len());
    let mut wire = Wire::plain(&TcpConfig { nagle: false, ..TcpConfig::default() }, 50);
    wire.establish();
    for _ in 0..100 {
        wire.client.write(10);
        wire.run_for(TimeDelta::from_millis(1));
    }
    wire.run_for(TimeDelta::from_secs(2));
    assert_eq!(wire.data_sent().len(), 100);
}

#[test]
fn a_slow_reader_does_not_cause_silly_windows() {
    let config = TcpConfig { receive_buffer: Bytes(20_000), ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 5);
    wire.establish();
    wire.server.set_auto_read(false);
    wire.client.set_unlimited(true);
    for _ in 0..2000 {
        wire.server.read(100);
        wire.run_for(TimeDelta::from_millis(1));
    }
    let sizes: Vec<u32> = wire.data_sent().iter().map(|d| d.2).collect();
    let small = sizes.iter().filter(|&&len| len < 1000).count();
    assert!(small * 10 <= sizes.len(), "{small} of {} segments are small", sizes.len());
}

#[test]
fn both_sides_close_in_either_order_and_at_once() {
    for order in 0..3 {
        let mut wire = Wire::plain(&TcpConfig::default(), 10);
        wire.establish();
        wire.client.write(10_000);
        wire.server.write(20_000);
        if order == 0 || order == 2 {
            wire.client.close();
        }
        if order == 1 || order == 2 {
            wire.server.close();
        }
        wire.run_for(TimeDelta::from_millis(500));
        if order == 0 {
            assert_eq!((wire.client.state(), wire.server.state()), (State::FinWait2, State::CloseWait));
            assert!(wire.server.peer_closed());
            // The other direction goes on.
            wire.server.write(5_000);
        }
        wire.client.close();
        wire.server.close();
        wire.run_for(TimeDelta::from_secs(5));
        assert!(complete(&wire), "order {order}: {:?} {:?}", wire.client.state(), wire.server.state());
        assert_eq!(wire.server.bytes_delivered(), 10_000);
        assert_eq!(wire.client.bytes_delivered(), if order == 0 { 25_000 } else { 20_000 });
        assert!(!wire.client.poll_timeout().is_set() && !wire.server.poll_timeout().is_set());
    }
}

#[test]
fn the_last_fin_and_ack_may_be_lost() {
    for lost in 0..6 {
        let mut wire = Wire::plain(&TcpConfig::default(), 10);
        wire.establish();
        wire.client.write(100);
        wire.run_for(TimeDelta::from_millis(200));
        let side = (lost % 2) as usize;
        wire.client.close();
        wire.server.close();
        wire.channels[side].loss = 1.0;
        wire.run_for(TimeDelta::from_millis(5 + 10 * (lost / 2)));
        wire.channels[side].loss = 0.0;
        wire.run_for(TimeDelta::from_secs(20));
        assert!(complete(&wire), "case {lost}: {:?} {:?}", wire.client.outcome(), wire.server.outcome());
    }
}

#[test]
fn an_abort_resets_the_other_side_and_a_dead_end_answers_with_a_reset() {
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.establish();
    wire.client.write(10_000);
    wire.run_for(TimeDelta::from_secs(1));
    wire.client.abort(wire.now);
    wire.run_for(TimeDelta::from_secs(1));
    assert_eq!(wire.client.outcome(), Some(Outcome::Aborted));
    assert_eq!(wire.server.outcome(), Some(Outcome::Reset));
    // The reset is lost, but the other side speaks.
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.establish();
    wire.channels[0].loss = 1.0;
    wire.client.abort(wire.now);
    wire.run_for(TimeDelta::from_secs(1));
    wire.channels[0].loss = 0.0;
    assert!(wire.server.is_established());
    wire.server.write(100);
    wire.run_for(TimeDelta::from_secs(1));
    assert_eq!(wire.server.outcome(), Some(Outcome::Reset));
}

#[test]
fn a_reset_outside_the_window_is_ignored_and_inside_is_challenged() {
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.establish();
    let reset = |seq| warpline_core::Segment { seq, ack: 1, flags: Flags::RST, ..Default::default() };
    wire.server.handle_segment(wire.now, &reset(1 << 40), Ecn::NotEct);
    assert!(wire.server.is_established() && wire.server.poll_transmit(wire.now).is_none());
    wire.server.handle_segment(wire.now, &reset(50), Ecn::NotEct);
    assert!(wire.server.is_established() && wire.server.poll_transmit(wire.now).is_some());
    wire.server.handle_segment(wire.now, &reset(1), Ecn::NotEct);
    assert_eq!(wire.server.outcome(), Some(Outcome::Reset));
}

#[test]
fn data_that_is_never_acknowledged_times_out_after_the_retries() {
    let config = TcpConfig { data_retries: 4, tlp: false, ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 10);
    wire.establish();
    wire.channels[0].loss = 1.0;
    wire.client.write(100);
    let start = wire.now;
    wire.run(SEC(100));
    assert_eq!(wire.client.outcome(), Some(Outcome::TimedOut));
    let times: Vec<u64> = wire.data_sent().iter().map(|d| d.0.saturating_since(start).as_millis()).collect();
    // RTO = srtt + min_rto = 220 ms, doubled each time.
    assert_eq!(times, [0, 220, 660, 1540, 3300]);
}

#[test]
fn a_send_buffer_bounds_what_is_accepted() {
    let config = TcpConfig { send_buffer: Some(Bytes(50_000)), ..TcpConfig::default() };
    let mut wire = Wire::plain(&config, 10);
    wire.establish();
    assert_eq!(wire.client.write(80_000), 50_000);
    assert_eq!(wire.client.write(1), 0);
    wire.run_for(TimeDelta::from_secs(2));
    assert_eq!(wire.client.write(80_000), 50_000);
    wire.client.close();
    assert_eq!(wire.client.write(1), 0);
}

#[test]
fn what_a_narrow_link_refuses_is_sent_again_in_pieces_and_the_window_stays() {
    for sack in [true, false] {
        let config = TcpConfig { sack, ..TcpConfig::default() };
        let mut wire = Wire::plain(&config, 10);
        // The initial window meets a link of 1000 bytes, whose router says so.
        wire.channels[0].drop_data = (0..10).collect();
        wire.establish();
        wire.client.write(200_000);
        wire.client.close();
        wire.server.close();
        wire.run_for(TimeDelta::from_millis(5));
        let (window, told) = (wire.client.cwnd(), wire.now);
        assert!(wire.client.reduce_mss(told, 960));
        assert_eq!((wire.client.segment_payload(), wire.client.cwnd()), (948, window));
        assert!(!wire.client.reduce_mss(told, 960) && !wire.client.reduce_mss(told, 1200), "no news");
        assert!(wire.run_until(SEC(20), complete), "sack {sack}: {:?}", wire.client);
        assert_eq!(wire.server.bytes_delivered(), 200_000);
        let later: Vec<_> = wire.data_sent().into_iter().filter(|&(at, ..)| at >= told).collect();
        assert!(later.iter().all(|&(_, _, len)| len <= 948), "{later:?}");
        assert_eq!((later[0].0, later[0].1), (told, 1), "at once, from the first byte on");
        assert_eq!((wire.client.stats().rtos, wire.client.stats().recoveries), (0, 0));
    }
}

#[test]
fn an_unreachable_peer_ends_what_is_being_opened_and_no_more() {
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.open();
    assert!(wire.client.on_unreachable(wire.now));
    assert_eq!(wire.client.outcome(), Some(Outcome::Unreachable));
    assert!(!wire.client.poll_timeout().is_set());
    let mut wire = Wire::plain(&TcpConfig::default(), 10);
    wire.establish();
    assert!(!wire.client.on_unreachable(wire.now));
    wire.client.write(10_000);
    wire.run(SEC(5));
    assert_eq!(wire.server.bytes_delivered(), 10_000);
}
