//! LIA, the "linked increases" of Multipath TCP: the subflows of a connection grow together by as much as one TCP on the best of their paths.
//!
//! Source: RFC 6356 section 3. Its formula was read where Linux's former multipath tree has it (net/mptcp/mptcp_coupled.c). In congestion avoidance
//! an acknowledgement of b bytes raises the window of subflow i by the smaller of alpha b mss / cwnd_total and b mss / cwnd_i, where
//! alpha = cwnd_total max(cwnd_j / rtt_j^2) / (sum cwnd_j / rtt_j)^2. Slow start and reductions are Reno's, for each subflow by itself. Without
//! siblings it is Reno.
//!
//! Departures: alpha follows every acknowledgement; Linux computes it anew when a window has grown or a loss was found. A window grows by whole
//! segments, as in Linux.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::Window;
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Subflow};

/// LIA (RFC 6356): the subflows of a multipath connection take together what one TCP would; without `multipath` it is Reno.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("lia")]
pub struct LiaParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
}

/// The congestion control of RFC 6356 for one subflow.
#[derive(Clone, Debug)]
pub struct Lia {
    window: Window,
    /// cwnd_total / alpha: bytes acknowledged here for which the window grows by a segment. Zero without siblings.
    joint: u64,
}

impl BuiltIn for Lia {
    type Params = LiaParams;

    fn new(params: &LiaParams, config: &CcConfig) -> Self {
        Lia { window: Window::new(config, &params.slow_start), joint: 0 }
    }
}

/// A subflow's cwnd / rtt, in bytes per second.
pub(super) fn rate(subflow: &Subflow) -> f64 {
    subflow.cwnd as f64 / seconds(subflow)
}

/// Its smoothed round-trip time in seconds.
pub(super) fn seconds(subflow: &Subflow) -> f64 {
    subflow.srtt.max(TimeDelta::from_nanos(1)).as_secs_f64()
}

impl CongestionControl for Lia {
    fn on_ack(&mut self, ack: &AckSample) {
        let counted = self.window.counted(ack);
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                // As Reno where it is alone, or would be faster than Reno.
                let own = self.window.cwnd.max(2 * self.window.mss);
                self.window.grow(rest, self.joint.max(own));
            }
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        let half = self.window.share(self.window.cwnd, 0.5);
        self.window.reduce(half);
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        let half = self.window.share(self.window.cwnd, 0.5);
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
    }
    fn on_subflows(&mut self, subflows: &[Subflow], _own: usize) {
        let sum: f64 = subflows.iter().map(rate).sum();
        let best = subflows.iter().map(|subflow| rate(subflow) / seconds(subflow)).fold(0.0, f64::max);
        self.joint = if subflows.len() > 1 && best > 0.0 { (sum * sum / best) as u64 } else { 0 };
    }
    fn name(&self) -> &'static str {
        LiaParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{MSS, config, event, sample};
    use super::*;

    fn subflow(segments: u64, millis: u64) -> Subflow {
        Subflow { cwnd: segments * MSS, srtt: TimeDelta::from_millis(millis), loss_interval: 0 }
    }

    /// In congestion avoidance with this window.
    fn lia(segments: u64) -> Lia {
        let mut lia = Lia::new(&LiaParams::default(), &config(10));
        lia.set_window(segments * MSS, 2 * MSS);
        lia
    }

    /// Segments acknowledged until the window grows.
    fn acks(lia: &mut Lia) -> u64 {
        let before = lia.cwnd();
        (1..)
            .find(|&n| {
                lia.on_ack(&sample(n, MSS));
                lia.cwnd() > before
            })
            .unwrap()
    }

    #[test]
    fn two_subflows_alike_grow_together_as_one_tcp() {
        // alpha = 40 (20 / rtt^2) / (40 / rtt)^2 = 1/2: 40 / (1/2) = 80 segments for each step of one of them, so half a segment
        // in a round trip of both windows, of which each has 20.
        let mut lia = lia(20);
        lia.on_subflows(&[subflow(20, 100), subflow(20, 100)], 0);
        assert_eq!(acks(&mut lia), 80);
    }

    #[test]
    fn the_one_on_the_better_path_is_never_faster_than_reno() {
        // sum = 10 / 10 ms + 100 / 1 s = 1100 segments/s; best = 10 / (10 ms)^2 = 100000; 1100^2 / 100000 = 12.1.
        let paths = [subflow(10, 10), subflow(100, 1000)];
        let (mut fast, mut slow) = (lia(10), lia(100));
        fast.on_subflows(&paths, 0);
        slow.on_subflows(&paths, 1);
        assert_eq!((acks(&mut fast), acks(&mut slow)), (13, 100));
    }

    #[test]
    fn alone_it_is_reno() {
        let mut lia = lia(20);
        assert_eq!(acks(&mut lia), 20);
        lia.on_subflows(&[subflow(21, 100)], 0);
        assert_eq!(acks(&mut lia), 21);
        lia.on_congestion_event(&event(1, 0));
        assert_eq!((lia.cwnd(), lia.ssthresh()), (11 * MSS, 11 * MSS));
        lia.on_rto(&event(2, 0));
        assert_eq!((lia.cwnd(), lia.ssthresh()), (MSS, 5 * MSS));
    }
}
