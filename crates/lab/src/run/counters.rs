//! What all counters of a run say at some instant.

use serde::{Deserialize, Serialize};
use warpline_core::Timestamp;
use warpline_core::counter::{Counter, Ratio};
use warpline_net::apart::MeetError;
use warpline_net::{LinkStats, Network};

use super::team::Team;
use crate::hosts::counters::FlowTotals;
use crate::hosts::reading::{FlowCount, counts};
use crate::hosts::{ModelHosts, Window};

/// The counters of all flows and links.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// When they were read.
    pub(super) at: Timestamp,
    pub(super) flows: Vec<FlowTotals>,
    /// The windows of the flows' connections then; no counters.
    pub(super) windows: Vec<Window>,
    /// In the order of the network's links.
    pub(super) links: Vec<LinkStats>,
}

/// What the counters of one process said, without those that said nothing.
#[derive(Debug, Serialize, Deserialize)]
struct Share {
    flows: Vec<(u32, FlowCount)>,
    links: Vec<(u32, LinkStats)>,
}

impl Counters {
    /// What those of this process say now.
    pub(super) fn take(network: &mut Network, world: &[ModelHosts]) -> Counters {
        let (flows, windows) =
            counts(world).into_iter().map(|FlowCount { totals, window }| (totals, window)).unzip();
        let links = network.all_link_stats().map(|(_, stats)| stats).collect();
        Counters { at: network.now(), flows, windows, links }
    }

    /// Those of all processes together, in the first one; nothing in the others.
    ///
    /// # Errors
    /// If a process has ended.
    pub(super) fn together(mut self, team: &mut Team<'_>) -> Result<Option<Counters>, MeetError> {
        let share =
            if team.is_first() { Share { flows: Vec::new(), links: Vec::new() } } else { self.share() };
        let Some(shares) = team.gather(share)? else { return Ok(None) };
        for Share { flows, links } in shares {
            for (index, FlowCount { totals, window }) in flows {
                self.flows[index as usize].merge(&totals);
                self.windows[index as usize].or(window);
            }
            links.into_iter().for_each(|(index, link)| self.links[index as usize] = link);
        }
        Ok(Some(self))
    }

    fn share(&mut self) -> Share {
        let (flows, links) = (std::mem::take(&mut self.flows), std::mem::take(&mut self.links));
        let flows = flows.into_iter().zip(std::mem::take(&mut self.windows));
        let flows = flows.map(|(totals, window)| FlowCount { totals, window });
        Share {
            flows: (0..).zip(flows).filter(|(_, flow)| *flow != FlowCount::default()).collect(),
            links: (0..).zip(links).filter(|(_, link)| *link != LinkStats::default()).collect(),
        }
    }
}

impl Counter for Counters {
    fn growth(&self, before: &Counters, ratio: Ratio) -> Counters {
        fn each<C: Counter>(now: &[C], before: &[C], ratio: Ratio) -> Vec<C> {
            now.iter().zip(before).map(|(now, before)| now.growth(before, ratio)).collect()
        }
        Counters {
            at: self.at,
            flows: each(&self.flows, &before.flows, ratio),
            windows: Vec::new(),
            links: each(&self.links, &before.links, ratio),
        }
    }

    fn merge(&mut self, more: &Counters) {
        fn each<C: Counter>(own: &mut [C], more: &[C]) {
            own.iter_mut().zip(more).for_each(|(own, more)| own.merge(more));
        }
        each(&mut self.flows, &more.flows);
        each(&mut self.links, &more.links);
    }
}
