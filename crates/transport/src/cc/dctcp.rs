//! DCTCP: the window falls by half the part of the data that came marked, so that queues stay short where switches mark early.
//!
//! Sources: RFC 8257 (the sections below are its); M. Alizadeh et al., "Data Center TCP (DCTCP)" (SIGCOMM 2010), whose section 3.3 has the law
//! of its oscillation; Linux tcp_dctcp.c.
//!
//! * Section 3.3: alpha follows the part of the bytes that were marked, with gain g = 1/16, once per window of data. It begins at 1, so the first
//!   mark halves the window.
//! * Marks reduce the window by the part alpha / 2, once per window of data. An acknowledgement that ends a window of data and reports marks moves
//!   alpha first. Until that window is acknowledged the window does not grow, as in Linux.
//! * Section 3.4: it grows as Reno's.
//! * Section 3.5: a loss halves it, even right after marks (Linux dctcp_react_to_loss); so does a time-out, after which it is one segment.
//!
//! The other half of DCTCP is the receiver's echo of every mark (section 3.2): `tcp/ecn.rs`. ECN is on wherever this algorithm runs, and all
//! packets are ECN-capable, as in Linux. Where the other side refuses ECN, this is Reno.
//!
//! Departures: alpha and the window have no steps, where Linux has 1024ths and whole segments (there alpha stays above 1/64 for ever, or drops to
//! zero, and a reduction of less than a segment is none). A window of data ends with its last byte, as in Linux, where the RFC waits for one more.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::record::LossTrigger;
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, EcnNeed, Marks, MssChange};

/// What remains of the window after a loss.
const LOSS_BETA: f64 = 0.5;

/// DCTCP (RFC 8257), for switches that mark early. It turns ECN on.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("dctcp")]
pub struct DctcpParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Weight of a window of data in the moving average of the marked part.
    #[parameter(default = 0.0625, above = 0.0, max = 1.0)]
    pub gain: f64,
    /// The marked part that a new connection assumes: the first marks reduce the window by half of it.
    #[parameter(default = 1.0, min = 0.0, max = 1.0)]
    pub initial_alpha: f64,
}

/// The moving average of the part of the data that came marked, which moves once per window of data.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedPart {
    /// The average.
    pub(super) alpha: f64,
    gain: f64,
    /// Bytes acknowledged in this window of data, and those of them that were marked.
    acked: u64,
    marked: u64,
    /// The window of data ends when this is acknowledged.
    end: u64,
}

impl MarkedPart {
    /// An average that begins at `alpha`.
    pub(super) fn new(alpha: f64, gain: f64) -> Self {
        MarkedPart { alpha, gain, acked: 0, marked: 0, end: 0 }
    }

    /// Counts an acknowledgement.
    #[inline]
    pub(super) fn count(&mut self, marks: &Marks) {
        self.acked = self.acked.saturating_add(marks.acked);
        self.marked = self.marked.saturating_add(marks.ce.min(marks.acked));
    }

    /// Whether the window of data is acknowledged.
    #[inline]
    pub(super) fn is_over(&self, marks: &Marks) -> bool {
        marks.ack >= self.end
    }

    /// Moves the average, and begins the next window of data.
    pub(super) fn update(&mut self, marks: &Marks) {
        if self.acked > 0 {
            let part = self.marked as f64 / self.acked as f64;
            self.alpha = (self.alpha + self.gain * (part - self.alpha)).clamp(0.0, 1.0);
        }
        self.skip(marks);
    }

    /// Begins the next window of data, and leaves the average as it is.
    pub(super) fn skip(&mut self, marks: &Marks) {
        (self.acked, self.marked, self.end) = (0, 0, marks.next_seq);
    }
}

/// DCTCP's congestion control.
#[derive(Clone, Debug)]
pub struct Dctcp {
    window: Window,
    part: MarkedPart,
    /// The present acknowledgement was counted because of its marks.
    counted: bool,
}

impl BuiltIn for Dctcp {
    type Params = DctcpParams;

