//! The report of a test with `cap`.

use serde::{Deserialize, Serialize};
use warpline_capacity::{CapOptions, Direction, HostResults, ReceiverResults, SenderResults};

use super::lines::{Line, Lines, bits, bytes, percent, rate, select, span, windows};
use super::statements::Statements;
use super::verdict::{Judgement, host_limits, rationed};

/// What a test without software at the far end measures.
const PROBED: &str = "from one side: an answer to a segment's probe stands for its arrival. Answers are as large as probes, so the slower direction of the \
                      path decides, and losses, reordering and delays are those of both directions";

/// The two ends of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// The sender of the data.
    pub sender: String,
    /// The receiver.
    pub receiver: String,
    /// Whether the path is IPv6.
    pub ipv6: bool,
}

/// The input of a report.
#[derive(Clone, Debug)]
pub struct CapInput<'a> {
    /// The options in force.
    pub options: &'a CapOptions,
    /// How the test ended, in words; "complete" if it was not cut short.
    pub outcome: &'a str,
    /// When it began, in microseconds since 1970; none in a simulation.
    pub began_us: Option<u64>,
    /// The two ends.
    pub ends: Ends,
    /// The sender's counters.
    pub sender: Option<SenderResults>,
    /// The receiver's counters.
    pub receiver: Option<ReceiverResults>,
    /// The counters of the sender's host.
    pub sending: Option<HostResults>,
    /// The counters of the receiver's host.
    pub receiving: Option<HostResults>,
    /// Whether both ends use the same clock.
    pub same_clock: bool,
    /// What carried the segments, in words, if there was no software at the far end.
    pub probes: Option<&'a str>,
    /// Whether to report a result even if a host was the bottleneck.
    pub tell_anyway: bool,
}

/// Congestion avoidance capacity and related values (RFC 3148 section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AvoidanceCapacity {
    /// Data delivered in congestion avoidance and fast recovery, divided by the time spent in both. The RFC excludes only
    /// time-outs and slow start.
    pub congestion_avoidance_capacity_bps: Option<f64>,
    /// The same without fast recovery: only while cwnd is at least ssthresh and no loss is being repaired.
    pub without_recovery_bps: Option<f64>,
    /// Share of the time spent in congestion avoidance.
    pub time_share: f64,
    /// Share in slow start.
    pub slow_start_bps: Option<f64>,
    /// Share of the time in slow start, recovery, and after time-outs.
    pub slow_start_share: f64,
    /// Share in fast recovery.
    pub recovery_share: f64,
    /// Share after time-outs.
    pub timeout_share: f64,
}

/// Preservation of the self-clock (RFC 3148 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfClock {
    /// Time-outs whose last event before was an acknowledgement that let no data out (3.2.1).
    pub lost_transmission_opportunities: u64,
    /// Segments that the window allowed during recoveries but that were not sent.
    pub unsent_segments_in_recovery: u64,
    /// Time-outs whose last event before was a transmission in response to an acknowledgement (3.2.2).
    pub losing_an_entire_window: u64,
    /// Recoveries from the loss of more than half a window (3.2.3).
    pub heroic_clock_preservation: u64,
    /// Recoveries that ended in a time-out.
    pub clock_lost_in_recovery: u64,
    /// Time-outs that turned out to be unnecessary (3.2.4).
    pub false_timeouts: u64,
    /// Fast retransmits that turned out to be unnecessary.
    pub false_fast_retransmits: u64,
    /// Episodes that kept the clock: fast recoveries.
    pub fast_recoveries: u64,
    /// Episodes that lost it: time-outs.
    pub timeouts: u64,
    /// All time-outs, including repeated ones.
    pub timeouts_with_backoff: u64,
    /// Segments lost, and the largest number of them within one round trip.
    pub lost_segments: u64,
    /// Largest cluster.
    pub largest_loss_cluster: u64,
    /// Mean cluster, in hundredths.
    pub mean_loss_cluster_hundredths: u64,
    /// How many clusters had 1, 2, 3, 4 to 7, 8 to 15, and 16 or more losses (3.2.3), from which one can infer how another recovery would do.
    pub loss_clusters: [u64; 6],
    /// Reductions because of ECN.
    pub ecn_reductions: u64,
}

