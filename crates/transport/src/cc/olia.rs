//! OLIA, the opportunistic linked increases of Multipath TCP: the subflows together take what one TCP would, as with LIA, and their windows move to
//! the paths with the least congestion.
//!
//! Source: Khalili, Gast, Popovic and Le Boudec, "MPTCP is not Pareto-optimal", CoNEXT 2012, and draft-khalili-mptcp-congestion-control-05. The
//! texts of neither could be read: what is here follows their first author's code in Linux's former multipath tree (net/mptcp/mptcp_olia.c).
//!
//! In congestion avoidance an acknowledgement of b bytes changes the window w of a subflow by b mss (w / rtt^2 / (sum of w_p / rtt_p)^2 + alpha / w).
//! The best paths are those with the largest l_p / rtt_p^2, where l_p is the bytes between the last two losses, or since the last if that is more.
//! Where some of the best do not have the largest window, alpha is 1 / (n c) for these c, -1 / (n m) for the m subflows with the largest window, and
//! zero for others; n is the number of subflows. Elsewhere it is zero for all. Slow start and reductions are Reno's. Without siblings it is Reno.
//!
//! Departures from that code: numbers are floating-point; the first term is no larger than Reno's by itself; and a window below two segments
//! counts as two, as in our Reno.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::lia::{rate, seconds};
use super::slow_start::SlowStartParams;
use super::window::Window;
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Subflow};

/// OLIA (Khalili et al. 2012): the subflows of a multipath connection take together what one TCP would, and leave congested paths; without
/// `multipath` it is Reno.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("olia")]
pub struct OliaParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
}

/// What the other subflows make of an acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Coupling {
    /// w / rtt^2 / (sum w_p / rtt_p)^2, per byte.
    joint: f64,
    /// By which windows move to the best paths.
    alpha: f64,
}

/// The congestion control of the draft for one subflow.
#[derive(Clone, Debug)]
pub struct Olia {
    window: Window,
    /// None without siblings.
    coupling: Option<Coupling>,
    /// Bytes of growth, or of what is to be given up, that are no whole segment yet.
    credit: f64,
}

impl BuiltIn for Olia {
    type Params = OliaParams;

    fn new(params: &OliaParams, config: &CcConfig) -> Self {
        Olia { window: Window::new(config, &params.slow_start), coupling: None, credit: 0.0 }
    }
}

/// alpha of the subflow `own`.
fn alpha(subflows: &[Subflow], own: usize) -> f64 {
    let largest = subflows.iter().map(|subflow| subflow.cwnd).max().unwrap_or(0);
    let quality = |subflow: &Subflow| subflow.loss_interval as f64 / (seconds(subflow) * seconds(subflow));
    let best = subflows.iter().map(quality).fold(0.0, f64::max);
    let is_largest = |subflow: &Subflow| subflow.cwnd == largest;
    let is_collected = |subflow: &Subflow| !is_largest(subflow) && quality(subflow) >= best;
    let count = |which: &dyn Fn(&Subflow) -> bool| subflows.iter().filter(|subflow| which(subflow)).count();
    let (collected, n) = (count(&is_collected), subflows.len());
    match subflows.get(own) {
        Some(own) if collected > 0 && is_collected(own) => 1.0 / (n * collected) as f64,
        Some(own) if collected > 0 && is_largest(own) => -1.0 / (n * count(&is_largest)) as f64,
        _ => 0.0,
    }
}

impl Olia {
    /// Moves the window for so many bytes acknowledged.
    fn move_by(&mut self, acked: u64, coupling: Coupling) {
        let mss = self.window.mss as f64;
        let cwnd = self.window.cwnd.max(2 * self.window.mss) as f64;
        let step = coupling.joint.min(1.0 / cwnd) + coupling.alpha / cwnd;
        self.credit += acked as f64 * mss * step;
        if self.credit >= mss {
            self.window.raise(self.window.mss);
            self.credit = 0.0;
        } else if self.credit <= -mss {
            self.window.lower();
            self.credit = 0.0;
        }
    }

    fn half(&mut self) -> u64 {
        self.credit = 0.0;
        self.window.share(self.window.cwnd, 0.5)
    }
}

