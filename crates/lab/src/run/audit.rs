//! What results say of an emulator: how it kept pace, and what each host sent and received.

use warpline_live::audit::Audit;

use warpline_results::LiveHost;
use warpline_results::live::{AuditSummary, LatenessSummary};
use warpline_scenario::addresses::AddressPlan;

/// What a summary says of an audit.
pub(super) fn audit_summary(audit: &Audit) -> AuditSummary {
    let l = &audit.lateness;
    AuditSummary {
        duration_s: audit.duration_s,
        cpu_share: audit.cpu_share,
        lateness: LatenessSummary {
            packets: l.packets,
            median_us: l.median_us,
            p99_us: l.p99_us,
            p999_us: l.p999_us,
            max_us: l.max_us,
            threshold_us: l.threshold_us,
            late_packets: l.late_packets,
        },
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
