//! What only a live run's summary has: the audit, the live hosts, the programs and how they ended.

use serde::{Deserialize, Serialize};

use crate::column::table;
use crate::text_table::TextTable;

/// The live part of a summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveSummary {
    /// Whether the emulator kept pace: hardly any packet late, none lost outside the emulated network.
    pub kept_pace: bool,
    /// The two clocks of a dilated run; absent by the real clock, where both are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dilation: Option<DilationSummary>,
    /// How punctual the emulator was, and what was lost outside the emulated network.
    pub audit: AuditSummary,
    /// The live hosts.
    pub hosts: Vec<LiveHost>,
    /// Their programs.
    pub programs: Vec<ProgramRow>,
}

/// How the time of a dilated run went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DilationSummary {
    /// Whether the factor was raised where the machine could not carry the run.
    pub auto: bool,
    /// The run's time, as its hosts perceive it, in seconds.
    pub perceived_s: f64,
    /// The machine's time for it, in seconds.
    pub wall_s: f64,
    /// The mean time dilation factor: the one divided by the other.
    pub tdf_mean: f64,
    /// The factor at the end.
    pub tdf: f64,
    /// The factor over time: a step for the beginning, and one for each change.
    pub steps: Vec<DilationStep>,
}

table! {
    /// From when on a dilated run had a factor (`dilation.parquet`, which only such a run has).
    pub struct DilationStep: "dilation" #[serde(default)] {
        /// On the run's clock.
        time_s: f64 ["s" key],
        /// On the machine's, since the run's start.
        wall_s: f64 ["s"],
        /// The time dilation factor from then on.
        tdf: f64 [""],
    }
}

impl DilationSummary {
    /// Both clocks in a line.
    pub fn line(&self) -> String {
        let seconds = |value: f64| format!("{} s", (value * 1e3).round() / 1e3);
        let factor = |value: f64| format!("{}", (value * 1e3).round() / 1e3);
        let both = format!(
            "{} perceived in {} of the machine's time",
            seconds(self.perceived_s),
            seconds(self.wall_s)
        );
        if self.auto {
            let (first, last) = (self.steps.first().map_or(1.0, |step| step.tdf), self.tdf);
            format!("{both}: TDF {} to {}, {} on average", factor(first), factor(last), factor(self.tdf_mean))
        } else {
            format!("{both}: TDF {}", factor(self.tdf))
        }
    }
}

/// How punctual an emulator was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditSummary {
    /// The machine's time that the run took, in seconds.
    pub duration_s: f64,
    /// CPU time that the emulator took, as a share of one core.
    pub cpu_share: f64,
    /// By how much packets left the emulator later than they were due, in the run's time.
    pub lateness: LatenessSummary,
    /// Packets that were seen after the network had gone past their arrival, and were put right as far as it was possible.
    pub corrected_packets: u64,
    /// Packets lost outside the emulated network: full rings, a full pool, errors in sending.
    pub lost_outside: u64,
    /// Those of them that found no room in the pool: there was no memory left for packets, or they were larger than its frames.
    pub pool_overruns: u64,
    /// What is known of segmentation and checksum offloads.
    pub offloads: String,
}

impl AuditSummary {
    /// Whether the emulator kept pace: at most one packet in a thousand late, and none lost outside the emulated network.
    pub fn kept_pace(&self) -> bool {
        const TOLERATED_LATE: f64 = 0.001;
        let LatenessSummary { packets, late_packets, .. } = self.lateness;
        self.lost_outside == 0 && late_packets as f64 <= (packets as f64 * TOLERATED_LATE).max(1.0)
    }

    /// What was lost outside the emulated network, in words that follow its number. They say how many found no room in the memory for packets.
    pub fn lost(&self) -> String {
        let mut text = "lost outside the emulated network".to_owned();
        if self.pool_overruns > 0 {
            let why = "had no room in the memory for packets, or were larger than the MTU";
            text.push_str(&format!("; {} of them {why}", self.pool_overruns));
        }
        text
    }
}

/// Quantiles of lateness, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatenessSummary {
    /// Packets that left.
    pub packets: u64,
    /// Median.
    pub median_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Largest.
    pub max_us: f64,
    /// What counts as late.
    pub threshold_us: f64,
    /// Packets later than that.
    pub late_packets: u64,
}

/// A live host and what crossed its interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveHost {
    /// Its name.
    pub host: String,
    /// Its IPv4 address.
    pub address: String,
    /// Its IPv6 address.
    pub address6: String,
    /// Datagrams that it sent.
    pub sent_packets: u64,
    /// Their bytes from the IP header on.
    pub sent_bytes: u64,
    /// Datagrams that were handed to it.
    pub received_packets: u64,
    /// Their bytes from the IP header on.
    pub received_bytes: u64,
    /// Datagrams lost between it and the emulated network: full rings, a full pool, errors in sending.
    pub lost_outside: u64,
    /// Datagrams that its own network card dropped: those of a guest that cannot read as fast as they come with its `cpu_share`. They are a part
    /// of the experiment, and the run can have kept pace.
    pub card_drops: u64,
    /// Frames that are no IP datagram, or a damaged one.
    pub malformed: u64,
    /// Frames that do not concern the emulated network: ARP, link-local multicast and the like.
    pub ignored: u64,
    /// Datagrams for machines outside that did not answer for their address, and so were not sent.
    pub unanswered: u64,
}

