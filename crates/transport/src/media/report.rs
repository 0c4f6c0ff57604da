//! Reports of a receiver: which packets arrived, when, and with which mark.
//!
//! Source: RFC 8888 (RTCP feedback for congestion control), section 3.1 for the size. Departures: arrival times are exact, where the RFC has
//! steps of 1/1024 s; numbers of packets do not wrap; a request for a key frame (RFC 4585 section 6.3.1, PLI) travels in the report, where it is
//! a message of its own.

use serde::{Deserialize, Serialize};
use warpline_core::packet::{IPV4_HEADER, UDP_HEADER};
use warpline_core::{TimeDelta, Timestamp};

/// How a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// When, on the receiver's clock.
    pub at: Timestamp,
    /// Whether with the congestion-experienced mark.
    pub ce: bool,
}

/// A report on the packets with consecutive numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When it was made, on the receiver's clock.
    pub at: Timestamp,
    /// Number of the first packet that it tells of.
    pub begin: u64,
    /// How each arrived; none that has not. The last one has.
    pub arrivals: Vec<Option<Arrival>>,
    /// Whether the receiver asks for a key frame.
    pub wants_key_frame: bool,
}

impl Report {
    /// Bytes on the wire: headers of IP and UDP, the head of the RTCP packet with the sender's SSRC, the SSRC that it is on with the range of
    /// numbers, two bytes for each packet, filled up to words, and the time of the report.
    pub fn wire_size(&self) -> u32 {
        let packets = (self.arrivals.len() as u32).next_multiple_of(2);
        let key_frame = if self.wants_key_frame { 12 } else { 0 };
        IPV4_HEADER + UDP_HEADER + 8 + 8 + 2 * packets + 4 + key_frame
    }
}

/// When a receiver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportRule {
    /// When the last packet of a frame arrives, and not later than 100 ms after a packet that was not reported.
    Frame,
    /// So often that reports of 100 bytes are 2 % of the received rate; 10 to 1000 times a second.
    Share,
}

impl ReportRule {
    /// Longest time from the arrival of a packet to its report, at a received rate in bit/s.
    pub(super) fn patience(self, rate: f64) -> TimeDelta {
        match self {
            ReportRule::Frame => TimeDelta::from_millis(100),
            ReportRule::Share => TimeDelta::from_secs_f64(1.0 / (0.02 * rate / 800.0).clamp(10.0, 1000.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_as_large_as_its_format() {
        let report = |packets| Report {
            at: Timestamp::ZERO,
            begin: 0,
            arrivals: vec![None; packets],
            wants_key_frame: false,
        };
        // 28 bytes of IP and UDP, 20 of RTCP, and a word for two packets.
        assert_eq!([0, 1, 2, 3].map(|packets| report(packets).wire_size()), [48, 52, 52, 56]);
    }

    #[test]
    fn reports_take_their_share_within_bounds() {
        let millis = |rate: f64| ReportRule::Share.patience(rate).as_micros() as f64 / 1e3;
        assert_eq!([0.0, 2e6, 1e9].map(millis), [100.0, 20.0, 1.0]);
    }
}
