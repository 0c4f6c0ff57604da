//! Any congestion control as one type: the built-in ones by static dispatch, anything else in a box.

use warpline_core::parameter::Component;
use warpline_core::{Rate, TimeDelta, Timestamp};

use super::{
    AckSample, Algorithm, CcConfig, CongestionControl, CongestionEvent, Controller, CubicParams, EcnNeed,
    LostSegment, Marks, MssChange, Subflow,
};

/// An algorithm of the list in `cc/mod.rs`.
pub trait BuiltIn: CongestionControl + Sized {
    /// Its parameters.
    type Params: Component;

    /// Whether it reads delivery rates. Connections take none where it does not.
    const READS_DELIVERY_RATE: bool = false;

    /// The congestion control of a new connection. A parameter out of its range counts as the nearest value that
    /// makes sense.
    fn new(params: &Self::Params, config: &CcConfig) -> Self;
}

impl Default for Algorithm {
    /// CUBIC, as in Linux.
    fn default() -> Self {
        Algorithm::Cubic(CubicParams::default())
    }
}

impl From<Box<dyn CongestionControl>> for Controller {
    fn from(algorithm: Box<dyn CongestionControl>) -> Self {
        Controller::Boxed(algorithm)
    }
}

impl CongestionControl for Controller {
    #[inline]
    fn on_sent(&mut self, now: Timestamp, bytes: u64, in_flight: u64) {
        each!(self, algorithm => algorithm.on_sent(now, bytes, in_flight));
    }
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        each!(self, algorithm => algorithm.on_ack(ack));
    }
    #[inline(always)]
    fn cwnd_after(&mut self, ack: &AckSample) -> u64 {
        each!(self, algorithm => algorithm.cwnd_after(ack))
    }
    fn reads_delivery_rate(&self) -> bool {
        match self {
            Controller::Boxed(algorithm) => algorithm.reads_delivery_rate(),
            built_in => built_in.built_in_reads_delivery_rate(),
        }
    }
    fn on_established(&mut self, now: Timestamp, srtt: TimeDelta, min_rtt: TimeDelta) {
        each!(self, algorithm => algorithm.on_established(now, srtt, min_rtt));
    }
    fn on_restart(&mut self, now: Timestamp, app_limited: bool) {
        each!(self, algorithm => algorithm.on_restart(now, app_limited));
    }
    #[inline]
    fn on_marks(&mut self, marks: &Marks) {
        each!(self, algorithm => algorithm.on_marks(marks));
    }
    #[inline]
    fn on_lost(&mut self, lost: &LostSegment) {
        each!(self, algorithm => algorithm.on_lost(lost));
    }
    #[inline]
    fn holds_back(&self) -> bool {
        each!(self, algorithm => algorithm.holds_back())
    }
    fn governs_recovery(&self) -> bool {
        each!(self, algorithm => algorithm.governs_recovery())
    }
    #[inline]
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        each!(self, algorithm => algorithm.on_congestion_event(event));
    }
    #[inline]
    fn on_rto(&mut self, event: &CongestionEvent) {
        each!(self, algorithm => algorithm.on_rto(event));
    }
    #[inline]
    fn on_recovery_exit(&mut self, now: Timestamp) {
        each!(self, algorithm => algorithm.on_recovery_exit(now));
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        each!(self, algorithm => algorithm.set_window(cwnd, ssthresh))
    }
    #[inline]
    fn undo(&mut self, now: Timestamp) {
        each!(self, algorithm => algorithm.undo(now));
    }
    #[inline]
    fn on_idle(&mut self, now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        each!(self, algorithm => algorithm.on_idle(now, idle, rto));
    }
    #[inline]
    fn cwnd(&self) -> u64 {
        each!(self, algorithm => algorithm.cwnd())
    }
    #[inline]
    fn ssthresh(&self) -> u64 {
        each!(self, algorithm => algorithm.ssthresh())
    }
    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        each!(self, algorithm => algorithm.pacing_rate())
    }
    #[inline]
    fn paces_payload(&self) -> bool {
        each!(self, algorithm => algorithm.paces_payload())
    }
    #[inline]
    fn send_quantum(&self) -> u64 {
        each!(self, algorithm => algorithm.send_quantum())
    }
    #[inline]
    fn min_burst(&self) -> u32 {
        each!(self, algorithm => algorithm.min_burst())
    }
    #[inline]
    fn ecn_need(&self) -> EcnNeed {
        each!(self, algorithm => algorithm.ecn_need())
    }
    fn on_ecn_agreed(&mut self, accurate: bool) {
        each!(self, algorithm => algorithm.on_ecn_agreed(accurate));
    }
    fn on_mss(&mut self, change: &MssChange) {
        each!(self, algorithm => algorithm.on_mss(change));
    }
    fn on_subflows(&mut self, subflows: &[Subflow], own: usize) {
        each!(self, algorithm => algorithm.on_subflows(subflows, own));
    }
    #[inline]
    fn name(&self) -> &'static str {
        each!(self, algorithm => algorithm.name())
    }
}

