//! The results of guests: rows of their programs, flows and requests, made from their reports and from the files that they left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use warpline_core::{Tdf, TimeDelta, Timestamp};
use warpline_guest::order::{
    Ending, FlowReport, ProgramReport, Report, Role, SAMPLES, Sample, TcpInfo, queues_file,
};
use warpline_guest::{CpuUsed, Machine};

use super::own_clock;
use super::plan::{End, FlowEntry, Guests};
use crate::run::RunError;
use crate::run::course::Account;
use crate::run::endpoints::Accounting;
use crate::run::programs::{self, DIRECTORY, Evidence};
use crate::run::routers::StreamKey;
use crate::run::session::Session;
use warpline_results::{FlowRow, FlowSample, GuestCpu, GuestMachine, ProgramRow, TransferRow};

/// The guests of a run, after it.
#[derive(Debug)]
pub(in crate::run) struct GuestResults<'a> {
    guests: &'a Guests,
    /// The report of each machine; empty if it was not asked for.
    reports: Vec<Report>,
    /// The directory that each machine shares with us; none if it was not booted.
    shares: Vec<PathBuf>,
    /// A row for each machine.
    pub(in crate::run) machines: Vec<GuestMachine>,
}

impl<'a> GuestResults<'a> {
    /// Takes the results of `machines`, those of `guests`.
    pub(in crate::run) fn new<'m>(
        guests: &'a Guests,
        reports: Vec<Report>,
        machines: impl IntoIterator<Item = &'m Machine>,
    ) -> Self {
        let mut results = GuestResults { guests, reports, shares: Vec::new(), machines: Vec::new() };
        for (report, config) in results.reports.iter_mut().zip(&guests.machines) {
            own_clock::read(report, config.clocks);
        }
        for (index, (machine, config)) in machines.into_iter().zip(&guests.machines).enumerate() {
            let statistics = machine.statistics();
            results.shares.push(machine.shared(""));
            results.machines.push(GuestMachine {
                machine: config.name.clone(),
                kernel: machine.kernel().to_owned(),
                hosts: config.order.hosts.len() as u64,
                hosts_memory: results.reports.get(index).map_or(0, |report| report.hosts_memory),
                entries: statistics.entries,
                turns: statistics.handovers,
                tdf: config.clocks.own().map(Tdf::as_f64),
                cpu: machine.cpu_used().map(cpu_row),
            });
        }
        results
    }

    /// The versions of the machines' kernels, each once, separated by commas.
    pub(in crate::run) fn kernels(&self) -> String {
        let versions: BTreeSet<&str> = self.machines.iter().map(|machine| machine.kernel.as_str()).collect();
        versions.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The samples of a machine, by the run's clock, one of each flow in each `interval`.
    fn samples_of(&self, machine: usize, interval: TimeDelta) -> Vec<Sample> {
        let text = std::fs::read_to_string(self.share(machine, SAMPLES)).unwrap_or_default();
        let mut samples: Vec<Sample> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let clocks = self.guests.machines[machine].clocks;
        let interval = interval.as_nanos();
        samples.iter_mut().for_each(|sample| own_clock::read_sample(sample, clocks, interval));
        samples
    }

    /// A file that a machine has left; none if the machine was not booted.
    fn share(&self, machine: usize, name: &str) -> PathBuf {
        self.shares.get(machine).map(|share| share.join(name)).unwrap_or_default()
    }

    /// The report of one end of a flow.
    fn end_of(&self, (machine, index): End) -> Option<&FlowReport> {
        self.reports.get(machine)?.flows.get(index)
    }

    /// Adds the results of the guests to a run's account, and their samples to its records. Returns the rows of the programs.
    ///
    /// # Errors
    /// If something cannot be written.
    pub(in crate::run) fn account(
        &self,
        &Accounting { judged, end, out, evidence, traffic }: &Accounting<'_>,
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<Vec<ProgramRow>, RunError> {
        let (programs, wrong) = self
            .judge(judged, out, evidence)
            .map_err(|error| RunError::Live(format!("cannot store the output of the programs: {error}")))?;
        account.failures.extend(wrong);
        self.keep_queues(out).map_err(|error| {
            RunError::Live(format!("cannot store the state of a guest's queues: {error}"))
        })?;
        let (warmup, interval) = (session.scenario.warmup.0, session.scenario.sample_interval.0);
        let numbers = traffic.numbers();
        let (samples, trips) = self.sampled(&numbers, (warmup, interval));
        session.sinks.each(|sink| sink.flow_samples(&samples))?;
        account.failures.extend(self.complete(&mut account.flows, &numbers, &trips, (warmup, end)));
        let first = account.transfers.len() as u64;
        account.transfers.extend(self.transfers(&mut account.flows, &numbers, warmup, first));
        Ok(programs)
    }

    /// Rows of all programs and, if `judged`, a message about each that failed. Their output and the files that they are
    /// to leave are copied to `out`, the run directory.
    fn judge(
        &self,
        judged: bool,
        out: &Path,
        evidence: &Evidence,
    ) -> std::io::Result<(Vec<ProgramRow>, Vec<String>)> {
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        let mut next = vec![0; self.guests.machines.len()];
        for entry in &self.guests.programs {
            let index = next[entry.machine];
            next[entry.machine] += 1;
            let order = &self.guests.machines[entry.machine].order.programs[index];
            let mut row = entry.row.clone();
            let mut begun = false;
            std::fs::create_dir_all(out.join(DIRECTORY))?;
            for (kind, name) in [("stdout", &row.stdout), ("stderr", &row.stderr)] {
                let from = self.share(entry.machine, &format!("{}.{kind}", order.output));
                if from.exists() {
                    begun = true;
                    std::fs::copy(from, out.join(name))?;
                } else {
                    std::fs::write(out.join(name), b"")?;
                }
            }
            if let Some(report) =
                self.reports.get(entry.machine).and_then(|report| report.programs.get(index))
            {
                fill(&mut row, report);
                for name in &report.files {
                    let file = format!("{DIRECTORY}/{name}");
                    std::fs::copy(self.share(entry.machine, name), out.join(&file))?;
                    row.files.push(file);
                }
                let what = |missing: &String| format!("{}: {missing}", programs::name(&row.name, &row.host));
                failures.extend(report.missing.iter().filter(|_| judged).map(what));
            } else if begun {
                // Its files are made when it starts.
                row.outcome = programs::UNKNOWN.to_owned();
            }
            let stderr = out.join(&row.stderr);
            failures.extend(programs::verdict(&mut row, entry.expect, judged, &stderr, evidence));
            rows.push(row);
        }
        Ok((rows, failures))
    }

    /// Copies what `tc` showed of the queues of hosts at the end to `out`, the run directory.
    fn keep_queues(&self, out: &Path) -> std::io::Result<()> {
        for (number, machine) in self.guests.machines.iter().enumerate() {
            for host in &machine.order.hosts {
                let shown = self.share(number, &queues_file(&host.name));
                if shown.exists() {
                    std::fs::copy(shown, out.join(format!("qdisc-{}.json", host.name)))?;
                }
            }
        }
        Ok(())
    }

    /// Adds the kernels' figures to the rows of flows that guests sent, and the errors of all flows that guests carried.
    fn complete(
        &self,
        rows: &mut [FlowRow],
        numbers: &BTreeMap<StreamKey, u32>,
        trips: &BTreeMap<u32, RoundTrips>,
        (warmup, end): (TimeDelta, Timestamp),
    ) -> Vec<String> {
        let mut failures = Vec::new();
        for flow in &self.guests.flows {
            let row = row_of(flow, rows, numbers);
            let (Some(row), Some(report)) = (row, self.end_of(flow.sender)) else { continue };
            // It comes from the flow, the host or the kernel's default; the kernel knows.
            row.cc = report.cc.clone().or(row.cc.take());
            let mut trips = trips.get(&flow.number).copied().unwrap_or_default();
            if trips.count == 0 {
                // It ended before the first sample.
                trips.add(&report.last);
            }
            if trips.count > 0 {
                row.rtt_min_ms = Some(trips.min / 1e3);
                row.rtt_mean_ms = Some(trips.sum / trips.count as f64 / 1e3);
                row.rtt_max_ms = Some(trips.max / 1e3);
            }
            if flow.key.is_none() {
                continue;
            }
            let asker = flow.asker.and_then(|asker| self.end_of(asker));
            // As of a model's flow, what is in order. By its packets, what has come behind a missing one would count as well.
            if let (None, Some(taken)) = (asker, flow.taken.and_then(|end| self.end_of(end))) {
                row.delivered_bytes = taken.last.received.saturating_sub(taken.warm.received);
            }
            row.end_s = asker.unwrap_or(report).finished.map(|at| at as f64 / 1e9);
            set_rates(row, warmup, end);
            let Some(asker) = asker else { continue };
            let counted = asker.requests.iter().filter(|request| request.asked >= warmup.as_nanos());
            let times: Vec<u64> =
                counted.clone().filter_map(|request| Some(request.answered? - request.asked)).collect();
            row.transfers = counted.count() as u64;
            row.transfers_completed = times.len() as u64;
            let mean = times.iter().sum::<u64>() as f64 / 1e9 / times.len() as f64;
            row.completion_mean_s = (!times.is_empty()).then_some(mean);
        }
        for (machine, report) in self.guests.machines.iter().zip(&self.reports) {
            for (order, end) in machine.order.flows.iter().zip(&report.flows) {
                if let Some(error) = &end.error {
                    let host = &machine.order.hosts[order.host as usize].name;
                    failures.push(format!("guest {host}: the flow on port {}: {error}", port(&order.role)));
                }
            }
        }
        failures
    }

    /// Rows of the requests that guests have made, and of the transfers that they have sent, numbered from `first` on. The latter it counts in the rows of
    /// their flows, too.
    fn transfers(
        &self,
        rows: &mut [FlowRow],
        numbers: &BTreeMap<StreamKey, u32>,
        warmup: TimeDelta,
        first: u64,
    ) -> Vec<TransferRow> {
        let mut transfers = Vec::new();
        for flow in &self.guests.flows {
            let (Some(bytes), Some(row)) = (flow.size, row_of(flow, rows, numbers)) else { continue };
            let transfer = |start_s: f64, end_s: Option<f64>| TransferRow {
                flow: row.flow,
                name: flow.name.clone(),
                to: row.to.clone(),
                bytes,
                start_s,
                end_s,
                completion_s: end_s.map(|end_s| end_s - start_s),
                complete: end_s.is_some(),
                ..TransferRow::default()
            };
            let seconds = |at: u64| at as f64 / 1e9;
            if let Some(asker) = flow.asker {
                let requests = self.end_of(asker).map_or(&[][..], |report| &report.requests);
                let rows = requests.iter();
                transfers.extend(
                    rows.map(|request| transfer(seconds(request.asked), request.answered.map(seconds))),
                );
                continue;
            }
            // It is complete when the other end has all of it, and not when the sender has heard of that.
            let sent = self.end_of(flow.sender).and_then(|report| report.finished);
            let end_s = match flow.taken {
                Some(end) => self.end_of(end).and_then(|report| report.finished).map(seconds),
                None => row.end_s,
            };
            let transfer = transfer(row.start_s, end_s.filter(|_| sent.is_some()));
            if transfer.start_s >= warmup.as_secs_f64() {
                row.transfers = 1;
                row.transfers_completed = u64::from(transfer.complete);
                row.completion_mean_s = transfer.completion_s;
            }
            transfers.push(transfer);
        }
        transfers.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(a.flow.cmp(&b.flow)));
        for (number, row) in transfers.iter_mut().enumerate() {
            row.transfer = first + number as u64;
        }
        transfers
    }

    /// What the kernels' samples say: samples, interval by interval, of the flows that guests carried between them, with their windows; and the
    /// round-trip times after the warm-up, by the number of the flow.
    fn sampled(
        &self,
        numbers: &BTreeMap<StreamKey, u32>,
        (warmup, interval): (TimeDelta, TimeDelta),
    ) -> (Vec<FlowSample>, BTreeMap<u32, RoundTrips>) {
        let span = interval.as_secs_f64();
        // By machine: the flows whose round-trip times it knows, and the flows that it sends, with their numbers in the results.
        let machines = self.guests.machines.len();
        let (mut timed, mut sent) = (vec![BTreeSet::new(); machines], vec![BTreeMap::new(); machines]);
        for flow in &self.guests.flows {
            // Of answers, the requesting kernel has the better figures, since it has one connection.
            let (machine, _) = flow.asker.unwrap_or(flow.sender);
            timed[machine].insert(flow.number);
            let number = flow.key.and_then(|key| numbers.get(&key));
            if let Some(&number) = number.filter(|_| flow.asker.is_none()) {
                sent[machine].insert(flow.number, number);
            }
        }
        let mut all = Vec::new();
        let mut trips: BTreeMap<u32, RoundTrips> = BTreeMap::new();
        for (machine, (timed, sent)) in timed.iter().zip(&sent).enumerate() {
            let mut before: BTreeMap<u32, Sample> = BTreeMap::new();
            for sample in self.samples_of(machine, interval) {
                if timed.contains(&sample.id) && sample.time >= warmup.as_nanos() {
                    trips.entry(sample.id).or_default().add(&sample.info);
                }
                // The receiving end of the flow has sent nothing.
                let Some(&flow) = sent.get(&sample.id) else { continue };
                if sample.info.data_out == 0 {
                    continue;
                }
                let last = before.insert(sample.id, sample).map(|sample| sample.info).unwrap_or_default();
                let info = sample.info;
                let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8.0 / span;
                let (goodput, throughput) =
                    (rate(info.acked, last.acked), rate(info.bytes_sent, last.bytes_sent));
                all.push(FlowSample {
                    retransmits: u64::from(info.retransmits.saturating_sub(last.retransmits)),
                    cwnd_bytes: Some(u64::from(info.cwnd) * u64::from(info.mss)),
                    in_flight_bytes: Some(u64::from(info.unacked) * u64::from(info.mss)),
                    // The kernel's value for infinity.
                    ssthresh_bytes: (info.ssthresh < 0x7fff_ffff)
                        .then(|| u64::from(info.ssthresh) * u64::from(info.mss)),
                    srtt_ms: Some(f64::from(info.rtt) / 1e3),
                    ..FlowSample::new(sample.time as f64 / 1e9, flow, goodput, throughput)
                });
            }
        }
        all.sort_by(|a, b| a.time_s.total_cmp(&b.time_s).then(a.flow.cmp(&b.flow)));
        (all, trips)
    }
}

