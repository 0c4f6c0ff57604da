//! The windows of a flow's connections, as samples have them.

use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;
use warpline_transport::cc::Controller;
use warpline_transport::tcp::{Connection, State};

/// The windows of a flow's connections. Windows are summed; the RTT is that of the oldest connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// Congestion window, in bytes.
    pub(crate) cwnd: Option<u64>,
    /// Slow-start threshold, in bytes.
    pub(crate) ssthresh: Option<u64>,
    /// Bytes in flight.
    pub(crate) in_flight: Option<u64>,
    /// Smoothed RTT.
    pub(crate) srtt: Option<TimeDelta>,
    /// Target rate of a media stream in bit/s.
    pub(crate) target: Option<u64>,
}

impl Window {
    /// Takes over what another part says, unless something is known: the data's senders are all in one part.
    pub(crate) fn or(&mut self, other: Window) {
        if *self == Window::default() {
            *self = other;
        }
    }

    /// Adds what a stack says of a socket; what it does not say is none.
    pub(crate) fn add_values(
        &mut self,
        cwnd: Option<u64>,
        ssthresh: Option<u64>,
        in_flight: Option<u64>,
        srtt: Option<TimeDelta>,
    ) {
        let more = [(&mut self.cwnd, cwnd), (&mut self.ssthresh, ssthresh), (&mut self.in_flight, in_flight)];
        for (sum, value) in more {
            *sum = value.map(|value| sum.unwrap_or(0) + value).or(*sum);
        }
        self.srtt = self.srtt.or(srtt);
    }

    /// Adds the window of a sender that has not finished sending.
    pub(crate) fn add(&mut self, connection: &Connection<Controller>) {
        if matches!(connection.state(), State::FinWait2 | State::TimeWait | State::Closed) {
            return;
        }
        *self.cwnd.get_or_insert(0) += connection.cwnd();
        *self.in_flight.get_or_insert(0) += connection.in_flight();
        if connection.ssthresh() != u64::MAX {
            *self.ssthresh.get_or_insert(0) += connection.ssthresh();
        }
        if self.srtt.is_none() {
            self.srtt = Some(connection.srtt()).filter(|srtt| !srtt.is_zero());
        }
    }
}
