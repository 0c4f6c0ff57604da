//! Whoever watches a run while it goes on gets each sample of flows and links, whether or not these are written to files.

use std::fmt;
use std::sync::Arc;

use warpline_core::TimeDelta;
use warpline_results::{FlowSample, LinkSample};

/// How the emulator of a live run keeps pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Packets that left the emulated network so far.
    pub packets: u64,
    /// Those of them that left late.
    pub late: u64,
}

/// The samples of one interval.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The end of the interval, by the run's time.
    pub time: TimeDelta,
    /// Duration of the whole run.
    pub duration: TimeDelta,
    /// Samples of flows.
    pub flows: &'a [FlowSample],
    /// Samples of links.
    pub links: &'a [LinkSample],
    /// None in a simulation.
    pub lateness: Option<Lateness>,
}

/// Watches a run. It is called from the thread of the run, which an emulator's packets wait for: it must not wait for anything.
pub trait Watch: Send + Sync {
    /// Takes the samples of an interval.
    fn sample(&self, sample: &Sample<'_>);
}

/// All that watch a run.
#[derive(Clone, Default)]
pub struct Watchers(pub Vec<Arc<dyn Watch>>);

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} watchers", self.0.len())
    }
}

impl Watch for Watchers {
    fn sample(&self, sample: &Sample<'_>) {
        self.0.iter().for_each(|watch| watch.sample(sample));
    }
}
