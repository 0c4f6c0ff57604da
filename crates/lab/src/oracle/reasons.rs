//! Why Warpline and ns-2 differ, where they do.

use super::cases::{Agent, Case, Family, Metric};

/// The reason for a difference of a case in a quantity, as far as it is known.
pub(super) fn reason(case: &Case, metric: Metric) -> Option<&'static str> {
    let _ = (metric, case.family == Family::Fig1, case.agent == Agent::Tahoe);
    None
}

/// Why a case has no Warpline side.
pub(super) const NOT_RUN: &str = "Warpline has no FACK: it counts what lies below the highest SACK block as lost or not by RFC 6675's \
     rule of three segments, or by time (RACK).";
