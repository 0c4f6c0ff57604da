//! rLEDBAT: a receiver that keeps the sender from filling the path's queue, by the window that it advertises. Any sender will do.
//!
//! Source: RFC 9840 (rLEDBAT), with the rules of LEDBAT++ or of LEDBAT in `cc`, which are the same as at a sender. What is known of the text comes
//! from its draft 02, from an ns-3 implementation of the RFC (`TcpRLedbat`) and from its authors' kernel module: the RFC itself could not be read.
//! The section numbers are those that the ns-3 implementation names.
//!
//! Of every segment with payload the round-trip time is the time since the acknowledgement left whose timestamp it echoes. Where several echo the
//! same, the first is the sample (section 4.2.1): the others may have waited at the sender. LEDBAT goes by the one-way delay, from the sender's
//! timestamp to its arrival. A segment below the highest one received whose timestamp is newer is a retransmission, so something was lost (section
//! 4.3). There is one reduction for losses in a round trip, and no growth for the rest of it.
//!
//! What was advertised is never taken back: the right edge of the window stays, so that the window falls by what arrives and no more (section
//! 4.1.1; `Receiver::edge`).
//!
//! Departures, as in receiver-side TCP Nice (native/bpf/background.bpf.c): timestamps and so delays are in milliseconds; a round ends when a
//! segment answers what was sent after it began; the window grows only where at least half of it was used in the last round, since a sender may
//! have little to send. For the same reason, the first segment after a silence of two round trips gives no sample. Without timestamps nothing is
//! done. Congestion marks are left to the sender.

use warpline_core::parameter::Words;
use warpline_core::record::LossTrigger;
use warpline_core::{TimeDelta, Timestamp};

use super::config::TcpConfig;
use crate::cc::{
    AckSample, Algorithm, CongestionControl, CongestionEvent, Controller, LedbatParams, LedbatPlusPlusParams,
    Phase,
};

/// Whether a receiver bounds the sender by the delay it sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Words)]
#[non_exhaustive]
pub enum Rledbat {
    /// It does not.
    #[default]
    No,
    /// By the rules of LEDBAT (RFC 6817), from one-way delays, after a slow start.
    Ledbat,
    /// By the rules of LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus), from round-trip times.
    #[word("ledbat++")]
    LedbatPlusPlus,
}

/// What bounds the window that a receiver advertises.
#[derive(Debug)]
pub(super) struct WindowControl {
    cc: Controller,
    mss: u64,
    /// Bytes of payload that have arrived, and how many of them before the present round.
    arrived: u64,
    before_round: u64,
    /// Bytes of the round before.
    last_round: u64,
    /// What is sent from this timestamp on is answered in the next round.
    round_began: u32,
    /// The last timestamp that a segment echoed.
    echo: Option<u32>,
    arrived_at: Timestamp,
    srtt: TimeDelta,
    min_rtt: TimeDelta,
    /// RCV.HGH: one past the highest byte received; and TSV.HGH, the timestamp of the segment that brought it.
    highest: u64,
    highest_value: u32,
    /// Until then, losses are those of the last reduction.
    reduced_until: Timestamp,
}

impl WindowControl {
    /// That of a receiver with these options; none where only the buffer bounds the window.
    pub(super) fn new(config: &TcpConfig) -> Option<Box<WindowControl>> {
        let algorithm = match config.rledbat {
            Rledbat::No => return None,
            Rledbat::Ledbat => {
                Algorithm::Ledbat(LedbatParams { slow_start: true, ..LedbatParams::default() })
            }
            Rledbat::LedbatPlusPlus => Algorithm::LedbatPlusPlus(LedbatPlusPlusParams::default()),
        };
        let cc_config = config.cc_config();
        Some(Box::new(WindowControl {
            cc: algorithm.build(&cc_config),
            mss: cc_config.mss,
            arrived: 0,
            before_round: 0,
            last_round: u64::MAX / 2,
            round_began: 0,
            echo: None,
            arrived_at: Timestamp::ZERO,
            srtt: TimeDelta::ZERO,
            min_rtt: TimeDelta::ZERO,
            highest: 0,
            highest_value: 0,
            reduced_until: Timestamp::ZERO,
        }))
    }

    /// Bytes that may be advertised.
    pub(super) fn window(&self) -> u64 {
        self.cc.cwnd()
    }

    /// A segment with payload arrived, with the timestamps `value` and `echo`.
    pub(super) fn on_segment(&mut self, now: Timestamp, seq: u64, len: u32, (value, echo): (u32, u32)) {
        let rtt = self.sample(now, echo);
        let ends = (echo.wrapping_sub(self.round_began) as i32) > 0;
        // Bytes that had arrived when the acknowledgement left that let this segment out, as far as rounds tell.
        let prior = if ends { self.before_round } else { self.before_round.saturating_sub(1) };
        self.arrived += u64::from(len);
        if ends {
            self.last_round = self.arrived - self.before_round;
            (self.before_round, self.round_began) = (self.arrived, now.as_millis() as u32);
        }
        if self.is_retransmission(seq, len, value) && now >= self.reduced_until {
            self.reduce(now);
        }
        let window = self.cc.cwnd();
        let used = self.last_round.saturating_mul(2) >= window;
        let in_flight = if used { window } else { self.last_round };
        self.cc.on_ack(&AckSample {
            now,
            acked: u64::from(len),
            mss: self.mss,
            rtt,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            one_way_delay: Some(since(now, value)),
            delivery_rate: None,
            app_limited: !used,
            sent_at: Timestamp::NEVER,
            delivered: self.arrived,
            prior_delivered: prior,
            prior_in_flight: in_flight,
            in_flight,
            next_seq: self.highest,
            ack: self.highest,
            ce: 0,
            cwnd_limited: used,
            phase: if now < self.reduced_until { Phase::Recovery } else { Phase::Open },
        });
    }

