//! What results say of an emulator: how it kept pace, and what each host sent and received.

use warpline_live::audit::Audit;

use warpline_results::LiveHost;
use warpline_results::live::AuditSummary;
use warpline_scenario::addresses::AddressPlan;

/// What a summary says of an audit.
pub(super) fn audit_summary(audit: &Audit) -> AuditSummary {
    AuditSummary {
        duration_s: audit.duration_s,
        cpu_share: audit.cpu_share,
        lateness: audit.lateness.clone(),
        corrected_packets: audit.corrected_packets,
        lost_outside: audit.lost_outside,
        offloads: audit.offloads.clone(),
    }
}

/// The row of a host, without its counters.
pub(super) fn live_host(name: &str, node: u32, plan: &AddressPlan) -> LiveHost {
    let (v4, v6) = plan.of(node as usize);
    LiveHost {
        host: name.to_owned(),
        address: v4.to_string(),
        address6: v6.to_string(),
        ..LiveHost::default()
    }
}