impl CongestionControl for Olia {
    fn on_ack(&mut self, ack: &AckSample) {
        let counted = self.window.counted(ack);
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            match self.coupling {
                _ if rest == 0 => {}
                Some(coupling) => self.move_by(rest, coupling),
                None => self.window.additive_increase(rest),
            }
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        let half = self.half();
        self.window.reduce(half);
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        let half = self.half();
        self.window.collapse(half);
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
    fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.window.on_mss(change);
        self.credit = change.scaled_part(self.credit);
    }
    fn on_subflows(&mut self, subflows: &[Subflow], own: usize) {
        let sum: f64 = subflows.iter().map(rate).sum();
        self.coupling = match subflows.get(own) {
            Some(this) if subflows.len() > 1 && sum > 0.0 => {
                let joint = rate(this) / seconds(this) / (sum * sum);
                Some(Coupling { joint, alpha: alpha(subflows, own) })
            }
            _ => None,
        };
    }
    fn name(&self) -> &'static str {
        OliaParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{MSS, config, event, sample};
    use super::*;

    fn subflow(segments: u64, millis: u64, loss_interval: u64) -> Subflow {
        Subflow { cwnd: segments * MSS, srtt: TimeDelta::from_millis(millis), loss_interval }
    }

    /// In congestion avoidance, as number `own` of `subflows`.
    fn olia(subflows: &[Subflow], own: usize) -> Olia {
        let mut olia = Olia::new(&OliaParams::default(), &config(10));
        olia.set_window(subflows[own].cwnd, 2 * MSS);
        olia.on_subflows(subflows, own);
        olia
    }

    /// Segments acknowledged until the window moves, and to how many segments.
    fn moved(mut olia: Olia) -> (u64, u64) {
        let before = olia.cwnd();
        let acks = (1..).find(|&n| {
            olia.on_ack(&sample(n, MSS));
            olia.cwnd() != before
        });
        (acks.unwrap(), olia.cwnd() / MSS)
    }

    #[test]
    fn two_subflows_alike_grow_together_as_one_tcp() {
        // (20 / rtt^2) / (40 / rtt)^2 = 1 / 80, and no other is better.
        let paths = [subflow(20, 100, 5000); 2];
        assert_eq!(moved(olia(&paths, 0)), (80, 21));
        assert_eq!(moved(olia(&paths[..1], 0)), (20, 21));
    }

    #[test]
    fn windows_move_from_the_largest_to_the_best_path() {
        // The second path is better and has the smaller window: alpha is -1/2 and 1/2.
        let paths = [subflow(20, 100, 10_000), subflow(10, 100, 100_000)];
        assert_eq!((alpha(&paths, 0), alpha(&paths, 1)), (-0.5, 0.5));
        // 20 / 900 - 1 / 40 = -1 / 360, and 10 / 900 + 1 / 20 = 1 / 16.4 in segments.
        assert_eq!(moved(olia(&paths, 0)), (360, 19));
        assert_eq!(moved(olia(&paths, 1)), (17, 11));
        // The best has the largest window: nothing moves.
        assert_eq!(alpha(&[subflow(20, 100, 100_000), subflow(10, 100, 10_000)], 1), 0.0);
        // A shorter round trip is worth its square: 10000 / 50^2 is as good as 40000 / 100^2, and both are best.
        let paths = [subflow(9, 50, 10_000), subflow(9, 100, 40_000), subflow(10, 100, 1000)];
        assert_eq!(
            (alpha(&paths, 0), alpha(&paths, 1), alpha(&paths, 2)),
            (1.0 / 6.0, 1.0 / 6.0, -1.0 / 3.0)
        );
    }

    #[test]
    fn a_loss_halves_it_and_what_was_gathered_is_lost() {
        let mut olia = olia(&[subflow(20, 100, 5000); 2], 0);
        (1..80).for_each(|n| olia.on_ack(&sample(n, MSS)));
        olia.on_congestion_event(&event(90, 0));
        olia.on_ack(&sample(91, MSS));
        assert_eq!((olia.cwnd(), olia.ssthresh()), (10 * MSS, 10 * MSS));
        olia.on_rto(&event(92, 0));
        assert_eq!((olia.cwnd(), olia.ssthresh()), (MSS, 5 * MSS));
    }
}
