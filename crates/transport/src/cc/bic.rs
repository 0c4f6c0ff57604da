//! BIC: binary search for the window at which losses begin.
//!
//! Sources: L. Xu, K. Harfoush, I. Rhee, "Binary Increase Congestion Control for Fast Long-Distance Networks" (INFOCOM
//! 2004); the increments and constants follow Linux tcp_bic.c.
//!
//! The kernel divides the number of acknowledgements that a step takes by the segments that each covers. That was
//! right while it counted acknowledgements. Since it counts segments (Linux 3.15), BIC grows twice as fast above
//! `low_window` if the receiver delays its acknowledgements. This is so here, too ([`BicParams::ack_ratio`]).
//!
//! Departures: undo restores the maximum as well; the initial threshold is the connection's, not the module's.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::record::LossTrigger;
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// In the binary search, the step goes a B-th of the way to the maximum (BICTCP_B).
const B: u64 = 4;
/// Without a known maximum the window grows by at least this part of itself per round trip (5 %).
const BLIND_PART: u64 = 20;

/// BIC (Xu, Harfoush and Rhee 2004).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("bic")]
pub struct BicParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// What remains of the window after a loss.
    #[parameter(default = 819.0 / 1024.0, above = 0.0, below = 1.0)]
    pub beta: f64,
    /// Whether a flow that lost before it regained its last maximum gives way.
    #[parameter(default = true)]
    pub fast_convergence: bool,
    /// Most segments of growth per round trip (S_max).
    #[parameter(default = 16, min = 1, unit = "segments")]
    pub max_increment: u32,
    /// Window up to which it acts as Reno.
    #[parameter(default = 14, unit = "segments")]
    pub low_window: u32,
    /// Round trips that the last segments up to the old maximum take.
    #[parameter(default = 20, min = 1)]
    pub smooth_part: u32,
    /// Whether it grows as many times as fast as an acknowledgement covers segments, as in Linux (tcp_bic.c, bictcp_update and bictcp_acked).
    #[parameter(default = true)]
    pub ack_ratio: bool,
}

/// Binary places of the kernel's estimate of segments per acknowledgement (ACK_RATIO_SHIFT).
const RATIO_SHIFT: u32 = 4;

/// BIC's congestion control.
#[derive(Clone, Debug)]
pub struct Bic {
    window: Window,
    beta: f64,
    fast_convergence: bool,
    max_increment: u64,
    low_window: u64,
    smooth_part: u64,
    /// Window before the last reduction in bytes, after fast convergence; 0 while unknown. And what it was before that.
    last_max: u64,
    prior_last_max: u64,
    /// Bytes to acknowledge per segment of growth, and the window that this was computed for.
    per: u64,
    per_for: u64,
    /// Segments that an acknowledgement covers, in sixteenths.
    ratio: u64,
    ack_ratio: bool,
}

impl BuiltIn for Bic {
    type Params = BicParams;

    fn new(params: &BicParams, config: &CcConfig) -> Self {
        Bic {
            window: Window::new(config, &params.slow_start),
            beta: within(params.beta, 0.0, 1.0),
            fast_convergence: params.fast_convergence,
            max_increment: u64::from(params.max_increment.max(1)),
            low_window: u64::from(params.low_window),
            smooth_part: u64::from(params.smooth_part.max(1)),
            last_max: 0,
            prior_last_max: 0,
            per: u64::MAX,
            per_for: 0,
            ratio: 2 << RATIO_SHIFT,
            ack_ratio: params.ack_ratio,
        }
    }
}

impl Bic {
    /// Bytes to acknowledge per segment of growth at the present window: whole segments, as in the kernel.
    fn bytes_per_segment(&self) -> u64 {
        let segments = self.window.cwnd / self.window.mss;
        if segments <= self.low_window {
            return self.window.cwnd;
        }
        let max = self.last_max / self.window.mss;
        let smooth = segments.saturating_mul(self.smooth_part) / B;
        let linear = segments / self.max_increment;
        let per = if segments < max {
            match (max - segments) / B {
                distance if distance > self.max_increment => linear,
                0 | 1 => smooth,
                distance => segments / distance,
            }
        } else if segments < max + B {
            smooth
        } else if segments < max + self.max_increment * (B - 1) {
            segments * (B - 1) / (segments - max)
        } else {
            linear
        };
        let per = if self.last_max == 0 { per.min(BLIND_PART) } else { per };
        let per = if self.ack_ratio { per.saturating_mul(1 << RATIO_SHIFT) / self.ratio } else { per };
        per.max(1).saturating_mul(self.window.mss)
    }

    /// A loss has shown the largest window that the path takes: this one, or less where it is below the last (fast convergence).
    fn take_maximum(&mut self) {
        let cwnd = self.window.cwnd;
        self.prior_last_max = self.last_max;
        self.last_max = if self.fast_convergence && cwnd < self.last_max {
            (cwnd as f64 * (1.0 + self.beta) / 2.0) as u64
        } else {
            cwnd
        };
        self.per_for = 0;
    }

