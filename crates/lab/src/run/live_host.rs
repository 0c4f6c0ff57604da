//! The row of a live host in the results.

use warpline_results::LiveHost;
use warpline_scenario::addresses::AddressPlan;

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
