//! The counters of a TReno test, and how it ended.

use serde::{Deserialize, Serialize};

/// The kind of answer to a probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeReply {
    /// The target echoed it.
    Echo,
    /// A router at which its hop limit ran out.
    TimeExceeded,
    /// The target, where nothing listens on the port.
    PortUnreachable,
    /// A router or the target would not or could not deliver it.
    Unreachable,
}

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrenoOutcome {
    /// It ran its time.
    Complete,
    /// Nothing ever answered.
    NoAnswer,
    /// Answers stopped in mid-test.
    Silent,
    /// The user stopped it here.
    Stopped,
}

/// The counters of a test. Times in nanoseconds; sizes in bytes of data (a probe without its emulated headers).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in SenderResults, which says what each means")]
pub struct TrenoResults {
    pub elapsed_ns: u64,
    pub data_bytes: u64,
    pub probes: u64,
    pub probe_wire_bytes: u64,
    pub retransmits: u64,
    pub replies: u64,
    /// Answers to probes that were considered lost, or had been answered.
    pub stray_replies: u64,
    /// Answers that arrived after the answer to a later probe.
    pub reordered: u64,
    pub slow_start_ns: u64,
    pub slow_start_bytes: u64,
    pub avoidance_ns: u64,
    pub avoidance_bytes: u64,
    pub recovery_ns: u64,
    pub recovery_bytes: u64,
    pub rtt_min_ns: u64,
    pub rtt_max_ns: u64,
    pub rtt_sum_ns: u64,
    pub rtt_count: u64,
    /// Recoveries and first time-outs: the number of congestion signals.
    pub congestion_signals: u64,
    pub recoveries: u64,
    pub timeouts: u64,
    pub lost: u64,
    /// Probes outstanding at the end for more than twice as long as any answer took: in a short test their time-out has not come.
    pub overdue: u64,
    /// Most probes lost in one recovery.
    pub max_cluster: u64,
    pub max_cwnd_slow_start: u64,
    pub max_cwnd_avoidance: u64,
    pub final_cwnd: u64,
    /// Bytes of a probe on the wire, at the end.
    pub mtu: u64,
    /// How often the path required smaller probes.
    pub mtu_reductions: u64,
    /// Sends that the kernel refused: these probes were never on the path.
    pub refused_sends: u64,
    /// Answers of each kind: echo, time exceeded, port unreachable, other unreachable.
    pub echoes: u64,
    pub time_exceeded: u64,
    pub port_unreachable: u64,
    pub unreachable: u64,
    /// Time in which the window's limit, and not the path, limited sending.
    pub window_limited_ns: u64,
}

impl TrenoResults {
    /// The time in slow start, in congestion avoidance, in recovery, and limited by the window.
    pub(super) fn phases(&self) -> [u64; 4] {
        [self.slow_start_ns, self.avoidance_ns, self.recovery_ns, self.window_limited_ns]
    }

    /// Sets these times.
    pub(super) fn set_phases(&mut self, phases: [u64; 4]) {
        [self.slow_start_ns, self.avoidance_ns, self.recovery_ns, self.window_limited_ns] = phases;
    }
}

/// The state of a test at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrenoSample {
    /// From the first probe, in nanoseconds.
    pub elapsed_ns: u64,
    /// Data answered so far.
    pub data_bytes: u64,
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold; `u64::MAX` while unset.
    pub ssthresh: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed round-trip time in nanoseconds.
    pub srtt_ns: u64,
    /// Probes lost so far.
    pub lost: u64,
    /// Probes sent again so far.
    pub retransmits: u64,
    /// Time-outs so far.
    pub timeouts: u64,
}
