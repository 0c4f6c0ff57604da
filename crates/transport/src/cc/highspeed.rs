//! HighSpeed TCP: Reno up to 38 segments; above, the larger the window, the faster it grows and the less it falls.
//!
//! Sources: S. Floyd, "HighSpeed TCP for Large Congestion Windows" (RFC 3649); Linux tcp_highspeed.c. The sections below are the RFC's.
//!
//! * Section 5: the window that goes with a loss rate is a straight line on logarithmic axes, through 38 segments at 10^-3 and 83000 at
//!   10^-7: p(w), turned round.
//! * Section 5: what part of the window a loss takes, b(w), falls with the logarithm of the window, from a half at 38 segments to a tenth at 83000.
//! * Section 5: growth per round trip is what gives that window at that loss rate: a(w) = 2 w^2 p(w) b(w) / (2 - b(w)) segments. An
//!   acknowledgement adds a(w) / w of a segment, however much it acknowledges (so does Linux): where receivers acknowledge every second
//!   segment, that is half of a(w) per round trip.
//! * From one row of the RFC's table (appendix B) to the next Linux takes the a and b of the upper one: two segments and 0.44 from 39 segments on.
//!
//! Departures: the rows come from these formulas, and begin up to 4 % later than in the table. Beyond the higher window b stays what it is
//! there, and a goes on by the formula; Linux's table ends at 89053 segments.

use warpline_core::float;
use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange};

/// What part of a(w) by the formula the rows of the RFC's table have, at least: it is computed from the rounded p(w) = 0.078 / w^1.2.
const TABLE: f64 = 0.96;
/// A window beyond all, in segments.
const WIDEST: f64 = 2e9;

/// HighSpeed TCP (RFC 3649).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("highspeed")]
pub struct HighSpeedParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Window up to which it is Reno.
    #[parameter(default = 38.0, min = 1.0, unit = "segments")]
    pub low_window: f64,
    /// Loss rate that goes with that window.
    #[parameter(default = 1e-3, above = 0.0, max = 1.0)]
    pub low_window_loss: f64,
    /// A large window.
    #[parameter(default = 83_000.0, min = 1.0, not_below = "low_window", unit = "segments")]
    pub high_window: f64,
    /// Loss rate that goes with the large window.
    #[parameter(default = 1e-7, above = 0.0, max = 1.0, not_above = "low_window_loss")]
    pub high_window_loss: f64,
    /// What part of the large window a loss takes.
    #[parameter(default = 0.1, above = 0.0, max = 0.5)]
    pub high_window_decrease: f64,
}

/// Growth and decrease by the size of the window.
#[derive(Clone, Copy, Debug)]
struct Response {
    /// Where it begins, in segments, and the loss rate there.
    low_window: f64,
    low_loss: f64,
    /// Decline of the logarithm of the loss rate, and of the decrease, per unit of the logarithm of the window.
    slope: f64,
    decrease_slope: f64,
    least_decrease: f64,
}

impl Response {
    fn new(params: &HighSpeedParams) -> Self {
        let low_window = within(params.low_window, 1.0, 1e9);
        let low_loss = within(params.low_window_loss, 1e-12, 1.0);
        let least_decrease = within(params.high_window_decrease, 1e-3, 0.5);
        // Two windows that are the same make a step.
        let span = float::ln(within(params.high_window, 1.001 * low_window, WIDEST) / low_window);
        Response {
            low_window,
            low_loss,
            slope: float::ln(low_loss / within(params.high_window_loss, 1e-12, low_loss)) / span,
            decrease_slope: (0.5 - least_decrease) / span,
            least_decrease,
        }
    }

    /// b(w) by the formula: the part of a window of so many segments that a loss takes.
    fn exact_decrease(&self, window: f64) -> f64 {
        if window <= self.low_window {
            return 0.5;
        }
        (0.5 - self.decrease_slope * float::ln(window / self.low_window)).max(self.least_decrease)
    }