    /// The round-trip time that a segment with this echo shows, if it does.
    fn sample(&mut self, now: Timestamp, echo: u32) -> Option<TimeDelta> {
        let silence = now.saturating_since(std::mem::replace(&mut self.arrived_at, now));
        let idle = !self.srtt.is_zero() && silence > self.srtt * 2;
        if self.echo.replace(echo) == Some(echo) || idle {
            return None;
        }
        let rtt = since(now, echo).max(TimeDelta::from_nanos(1));
        let first = self.srtt.is_zero();
        self.srtt = if first { rtt } else { (self.srtt * 7 + rtt) / 8 };
        self.min_rtt = if first { rtt } else { self.min_rtt.min(rtt) };
        Some(rtt)
    }

    /// Whether a segment with this timestamp fills a gap that a loss has left.
    fn is_retransmission(&mut self, seq: u64, len: u32, value: u32) -> bool {
        let end = seq + u64::from(len);
        if end > self.highest {
            (self.highest, self.highest_value) = (end, value);
            return false;
        }
        (value.wrapping_sub(self.highest_value) as i32) > 0
    }

    fn reduce(&mut self, now: Timestamp) {
        self.reduced_until = now + self.srtt;
        self.cc.on_congestion_event(&CongestionEvent {
            now,
            trigger: LossTrigger::DupAcks,
            in_flight: self.last_round.min(self.cc.cwnd()),
            mss: self.mss,
            min_rtt: self.min_rtt,
            srtt: self.srtt,
        });
    }
}

/// Time since a clock of milliseconds showed `value`.
fn since(now: Timestamp, value: u32) -> TimeDelta {
    let millis = (now.as_millis() as u32).wrapping_sub(value);
    // A clock that is not ours may be ahead: its offset is constant, and only differences count.
    TimeDelta::from_millis(u64::from(millis)) + TimeDelta::from_nanos(now.as_nanos() % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(rledbat: Rledbat) -> Box<WindowControl> {
        WindowControl::new(&TcpConfig { rledbat, ..TcpConfig::default() }).unwrap()
    }

    const LEN: u32 = 1448;

    /// A round trip of `rtt` ms of full segments, as many as the window has, each an answer to an acknowledgement of its own; returns the time after.
    fn round(control: &mut WindowControl, start: u64, rtt: u64) -> u64 {
        let segments = control.window() / u64::from(LEN);
        for n in 0..segments {
            let sent = start + n * rtt / segments;
            let seq = control.highest.max(1);
            let now = Timestamp::from_millis(sent + rtt);
            control.on_segment(now, seq, LEN, ((sent + rtt / 2) as u32, sent as u32));
        }
        start + rtt
    }

    #[test]
    fn the_window_grows_while_the_delay_is_small_and_falls_when_it_is_not() {
        for rledbat in [Rledbat::LedbatPlusPlus, Rledbat::Ledbat] {
            let mut control = control(rledbat);
            assert_eq!(control.window(), 14_480, "an initial window");
            let mut now = 1000;
            for _ in 0..5 {
                now = round(&mut control, now, 50);
            }
            let grown = control.window();
            assert!(grown > 20_000, "{rledbat:?}: {grown}");
            // 300 ms of queue, beyond both targets.
            for _ in 0..8 {
                now = round(&mut control, now, 650);
            }
            assert!(control.window() < grown / 2, "{rledbat:?}: {} of {grown}", control.window());
        }
    }

    #[test]
    fn of_segments_that_echo_the_same_the_first_is_the_sample_and_none_after_a_silence() {
        let mut control = control(Rledbat::LedbatPlusPlus);
        let mut sample =
            |now, echo| control.sample(Timestamp::from_millis(now), echo).map(|rtt| rtt.to_string());
        assert_eq!(sample(1050, 1000).as_deref(), Some("50ms"));
        assert_eq!(sample(1090, 1000), None);
        assert_eq!(sample(1092, 1040).as_deref(), Some("52ms"));
        assert_eq!(sample(1500, 1041), None, "the sender had nothing to send");
        assert_eq!(sample(1550, 1500).as_deref(), Some("50ms"));
    }

    #[test]
    fn a_retransmission_is_below_the_highest_byte_and_newer_and_counts_once_in_a_round_trip() {
        let mut control = control(Rledbat::LedbatPlusPlus);
        let now = round(&mut control, 1000, 100);
        let window = control.window();
        let again = |control: &mut WindowControl, now: u64, value: u64| {
            control.on_segment(Timestamp::from_millis(now), 1, LEN, (value as u32, (now - 100) as u32));
            control.window()
        };
        // Late, but sent before the highest: reordering. What it echoes is old.
        let grown = again(&mut control, now + 100, now - 60);
        assert!(grown >= window, "{grown} of {window}");
        let halved = again(&mut control, now + 110, now + 60);
        assert!(halved <= grown / 2 + 1, "{halved} of {grown}");
        assert_eq!(again(&mut control, now + 120, now + 70), halved, "the same loss, and no growth");
        assert!(again(&mut control, now + 250, now + 200) < halved, "another one");
    }

    #[test]
    fn a_sender_that_uses_little_of_the_window_does_not_make_it_grow() {
        let mut control = control(Rledbat::LedbatPlusPlus);
        let mut windows = Vec::new();
        for n in 0..20u64 {
            let sent = 1000 + n * 100;
            control.on_segment(
                Timestamp::from_millis(sent + 100),
                1 + n * 1448,
                LEN,
                (sent as u32, sent as u32),
            );
            windows.push(control.window());
        }
        assert_eq!(windows[4], windows[19], "{windows:?}");
    }
}