/// The row of a flow that a guest sent; none if nothing of it has come into the network.
fn row_of<'a>(
    flow: &FlowEntry,
    rows: &'a mut [FlowRow],
    numbers: &BTreeMap<StreamKey, u32>,
) -> Option<&'a mut FlowRow> {
    let number = flow.key.and_then(|key| numbers.get(&key).copied());
    rows.iter_mut().find(|row| match flow.key {
        Some(_) => Some(row.flow) == number,
        None => row.name == flow.name,
    })
}

/// What a machine with a limit used of its core.
pub(super) fn cpu_row(used: CpuUsed) -> GuestCpu {
    let of = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    GuestCpu {
        share: used.share,
        used: used.on_core.map(|nanos| of(nanos, used.span)),
        period_ms: used.period as f64 / 1e6,
        periods: used.periods,
        throttled_periods: used.throttled,
        throttled: of(used.throttled, used.periods),
    }
}

/// Round-trip times of a flow in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrips {
    min: f64,
    sum: f64,
    max: f64,
    count: u64,
}

impl RoundTrips {
    /// Adds a kernel's sample of a connection; nothing if this end has sent nothing, like a receiver.
    fn add(&mut self, info: &TcpInfo) {
        if info.data_out == 0 || info.rtt == 0 {
            return;
        }
        let (rtt, min) = (f64::from(info.rtt), f64::from(info.min_rtt));
        // The kernel sets values that it does not have yet to all ones.
        let min = if info.min_rtt == u32::MAX || info.min_rtt == 0 { rtt } else { min };
        self.min = if self.count == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(rtt);
        self.sum += rtt;
        self.count += 1;
    }
}

