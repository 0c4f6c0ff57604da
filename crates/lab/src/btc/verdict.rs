//! Decides whether a host, not the path, was the bottleneck. Then the result is not a bulk transfer capacity (RFC 3148 section 3.4).

use serde::{Deserialize, Serialize};
use warpline_capacity::{CapOptions, HostResults, ReceiverResults, SenderResults};

use super::lines::percent;

/// Above this share of one core, a host was too busy.
const BUSY: f64 = 0.9;
/// Above this share of the time with a full socket, the sending host was the bottleneck.
const WAITING: f64 = 0.05;
/// Above this share of all losses, drops in a host determined the result.
const DROPS: f64 = 0.1;
/// Above this share of the smallest round trip, the wait for a host's thread is a part of the result.
const LATE: f64 = 0.05;
/// Above this share of the maximum rate, that maximum may be what was measured.
const NEAR: f64 = 0.8;
/// Above this share of the time, the advertised window limited sending.
const WINDOW: f64 = 0.5;

/// If more than this share of probes is unanswered, rate-limited answers are likelier than such a bad path.
const RATIONED: f64 = 0.25;

/// The doubt about a test whose probes were not answered in this share.
pub(super) fn rationed(unanswered: f64) -> Option<String> {
    (unanswered > RATIONED).then(|| {
        format!(
            "{} of the probes were not answered: routers or the target may limit their answers (ICMP rate limiting)",
            percent(unanswered)
        )
    })
}

/// Doubts about a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Reasons why there is no capacity: a host was the bottleneck, or probes were not answered.
    pub host_limited: Vec<String>,
    /// Other remarks.
    pub notes: Vec<String>,
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Judges a test by the counters of both ends.
pub fn host_limits(
    options: &CapOptions,
    sender: Option<&SenderResults>,
    receiver: Option<&ReceiverResults>,
    sending: Option<&HostResults>,
    receiving: Option<&HostResults>,
) -> Judgement {
    let mut judgement = Judgement::default();
    let lost = sender.map_or(0, |s| s.lost_segments).max(receiver.map_or(0, |r| r.missing));
    let sent = sender.map_or(0, |s| s.sent_segments);
    for (name, host) in [("sending", sending), ("receiving", receiving)] {
        let Some(host) = host else { continue };
        let busy = share(host.busy_ns, host.elapsed_ns);
        if busy > BUSY {
            judgement.host_limited.push(format!(
                "the {name} host was busy for {:.0} % of the time: it could not go faster",
                100.0 * busy
            ));
        }
    }
    let path = sender.filter(|s| s.rtt_count > 0).map(|s| s.rtt_min_ns);
    for (name, host) in [("sending", sending), ("receiving", receiving)] {
        let mean = host.and_then(|host| host.serve_wait_ns.checked_div(host.served));
        if let (Some(mean), Some(path)) = (mean, path)
            && share(mean, path) > LATE
        {
            judgement.notes.push(format!(
                "packets waited in the {name} host for its thread {:.2} ms on average, {:.0} % of the smallest round trip: the machine is busy, \
                 or the path is very short",
                mean as f64 / 1e6,
                100.0 * share(mean, path)
            ));
        }
    }
    if let Some(host) = sending {
        let waiting = share(host.send_wait_ns, host.elapsed_ns);
        if waiting > WAITING {
            judgement.host_limited.push(format!(
                "the sending host's socket had no room for {:.0} % of the time: its interface is the bottleneck",
                100.0 * waiting
            ));
        }
        let dropped = format!(
            "{} packets were dropped inside the sending host, of {sent} sent: they were never on the path",
            host.send_drops
        );
        if host.send_drops > 0 && share(host.send_drops, lost) > DROPS {
            judgement.host_limited.push(dropped);
        } else if host.send_drops > 0 {
            judgement.notes.push(dropped);
        }
    }
    if let Some(host) = receiving {
        // With offload on both ends a batch arrives, and is dropped, as one.
        let batch = sending.map_or(1, |sending| sending.batch_max.max(1));
        let dropped = format!(
            "{} receptions of up to {batch} packets were dropped inside the receiving host, whose socket was full (it holds {} bytes): these \
             are not losses of the path",
            host.receive_drops, host.receive_buffer
        );
        if host.receive_drops > 0 && share(host.receive_drops.saturating_mul(batch), lost) > DROPS {
            judgement.host_limited.push(dropped);
        } else if host.receive_drops > 0 {
            judgement.notes.push(dropped);
        }
    }
    if let Some(sender) = sender {
        let window = share(sender.window_limited_ns, sender.elapsed_ns);
        if window > WINDOW {
            judgement.notes.push(format!(
                "the advertised window of {} bytes limited sending for {:.0} % of the time: the result is that of the window, \
                 not of the path (--window)",
                options.window,
                100.0 * window
            ));
        }
        if sender.data_bytes > 0
            && sender.avoidance_ns == 0
            && sender.recoveries + sender.timeout_episodes == 0
        {
            judgement.notes.push(
                "slow start did not end within the test: the path's capacity was not reached; measure for longer".into(),
            );
        }
    }
    if let (Some(rate), Some(sender)) = (options.max_rate, sender) {
        let sent = sender.sent_wire_bytes as f64 * 8e9 / sender.elapsed_ns.max(1) as f64;
        if sent > NEAR * rate.as_bps() as f64 {
            judgement.notes.push(format!(
                "sending was limited to {rate:#} (--max-rate; a server limits clients without a key), and came near it: the result is not a bulk \
                 transfer capacity"
            ));
        }
    }
    judgement
}