    fn threshold(&self) -> u64 {
        let low = self.window.cwnd / self.window.mss <= self.low_window;
        self.window.share(self.window.cwnd, if low { 0.5 } else { self.beta })
    }
}

impl CongestionControl for Bic {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.phase == Phase::Open {
            let covered = (ack.acked / self.window.mss).min(1 << 16);
            self.ratio = (self.ratio + covered - (self.ratio >> RATIO_SHIFT)).max(1);
        }
        let counted = self.window.counted(ack);
        if counted == 0 {
            return;
        }
        let rest = self.window.slow_start(ack, counted);
        if rest > 0 {
            if self.per_for != self.window.cwnd {
                self.per = self.bytes_per_segment();
                self.per_for = self.window.cwnd;
            }
            self.window.grow(rest, self.per);
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.take_maximum();
        self.window.reduce(self.threshold());
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.take_maximum();
        // Tahoe's fast retransmit comes here, too, but a loss has shown the maximum.
        if event.trigger == LossTrigger::Rto {
            self.last_max = 0;
        }
        self.window.collapse(self.threshold());
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        if self.window.undo() {
            self.last_max = self.prior_last_max;
            self.per_for = 0;
        }
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
    }
    #[inline]
    fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    #[inline]
    fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.window.on_mss(change);
        self.last_max = change.scaled(self.last_max);
        self.prior_last_max = change.scaled(self.prior_last_max);
        // Computed anew for the next window.
        self.per_for = 0;
    }
    fn name(&self) -> &'static str {
        BicParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{config, event, sample, time_out};
    use super::*;

    /// Growth per round trip in segments at `segments`, with the maximum at `max`.
    fn growth(segments: u64, max: u64) -> f64 {
        let mut bic = Bic::new(&BicParams { ack_ratio: false, ..BicParams::default() }, &config(segments));
        bic.last_max = max * 1000;
        (segments * 1000) as f64 / bic.bytes_per_segment() as f64
    }

    #[test]
    fn the_increments_are_those_of_the_search() {
        for (segments, max, expected) in [
            (10, 200, 1.0),   // below low_window: Reno
            (96, 200, 16.0),  // a quarter of the way is 26: no more than S_max
            (160, 200, 10.0), // a quarter of 40
            (196, 200, 0.2),  // the last B segments take 20 round trips
            (202, 200, 0.2),  // and so do the first beyond
            (230, 200, 10.0), // then faster: 30 / 3
            (304, 200, 16.0), // and linear
            (1000, 0, 50.0),  // no maximum known: 5 % of the window
            (96, 0, 16.0),    // or S_max, where that is more
        ] {
            let got = growth(segments, max);
            assert!((got - expected).abs() < 0.01 * expected, "{segments} of {max}: {got}, not {expected}");
        }
    }

    #[test]
    fn acknowledgements_of_several_segments_speed_growth_up_as_in_linux() {
        // 76 segments, 20 below the maximum: the step is a quarter of that, so that 76 / 5 segments acknowledged make one.
        // The kernel's estimate begins at two segments and is rounded so that it never falls to one.
        for (size, per) in [(1000, 7000), (2000, 7000), (4000, 3000)] {
            let mut bic = Bic::new(&BicParams::default(), &config(76));
            bic.last_max = 96_000;
            for _ in 0..200 {
                bic.on_ack(&AckSample { cwnd_limited: false, ..sample(2, size) });
            }
            assert_eq!(bic.bytes_per_segment(), per, "{size}");
        }
    }

    #[test]
    fn reductions_and_fast_convergence() {
        let mut bic = Bic::new(&BicParams::default(), &config(100));
        bic.on_congestion_event(&event(1, 0));
        assert_eq!((bic.cwnd(), bic.last_max), (79_000, 100_000));
        bic.on_congestion_event(&event(2, 0));
        assert_eq!(bic.last_max, (79_000.0 * (1024.0 + 819.0) / 2048.0) as u64);
        bic.undo(Timestamp::from_millis(3));
        assert_eq!((bic.cwnd(), bic.last_max), (79_000, 100_000));
        bic.on_rto(&time_out(4, 0));
        assert_eq!((bic.cwnd(), bic.last_max), (1000, 0));
        let mut tahoe = Bic::new(&BicParams::default(), &config(100));
        tahoe.on_rto(&event(1, 0));
        assert_eq!((tahoe.cwnd(), tahoe.last_max), (1000, 100_000), "a fast retransmit shows the maximum");
        let mut small = Bic::new(&BicParams::default(), &config(12));
        small.on_congestion_event(&event(1, 0));
        assert_eq!(small.cwnd(), 6000);
        small.on_ack(&sample(2, 6000));
        assert_eq!(small.cwnd(), 7000);
    }
}
