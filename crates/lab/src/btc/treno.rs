//! The report of a test with `treno`.

use serde::{Deserialize, Serialize};
use warpline_capacity::{ProbeReply, TrenoOptions, TrenoOutcome, TrenoResults};

use super::lines::{Line, Lines, bits, bytes, percent, rate, select, span, windows};
use super::verdict::rationed;

/// The input of a report.
#[derive(Clone, Debug)]
pub struct TrenoInput<'a> {
    /// The target, as it was named, and its address.
    pub target: String,
    /// How probes were sent: "ICMP echo through a ping socket".
    pub carrier: &'a str,
    /// The largest number of hops that probes could go.
    pub ttl: Option<u8>,
    /// The options.
    pub options: &'a TrenoOptions,
    /// How the test ended.
    pub outcome: TrenoOutcome,
    /// The counters.
    pub results: &'a TrenoResults,
    /// The addresses that answered, with the kind and number of their answers.
    pub responders: Vec<(String, ProbeReply, u64)>,
    /// CPU time of this host, as a share of one core; none in a simulation.
    pub busy: Option<f64>,
    /// The rate that this host can send, in bits per second; none if it was not measured.
    pub host_bps: Option<f64>,
    /// The rate that the first hop can carry; none if it was not measured.
    pub first_hop_bps: Option<f64>,
    /// Whether the router of the first hop limits its answers, so that its rate could not be measured.
    pub first_hop_rations: bool,
    /// Probes of 1500 and of 48 bytes that are answered per second; none if it was not measured.
    pub probe_rates: Option<(f64, f64)>,
    /// Whether to report a result even if a host was the bottleneck.
    pub tell_anyway: bool,
}

/// The result for one hop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HopReport {
    /// The hop's number.
    pub ttl: u8,
    /// The address that answered; none if none did.
    pub address: Option<String>,
    /// The rate up to this hop, in bits per second; absent if there is an alarm.
    pub bps: Option<f64>,
    /// The measured rate, even if there is an alarm.
    pub throughput_bps: Option<f64>,
    /// Rate in congestion avoidance.
    pub avoidance_bps: Option<f64>,
    /// Smallest round-trip time in milliseconds.
    pub rtt_min_ms: Option<f64>,
    /// Mean.
    pub rtt_mean_ms: Option<f64>,
    /// Share of probes without an answer.
    pub loss: Option<f64>,
    /// Alarms about it.
    pub alarms: Vec<String>,
}

/// The report of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrenoReport {
    /// "warpline treno" and its version.
    pub tool: String,
    /// The target.
    pub target: String,
    /// How the test ended.
    pub outcome: TrenoOutcome,
    /// How probes were sent.
    pub carrier: String,
    /// The largest number of hops that probes could go.
    pub ttl: Option<u8>,
    /// The bulk transfer capacity, in bits per second. Absent if it was not measured or there is an alarm.
    pub bulk_transfer_capacity_bps: Option<f64>,
    /// The measured rate, even if there is an alarm.
    pub throughput_bps: Option<f64>,
    /// Unique bits answered.
    pub data_sent_bits: u64,
    /// The time for these, in seconds.
    pub elapsed_time_s: f64,
    /// Rate, bits and seconds, in congestion avoidance only.
    pub congestion_avoidance_capacity_bps: Option<f64>,
    /// Bits.
    pub avoidance_data_bits: u64,
    /// Seconds.
    pub avoidance_time_s: f64,
    /// Round-trip time in milliseconds: smallest, mean, largest.
    pub rtt_ms: Option<[f64; 3]>,
    /// The number of congestion signals.
    pub congestion_signals: u64,
    /// Bytes of a probe on the wire.
    pub mtu: u64,
    /// Largest window in slow start, in bytes.
    pub largest_window_slow_start: u64,
    /// Largest window in congestion avoidance.
    pub largest_window_avoidance: u64,
    /// TCP features that the result needs.
    pub features_needed: Vec<String>,
    /// The addresses that answered, with the kind and number of their answers.
    pub responders: Vec<(String, ProbeReply, u64)>,
    /// Alarms: reasons not to trust the result.
    pub alarms: Vec<String>,
    /// Other remarks.
    pub warnings: Vec<String>,
    /// Load of the reverse path, in bits per second; every answer to an echo is as large as the probe.
    pub reverse_path_load_bps: Option<f64>,
    /// All counters.
    pub results: TrenoResults,
    /// Statements on the algorithms.
    pub statements: Vec<(String, String)>,
    /// The results for each hop.
    pub hops: Vec<HopReport>,
}