/// A few words on what the network card of a guest dropped ([`LiveHost::card_drops`]).
pub fn dropped_by_card(host: &str, drops: u64) -> String {
    format!("{drops} packets dropped by the network card of {host}: its share of a core is too small")
}

/// A program and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramRow {
    /// Its host.
    pub host: String,
    /// Its number on the host, from 0.
    pub number: u64,
    /// Its name, or else its number: it is part of its files' names.
    pub name: String,
    /// Its command, with addresses filled in.
    pub command: String,
    /// When it was started, in seconds; absent if it was not.
    pub start_s: Option<f64>,
    /// When it ended, in seconds; absent if it still ran when the run ended.
    pub end_s: Option<f64>,
    /// How it ended: "exit code 0", "signal 9", "running" (at the end), "not started", or "unknown: ..." (its guest has left no report).
    pub outcome: String,
    /// Its exit code, if it has one.
    pub code: Option<i32>,
    /// How it should have ended.
    pub expected: String,
    /// Whether it ended as it should.
    pub ok: bool,
    /// What to say of it if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// File in the run directory with its standard output.
    pub stdout: String,
    /// File in the run directory with its standard error.
    pub stderr: String,
    /// Files in the run directory that were collected from it (`collect`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl LiveSummary {
    /// What to say first of a run that did not keep pace.
    pub fn lagged(&self) -> Option<String> {
        let l = &self.audit.lateness;
        (!self.kept_pace).then(|| {
            format!(
                "DID NOT KEEP PACE: {} of {} live packets left more than {} late, {} were {}.",
                l.late_packets,
                l.packets,
                micros(l.threshold_us),
                self.audit.lost_outside,
                self.audit.lost()
            )
        })
    }

    /// The audit in two lines, and a table of the programs.
    pub(crate) fn render(&self, width: usize) -> String {
        let l = &self.audit.lateness;
        let mut text = format!(
            "Live: {} packets left with a lateness of {} (median), {} (99 %), {} (largest); {} above {}\n  CPU {:.0} % of a core, \
             {} {}\n",
            l.packets,
            micros(l.median_us),
            micros(l.p99_us),
            micros(l.max_us),
            l.late_packets,
            micros(l.threshold_us),
            self.audit.cpu_share * 100.0,
            self.audit.lost_outside,
            self.audit.lost(),
        );
        for host in self.hosts.iter().filter(|host| host.unanswered > 0) {
            let LiveHost { host, unanswered, .. } = host;
            text.push_str(&format!(
                "  {unanswered} for machines of {host} that did not answer for their address\n"
            ));
        }
        if let Some(dilation) = &self.dilation {
            text.push_str(&format!("Time: {}\n", dilation.line()));
        }
        text.push_str(&render_programs(&self.programs, width));
        text
    }
}

/// A table of programs; nothing where there are none.
pub(crate) fn render_programs(programs: &[ProgramRow], width: usize) -> String {
    if programs.is_empty() {
        return String::new();
    }
    let mut table = TextTable::default();
    table.words("program", programs.iter().map(|p| format!("{}.{}", p.host, p.name)));
    // Why one was not started is said with the errors; it would leave no room for the other columns.
    let outcome = |p: &ProgramRow| p.outcome.split(':').next().unwrap_or_default().to_owned();
    table.words(
        "ended",
        programs.iter().map(|p| if p.ok { outcome(p) } else { format!("{} (FAILED)", outcome(p)) }),
    );
    table.words("command", programs.iter().map(|p| shortened(&p.command)));
    let mut text = format!("\nPrograms\n{}", table.render(width));
    for program in programs.iter().filter(|program| !program.files.is_empty()) {
        text +=
            &format!("  Collected from {}.{}: {}\n", program.host, program.number, program.files.join(", "));
    }
    text
}

fn shortened(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    if line.chars().count() <= 40 && line.len() == command.len() {
        line.to_owned()
    } else {
        line.chars().take(39).chain(['…']).collect()
    }
}

/// Microseconds as people read them.
fn micros(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.2} s", value / 1e6)
    } else if value >= 1e3 {
        format!("{:.2} ms", value / 1e3)
    } else {
        format!("{value:.0} us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_packet_in_a_thousand_is_tolerated_and_no_lost_one() {
        let audit = |packets, late_packets, lost_outside| AuditSummary {
            lateness: LatenessSummary { packets, late_packets, ..LatenessSummary::default() },
            lost_outside,
            ..AuditSummary::default()
        };
        for (kept, audit) in [
            (true, audit(0, 0, 0)),
            (true, audit(10, 1, 0)),
            (false, audit(10, 2, 0)),
            (true, audit(10_000, 10, 0)),
            (false, audit(10_000, 11, 0)),
            (false, audit(10_000, 0, 1)),
        ] {
            assert_eq!(audit.kept_pace(), kept, "{audit:?}");
        }
    }

    #[test]
    fn a_lack_of_memory_for_packets_is_told() {
        let said = |pool_overruns| {
            let audit = AuditSummary { lost_outside: 7, pool_overruns, ..AuditSummary::default() };
            LiveSummary { audit, ..LiveSummary::default() }.lagged().unwrap()
        };
        assert!(said(0).ends_with("7 were lost outside the emulated network."));
        let full = "7 were lost outside the emulated network; 5 of them had no room in the memory for packets, or were larger than the MTU.";
        assert!(said(5).ends_with(full));
    }
}