    /// a(w) by the formula: the segments that a window of so many grows by per round trip.
    fn exact_growth(&self, window: f64) -> f64 {
        if window <= self.low_window {
            return 1.0;
        }
        let loss = self.low_loss * float::powf(window / self.low_window, -self.slope);
        let decrease = self.exact_decrease(window);
        (window * window * loss * 2.0 * decrease / (2.0 - decrease)).max(1.0)
    }

    /// a(w) as Linux has it: the whole segments of the next row of the table.
    fn growth(&self, window: f64) -> f64 {
        if window <= self.low_window {
            return 1.0;
        }
        1.0 + (self.exact_growth(window) * TABLE).floor().max(1.0)
    }

    /// b(w) as Linux has it: that of the window at which the next row of the table begins.
    fn decrease(&self, window: f64) -> f64 {
        if window <= self.low_window {
            return 0.5;
        }
        let growth = self.growth(window);
        let has_begun = |at: f64| at >= WIDEST || self.exact_growth(at) * TABLE >= growth;
        let (mut before, mut after) = (window, 2.0 * window);
        while !has_begun(after) {
            (before, after) = (after, 2.0 * after);
        }
        // A thousandth of the window changes b by less than that.
        for _ in 0..10 {
            let middle = before.midpoint(after);
            *if has_begun(middle) { &mut after } else { &mut before } = middle;
        }
        self.exact_decrease(after)
    }
}

/// HighSpeed TCP's congestion control.
#[derive(Clone, Debug)]
pub struct HighSpeed {
    window: Window,
    response: Response,
    /// Growth in segments per round trip, and the window in bytes that it is for: it is a power, and many acknowledgements find the same window.
    growth: f64,
    growth_for: u64,
}

impl BuiltIn for HighSpeed {
    type Params = HighSpeedParams;

    fn new(params: &HighSpeedParams, config: &CcConfig) -> Self {
        HighSpeed {
            window: Window::new(config, &params.slow_start),
            response: Response::new(params),
            growth: 1.0,
            growth_for: 0,
        }
    }
}

impl HighSpeed {
    fn segments(&self) -> f64 {
        self.window.cwnd as f64 / self.window.mss as f64
    }

    /// What remains of the window after a loss.
    fn reduced(&self) -> u64 {
        self.window.without(self.window.cwnd, self.response.decrease(self.segments()))
    }
}