/// Heading of the results for each hop.
const HOPS: &str = "Hop by hop";

fn alarms(input: &TrenoInput<'_>, bps: Option<f64>) -> Vec<String> {
    let r = input.results;
    let mut alarms = Vec::new();
    if r.refused_sends > 0 {
        alarms.push(format!(
            "the kernel refused {} sends: the host's own queue was full, and the path is not the only bottleneck",
            r.refused_sends
        ));
    }
    if let Some(busy) = input.busy.filter(|&busy| busy > 0.9) {
        alarms.push(format!(
            "this host was busy for {:.0} % of the time: it could not go faster",
            100.0 * busy
        ));
    }
    if let (Some(host), Some(bps)) = (input.host_bps, bps)
        && bps > host / 2.0
    {
        alarms.push(format!(
            "the result is above half of what this host can send ({}): the host may be the bottleneck",
            bits(host)
        ));
    }
    if let (Some(first), Some(bps)) = (input.first_hop_bps, bps)
        && first < 2.0 * bps
        && input.ttl != Some(1)
    {
        alarms.push(format!(
            "the first hop carries {}, less than twice the result: it, or its router, may be the bottleneck",
            bits(first)
        ));
    }
    if let Some((large, small)) = input.probe_rates
        && small < 2.0 * large
    {
        alarms.push(format!(
            "{large:.0} large probes a second are answered, and only {small:.0} small ones: the result may be how many packets \
             somebody can answer, not how many bits the path carries"
        ));
    }
    let lost = if r.probes == 0 { 0.0 } else { (r.lost + r.overdue) as f64 / r.probes as f64 };
    alarms.extend(rationed(lost).filter(|_| r.replies > 0));
    let mut routers: Vec<&str> = input
        .responders
        .iter()
        .filter(|(_, kind, _)| *kind == ProbeReply::TimeExceeded)
        .map(|(address, ..)| address.as_str())
        .collect();
    routers.dedup();
    if routers.len() > 1 {
        alarms.push(format!(
            "{} routers answered for one hop: the path changed, or is split among several",
            routers.len()
        ));
    }
    if r.unreachable > 0 {
        alarms.push(format!("{} probes came back as undeliverable", r.unreachable));
    }
    alarms
}

fn warnings(input: &TrenoInput<'_>) -> Vec<String> {
    let r = input.results;
    let mut warnings = vec![
        "the loss of a probe cannot be told from the loss of its answer: both count as congestion".to_owned(),
    ];
    if r.mtu_reductions > 0 {
        warnings.push(format!("the path made probes smaller {} times, to {} bytes", r.mtu_reductions, r.mtu));
    }
    if r.window_limited_ns * 2 > r.elapsed_ns {
        warnings.push(format!(
            "the largest window of {} limited sending most of the time (--max-window)",
            bytes(input.options.max_window)
        ));
    }
    if r.avoidance_ns == 0 && r.congestion_signals == 0 && r.replies > 0 {
        warnings.push("slow start did not end within the test: measure for longer".into());
    }
    if input.host_bps.is_none() && input.busy.is_some() {
        warnings.push(
            "not calibrated: the rates of this host and of the first hop were not measured (--calibrate)"
                .into(),
        );
    }
    if input.first_hop_rations {
        warnings
            .push("the rate of the first hop could not be measured: its router limits its answers".into());
    }
    if r.reordered > 0 {
        warnings.push(format!("{} answers came out of order", r.reordered));
    }
    warnings
}

