//! Which subflow carries the next piece of a connection's data.

use warpline_core::parameter::Words;

use super::sender::Path;

/// Which subflow of a multipath connection carries the next piece of data, of those whose windows have room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Words)]
pub enum Scheduler {
    /// The one with the smallest smoothed round-trip time (the default of Linux's former multipath tree, net/mptcp/mptcp_sched.c).
    #[default]
    #[word("minrtt")]
    MinRtt,
    /// One after the other, a segment each.
    #[word("roundrobin")]
    RoundRobin,
    /// All of them: each subflow carries all data that is not known to have arrived, so that the fastest one counts.
    #[word("redundant")]
    Redundant,
}

impl Scheduler {
    /// The place of the next one among `paths`, of those that `may` take it; `last` was the one before.
    pub(super) fn choose(self, paths: &[Path], last: usize, may: impl Fn(usize) -> bool) -> Option<usize> {
        let free = |&place: &usize| paths[place].has_room() && may(place);
        match self {
            Scheduler::MinRtt => (0..paths.len()).filter(free).min_by_key(|&place| paths[place].srtt),
            Scheduler::RoundRobin | Scheduler::Redundant => {
                (1..=paths.len()).map(|step| (last + step) % paths.len()).find(free)
            }
        }
    }
}