/// Flow based path properties (RFC 3148 section 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathProperties {
    /// Smallest, mean and largest round-trip time, in milliseconds.
    pub rtt_min_ms: Option<f64>,
    /// Mean.
    pub rtt_mean_ms: Option<f64>,
    /// Largest.
    pub rtt_max_ms: Option<f64>,
    /// Share of transmissions that never arrived.
    pub forward_loss: Option<f64>,
    /// Share that arrived out of order.
    pub reordered: Option<f64>,
    /// Overtaken by one or two.
    pub reordered_slightly: u64,
    /// Overtaken by three or more: fast retransmit fires early.
    pub reordered_fast_retransmit: u64,
    /// A second late or more.
    pub reordered_seconds_late: u64,
    /// The largest number of segments that overtook one.
    pub reordering_extent: u64,
    /// Longest lateness, in milliseconds.
    pub reordering_lateness_ms: f64,
    /// Copies that the network made.
    pub duplicated: u64,
    /// Largest window in slow start, in bytes.
    pub maximum_cwnd_slow_start: u64,
    /// Largest window in congestion avoidance, in bytes.
    pub maximum_cwnd_avoidance: u64,
    /// Segments marked congestion-experienced.
    pub ce_marks: u64,
    /// Smallest one-way delay of the data in milliseconds, if the clocks agree well enough.
    pub one_way_delay_min_ms: Option<f64>,
    /// One-way delay above the smallest, in milliseconds: mean, median, 95 %, 99 %, largest.
    pub delay_above_min_ms: Option<[f64; 5]>,
}

/// Calibration checks (RFC 3148 section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Packets dropped inside the sending host.
    pub sending_host_drops: Option<u64>,
    /// Packets dropped inside the receiving host.
    pub receiving_host_drops: Option<u64>,
    /// The sending host's largest queue, in bytes.
    pub sending_host_queue_bytes: Option<u64>,
    /// The receiving host's largest queue, in bytes.
    pub receiving_host_queue_bytes: Option<u64>,
    /// CPU time of the sending host, as a share of one core.
    pub sending_host_busy: Option<f64>,
    /// CPU time of the receiving host.
    pub receiving_host_busy: Option<f64>,
    /// Share of the time in which the sending socket was full.
    pub sending_host_waiting: Option<f64>,
    /// How long datagrams waited in the sending host until its thread read them, in milliseconds: mean and longest.
    pub sending_host_lateness_ms: Option<[f64; 2]>,
    /// The same in the receiving host.
    pub receiving_host_lateness_ms: Option<[f64; 2]>,
}

/// Need for advanced TCP features (RFC 3148 section 3.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// What a TCP needs to reach this result.
    pub needed: Vec<String>,
}

/// Reverse path load (RFC 3148 section 3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReversePath {
    /// Acknowledgements sent by the receiver.
    pub acknowledgements_sent: u64,
    /// How many of them arrived.
    pub acknowledgements_received: u64,
    /// Share of them lost.
    pub loss: Option<f64>,
    /// Load of the reverse path, in bits per second.
    pub load_bps: Option<f64>,
    /// What TCP's acknowledgements would be, in bits per second.
    pub tcp_load_bps: Option<f64>,
}

