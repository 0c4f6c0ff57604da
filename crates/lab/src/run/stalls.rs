//! The longest time in which a flow delivered nothing new, from the samples of the time series: it costs nothing per packet, and is known in steps
//! of the sampling interval.

use warpline_core::{TimeDelta, Timestamp};

/// When one flow delivered something after the warm-up.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The start of the first and the end of the last interval in which it did.
    span: Option<(Timestamp, Timestamp)>,
    /// The longest time between two such intervals.
    between: TimeDelta,
}

/// The stalls of all flows.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    flows: Vec<Progress>,
    /// Whether there were samples.
    sampled: bool,
}

impl Stalls {
    /// Notes whether a flow delivered something from `begin` to `end`.
    pub(super) fn sample(&mut self, flow: usize, begin: Timestamp, end: Timestamp, delivered: bool) {
        self.sampled = true;
        if !delivered {
            return;
        }
        if self.flows.len() <= flow {
            self.flows.resize(flow + 1, Progress::default());
        }
        let progress = &mut self.flows[flow];
        progress.span = Some(match progress.span {
            None => (begin, end),
            Some((first, last)) => {
                progress.between = progress.between.max(begin.saturating_since(last));
                (first, end)
            }
        });
    }

    /// The longest stall of a flow that was there from `begin` to `end`; none without samples.
    pub(super) fn longest(&self, flow: usize, begin: Timestamp, end: Timestamp) -> Option<TimeDelta> {
        let progress = self.flows.get(flow).copied().unwrap_or_default();
        self.sampled.then(|| match progress.span {
            None => end.saturating_since(begin),
            Some((first, last)) => {
                progress.between.max(first.saturating_since(begin)).max(end.saturating_since(last))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_may_be_at_the_start_between_or_at_the_end() {
        let at = Timestamp::from_secs;
        let longest = |delivering: &[u64], begin, end| {
            let mut stalls = Stalls::default();
            for second in 0..10 {
                stalls.sample(0, at(second), at(second + 1), delivering.contains(&second));
            }
            stalls.longest(0, at(begin), at(end))
        };
        assert_eq!(longest(&[3, 4, 9], 0, 10), Some(TimeDelta::from_secs(4)));
        assert_eq!(longest(&[6, 7, 9], 0, 10), Some(TimeDelta::from_secs(6)));
        assert_eq!(longest(&[1, 2], 0, 10), Some(TimeDelta::from_secs(7)));
        assert_eq!(longest(&[1, 2], 0, 4), Some(TimeDelta::from_secs(1)), "it ended early");
        assert_eq!(longest(&[], 2, 10), Some(TimeDelta::from_secs(8)));
        assert_eq!(Stalls::default().longest(0, at(0), at(10)), None);
    }
}
