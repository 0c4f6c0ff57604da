//! A guest's CPU: switches the limit of its share of a core on and off, and says what it used while the limit held.

use warpline_core::dilation::Tdf;

use crate::error::{Doing, GuestError};
use crate::machine::Machine;
use crate::share::Held;
use crate::time::host_now;

pub use crate::share::{CpuLimit, LEAST_SHARE};

/// What a guest with a limit has used of its core while the limit held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUsed {
    /// The share of a core that it might use.
    pub share: f64,
    /// How often it got that anew, in nanoseconds of the machine's time.
    pub period: u64,
    /// Nanoseconds of the machine's time in which the limit held.
    pub span: u64,
    /// Nanoseconds on a core; none if this machine does not count them.
    pub on_core: Option<u64>,
    /// Periods in which it ran, or was held back.
    pub periods: u64,
    /// Those in which it was held back: it had used up its share before the period's end.
    pub throttled: u64,
}

impl Machine {
    /// Switches the limit of its share of a core on, in a run that is dilated by `tdf`, or off; does nothing if it has none.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn limit(&self, tdf: Option<Tdf>) -> Result<(), GuestError> {
        let Some(share) = &self.share else { return Ok(()) };
        let doing = || format!("limit the share of a core of guest {}", self.name());
        let tdf = tdf.map(|tdf| self.clocks.own_tdf(tdf));
        let now = (host_now(), share.used().doing(doing)?);
        share.limit(tdf).doing(doing)?;
        self.held.set(match (self.held.get(), tdf) {
            (Some(held), Some(tdf)) => Some(Held { tdf, ..held }),
            (Some(held), None) => Some(Held { lifted: held.lifted.or(Some(now)), ..held }),
            (None, Some(tdf)) => Some(Held { tdf, begun: now, lifted: None }),
            (None, None) => None,
        });
        Ok(())
    }

    /// Dilates the period of its limit by another factor of the run, if the limit holds.
    pub fn renew_limit(&self, tdf: Tdf) {
        if self.held.get().is_some_and(|held| held.lifted.is_none()) {
            // If it fails, the share is right all the same, with the previous period.
            let _ = self.limit(Some(tdf));
        }
    }

    /// What it used of its core while its limit held; none without a limit, or before.
    pub fn cpu_used(&self) -> Option<CpuUsed> {
        let (share, held) = (self.share.as_ref()?, self.held.get()?);
        let (end, total) = match held.lifted {
            Some(lifted) => lifted,
            None => (host_now(), share.used().ok()?),
        };
        let (begin, before) = held.begun;
        let (of_a_core, period) = share.terms(held.tdf);
        let used = total.since(before);
        Some(CpuUsed {
            share: of_a_core,
            period,
            span: end.saturating_sub(begin),
            on_core: used.on_core,
            periods: used.periods,
            throttled: used.throttled,
        })
    }
}