/// The report of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapReport {
    /// "warpline cap" and its version.
    pub tool: String,
    /// How it ended, in words.
    pub outcome: String,
    /// When it began, in microseconds since 1970.
    pub began_us: Option<u64>,
    /// The two ends.
    pub ends: Ends,
    /// What carried the segments, in words, if there was no software at the far end.
    #[serde(default)]
    pub probes: Option<String>,
    /// The congestion control's name.
    pub congestion_control: String,
    /// The bulk transfer capacity, in bits per second: unique data delivered, divided by the time. Absent if it was not measured, or
    /// a host was the bottleneck.
    pub bulk_transfer_capacity_bps: Option<f64>,
    /// The rate that was measured if it is not a capacity, in bits per second.
    pub throughput_bps: Option<f64>,
    /// Unique bits delivered.
    pub data_sent_bits: u64,
    /// The time for these, in seconds.
    pub elapsed_time_s: f64,
    /// Doubts about the result.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// The statements that the RFC requires.
    pub statements: Statements,
    /// Section 3.1.
    pub congestion_avoidance_capacity: AvoidanceCapacity,
    /// Section 3.2.
    pub preservation_of_self_clock: SelfClock,
    /// Section 3.3.
    pub flow_based_path_properties: PathProperties,
    /// Section 3.4.
    pub calibration_checks: Calibration,
    /// Section 3.5.
    pub advanced_tcp_features: Features,
    /// Section 3.6.
    pub reverse_path_load: Option<ReversePath>,
    /// All counters of the sender.
    pub sender: Option<SenderResults>,
    /// All counters of the receiver.
    pub receiver: Option<ReceiverResults>,
    /// All counters of the sending host.
    pub sending_host: Option<HostResults>,
    /// All counters of the receiving host.
    pub receiving_host: Option<HostResults>,
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn lateness(host: HostResults) -> Option<[f64; 2]> {
    let mean = host.serve_wait_ns.checked_div(host.served)?;
    Some([mean, host.serve_wait_max_ns].map(millis))
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

impl CapReport {
    /// Makes the report.
    pub fn new(input: &CapInput<'_>) -> CapReport {
        let s = input.sender.unwrap_or_default();
        let r = input.receiver.unwrap_or_default();
        let options = input.options;
        let mut judgement = host_limits(
            options,
            input.sender.as_ref(),
            input.receiver.as_ref(),
            input.sending.as_ref(),
            input.receiving.as_ref(),
        );
        if input.probes.is_some() {
            judgement.host_limited.extend(rationed(share(r.missing, r.missing + r.segments)));
            if s.data_bytes > 0 {
                judgement.notes.push(PROBED.into());
            }
        }
        // Without the sender's counters, use the receiver's.
        let (data, elapsed) = match input.sender {
            Some(_) => (s.data_bytes, s.elapsed_ns),
            None => (r.data_bytes, r.elapsed_ns),
        };
        let throughput = rate(data, elapsed).filter(|_| data > 0);
        let reported = judgement.host_limited.is_empty() || input.tell_anyway;
        if input.receiver.is_none() && data > 0 {
            judgement.notes.push("the receiver's counts are missing: its report did not arrive".into());
        }
        let rtt = (s.rtt_count > 0).then_some(s);
        CapReport {
            tool: concat!("warpline cap ", env!("CARGO_PKG_VERSION")).into(),
            outcome: input.outcome.to_owned(),
            began_us: input.began_us,
            ends: input.ends.clone(),
            probes: input.probes.map(str::to_owned),
            congestion_control: options.cc.to_string(),
            bulk_transfer_capacity_bps: throughput.filter(|_| reported),
            throughput_bps: throughput,
            data_sent_bits: data * 8,
            elapsed_time_s: elapsed as f64 / 1e9,
            judgement,
            statements: Statements::new(options, input.ends.ipv6, data > 0, input.probes),
            congestion_avoidance_capacity: AvoidanceCapacity {
                congestion_avoidance_capacity_bps: rate(
                    s.avoidance_bytes + s.recovery_bytes,
                    s.avoidance_ns + s.recovery_ns,
                )
                .filter(|_| reported),
                without_recovery_bps: rate(s.avoidance_bytes, s.avoidance_ns).filter(|_| reported),
                time_share: share(s.avoidance_ns, s.elapsed_ns),
                slow_start_bps: rate(s.slow_start_bytes, s.slow_start_ns),
                slow_start_share: share(s.slow_start_ns, s.elapsed_ns),
                recovery_share: share(s.recovery_ns, s.elapsed_ns),
                timeout_share: share(s.timeout_ns, s.elapsed_ns),
            },
            preservation_of_self_clock: SelfClock {
                lost_transmission_opportunities: s.lost_opportunities,
                unsent_segments_in_recovery: s.unsent_segments,
                losing_an_entire_window: s.entire_windows,
                heroic_clock_preservation: s.heroic_recoveries,
                clock_lost_in_recovery: s.failed_recoveries,
                false_timeouts: s.false_timeouts,
                false_fast_retransmits: s.false_recoveries,
                fast_recoveries: s.recoveries,
                timeouts: s.timeout_episodes,
                timeouts_with_backoff: s.rtos,
                lost_segments: s.lost_segments,
                largest_loss_cluster: s.max_cluster,
                mean_loss_cluster_hundredths: (s.lost_segments.saturating_mul(100))
                    .checked_div(s.loss_episodes)
                    .unwrap_or(0),
                loss_clusters: [
                    s.episodes_of_1,
                    s.episodes_of_2,
                    s.episodes_of_3,
                    s.episodes_of_4,
                    s.episodes_of_8,
                    s.episodes_of_16,
                ],
                ecn_reductions: s.ecn_reductions,
            },
            flow_based_path_properties: PathProperties {
                rtt_min_ms: rtt.map(|s| millis(s.rtt_min_ns)),
                rtt_mean_ms: rtt.map(|s| millis(s.rtt_sum_ns / s.rtt_count)),
                rtt_max_ms: rtt.map(|s| millis(s.rtt_max_ns)),
                forward_loss: input.receiver.map(|r| share(r.missing, r.missing + r.segments)),
                reordered: input.receiver.map(|r| share(r.reordered, r.segments)),
                reordered_slightly: r.reordered_slightly,
                reordered_fast_retransmit: r.reordered_retransmit,
                reordered_seconds_late: r.reordered_late,
                reordering_extent: r.max_extent,
                reordering_lateness_ms: millis(r.max_lateness_ns),
                duplicated: r.copies,
                maximum_cwnd_slow_start: s.max_cwnd_slow_start,
                maximum_cwnd_avoidance: s.max_cwnd_avoidance,
                ce_marks: r.ce_marks,
                one_way_delay_min_ms: one_way(input, &s, &r),
                delay_above_min_ms: (r.delay_count > 0).then(|| {
                    [r.delay_mean_us, r.delay_p50_us, r.delay_p95_us, r.delay_p99_us, r.delay_max_us]
                        .map(|us| us as f64 / 1e3)
                }),
            },
            calibration_checks: Calibration {
                sending_host_drops: input.sending.map(|h| h.send_drops),
                receiving_host_drops: input.receiving.map(|h| h.receive_drops),
                sending_host_queue_bytes: input.sending.map(|h| h.send_queue_max),
                receiving_host_queue_bytes: input.receiving.map(|h| h.receive_queue_max),
                sending_host_busy: input.sending.map(|h| share(h.busy_ns, h.elapsed_ns)),
                receiving_host_busy: input.receiving.map(|h| share(h.busy_ns, h.elapsed_ns)),
                sending_host_waiting: input.sending.map(|h| share(h.send_wait_ns, h.elapsed_ns)),
                sending_host_lateness_ms: input.sending.and_then(lateness),
                receiving_host_lateness_ms: input.receiving.and_then(lateness),
            },
            advanced_tcp_features: features(options, &s),
            reverse_path_load: match (input.sender, input.receiver) {
                (Some(s), Some(r)) if input.probes.is_none() => Some(ReversePath {
                    acknowledgements_sent: r.acks_sent,
                    acknowledgements_received: s.acks_received,
                    loss: (r.acks_sent > 0)
                        .then(|| share(r.acks_sent.saturating_sub(s.acks_received), r.acks_sent)),
                    load_bps: rate(r.acks_wire_bytes, s.elapsed_ns),
                    tcp_load_bps: rate((r.acks_wire_bytes).saturating_sub(8 * r.acks_sent), s.elapsed_ns),
                }),
                _ => None,
            },
            sender: input.sender,
            receiver: input.receiver,
            sending_host: input.sending,
            receiving_host: input.receiving,
        }
    }

    /// The result and the behaviour of the path, in a few lines.
    pub fn brief(&self) -> Vec<Line> {
        const NAMES: [&str; 16] = [
            "BTC",
            "data sent",
            "elapsed time",
            "outcome",
            "path",
            "probes",
            "congestion control",
            "ALARM",
            "note",
            "CAC",
            "events that kept the clock",
            "events that lost it",
            "round trip",
            "forward loss",
            "reordering",
            "maximum cwnd",
        ];
        select(self.lines(), &NAMES, "Path")
    }

    /// The whole report as lines: everything that RFC 3148 asks for.
    pub fn lines(&self) -> Vec<Line> {
        let mut out = Lines::default();
        self.result_lines(&mut out);
        self.clock_lines(&mut out);
        self.path_lines(&mut out);
        self.host_lines(&mut out);
        out.section("Statements (RFC 3148 section 2)");
        for (name, text) in self.statements.each() {
            out.add(name, text);
        }
        out.finish()
    }

    fn result_lines(&self, out: &mut Lines) {
        out.section("Bulk transfer capacity");
        match (self.bulk_transfer_capacity_bps, self.throughput_bps) {
            (Some(bps), _) => out.add("BTC", bits(bps)),
            (None, Some(bps)) => out.add(
                "BTC",
                format!("withheld for the reasons below; the rate was {} (--anyway shows it)", bits(bps)),
            ),
            (None, None) => out.add("BTC", "not measured"),
        }
        out.add("data sent", bytes(self.data_sent_bits / 8));
        out.add("elapsed time", format!("{:.3} s", self.elapsed_time_s));
        out.add("outcome", &*self.outcome);
        out.add("path", format!("{} to {}", self.ends.sender, self.ends.receiver));
        if let Some(probes) = &self.probes {
            out.add("probes", &**probes);
        }
        out.add("congestion control", &*self.congestion_control);
        for reason in &self.judgement.host_limited {
            out.add("ALARM", &**reason);
        }
        for note in &self.judgement.notes {
            out.add("note", &**note);
        }
        let c = &self.congestion_avoidance_capacity;
        out.section("Congestion Avoidance Capacity (3.1)");
        if let Some(bps) = c.congestion_avoidance_capacity_bps {
            let without =
                c.without_recovery_bps.map_or_else(String::new, |bps| format!(" ({} without)", bits(bps)));
            out.add("CAC", format!("{}, fast recovery included{without}", bits(bps)));
        }
        out.add(
            "time spent",
            format!(
                "congestion avoidance {}, fast recovery {}, slow start {}, after time-outs {}",
                percent(c.time_share),
                percent(c.recovery_share),
                percent(c.slow_start_share),
                percent(c.timeout_share)
            ),
        );
    }

    fn clock_lines(&self, out: &mut Lines) {
        let c = &self.preservation_of_self_clock;
        out.section("Preservation of Self-Clock (3.2)");
        out.add(
            "lost transmission opportunities",
            format!(
                "{} time-outs after an acknowledgement that let no data out; {} segments not sent in recoveries whose window had room",
                c.lost_transmission_opportunities, c.unsent_segments_in_recovery
            ),
        );
        out.add(
            "losing an entire window",
            format!("{} time-outs after a transmission that was not answered", c.losing_an_entire_window),
        );
        out.add(
            "heroic clock preservation",
            format!("{} recoveries from the loss of more than half a window", c.heroic_clock_preservation),
        );
        out.add("false time-outs", c.false_timeouts.to_string());
        out.add(
            "events that kept the clock",
            format!("{} fast recoveries, {} of them needless", c.fast_recoveries, c.false_fast_retransmits),
        );
        out.add(
            "events that lost it",
            format!(
                "{} time-outs ({} with repetitions), {} out of fast recovery",
                c.timeouts, c.timeouts_with_backoff, c.clock_lost_in_recovery
            ),
        );
        out.add(
            "losses",
            format!(
                "{} segments; within one round trip {:.2} on average, {} at most",
                c.lost_segments,
                c.mean_loss_cluster_hundredths as f64 / 100.0,
                c.largest_loss_cluster
            ),
        );
        if c.lost_segments > 0 {
            let [one, two, three, four, eight, sixteen] = c.loss_clusters;
            out.add(
                "loss distribution",
                format!(
                    "round trips with 1 loss {one}, with 2 {two}, with 3 {three}, with 4 to 7 {four}, with 8 to 15 {eight}, with more {sixteen}"
                ),
            );
        }
        if c.ecn_reductions > 0 {
            out.add("ECN reductions", c.ecn_reductions.to_string());
        }
    }

    fn path_lines(&self, out: &mut Lines) {
        let p = &self.flow_based_path_properties;
        out.section("Flow Based Path Properties (3.3)");
        if let (Some(min), Some(mean), Some(max)) = (p.rtt_min_ms, p.rtt_mean_ms, p.rtt_max_ms) {
            out.add("round trip", format!("{min:.2} ms smallest, {mean:.2} ms mean, {max:.2} ms largest"));
        }
        if let Some([mean, p50, p95, p99, max]) = p.delay_above_min_ms {
            let least = p.one_way_delay_min_ms.map_or_else(
                || "smallest not known, since the clocks differ".to_owned(),
                |min| format!("smallest {min:.2} ms"),
            );
            out.add(
                "one-way delay",
                format!(
                    "{least}; above it {mean:.2} ms mean, {p50:.2} ms median, {p95:.2} ms 95 %, {p99:.2} ms 99 %, {max:.2} ms largest"
                ),
            );
        }
        if let Some(loss) = p.forward_loss {
            out.add("forward loss", percent(loss));
        }
        if let Some(share) = p.reordered {
            out.add(
                "reordering",
                format!(
                    "{} of the segments: {} slightly, {} enough for a fast retransmit, {} a second or more late",
                    percent(share),
                    p.reordered_slightly,
                    p.reordered_fast_retransmit,
                    p.reordered_seconds_late
                ),
            );
            if p.reordering_extent > 0 {
                out.add(
                    "reordering distance",
                    format!("{} segments, {:.2} ms at most", p.reordering_extent, p.reordering_lateness_ms),
                );
            }
            out.add("copies made by the network", p.duplicated.to_string());
        }
        if p.ce_marks > 0 {
            out.add("congestion marks", p.ce_marks.to_string());
        }
        out.add("maximum cwnd", windows(p.maximum_cwnd_slow_start, p.maximum_cwnd_avoidance));
    }

    fn host_lines(&self, out: &mut Lines) {
        out.section("Calibration Checks (3.4)");
        for (name, host) in
            [("sending host", self.sending_host.as_ref()), ("receiving host", self.receiving_host.as_ref())]
        {
            let Some(h) = host else {
                out.add(name, "not known");
                continue;
            };
            let (drops, queue) = if name == "sending host" {
                (h.send_drops, h.send_queue_max)
            } else {
                (h.receive_drops, h.receive_queue_max)
            };
            out.add(
                name,
                format!(
                    "{drops} packets dropped, largest queue {}, busy {} of a core{}{}",
                    bytes(queue),
                    percent(share(h.busy_ns, h.elapsed_ns)),
                    lateness(*h).map_or_else(String::new, |[mean, max]| format!(
                        ", packets waited for its thread {mean:.3} ms on average, {max:.2} ms at most"
                    )),
                    if h.send_waits > 0 {
                        format!(", waited for room {}", span(h.send_wait_ns))
                    } else {
                        String::new()
                    }
                ),
            );
        }
        let f = &self.advanced_tcp_features;
        out.section("Need for Advanced TCP Features (3.5)");
        out.add("needed", if f.needed.is_empty() { "none".to_owned() } else { f.needed.join("; ") });
        out.section("Validate Reverse Path Load (3.6)");
        match &self.reverse_path_load {
            Some(r) => {
                out.add(
                    "acknowledgements",
                    format!("{} sent, {} came", r.acknowledgements_sent, r.acknowledgements_received),
                );
                if let Some(loss) = r.loss {
                    out.add("reverse loss", percent(loss));
                }
                if let (Some(load), Some(tcp)) = (r.load_bps, r.tcp_load_bps) {
                    out.add("load", format!("{}; TCP's would be {}", bits(load), bits(tcp)));
                }
            }
            None if self.probes.is_some() => {
                out.add("load", "answers as large as the probes; no acknowledgement crossed the path");
            }
            None => out.add("load", "not known without the other end's report"),
        }
    }
}

/// The smallest one-way delay if it is credible: the clocks are the same, or agree so well that the delay is between zero and the
/// smallest round trip.
fn one_way(input: &CapInput<'_>, s: &SenderResults, r: &ReceiverResults) -> Option<f64> {
    let us = r.delay_min()?;
    let plausible = us >= 0 && s.rtt_count > 0 && (us as u64).saturating_mul(1000) <= s.rtt_min_ns;
    (input.same_clock || plausible).then(|| us as f64 / 1e3)
}

fn features(options: &CapOptions, s: &SenderResults) -> Features {
    let largest = s.max_cwnd_slow_start.max(s.max_cwnd_avoidance).min(options.window);
    let mut needed = Vec::new();
    if largest > 65_535 {
        needed.push(format!("window scaling (RFC 7323): the window reached {largest} bytes"));
    }
    if s.sack_used > 0 && s.max_cluster > 1 {
        needed.push(format!(
            "selective acknowledgements (RFC 2018): up to {} losses in a round trip",
            s.max_cluster
        ));
    }
    if options.ecn && s.ecn_reductions > 0 {
        needed.push(format!("ECN (RFC 3168): {} reductions without a loss", s.ecn_reductions));
    }
    if options.timestamps && s.false_timeouts + s.false_recoveries > 0 {
        needed.push("timestamps (RFC 7323): they or D-SACK showed needless retransmissions".into());
    }
    Features { needed }
}

/// The direction in words.
impl CapReport {
    /// The names of both ends, as seen from the client.
    pub fn ends(direction: Direction, client: &str, server: &str, ipv6: bool) -> Ends {
        let (sender, receiver) = match direction {
            Direction::Forward => (client, server),
            Direction::Reverse => (server, client),
        };
        Ends { sender: sender.to_owned(), receiver: receiver.to_owned(), ipv6 }
    }
}
