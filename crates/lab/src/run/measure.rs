//! Measuring a run: counters read at the warm-up's end, at every sample and at the end, and the rows made of differences.

use warpline_core::{LinkId, TimeDelta, Timestamp};
use warpline_net::{LinkStats, Network};
use warpline_results::{FlowRow, FlowSample, LinkRow, LinkSample, TransferRow};
use warpline_scenario::plan::Capacity;

use crate::hosts::ModelHosts;
use crate::hosts::counters::{Delays, FlowTotals};

/// Bits per second of `bytes` in `span`; zero in no time.
fn bps(bytes: u64, span: TimeDelta) -> f64 {
    if span.is_zero() { 0.0 } else { bytes as f64 * 8.0 / span.as_secs_f64() }
}

fn ms(span: TimeDelta) -> f64 {
    span.as_nanos() as f64 / 1e6
}

/// What counters said at some instant.
#[derive(Debug)]
struct Counters {
    at: Timestamp,
    flows: Vec<FlowTotals>,
    links: Vec<LinkStats>,
}

impl Counters {
    fn take(network: &mut Network, world: &ModelHosts) -> Counters {
        let links = (0..network.links().len() as u32).map(LinkId).collect::<Vec<_>>();
        Counters {
            at: network.now(),
            flows: world.flows.iter().map(|flow| world.totals(flow)).collect(),
            links: links.into_iter().map(|id| network.link_stats(id)).collect(),
        }
    }
}

/// What is kept of a link's nature for its row.
#[derive(Debug)]
pub(super) struct LinkInfo {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) capacity: Capacity,
}