#[cfg(test)]
mod tests {
    use warpline_core::parameter::Choice;

    use super::super::testbed::{config, sample};
    use super::super::{NiceParams, NiceVariant};
    use super::*;

    #[test]
    fn every_name_builds_what_bears_it() {
        for (name, algorithm) in Algorithm::KINDS.iter().zip(Algorithm::all()) {
            assert_eq!(algorithm, name.parse().unwrap());
            assert_eq!(algorithm.build(&config(10)).name(), *name);
            assert_eq!(algorithm.faults(), [], "the defaults of {name} are allowed");
        }
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        let error = "renno".parse::<Algorithm>().unwrap_err().to_string();
        assert!(
            error.starts_with("`renno` is not a congestion control; there are reno, cubic, vegas"),
            "{error}"
        );
    }

    #[test]
    fn wrong_parameters_are_all_named_and_what_is_built_of_them_works() {
        let nice = NiceParams { threshold: 2.0, floor: f64::NAN, alpha: 5.0, ..NiceParams::default() };
        let faults = Algorithm::Nice(nice).faults();
        assert_eq!(
            faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "`threshold` is 2; allowed: 0 to 1",
                "`floor` is NaN; allowed: above 0 segments",
                "`beta` is 3; allowed: 0 or more segments, not below `alpha`",
            ]
        );
        assert!(Algorithm::Nice(nice).build(&config(10)).cwnd() >= 1);
    }

    #[test]
    fn every_algorithm_survives_as_text_with_every_parameter_changed() {
        for plain in Algorithm::all() {
            assert_eq!(plain.to_string(), plain.kind());
            let mut changed = plain;
            let mut count = 0;
            for field in changed.parameters().fields().into_iter().filter(|field| !field.preset) {
                let others = ["0.625", "no", "yes", "acks", "flight", "paper", "linux", "7", "77ms"];
                let kind = field.value.kind();
                let own = field.value.given();
                let taken = others
                    .into_iter()
                    .filter_map(|other| kind.read(other))
                    .any(|other| Some(&other) != own.as_ref() && field.value.take(&other));
                assert!(taken && field.value.given() != own, "{}", field.name);
                count += 1;
            }
            let text = changed.to_string();
            assert_eq!(text.matches('=').count(), count, "{text}");
            if changed.faults().is_empty() {
                assert_eq!(text.parse::<Algorithm>().unwrap(), changed);
            }
        }
    }

    #[test]
    fn the_papers_nice_is_a_word_and_what_differs_from_it() {
        let paper: Algorithm = "nice:fraction=0.3,variant=paper".parse().unwrap();
        assert_eq!(
            paper,
            Algorithm::Nice(NiceParams { fraction: 0.3, ..NiceParams::of(NiceVariant::Paper) })
        );
        assert_eq!(paper.to_string(), "nice:variant=paper,fraction=0.3");
        // A former name of a parameter.
        assert_eq!("nice:min_window=1".parse::<Algorithm>().unwrap().to_string(), "nice:floor=1");
    }

    #[test]
    fn a_controller_is_small() {
        assert!(size_of::<Controller>() <= 200, "{} bytes", size_of::<Controller>());
    }

    #[test]
    fn a_users_own_algorithm_rides_in_a_box() {
        #[derive(Debug)]
        struct Mine(u64);
        impl CongestionControl for Mine {
            fn on_ack(&mut self, ack: &AckSample) {
                self.0 += ack.acked;
            }
            fn on_congestion_event(&mut self, _event: &CongestionEvent) {}
            fn on_rto(&mut self, _event: &CongestionEvent) {}
            fn undo(&mut self, _now: Timestamp) {}
            fn cwnd(&self) -> u64 {
                self.0
            }
            fn ssthresh(&self) -> u64 {
                u64::MAX
            }
            fn pacing_rate(&self) -> Option<Rate> {
                Some(Rate::from_bps(8 * self.0))
            }
            fn min_burst(&self) -> u32 {
                3
            }
            fn name(&self) -> &'static str {
                "mine"
            }
        }
        let boxed: Box<dyn CongestionControl> = Box::new(Mine(config(4).initial_window));
        let mut controller = Controller::from(boxed);
        controller.on_ack(&sample(1, 500));
        assert_eq!((controller.cwnd(), controller.name()), (4500, "mine"));
        assert_eq!(controller.pacing_rate(), Some(Rate::from_bps(36_000)));
        assert_eq!(controller.min_burst(), 3);
    }
}
