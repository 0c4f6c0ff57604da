//! Measuring a run: counters read at the warm-up's end, at every sample and at the end, and the rows made of differences.

use std::sync::Arc;

use warpline_core::counter::{Counter as _, Ratio};
use warpline_core::{FlowId, LinkId, TimeDelta, Timestamp};
use warpline_net::apart::MeetError;
use warpline_net::{LinkStats, Network};
use warpline_results::{FlowRow, FlowSample, LinkRow, LinkSample, TransferRow};
use warpline_scenario::plan::Capacity;

use super::counters::Counters;
use super::skipped::Skipped;
use super::stalls::Stalls;
use super::team::Team;
use crate::hosts::ModelHosts;
use crate::hosts::counters::{Delays, FlowTotals, FrameTotals, Messages};
use crate::hosts::flow::Flow;
use crate::hosts::reading::{Ended, Ending};

/// Bits per second of `bytes` in `span`; zero in no time.
fn bps(bytes: u64, span: TimeDelta) -> f64 {
    if span.is_zero() { 0.0 } else { bytes as f64 * 8.0 / span.as_secs_f64() }
}

fn ms(span: TimeDelta) -> f64 {
    span.as_nanos() as f64 / 1e6
}

/// The columns of a media stream; absent for other flows. Sums are those since `before`.
fn media_columns(totals: &FlowTotals, before: &FlowTotals) -> FlowRow {
    let Some(frames) = &totals.frames else { return FlowRow::default() };
    let none = FrameTotals::default();
    let before = before.frames.as_deref().unwrap_or(&none);
    let since = frames.growth(before, Ratio::ONE);
    let watched = since.watched;
    let span = watched.watched.as_secs_f64();
    let quantile = |q| frames.delays.quantile_ms(q, frames.delay.max_ms_since(&before.delay));
    FlowRow {
        frames_sent: Some(since.sent),
        frames_shown: Some(watched.shown),
        frames_late: Some(watched.late),
        frames_lost: Some(watched.lost),
        frame_delay_mean_ms: frames.delay.mean_ms_since(&before.delay),
        frame_delay_p95_ms: quantile(0.95),
        frame_delay_p99_ms: quantile(0.99),
        freezes: Some(watched.freezes),
        frozen_s: Some(watched.frozen.as_secs_f64()),
        target_rate_mean_bps: (since.ticks > 0).then(|| since.target_sum as f64 / since.ticks as f64),
        quality: (span > 0.0).then(|| watched.quality.as_secs_f64() / span),
        ..FlowRow::default()
    }
}

/// Fills in what rows of subflows say of their connections, whose subflows follow each other.
fn subflow_columns(flows: &mut [FlowRow], plans: &[Flow]) {
    let mut first = 0;
    while let Some(plan) = plans.get(first) {
        let end = first + plan.spec.subflow.as_ref().map_or(1, |own| own.count);
        if plan.spec.subflow.is_some()
            && let Some(rows) = flows.get_mut(first..end)
        {
            let goodput = rows.iter().map(|row| row.goodput_bps).sum();
            for row in rows {
                row.connection_goodput_bps = Some(goodput);
            }
        }
        first = end;
    }
}

/// What is kept of the nature of a link for its row. There is one for each link of the network that is not idle, in their order.
#[derive(Debug)]
pub(super) struct LinkInfo {
    pub(super) link: LinkId,
    pub(super) from: Arc<str>,
    pub(super) to: Arc<str>,
    pub(super) name: String,
    pub(super) delay: TimeDelta,
    pub(super) capacity: Capacity,
}

/// Turns counters into samples and rows.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// At the end of the warm-up; before that there is nothing to subtract.
    start: Option<Counters>,
    last: Option<Counters>,
    stalls: Stalls,
    /// What the run has skipped, which is counted as if it had been run.
    pub(super) skipped: Skipped,
}

impl Meter {
    /// The measured part begins.
    ///
    /// # Errors
    /// If a process has ended.
    pub(super) fn end_warmup(
        &mut self,
        network: &mut Network,
        world: &mut [ModelHosts],
        team: &mut Team<'_>,
    ) -> Result<(), MeetError> {
        self.start = self.skipped.with_credit(Counters::take(network, world)).together(team)?;
        self.skipped.end_warmup();
        world.iter_mut().for_each(ModelHosts::end_warmup);
        network.reset_all_queued_max();
        Ok(())
    }

