//! The audit of a live run: how well the emulator kept pace, and what was lost outside the emulated network.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;
use warpline_results::live::{AuditSummary, LatenessSummary};

use crate::port::PortCounters;

/// Counters kept during the run.
#[derive(Debug)]
pub(crate) struct Ledger {
    lateness: Histogram<u64>,
    threshold: TimeDelta,
    late: u64,
    pub(crate) corrected: u64,
    /// Turns in which a packet came in.
    pub(crate) intakes: u64,
}

/// The longest lateness that the histogram distinguishes: a minute.
const MOST: u64 = 60_000_000_000;

impl Ledger {
    pub(crate) fn new(threshold: TimeDelta) -> Self {
        let lateness = Histogram::new_with_bounds(1, MOST, 3);
        // The bounds are constants that the histogram accepts.
        let lateness = lateness.unwrap_or_else(|_| unreachable!("bounds of the lateness histogram"));
        Ledger { lateness, threshold, late: 0, corrected: 0, intakes: 0 }
    }

    /// Records `count` packets that left `by` later than they were due.
    #[inline]
    pub(crate) fn note(&mut self, by: TimeDelta, count: u64) {
        self.lateness.saturating_record_n(by.as_nanos().max(1), count);
        if by > self.threshold {
            self.late += count;
        }
    }

    /// Packets that left, and how many of them were late.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.lateness.len(), self.late)
    }

    pub(crate) fn lateness(&self) -> LatenessSummary {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        LatenessSummary {
            packets: self.lateness.len(),
            median_us: micros(self.lateness.value_at_quantile(0.5)),
            p99_us: micros(self.lateness.value_at_quantile(0.99)),
            p999_us: micros(self.lateness.value_at_quantile(0.999)),
            max_us: micros(self.lateness.max()),
            threshold_us: micros(self.threshold.as_nanos()),
            late_packets: self.late,
        }
    }
}

/// A port's part of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortAudit {
    /// The interface.
    pub name: String,
    /// Its counters.
    #[serde(flatten)]
    pub counters: PortCounters,
}

/// How well the emulator kept up during a live run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// What the results of a run keep of it: how late packets left, how many were lost, and the time that it took.
    #[serde(flatten)]
    pub summary: AuditSummary,
    /// The ports.
    pub ports: Vec<PortAudit>,
}

impl Audit {
    /// The audit as a few lines of text; the first says whether the emulator kept pace.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let AuditSummary {
            duration_s,
            cpu_share,
            lateness: l,
            corrected_packets,
            lost_outside,
            offloads,
            ..
        } = &self.summary;
        let _ = if self.summary.kept_pace() {
            writeln!(text, "The emulator kept pace.")
        } else {
            writeln!(
                text,
                "The emulator did not keep pace: {} of {} packets were more than {} late, {} were {}.",
                l.late_packets,
                l.packets,
                micros(l.threshold_us),
                lost_outside,
                self.summary.lost()
            )
        };
        let _ = writeln!(
            text,
            "  lateness   median {}, 99 % {}, 99.9 % {}, max {}; {} of {} packets above {}",
            micros(l.median_us),
            micros(l.p99_us),
            micros(l.p999_us),
            micros(l.max_us),
            l.late_packets,
            l.packets,
            micros(l.threshold_us)
        );
        let _ = writeln!(
            text,
            "  CPU        {:.1} % of a core over {:.1} s; arrivals corrected: {}",
            cpu_share * 100.0,
            duration_s,
            corrected_packets
        );
        for port in &self.ports {
            let c = &port.counters;
            let _ = writeln!(
                text,
                "  {:<10} in {} packets, out {}; lost: ring {}, pool {}, sending {}; dropped by its card {}; malformed {}, not carried {}",
                port.name,
                c.received_packets,
                c.sent_packets,
                c.ring_overruns,
                c.pool_overruns,
                c.send_errors,
                c.card_drops,
                c.malformed,
                c.ignored
            );
        }
        if !offloads.is_empty() {
            let _ = writeln!(text, "  offloads   {}", offloads);
        }
        text
    }
}

/// Microseconds as text.
fn micros(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.2} s", value / 1e6)
    } else if value >= 1e3 {
        format!("{:.2} ms", value / 1e3)
    } else {
        format!("{value:.1} us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_lags_says_so_first() {
        let mut ledger = Ledger::new(TimeDelta::from_millis(1));
        ledger.note(TimeDelta::from_micros(5), 10_000);
        let audit = |ledger: &Ledger| Audit {
            summary: AuditSummary { lateness: ledger.lateness(), ..AuditSummary::default() },
            ..Audit::default()
        };
        assert!(audit(&ledger).render().starts_with("The emulator kept pace."));
        ledger.note(TimeDelta::from_millis(3), 11);
        assert!(
            audit(&ledger).render().starts_with(
                "The emulator did not keep pace: 11 of 10011 packets were more than 1.00 ms late"
            )
        );
    }

    #[test]
    fn lateness_is_summed_up_by_its_quantiles() {
        let mut ledger = Ledger::new(TimeDelta::from_millis(1));
        for micros in 1..=1000 {
            ledger.note(TimeDelta::from_micros(micros), 1);
        }
        let lateness = ledger.lateness();
        assert!((lateness.median_us - 500.0).abs() < 1.0 && (lateness.p99_us - 990.0).abs() < 1.0);
        assert!((lateness.max_us - 1000.0).abs() < 1.0 && lateness.late_packets == 0);
    }
}