fn statements(input: &TrenoInput<'_>) -> Vec<(String, String)> {
    let o = input.options;
    [
        (
            "congestion avoidance",
            "cwnd is in bytes; an acknowledgement adds MSS * bytes / cwnd, in slow start the bytes that it acknowledges".to_owned(),
        ),
        ("cwnd equal to ssthresh", "slow start".into()),
        (
            "loss recovery",
            format!(
                "FACK: a probe is lost when one sent {} later has been answered; rate halving, one probe for two answers for one round trip, \
                 then cwnd = ssthresh = (old cwnd - lost) / 2, once for all that was sent before; after a time-out ssthresh = cwnd / 4 and cwnd = one segment",
                o.dupacks
            ),
        ),
        (
            "segment size",
            format!(
                "probes of {} bytes, {} of them data; fragmentation is forbidden, and a router can ask for smaller ones (RFC 1191)",
                input.results.mtu,
                input.results.mtu.saturating_sub(40)
            ),
        ),
        ("headers", "40 bytes of IP and TCP headers are assumed on every probe and do not count".into()),
        (
            "retransmission time-out",
            format!(
                "RFC 6298, one sample per round trip, between {:#} and {:#}, {:#} before the first; no granularity",
                o.min_rto, o.max_rto, o.initial_rto
            ),
        ),
        (
            "delayed acknowledgements",
            match o.delayed_ack {
                None => "not emulated: every answer acknowledges one probe".into(),
                Some(wait) => format!(
                    "answers are taken in pairs, as one acknowledgement of both probes; one that waits {wait:#} alone, shows a gap or comes in \
                     recovery is taken by itself"
                ),
            },
        ),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .to_vec()
}

impl TrenoReport {
    /// Makes the report.
    pub fn new(input: &TrenoInput<'_>) -> TrenoReport {
        let r = input.results;
        let throughput = rate(r.data_bytes, r.elapsed_ns).filter(|_| r.data_bytes > 0);
        let alarms = alarms(input, throughput);
        let reported = alarms.is_empty() || input.tell_anyway;
        let largest = r.max_cwnd_slow_start.max(r.max_cwnd_avoidance);
        let mut features_needed = Vec::new();
        if largest > 65_535 {
            features_needed.push(format!("window scaling (RFC 7323): the window reached {largest} bytes"));
        }
        if r.max_cluster > 1 {
            features_needed.push(format!(
                "selective acknowledgements (RFC 2018): up to {} losses in a round trip",
                r.max_cluster
            ));
        }
        let millis = |nanos: u64| nanos as f64 / 1e6;
        TrenoReport {
            tool: concat!("warpline treno ", env!("CARGO_PKG_VERSION")).into(),
            target: input.target.clone(),
            outcome: input.outcome,
            carrier: input.carrier.to_owned(),
            ttl: input.ttl,
            bulk_transfer_capacity_bps: throughput.filter(|_| reported),
            throughput_bps: throughput,
            data_sent_bits: r.data_bytes * 8,
            elapsed_time_s: r.elapsed_ns as f64 / 1e9,
            congestion_avoidance_capacity_bps: rate(r.avoidance_bytes, r.avoidance_ns).filter(|_| reported),
            avoidance_data_bits: r.avoidance_bytes * 8,
            avoidance_time_s: r.avoidance_ns as f64 / 1e9,
            rtt_ms: (r.rtt_count > 0)
                .then(|| [millis(r.rtt_min_ns), millis(r.rtt_sum_ns / r.rtt_count), millis(r.rtt_max_ns)]),
            congestion_signals: r.congestion_signals,
            mtu: r.mtu,
            largest_window_slow_start: r.max_cwnd_slow_start,
            largest_window_avoidance: r.max_cwnd_avoidance,
            features_needed,
            responders: input.responders.clone(),
            alarms,
            warnings: warnings(input),
            // How much of the probe a router's message quotes is up to the router.
            reverse_path_load_bps: (r.echoes > 0).then(|| rate(r.echoes * r.mtu, r.elapsed_ns)).flatten(),
            results: r.clone(),
            statements: statements(input),
            hops: Vec::new(),
        }
    }

    /// The result and the behaviour of the path, in a few lines, and all hops.
    pub fn brief(&self) -> Vec<Line> {
        const NAMES: [&str; 12] = [
            "BTC",
            "data sent",
            "elapsed time",
            "in congestion avoidance",
            "target",
            "probes",
            "responder",
            "ALARM",
            "note",
            "round trip",
            "probes lost",
            "largest window",
        ];
        let lines = self.lines();
        let hops: Vec<Line> = lines.iter().filter(|line| line.section == HOPS).cloned().collect();
        let mut brief = select(lines, &NAMES, "Path");
        let more = brief.len().saturating_sub(1);
        brief.splice(more..more, hops);
        brief
    }

    /// The whole report as lines.
    pub fn lines(&self) -> Vec<Line> {
        let r = &self.results;
        let mut out = Lines::default();
        out.section("Bulk transfer capacity, from one side");
        match (self.bulk_transfer_capacity_bps, self.throughput_bps) {
            (Some(bps), _) => out.add("BTC", bits(bps)),
            (None, Some(bps)) => {
                out.add(
                    "BTC",
                    format!(
                        "withheld, see the alarms; the measured rate is {} (--anyway shows it)",
                        bits(bps)
                    ),
                );
            }
            (None, None) => out.add("BTC", "not measured: nothing answered"),
        }
        out.add("data sent", bytes(self.data_sent_bits / 8));
        out.add("elapsed time", format!("{:.3} s", self.elapsed_time_s));
        if let Some(bps) = self.congestion_avoidance_capacity_bps {
            out.add(
                "in congestion avoidance",
                format!(
                    "{}: {} in {:.3} s",
                    bits(bps),
                    bytes(self.avoidance_data_bits / 8),
                    self.avoidance_time_s
                ),
            );
        }
        let target = match self.ttl {
            Some(ttl) => format!("hop {ttl} on the way to {}", self.target),
            None => self.target.clone(),
        };
        out.add("target", target);
        out.add("probes", format!("{}, {} bytes each (MTU)", self.carrier, self.mtu));
        for (address, kind, count) in &self.responders {
            let how = match kind {
                ProbeReply::Echo => "echoes",
                ProbeReply::TimeExceeded => "time exceeded",
                ProbeReply::PortUnreachable => "port unreachable",
                ProbeReply::Unreachable => "unreachable",
            };
            out.add("responder", format!("{address}: {how}, {count}"));
        }
        for alarm in &self.alarms {
            out.add("ALARM", &**alarm);
        }
        for warning in &self.warnings {
            out.add("note", &**warning);
        }
        out.section("Path");
        if let Some([min, mean, max]) = self.rtt_ms {
            out.add("round trip", format!("{min:.2} ms smallest, {mean:.2} ms mean, {max:.2} ms largest"));
        }
        let lost = if r.probes == 0 { 0.0 } else { r.lost as f64 / r.probes as f64 };
        out.add("probes lost", format!("{} of {} ({}), forward or back", r.lost, r.probes, percent(lost)));
        out.add(
            "congestion signals",
            format!("{}: {} recoveries, {} time-outs", self.congestion_signals, r.recoveries, r.timeouts),
        );
        out.add("largest window", windows(self.largest_window_slow_start, self.largest_window_avoidance));
        let needed = &self.features_needed;
        out.add("TCP features needed", if needed.is_empty() { "none".to_owned() } else { needed.join("; ") });
        out.add("time in slow start", span(r.slow_start_ns));
        if let Some(bps) = self.reverse_path_load_bps {
            out.add("reverse path load", bits(bps));
        }
        if !self.hops.is_empty() {
            out.section(HOPS);
            for hop in &self.hops {
                out.add(&format!("{:2} {}", hop.ttl, hop.address.as_deref().unwrap_or("*")), hop.text());
            }
        }
        out.section("Statements (RFC 3148 section 2)");
        for (name, text) in &self.statements {
            out.add(name, &**text);
        }
        out.finish()
    }
}

impl HopReport {
    /// The result for one hop in words.
    pub fn new(ttl: u8, report: Option<&TrenoReport>) -> HopReport {
        let Some(report) = report else { return HopReport { ttl, ..HopReport::default() } };
        let probes = report.results.probes;
        HopReport {
            ttl,
            address: report
                .responders
                .iter()
                .max_by_key(|(.., count)| *count)
                .map(|(address, ..)| address.clone()),
            bps: report.bulk_transfer_capacity_bps,
            throughput_bps: report.throughput_bps,
            avoidance_bps: report.congestion_avoidance_capacity_bps,
            rtt_min_ms: report.rtt_ms.map(|[min, ..]| min),
            rtt_mean_ms: report.rtt_ms.map(|[_, mean, _]| mean),
            loss: (probes > 0).then(|| report.results.lost as f64 / probes as f64),
            alarms: report.alarms.clone(),
        }
    }

    fn text(&self) -> String {
        let mut text = match (self.bps, self.throughput_bps) {
            (Some(bps), _) => bits(bps),
            (None, Some(bps)) => format!("withheld; the measured rate is {}", bits(bps)),
            (None, None) => return "no answer".into(),
        };
        if let (Some(min), Some(mean)) = (self.rtt_min_ms, self.rtt_mean_ms) {
            text += &format!(", round trip {min:.2} ms smallest, {mean:.2} ms mean");
        }
        if let Some(loss) = self.loss {
            text += &format!(", {} lost", percent(loss));
        }
        if !self.alarms.is_empty() {
            text += &format!("; ALARM: {}", self.alarms.join("; "));
        }
        text
    }
}