    /// The state of every flow and link, and what they did since the last sample.
    pub(super) fn sample(
        &mut self,
        present: Counters,
        infos: &[LinkInfo],
    ) -> (Vec<FlowSample>, Vec<LinkSample>) {
        let empty = Counters::default();
        let last = self.last.as_ref().unwrap_or(&empty);
        let span = present.at - last.at;
        let time_s = present.at.as_secs_f64();
        let none = FlowTotals::default();
        let mut flows = Vec::with_capacity(present.flows.len());
        for (index, (totals, window)) in present.flows.iter().zip(&present.windows).enumerate() {
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
            sample.cwnd_bytes = window.cwnd;
            sample.in_flight_bytes = window.in_flight;
            sample.ssthresh_bytes = window.ssthresh;
            sample.srtt_ms = window.srtt.map(ms);
            sample.target_rate_bps = window.target.map(|bps| bps as f64);
            if let Some(frames) = &totals.frames {
                let before = before.frames.as_ref().map(|frames| frames.delay.clone()).unwrap_or_default();
                sample.frame_delay_ms = frames.delay.mean_ms_since(&before);
            }
            if self.start.is_some() {
                self.stalls.sample(index, last.at, present.at, sample.goodput_bps > 0.0);
            }
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
                link: info.link.0,
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

    /// Begins a sample anew, without a row for the time since the last one.
    pub(super) fn restart_sample(&mut self, present: Counters) {
        self.last = Some(present);
    }

    /// The rows of flows, transfers and links at the end.
    pub(super) fn finish(
        &self,
        end: Counters,
        ending: &Ending,
        plans: &[Flow],
        links: &[LinkInfo],
    ) -> (Vec<FlowRow>, Vec<TransferRow>, Vec<LinkRow>) {
        let in_run = |at| self.skipped.in_run(at);
        let begin = self.start.as_ref().map_or(Timestamp::ZERO, |start| start.at);
        let ended = ending.transfers();
        let transfers = ended
            .iter()
            .enumerate()
            .map(|(number, &Ended { transfer, at, complete })| {
                let (start, end) = (in_run(transfer.start), at.filter(|_| complete).map(in_run));
                let spec = &plans[transfer.flow.index()].spec;
                let way = spec.ways.get(transfer.tag as usize);
                let ideal = way.map_or(&spec.idle, |way| &way.idle).ideal(transfer.bytes, &spec.config.0);
                TransferRow {
                    transfer: number as u64,
                    flow: transfer.flow.0,
                    name: spec.subflow.as_ref().map_or(&*spec.name, |own| &own.connection).to_owned(),
                    to: way.map_or(&*spec.to.1, |way| &*way.to.1).to_owned(),
                    bytes: transfer.bytes,
                    start_s: start.as_secs_f64(),
                    end_s: end.map(Timestamp::as_secs_f64),
                    completion_s: end.map(|at| (at - start).as_secs_f64()),
                    complete,
                    ideal_s: ideal.map(TimeDelta::as_secs_f64),
                    slowdown: None,
                }
                .with_slowdown()
            })
            .collect();
        // By flow, each in the order of time.
        let mut ended = ended;
        ended.sort_by_key(|ended| ended.transfer.flow);
        let none = FlowTotals::default();
        let mut flows = Vec::with_capacity(end.flows.len());
        for (index, (totals, plan)) in end.flows.iter().zip(plans).enumerate() {
            let id = FlowId(index as u32);
            // A subflow is there while its connection is, which its first one knows of.
            let lead = plan.spec.subflow.as_ref().map_or(id, |own| own.lead);
            let flow = ending.flow(lead);
            let (start, messages) = flow.run.clone().unwrap_or_else(|| (plan.start, Messages::default()));
            let spec = &plan.spec;
            let own = ended.partition_point(|ended| ended.transfer.flow < lead)
                ..ended.partition_point(|ended| ended.transfer.flow <= lead);
            let own = &ended[own];
            let before = self.start.as_ref().map_or(&none, |start| &start.flows[index]);
            // A flow is measured while it is there: from its start or the warm-up's end to its own or the run's end.
            let start = in_run(start);
            let from = begin.max(start.min(end.at));
            let flow_end = flow.time(own).map(in_run);
            let until = flow_end.unwrap_or(end.at).max(from);
            let span = until - from;
            let delivered = totals.delivered_bytes - before.delivered_bytes;
            let sent = totals.sent_bytes - before.sent_bytes;
            let latency_max = totals.latency.max_ms_since(&before.latency);
            let quantile = |q| totals.latencies.quantile_ms(q, latency_max).filter(|_| spec.record_latency);
            // A datagram is a message.
            let datagrams = (!spec.tcp && plan.sends_messages).then_some(totals);
            let none_yet = Delays::default();
            let (messages, messages_before, distribution) = match datagrams {
                Some(totals) => (&totals.latency, &before.latency, &totals.latencies),
                None => (&messages.delays, &none_yet, &messages.distribution),
            };
            let messages_max = messages.max_ms_since(messages_before);
            // As every other sum, without those that began during the warm-up.
            let measured = || own.iter().filter(|ended| lead == id && in_run(ended.transfer.start) >= begin);
            let times = measured()
                .filter(|ended| ended.complete)
                .filter_map(|ended| Some((in_run(ended.at?) - in_run(ended.transfer.start)).as_secs_f64()));
            let (completed, sum) = times.fold((0u64, 0.0), |(count, sum), time| (count + 1, sum + time));
            let begun = measured().count() as u64;
            flows.push(FlowRow {
                flow: index as u32,
                name: spec.name.clone(),
                group: spec.group.to_string(),
                from: spec.from.1.to_string(),
                to: spec.to.1.to_string(),
                app: spec.app.to_owned(),
                transport: spec.transport.to_owned(),
                via: spec.via.clone(),
                connection: spec.subflow.as_ref().map(|own| own.connection.to_string()),
                cc: (spec.tcp || spec.media.is_some()).then(|| spec.cc.clone()),
                start_s: start.as_secs_f64(),
                end_s: flow_end.map(Timestamp::as_secs_f64),
                outcome: if lead == id { flow.outcome } else { ending.flow(id).outcome },
                sent_packets: totals.sent_packets - before.sent_packets,
                sent_bytes: sent,
                retransmitted_packets: totals.retransmitted_packets - before.retransmitted_packets,
                delivered_bytes: delivered,
                goodput_bps: bps(delivered, span),
                throughput_bps: bps(sent, span),
                lost_packets: totals.lost_packets.saturating_sub(before.lost_packets),
                stalled_max_s: self
                    .stalls
                    .longest(index, from, until)
                    .filter(|_| self.skipped.span().is_zero())
                    .map(TimeDelta::as_secs_f64),
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
                latency_max_ms: latency_max,
                message_latency_mean_ms: messages.mean_ms_since(messages_before),
                message_latency_p95_ms: distribution.quantile_ms(0.95, messages_max),
                message_latency_max_ms: messages_max,
                transfers: begun,
                transfers_completed: completed,
                completion_mean_s: (completed > 0).then(|| sum / completed as f64),
                ..media_columns(totals, before)
            });
        }
        subflow_columns(&mut flows, plans);
        let none = LinkStats::default();
        let span = end.at - begin;
        let mut rows = Vec::with_capacity(links.len());
        for (index, (info, stats)) in links.iter().zip(&end.links).enumerate() {
            let before = self.start.as_ref().map_or(&none, |start| &start.links[index]);
            let sent_bytes = stats.sent_bytes - before.sent_bytes;
            let served = stats.queued_packets - before.queued_packets;
            let queued = stats.queued_time.saturating_sub(before.queued_time);
            let rate = info.capacity.rate_between(begin, end.at).as_bps() as f64;
            let throughput = bps(sent_bytes, span);
            rows.push(LinkRow {
                link: info.link.0,
                name: info.name.clone(),
                from: info.from.to_string(),
                to: info.to.to_string(),
                rate_bps: Some(rate),
                delay_s: info.delay.as_secs_f64(),
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
                duplicated: stats.duplicated - before.duplicated,
                corrupted: stats.corrupted - before.corrupted,
                arrivals: stats.arrivals - before.arrivals,
                pauses: stats.pauses - before.pauses,
                paused_s: stats.paused_time.saturating_sub(before.paused_time).as_secs_f64(),
                queue_delay_mean_ms: if served > 0 { ms(queued) / served as f64 } else { 0.0 },
                queue_delay_max_ms: ms(stats.queued_max),
            });
        }
        (flows, transfers, rows)
    }
}
