//! One type for every congestion control: the built-ins by static dispatch, anything else in a box.

use warpline_core::{Rate, TimeDelta, Timestamp};

use super::bic::Bic;
use super::cubic::Cubic;
use super::fixed::Fixed;
use super::ledbat::Ledbat;
use super::ledbat_plus_plus::LedbatPlusPlus;
use super::lp::Lp;
use super::nice::Nice;
use super::reno::Reno;
use super::vegas::Vegas;
use super::westwood::Westwood;
use super::{AckSample, CongestionControl, CongestionEvent};

/// A connection's congestion control. The path of every acknowledgement goes through here: a `match`, no virtual call.
#[derive(Debug)]
pub enum Controller {
    /// RFC 5681.
    Reno(Reno),
    /// RFC 9438.
    Cubic(Cubic),
    /// Brakmo and Peterson.
    Vegas(Vegas),
    /// Binary increase.
    Bic(Bic),
    /// Westwood+.
    Westwood(Westwood),
    /// RFC 6817. Boxed, for its delay histories.
    Ledbat(Box<Ledbat>),
    /// draft-irtf-iccrg-ledbat-plus-plus. Boxed, for its delay histories.
    LedbatPlusPlus(Box<LedbatPlusPlus>),
    /// TCP-LP. Boxed, for its delays.
    Lp(Box<Lp>),
    /// TCP Nice. Boxed, for its detector.
    Nice(Box<Nice>),
    /// A constant window.
    Fixed(Fixed),
    /// Anything else: an algorithm of the user's own.
    Boxed(Box<dyn CongestionControl>),
}

impl From<Box<dyn CongestionControl>> for Controller {
    fn from(algorithm: Box<dyn CongestionControl>) -> Self {
        Controller::Boxed(algorithm)
    }
}

/// The same expression for whichever algorithm it is.
macro_rules! each {
    ($controller:expr, $algorithm:ident => $call:expr) => {
        match $controller {
            Controller::Reno($algorithm) => $call,
            Controller::Cubic($algorithm) => $call,
            Controller::Vegas($algorithm) => $call,
            Controller::Bic($algorithm) => $call,
            Controller::Westwood($algorithm) => $call,
            Controller::Ledbat($algorithm) => $call,
            Controller::LedbatPlusPlus($algorithm) => $call,
            Controller::Lp($algorithm) => $call,
            Controller::Nice($algorithm) => $call,
            Controller::Fixed($algorithm) => $call,
            Controller::Boxed($algorithm) => $call,
        }
    };
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
    fn min_burst(&self) -> u32 {
        each!(self, algorithm => algorithm.min_burst())
    }
    #[inline]
    fn name(&self) -> &'static str {
        each!(self, algorithm => algorithm.name())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{config, sample};
    use super::*;

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