/// Turns counters into samples and rows.
#[derive(Debug)]
pub(super) struct Meter {
    /// At the end of the warm-up; before that there is nothing to subtract.
    start: Option<Counters>,
    last: Option<Counters>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Meter { start: None, last: None }
    }

    /// The measured part begins.
    pub(super) fn end_warmup(&mut self, network: &mut Network, world: &mut ModelHosts) {
        self.start = Some(Counters::take(network, world));
        world.end_warmup();
        for id in 0..network.links().len() as u32 {
            network.reset_queued_max(LinkId(id));
        }
    }

    /// The state of every flow and link, and what they did since the last sample.
    pub(super) fn sample(
        &mut self,
        network: &mut Network,
        world: &ModelHosts,
        infos: &[LinkInfo],
    ) -> (Vec<FlowSample>, Vec<LinkSample>) {
        let present = Counters::take(network, world);
        let empty = Counters { at: Timestamp::ZERO, flows: Vec::new(), links: Vec::new() };
        let last = self.last.as_ref().unwrap_or(&empty);
        let span = present.at - last.at;
        let time_s = present.at.as_secs_f64();
        let none = FlowTotals::default();
        let mut flows = Vec::with_capacity(present.flows.len());
        for (index, (flow, totals)) in world.flows.iter().zip(&present.flows).enumerate() {
            let before = last.flows.get(index).unwrap_or(&none);
            let mut sample = FlowSample {
                time_s,
                flow: index as u32,
                goodput_bps: bps(totals.delivered_bytes - before.delivered_bytes, span),
                throughput_bps: bps(totals.sent_bytes - before.sent_bytes, span),
                retransmits: totals.retransmitted_packets - before.retransmitted_packets,
                latency_ms: totals.latency.mean_ms_since(&before.latency),
                ..FlowSample::default()
            };
            let window = world.window(flow);
            sample.cwnd_bytes = window.cwnd;
            sample.in_flight_bytes = window.in_flight;
            sample.ssthresh_bytes = window.ssthresh;
            sample.srtt_ms = window.srtt.map(ms);
            flows.push(sample);
        }
        let none = LinkStats::default();
        let mut links = Vec::with_capacity(present.links.len());
        for ((index, stats), info) in present.links.iter().enumerate().zip(infos) {
            let before = last.links.get(index).unwrap_or(&none);
            let served = stats.queued_packets - before.queued_packets;
            let queued = stats.queued_time.saturating_sub(before.queued_time);
            links.push(LinkSample {
                time_s,
                link: index as u32,
                throughput_bps: bps(stats.sent_bytes - before.sent_bytes, span),
                capacity_bps: Some(info.capacity.rate_between(last.at, present.at).as_bps() as f64),
                backlog_packets: stats.backlog_packets,
                backlog_bytes: stats.backlog_bytes,
                drops: stats.drops() - before.drops(),
                marks: stats.marks - before.marks,
                queue_delay_ms: (served > 0).then(|| ms(queued) / served as f64),
            });
        }
        self.last = Some(present);
        (flows, links)
    }

    /// The rows of flows, transfers and links at the end.
    pub(super) fn finish(
        &self,
        network: &mut Network,
        world: &ModelHosts,
        links: &[LinkInfo],
    ) -> (Vec<FlowRow>, Vec<TransferRow>, Vec<LinkRow>) {
        let end = Counters::take(network, world);
        let begin = self.start.as_ref().map_or(Timestamp::ZERO, |start| start.at);
        let transfers = world
            .transfers
            .iter()
            .enumerate()
            .map(|(number, transfer)| {
                let completion = transfer.end.map(|at| at - transfer.start);
                TransferRow {
                    transfer: number as u64,
                    flow: transfer.flow.0,
                    name: world.flows[transfer.flow.index()].spec.name.clone(),
                    bytes: transfer.bytes,
                    start_s: transfer.start.as_secs_f64(),
                    end_s: transfer.end.map(Timestamp::as_secs_f64),
                    completion_s: completion.map(TimeDelta::as_secs_f64),
                    complete: transfer.end.is_some(),
                }
            })
            .collect();
        // The transfers of each flow in one pass: (begun, completed, sum of completion times).
        // As every other sum, without those that began during the warm-up.
        let mut done = vec![(0u64, 0u64, 0.0f64); world.flows.len()];
        for transfer in world.transfers.iter().filter(|transfer| transfer.start >= begin) {
            let (begun, completed, sum) = &mut done[transfer.flow.index()];
            *begun += 1;
            if let Some(at) = transfer.end {
                *completed += 1;
                *sum += (at - transfer.start).as_secs_f64();
            }
        }
        let none = FlowTotals::default();
        let mut flows = Vec::with_capacity(end.flows.len());
        for (index, (flow, totals)) in world.flows.iter().zip(&end.flows).enumerate() {
            let spec = &flow.spec;
            let before = self.start.as_ref().map_or(&none, |start| &start.flows[index]);
            // A flow is measured while it is there: from its start or the warm-up's end to its own or the run's end.
            let from = begin.max(spec.start.min(end.at));
            let ended = world.ended(flow, end.at);
            let until = ended.unwrap_or(end.at).max(from);
            let span = until - from;
            let delivered = totals.delivered_bytes - before.delivered_bytes;
            let sent = totals.sent_bytes - before.sent_bytes;
            let quantile = |q| totals.latencies.quantile_ms(q).filter(|_| spec.record_latency);
            // A datagram is a message.
            let datagrams = (!spec.tcp && flow.sends_messages()).then_some(totals);
            let none_yet = Delays::default();
            let (messages, messages_before, distribution) = match datagrams {
                Some(totals) => (&totals.latency, &before.latency, &totals.latencies),
                None => (&flow.messages.delays, &none_yet, &flow.messages.distribution),
            };
            let (begun, completed, sum) = done[index];
            flows.push(FlowRow {
                flow: index as u32,
                name: spec.name.clone(),
                group: spec.group.clone(),
                from: spec.from.1.clone(),
                to: spec.to.1.clone(),
                app: spec.app.to_owned(),
                transport: if spec.tcp { "tcp" } else { "udp" }.to_owned(),
                cc: spec.tcp.then(|| spec.cc.clone()),
                start_s: spec.start.as_secs_f64(),
                end_s: ended.map(Timestamp::as_secs_f64),
                outcome: world.outcome(flow).map(str::to_owned),
                sent_packets: totals.sent_packets - before.sent_packets,
                sent_bytes: sent,
                retransmitted_packets: totals.retransmitted_packets - before.retransmitted_packets,
                delivered_bytes: delivered,
                goodput_bps: bps(delivered, span),
                throughput_bps: bps(sent, span),
                lost_packets: totals.lost_packets.saturating_sub(before.lost_packets),
                rtos: totals.rtos - before.rtos,
                recoveries: totals.recoveries - before.recoveries,
                undos: totals.undos - before.undos,
                ce_marks: totals.ce_marks - before.ce_marks,
                rtt_min_ms: totals.rtt_min.map(ms),
                rtt_mean_ms: totals.rtt.mean_ms_since(&before.rtt),
                rtt_max_ms: totals.rtt.max_ms_since(&before.rtt),
                latency_mean_ms: totals.latency.mean_ms_since(&before.latency),
                latency_p50_ms: quantile(0.5),
                latency_p95_ms: quantile(0.95),
                latency_p99_ms: quantile(0.99),
                latency_max_ms: totals.latency.max_ms_since(&before.latency),
                message_latency_mean_ms: messages.mean_ms_since(messages_before),
                message_latency_p95_ms: distribution.quantile_ms(0.95),
                message_latency_max_ms: messages.max_ms_since(messages_before),
                transfers: begun,
                transfers_completed: completed,
                completion_mean_s: (completed > 0).then(|| sum / completed as f64),
            });
        }
        let none = LinkStats::default();
        let span = end.at - begin;
        let mut rows = Vec::with_capacity(links.len());
        for (index, (info, stats)) in links.iter().zip(&end.links).enumerate() {
            let before = self.start.as_ref().map_or(&none, |start| &start.links[index]);
            let link = network.link(LinkId(index as u32));
            let sent_bytes = stats.sent_bytes - before.sent_bytes;
            let served = stats.queued_packets - before.queued_packets;
            let queued = stats.queued_time.saturating_sub(before.queued_time);
            let rate = info.capacity.rate_between(begin, end.at).as_bps() as f64;
            let throughput = bps(sent_bytes, span);
            rows.push(LinkRow {
                link: index as u32,
                name: link.name().to_owned(),
                from: info.from.clone(),
                to: info.to.clone(),
                rate_bps: Some(rate),
                delay_s: link.delay().as_secs_f64(),
                sent_packets: stats.sent_packets - before.sent_packets,
                sent_bytes,
                throughput_bps: throughput,
                // A packet counts when it is through, so the first may have been begun before.
                utilisation: (rate > 0.0).then(|| (throughput / rate).min(1.0)),
                drops_overflow: stats.drops_overflow - before.drops_overflow,
                drops_aqm: stats.drops_aqm - before.drops_aqm,
                drops_loss: stats.drops_loss - before.drops_loss,
                drops_down: stats.drops_down - before.drops_down,
                marks: stats.marks - before.marks,
                arrivals: stats.arrivals - before.arrivals,
                queue_delay_mean_ms: if served > 0 { ms(queued) / served as f64 } else { 0.0 },
                queue_delay_max_ms: ms(stats.queued_max),
            });
        }
        (flows, transfers, rows)
    }
}