/// Sets the rates of a flow as those of a model's flow: it is measured from its start or the warm-up's end to its own end or the run's, however long it
/// was silent before.
fn set_rates(row: &mut FlowRow, warmup: TimeDelta, end: Timestamp) {
    let end = row.end_s.unwrap_or(f64::INFINITY).min(end.as_secs_f64());
    let span = end - row.start_s.max(warmup.as_secs_f64());
    let bps = |bytes: u64| if span > 0.0 { bytes as f64 * 8.0 / span } else { 0.0 };
    (row.goodput_bps, row.throughput_bps) = (bps(row.delivered_bytes), bps(row.sent_bytes));
}

fn port(role: &Role) -> u16 {
    match role {
        Role::Send { port, .. }
        | Role::Sink { port }
        | Role::Request { port, .. }
        | Role::Serve { port }
        | Role::Simple { port, .. } => *port,
    }
}

fn fill(row: &mut ProgramRow, report: &ProgramReport) {
    let seconds = |at: u64| at as f64 / 1e9;
    row.start_s = report.started.map(seconds);
    row.end_s = report.ended.map(seconds);
    row.outcome = match &report.ending {
        Ending::Exited(code) => {
            row.code = Some(*code);
            format!("exit code {code}")
        }
        Ending::Signalled(signal) => format!("signal {signal}"),
        Ending::NotStarted(why) => {
            row.start_s = None;
            format!("not started: {why}")
        }
        Ending::Stopped => {
            row.end_s = None;
            "running".to_owned()
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::guests::plan::tests::planned;

    #[test]
    fn how_a_program_ended_is_unknown_if_it_began_and_its_guest_has_left_no_report() {
        let guests = planned(
            "duration = \"1s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n\
             [[host]]\nname = \"a\"\nendpoint = \"guest\"\n\
             [[host.program]]\nname = \"early\"\ncommand = \"true\"\n[[host.program]]\nname = \"late\"\ncommand = \"true\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\n",
        );
        let (share, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(share.path().join("a.early.stdout"), "it has begun\n").unwrap();
        let (reports, shares) = (vec![Report::default()], vec![share.path().to_owned()]);
        let results = GuestResults { guests: &guests, reports, shares, machines: vec![] };
        let (rows, failures) = results.judge(false, out.path(), &Evidence::default()).unwrap();
        let outcomes: Vec<&str> = rows.iter().map(|row| row.outcome.as_str()).collect();
        assert_eq!(outcomes, [programs::UNKNOWN, "not started"]);
        assert!(failures.is_empty(), "{failures:?}");
    }

    #[test]
    fn a_transfer_that_a_guest_sends_is_complete_when_the_other_end_has_it() {
        let guests = planned(
            "duration = \"9s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n\
             [[host]]\nname = \"a\"\nendpoint = \"guest\"\n[[host]]\nname = \"b\"\nendpoint = \"guest\"\n\
             [[flow]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\napp = \"transfer\"\nsize = \"10kB\"\n",
        );
        let report = |finished| Report {
            flows: vec![FlowReport { finished, ..FlowReport::default() }],
            ..Report::default()
        };
        let numbers = BTreeMap::from([(guests.flows[0].key.unwrap(), 7)]);
        let transferred = |sent, taken, warmup_s| {
            let (reports, machines) = (vec![report(sent), report(taken)], vec![]);
            let results = GuestResults { guests: &guests, reports, shares: vec![], machines };
            let mut rows = [FlowRow { flow: 7, name: "t.0".to_owned(), start_s: 1.0, ..FlowRow::default() }];
            let transfers = results.transfers(&mut rows, &numbers, TimeDelta::from_secs(warmup_s), 4);
            let [transfer] = transfers.as_slice() else { panic!("{transfers:?}") };
            assert_eq!((transfer.transfer, transfer.flow, transfer.bytes), (4, 7, 10_000));
            let [row] = rows;
            (transfer.completion_s, row.transfers, row.transfers_completed, row.completion_mean_s)
        };
        let (sent, taken) = (Some(3_000_000_000), Some(2_500_000_000));
        assert_eq!(transferred(sent, taken, 0), (Some(1.5), 1, 1, Some(1.5)));
        assert_eq!(transferred(sent, taken, 2), (Some(1.5), 0, 0, None));
        assert_eq!(transferred(None, None, 0), (None, 1, 0, None));
    }

    #[test]
    fn the_samples_of_a_flow_are_those_of_its_sender_and_round_trips_of_answers_those_of_who_asks() {
        let guests = planned(
            "duration = \"1s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n\
             [[host]]\nname = \"a\"\nendpoint = \"guest\"\n[[host]]\nname = \"b\"\nendpoint = \"guest\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"request\"\nsize = \"10kB\"\n",
        );
        let info = |sent: u64, rtt| TcpInfo {
            acked: sent,
            bytes_sent: 2 * sent,
            data_out: 1,
            cwnd: 10,
            mss: 1000,
            unacked: 5,
            ssthresh: u32::MAX,
            min_rtt: 40_000,
            rtt,
            ..TcpInfo::default()
        };
        let line = |seconds: u64, id, info| {
            serde_json::to_string(&Sample { time: seconds * 1_000_000_000, id, info }).unwrap()
        };
        let shares = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let again = TcpInfo { retransmits: 3, ..info(250_000, 70_000) };
        let sender = [
            line(1, 0, info(125_000, 50_000)),
            "not a sample".to_owned(),
            line(2, 0, again),
            line(2, 1, info(9, 90_000)),
        ];
        let receiver = [line(2, 0, info(7, 80_000)), line(2, 1, info(9, 60_000))];
        std::fs::write(shares[0].path().join(SAMPLES), sender.join("\n")).unwrap();
        std::fs::write(shares[1].path().join(SAMPLES), receiver.join("\n")).unwrap();
        let results = GuestResults {
            guests: &guests,
            reports: vec![],
            shares: shares.iter().map(|share| share.path().to_owned()).collect(),
            machines: vec![],
        };
        let keys = guests.flows.iter().map(|flow| flow.key.unwrap());
        let numbers: BTreeMap<StreamKey, u32> = keys.zip([77, 78]).collect();
        let times = (TimeDelta::from_millis(1500), TimeDelta::from_secs(1));
        let (samples, trips) = results.sampled(&numbers, times);
        let sample = |time_s, retransmits, srtt_ms| FlowSample {
            cwnd_bytes: Some(10_000),
            in_flight_bytes: Some(5000),
            srtt_ms: Some(srtt_ms),
            retransmits,
            ..FlowSample::new(time_s, 77, 1e6, 2e6)
        };
        assert_eq!(samples, [sample(1.0, 0, 50.0), sample(2.0, 3, 70.0)]);
        let trips: Vec<_> = trips.iter().map(|(flow, own)| (*flow, own.min, own.sum, own.count)).collect();
        assert_eq!(trips, [(0, 40_000.0, 70_000.0, 1), (1, 40_000.0, 60_000.0, 1)]);
    }

    #[test]
    fn a_flow_is_measured_to_its_own_end_or_to_that_of_the_run() {
        let rate = |end_s, warmup| {
            let mut row = FlowRow {
                start_s: 2.0,
                end_s,
                delivered_bytes: 1_000_000,
                sent_bytes: 2_000_000,
                ..FlowRow::default()
            };
            set_rates(&mut row, TimeDelta::from_secs(warmup), Timestamp::from_secs(10));
            assert_eq!(row.throughput_bps, 2.0 * row.goodput_bps);
            row.goodput_bps
        };
        assert_eq!(rate(None, 0), 1e6, "it was stuck, and still counts as there");
        assert_eq!(rate(Some(4.0), 0), 4e6);
        assert_eq!(rate(Some(4.0), 3), 8e6);
        // Its end is known later than the run's.
        assert_eq!(rate(Some(11.0), 0), 1e6);
        assert_eq!(rate(Some(2.0), 5), 0.0, "before the warm-up's end");
    }
}
