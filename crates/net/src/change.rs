//! Changes of a link in use: its rate, its delay, what becomes of packets on its wire, and whether it is down.
//!
//! A packet in transmission finishes at the rate it began with; one that a rate of 0 has stopped goes on at the new rate, from its beginning. A packet
//! takes the delay in force when it leaves, and none overtakes another by that. A model that is replaced forgets what it has counted.

use thiserror::Error;
use warpline_core::{Rate, Stream, Streams, TimeDelta, Timestamp};

use crate::fate::Models;
use crate::jitter::{JitterKind, JitterModel};
use crate::loss::{LossConfig, LossKind};

/// What changes of a link; `None` for what stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// Its rate. At rate 0 packets wait.
    pub rate: Option<Rate>,
    /// Its propagation delay.
    pub delay: Option<TimeDelta>,
    /// What it loses.
    pub loss: Option<LossConfig>,
    /// Which packets arrive twice.
    pub duplicate: Option<LossKind>,
    /// Which packets arrive with a bit changed.
    pub corrupt: Option<LossKind>,
    /// Extra delay per packet.
    pub jitter: Option<JitterKind>,
    /// Whether it is down: what waits or comes is lost, what is under way arrives. An outage that was planned is another reason to be down.
    pub down: Option<bool>,
}

/// Why a link cannot be changed like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// It was not made for that ([`LinkConfig::changeable`](crate::LinkConfig::changeable)).
    #[error("this link was not made to be changed")]
    Fixed,
    /// Its rate changes by itself.
    #[error("the rate of this link follows a schedule, a trace or a radio: it cannot be set")]
    Rate,
    /// Its delay changes by itself.
    #[error("the delay of this link changes over time by itself: it cannot be set")]
    Delay,
    /// The network is cut: its parts are at different times.
    #[error("a network that is cut cannot be changed from outside; plan the change before")]
    Cut,
}

impl LinkChange {
    /// Whether it can be made on a link whose rate, or whose delay, follows something else.
    pub(crate) fn check(&self, rate_follows: bool, delay_follows: bool) -> Result<(), ChangeError> {
        match self {
            LinkChange { rate: Some(_), .. } if rate_follows => Err(ChangeError::Rate),
            LinkChange { delay: Some(_), .. } if delay_follows => Err(ChangeError::Delay),
            _ => Ok(()),
        }
    }

    /// The change with its models, for the link `name` at `at`. They draw from streams of their own, named after both.
    pub(crate) fn prepare(&self, name: &str, at: Timestamp, streams: &Streams) -> Prepared {
        let stream =
            |what: &str| -> Stream { streams.stream(&format!("link.{name}.{what}.{}", at.as_nanos())) };
        let chosen = |kind: &LossKind, what: &str| LossConfig::from(kind.clone()).build(|| stream(what));
        Prepared {
            rate: self.rate,
            delay: self.delay,
            models: Models {
                loss: self.loss.as_ref().map(|loss| loss.build(|| stream("loss"))),
                duplicate: self.duplicate.as_ref().map(|kind| chosen(kind, "duplicate")),
                corrupt: self.corrupt.as_ref().map(|kind| chosen(kind, "corrupt")),
            },
            jitter: self.jitter.as_ref().map(|jitter| jitter.at_work(|| stream("jitter"))),
            down: self.down,
        }
    }
}

/// A change that is ready to be made.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<TimeDelta>,
    pub(crate) models: Models,
    pub(crate) jitter: Option<Option<JitterModel>>,
    pub(crate) down: Option<bool>,
}

/// What a link that may be changed needs for that.
#[derive(Debug, Default)]
pub(crate) struct Changing {
    /// The changes that are planned, earliest last.
    planned: Vec<(Timestamp, Prepared)>,
    /// By how much its delay is longer at present than the least that is planned.
    pub(crate) longer: TimeDelta,
    /// Whether a change has set it down.
    pub(crate) down: bool,
    /// Whether packets may overtake each other on its wire, now or after a change.
    pub(crate) reorders: bool,
}

impl Changing {
    /// For a link with these changes, whose delay is `longer` at first than the least.
    pub(crate) fn new(mut planned: Vec<(Timestamp, Prepared)>, longer: TimeDelta, reorders: bool) -> Self {
        // Those of one instant stay in their order.
        planned.sort_by_key(|&(at, _)| at);
        planned.reverse();
        Changing { planned, longer, down: false, reorders }
    }

    /// When the next planned change is, if there is one.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.planned.last().map(|&(at, _)| at)
    }

    /// Takes the next planned change if it is that of `now`.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<Prepared> {
        self.planned.pop_if(|&mut (at, _)| at == now).map(|(_, change)| change)
    }

    /// Lets every planned change happen `span` earlier.
    pub(crate) fn skip(&mut self, span: TimeDelta) {
        self.planned.iter_mut().for_each(|(at, _)| *at = at.saturating_sub(span));
    }
}
