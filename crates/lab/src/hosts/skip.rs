//! Skipping time: what the hosts are to do at stated times moves, and nothing else.

use warpline_core::{FlowId, TimeDelta, Timestamp};
use warpline_net::Port;
use warpline_scenario::application::Skipping;

use super::ModelHosts;
use super::flow::Flow;
use super::reading::Reading;

impl Flow {
    /// When it starts or stops next as planned, after `now`.
    fn next_change(&self, now: Timestamp) -> Timestamp {
        let future = [self.start, self.stop].into_iter().filter(|&at| at > now);
        future.min().unwrap_or(Timestamp::NEVER)
    }
}

impl ModelHosts {
    /// When a flow starts or stops next as planned, after `now`.
    pub(crate) fn next_change(&self, now: Timestamp) -> Timestamp {
        self.flows.iter().map(|flow| flow.next_change(now)).min().unwrap_or(Timestamp::NEVER)
    }

    /// Lets every planned start and stop happen `span` earlier. None may be planned within that span.
    pub(crate) fn skip(&mut self, now: Timestamp, span: TimeDelta, port: &mut Port<'_>) {
        for flow in &mut self.flows {
            let earlier = |at: &mut Timestamp| {
                if *at > now && at.is_set() {
                    *at = at.saturating_sub(span);
                }
            };
            earlier(&mut flow.start);
            earlier(&mut flow.stop);
            let next = flow.next_change(now);
            // An earlier request supersedes the one that was made for the former time.
            if let Some(running) = &flow.running
                && next.is_set()
            {
                port.set_timer(running.timer, next);
            }
        }
    }
}

/// What a flow does at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It has not begun, or has stopped.
    Idle,
    /// It sends in a way that repeats itself.
    Steady,
    /// It sends in another way.
    Unsteady,
}

impl Reading<'_> {
    /// What each flow does at `now`.
    pub(crate) fn activities(self, now: Timestamp) -> impl Iterator<Item = Activity> {
        (0..self.flow_count() as u32).map(move |id| {
            let flow = self.flow(FlowId(id));
            let through = || flow.running.as_ref().is_none_or(|running| running.app.is_through());
            match flow.spec.skipping {
                _ if now < flow.start => Activity::Idle,
                Skipping::Within if now < flow.stop => Activity::Steady,
                Skipping::Within => Activity::Idle,
                _ if now < flow.stop && !through() => Activity::Unsteady,
                // Its last transfers may be under way.
                _ if flow.spec.tcp && self.has_open_connections(FlowId(id)) => Activity::Unsteady,
                _ => Activity::Idle,
            }
        })
    }

    fn has_open_connections(self, flow: FlowId) -> bool {
        self.0.iter().any(|hosts| !hosts.flows[flow.index()].open.is_empty())
    }
}