    fn new(params: &DctcpParams, config: &CcConfig) -> Self {
        let alpha = within(params.initial_alpha, 0.0, 1.0);
        let part = MarkedPart::new(alpha, within(params.gain, 0.0, 1.0));
        Dctcp { window: Window::new(config, &params.slow_start), part, counted: false }
    }
}

impl Dctcp {
    /// The part of the data that came marked, averaged over the last windows.
    pub fn alpha(&self) -> f64 {
        self.part.alpha
    }

    /// Counts an acknowledgement, which may move alpha.
    #[inline]
    fn measure(&mut self, marks: &Marks) {
        self.part.count(marks);
        if self.part.is_over(marks) {
            self.part.update(marks);
        }
    }

    /// What remains of the window after marks.
    fn after_marks(&self) -> u64 {
        let remains = 1.0 - self.part.alpha / 2.0;
        ((self.window.cwnd as f64 * remains) as u64).max(2 * self.window.mss)
    }
}

impl CongestionControl for Dctcp {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        if !std::mem::take(&mut self.counted) {
            self.measure(&Marks::from(ack));
        }
        let counted = self.window.counted(ack);
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                self.window.additive_increase(rest);
            }
        }
    }
    fn on_marks(&mut self, marks: &Marks) {
        self.measure(marks);
        self.counted = true;
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let threshold = match event.trigger {
            LossTrigger::Ecn => self.after_marks(),
            _ => self.window.share(self.window.cwnd, LOSS_BETA),
        };
        self.window.reduce(threshold);
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.window.share(self.window.cwnd, LOSS_BETA));
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
    fn ecn_need(&self) -> EcnNeed {
        EcnNeed::Each
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.window.on_mss(change);
    }
    fn name(&self) -> &'static str {
        DctcpParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::Controller;
    use super::super::testbed::{Bottleneck, MSS, config, event, sample};
    use super::*;

    /// A window of ten segments is acknowledged, `marked` of them with a mark; each acknowledgement says what was sent until then.
    fn window_of_ten(dctcp: &mut Dctcp, from: u64, marked: u64) {
        for segment in 1..=10 {
            let ack = (from + segment) * MSS;
            let ce = if segment <= marked { MSS } else { 0 };
            dctcp.on_ack(&AckSample {
                ack,
                next_seq: ack + 10 * MSS,
                ce,
                cwnd_limited: false,
                ..sample(1, MSS)
            });
        }
    }

    fn marks(in_flight: u64) -> CongestionEvent {
        CongestionEvent { trigger: LossTrigger::Ecn, ..event(1, in_flight) }
    }

    #[test]
    fn alpha_moves_by_a_sixteenth_of_the_difference_once_per_window() {
        let params = DctcpParams { initial_alpha: 0.5, ..DctcpParams::default() };
        let mut dctcp = Dctcp::new(&params, &config(10));
        // The first acknowledgement ends the window of nothing before it: one segment, marked.
        window_of_ten(&mut dctcp, 0, 4);
        let first = 0.5 + (1.0 - 0.5) / 16.0;
        assert_eq!(dctcp.alpha(), first);
        // The next window is the nine others, of which three were marked, and the first of this one.
        window_of_ten(&mut dctcp, 10, 0);
        assert_eq!(dctcp.alpha(), first + (0.3 - first) / 16.0);
        for window in 2..100 {
            window_of_ten(&mut dctcp, 10 * window, 2);
        }
        assert!((dctcp.alpha() - 0.2).abs() < 0.001, "{}", dctcp.alpha());
    }

    #[test]
    fn marks_that_end_a_window_of_data_move_alpha_before_they_reduce_the_window() {
        let params = DctcpParams { initial_alpha: 0.5, ..DctcpParams::default() };
        let mut dctcp = Dctcp::new(&params, &config(40));
        // The first acknowledgement ends the window of nothing before it. All of it is marked.
        let ack = AckSample { ack: MSS, next_seq: 40 * MSS, ce: MSS, cwnd_limited: false, ..sample(1, MSS) };
        dctcp.on_marks(&Marks::from(&ack));
        dctcp.on_congestion_event(&marks(40 * MSS));
        dctcp.on_ack(&ack);
        // It counts once: 17/32.
        assert_eq!((dctcp.alpha(), dctcp.cwnd()), (0.53125, 29_375));
        // The next one does not end a window of data.
        dctcp.on_ack(&AckSample { ack: 2 * MSS, ce: 0, ..ack });
        assert_eq!((dctcp.part.acked, dctcp.part.marked), (MSS, 0));
    }

    #[test]
    fn marks_take_half_of_alpha_and_losses_half_of_the_window() {
        let after = |initial_alpha: f64, ecn: bool| {
            let params = DctcpParams { initial_alpha, ..DctcpParams::default() };
            let mut dctcp = Dctcp::new(&params, &config(40));
            dctcp.on_congestion_event(&if ecn { marks(40 * MSS) } else { event(1, 40 * MSS) });
            (dctcp.cwnd(), dctcp.ssthresh())
        };
        assert_eq!(after(1.0, true), (20_000, 20_000));
        assert_eq!(after(0.1, true), (38_000, 38_000));
        assert_eq!(after(0.01, true), (39_800, 39_800), "less than a segment counts, too");
        assert_eq!(after(0.1, false), (20_000, 20_000));
        let mut dctcp =
            Dctcp::new(&DctcpParams { initial_alpha: 0.1, ..DctcpParams::default() }, &config(40));
        dctcp.on_rto(&event(1, 40 * MSS));
        assert_eq!((dctcp.cwnd(), dctcp.ssthresh()), (1000, 20_000));
        dctcp.undo(Timestamp::from_secs(1));
        assert_eq!(dctcp.cwnd(), 40_000);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn the_window_oscillates_as_the_law_says() {
        // SIGCOMM 2010, section 3.3: with N flows and a critical window W = (C RTT + K) / N, alpha is about the root of 2 / W, the window
        // swings by D = (W + 1) alpha / 2, and the queue between K + N and N D less. A fluid law: windows move in steps here.
        for (flows, threshold) in [(1, 60), (2, 60)] {
            let (rate, rtt) = (2000, 70);
            let make = |_| Controller::Dctcp(Dctcp::new(&DctcpParams::default(), &config(10)));
            let mut link = Bottleneck::new((0..flows).map(make).collect(), rate, rtt, 1000);
            link.mark_above = Some(threshold);
            link.run_to(Timestamp::from_secs(30));
            let critical = (rate * rtt / 1000 + threshold) as f64 / flows as f64;
            let alpha = (2.0 / critical).sqrt();
            let swing = (critical + 1.0) * alpha / 2.0;
            let (mut low, mut high, mut mean) = (u64::MAX, 0, 0.0);
            for step in 1..=3000 {
                link.run_to(Timestamp::from_millis(30_000 + 20 * step));
                (low, high) = (low.min(link.cwnd(0)), high.max(link.cwnd(0)));
                let Controller::Dctcp(dctcp) = link.controller(0) else { panic!("it is DCTCP") };
                mean += dctcp.alpha() / 3000.0;
            }
            let seen = (high - low) as f64 / MSS as f64;
            assert!((0.75..1.35).contains(&(mean / alpha)), "{flows}: alpha {mean}, by the law {alpha}");
            if flows == 1 {
                assert!((0.7..1.5).contains(&(seen / swing)), "swing {seen}, by the law {swing}");
                let top = high as f64 / MSS as f64;
                assert!((critical - 3.0..critical + 5.0).contains(&top), "top {top}, by the law {critical}");
            }
            let outcome = link.measure(90, 120);
            assert!(outcome.shares.iter().sum::<f64>() > 0.995, "{:?}", outcome.shares);
            assert_eq!(outcome.losses, vec![0; flows as usize]);
            let shortest = outcome.shares.iter().fold(1.0, |least: f64, share| least.min(*share));
            assert!(shortest * flows as f64 > 0.8, "{:?}", outcome.shares);
            assert!((threshold as f64 * 0.5..threshold as f64).contains(&outcome.queue), "{}", outcome.queue);
        }
    }
}
