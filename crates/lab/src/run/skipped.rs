//! The time that a run has skipped: how its clock goes ahead of the network's, and what is counted for it.

use warpline_core::counter::Counter;
use warpline_core::{TimeDelta, Timestamp};
use warpline_net::Network;

use super::counters::Counters;

/// What has been skipped. The network and its hosts know nothing of it: for them no time has passed.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    /// When something was skipped, on the network's clock, and by how much the run's clock is ahead from then on.
    jumps: Vec<(Timestamp, TimeDelta)>,
    /// What is counted for it; none before the first time.
    credit: Option<Counters>,
}

impl Skipped {
    /// By how much the run's clock is ahead of the network's.
    pub(super) fn span(&self) -> TimeDelta {
        self.jumps.last().map_or(TimeDelta::ZERO, |&(_, ahead)| ahead)
    }

    /// The time of the run.
    pub(super) fn now(&self, network: &Network) -> Timestamp {
        network.now() + self.span()
    }

    /// When the present or a later instant of the run is on the network's clock.
    pub(super) fn on_network(&self, at: Timestamp) -> Timestamp {
        if at.is_set() { at.saturating_sub(self.span()) } else { at }
    }

    /// When something was in the run that was at `at` on the network's clock. What is skipped comes after everything of its instant.
    pub(super) fn in_run(&self, at: Timestamp) -> Timestamp {
        let before = self.jumps.partition_point(|&(jump, _)| jump < at);
        let ahead = before.checked_sub(1).and_then(|last| self.jumps.get(last));
        at + ahead.map_or(TimeDelta::ZERO, |&(_, ahead)| ahead)
    }

    /// Notes that `span` is skipped at `now` on the network's clock, for which `credit` is counted.
    pub(super) fn skip(&mut self, now: Timestamp, span: TimeDelta, credit: Counters) {
        self.jumps.push((now, self.span() + span));
        match &mut self.credit {
            Some(before) => before.merge(&credit),
            None => self.credit = Some(credit),
        }
    }

    /// The measured part begins: extremes and distributions start anew.
    pub(super) fn end_warmup(&mut self) {
        self.credit.iter_mut().flat_map(|credit| &mut credit.flows).for_each(|flow| flow.reset_extremes());
    }

    /// What has been counted in the run, and when, if this has been counted in the network just now.
    pub(super) fn with_credit(&self, mut counters: Counters) -> Counters {
        counters.at += self.span();
        if let Some(credit) = &self.credit {
            counters.merge(credit);
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_found_on_both_clocks() {
        let at = Timestamp::from_secs;
        let mut skipped = Skipped::default();
        skipped.skip(at(10), TimeDelta::from_secs(90), Counters::default());
        skipped.skip(at(20), TimeDelta::from_secs(400), Counters::default());
        assert_eq!([5, 10, 11, 20, 21].map(|s| skipped.in_run(at(s))), [5, 10, 101, 110, 511].map(at));
        assert_eq!(skipped.on_network(at(511)), at(21));
        assert_eq!(skipped.on_network(Timestamp::NEVER), Timestamp::NEVER);
    }
}