impl CongestionControl for HighSpeed {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        let counted = self.window.counted(ack);
        if counted == 0 {
            return;
        }
        let rest = self.window.slow_start(ack, counted);
        if rest == 0 {
            return;
        }
        let rest = rest.min(self.window.mss);
        if self.growth_for != self.window.cwnd {
            self.growth_for = self.window.cwnd;
            self.growth = self.response.growth(self.segments());
        }
        if self.growth > 1.0 {
            let per = self.window.cwnd.min(MAX_WINDOW) as f64 / self.growth;
            self.window.grow(rest, per as u64);
        } else {
            self.window.additive_increase(rest);
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.reduced());
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.reduced());
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
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
    }
    fn name(&self) -> &'static str {
        HighSpeedParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
    use super::*;

    /// One in congestion avoidance with so many segments.
    fn avoiding(segments: u64) -> HighSpeed {
        let config = CcConfig { initial_ssthresh: segments * MSS, ..config(segments) };
        HighSpeed::new(&HighSpeedParams::default(), &config)
    }

    #[test]
    fn growth_and_decrease_are_those_of_the_rfcs_table() {
        // Rows of RFC 3649's appendix B: w, a(w), b(w).
        let table = [
            (38.0, 1.0, 0.50),
            (118.0, 2.0, 0.44),
            (221.0, 3.0, 0.41),
            (1058.0, 8.0, 0.33),
            (5036.0, 20.0, 0.25),
            (19_965.0, 41.0, 0.17),
            (48_961.0, 60.0, 0.13),
            (84_035.0, 71.0, 0.10),
        ];
        let response = Response::new(&HighSpeedParams::default());
        for (window, growth, decrease) in table {
            assert!(
                (response.exact_decrease(window) - decrease).abs() < 0.006,
                "b({window}) is {}",
                response.exact_decrease(window)
            );
            // The row before has the same, less what separates the formulas.
            let before = response.decrease(0.97 * window);
            assert!((before - decrease).abs() < 0.01, "b({window}) is {before} before");
            let by = response.growth(window) / growth;
            assert!((0.97..=1.0).contains(&by), "a({window}) is {}", response.growth(window));
            // Up to the next row it is one more.
            assert!(response.growth(1.05 * window) > growth, "a({window})");
        }
        // Section 5, of the upper end itself: 83000^2 10^-7 2 0.1 / 1.9.
        let upper = response.exact_growth(83_000.0);
        assert!((upper - 72.515_789).abs() < 1e-5, "{upper}");
        assert!(
            (response.decrease(1e6) - 0.1).abs() < 1e-12 && response.decrease(1e9) == response.decrease(1e6)
        );
    }

    #[test]
    fn a_round_trip_grows_by_a_of_the_window() {
        for (segments, least, most) in
            [(20, 1, 1), (38, 1, 1), (100, 1, 2), (118, 1, 2), (1058, 7, 9), (19_965, 39, 42)]
        {
            let mut highspeed = avoiding(segments);
            Feeder::default().round(&mut highspeed, 100);
            let grown = highspeed.cwnd() / MSS - segments;
            assert!((least..=most).contains(&grown), "{segments}: {grown}");
        }
        // Another window has another growth at once.
        let mut highspeed = avoiding(118);
        let mut feeder = Feeder::default();
        feeder.round(&mut highspeed, 100);
        highspeed.window.cwnd = 1058 * MSS;
        feeder.round(&mut highspeed, 100);
        assert!((8..=9).contains(&(highspeed.cwnd() / MSS - 1058)), "{highspeed:?}");
    }

    #[test]
    fn growth_counts_acknowledgements() {
        let mut highspeed = avoiding(20);
        (1..20).for_each(|n| highspeed.on_ack(&sample(n, 2 * MSS)));
        assert_eq!(highspeed.cwnd(), 20 * MSS);
        highspeed.on_ack(&sample(20, 2 * MSS));
        assert_eq!(highspeed.cwnd(), 21 * MSS);
    }

    #[test]
    fn a_loss_takes_b_of_the_window_and_undo_gives_it_back() {
        // b is 0.5, 0.44 and 0.32 (83 / 256 in Linux); what goes is rounded down.
        for (segments, remain) in [(20, 10), (100, 57), (1058, 715)] {
            let mut highspeed = avoiding(segments);
            highspeed.on_congestion_event(&event(1, 0));
            assert_eq!((highspeed.cwnd(), highspeed.ssthresh()), (remain * MSS, remain * MSS));
            highspeed.undo(Timestamp::from_millis(2));
            assert_eq!(highspeed.cwnd(), segments * MSS);
            highspeed.on_rto(&event(3, 0));
            assert_eq!((highspeed.cwnd(), highspeed.ssthresh()), (MSS, remain * MSS));
        }
    }

    #[test]
    fn other_ends_make_another_line() {
        let params = HighSpeedParams {
            low_window: 10.0,
            high_window: 1000.0,
            high_window_loss: 1e-5,
            ..HighSpeedParams::default()
        };
        let response = Response::new(&params);
        // Halfway on the logarithmic axes, 100 segments at 10^-4, b is 0.3; a is 0.35 there, and never less than Reno's.
        assert!((response.exact_decrease(100.0) - 0.3).abs() < 1e-9);
        assert_eq!(response.exact_growth(100.0), 1.0);
        // The upper end: 10^6 10^-5 2 0.1 / 1.9.
        assert!((response.exact_growth(1000.0) - 2.0 / 1.9).abs() < 1e-9);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn random_losses_cost_it_less_than_reno() {
        // A pipe of 1000 segments, one packet in 20 000 lost: Reno's window averages 170 segments.
        let share = |name: &str| {
            let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
            let mut link = Bottleneck::new(vec![flow], 10_000, 100, 200);
            link.lose_every = 40_000;
            link.measure(10, 60).shares[0]
        };
        let (highspeed, reno) = (share("highspeed"), share("reno"));
        assert!(highspeed > 1.3 * reno, "{highspeed} against {reno}");
    }
}
