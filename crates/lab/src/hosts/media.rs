//! The ends of a media stream on simulated hosts: what `warpline_transport::media` says, driven by the run's clock.
//!
//! Simulated packets carry no bytes. What a media packet says of itself fits beside its datagram. What a report says does not: it is handed to the
//! sender's part beside the packets, under the number that the report's packet carries, and kept there until that packet arrives.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_core::packet::{IPV4_HEADER, UDP_HEADER};
use warpline_core::{Datagram, Ecn, EndpointId, FlowId, Packet, TimerId, Timestamp};
use warpline_net::Port;
use warpline_transport::media::{self, MediaPacket, MediaParams, Receiver, Report, Sender};

use super::counters::{Delays, Distribution, FlowTotals, FrameTotals};
use super::marking::Marking;
use super::note::Note;
use super::routes::Routes;
use super::tcp::End;
use super::udp::UdpSink;
use super::window::Window;
use super::{Endpoint, ModelHosts, Newest};

/// Bytes of IPv4 and UDP headers.
const HEADERS: u32 = IPV4_HEADER + UDP_HEADER;
/// Number of reports kept. Those whose packets the network lost are dropped when there are more.
const UNDER_WAY: usize = 1 << 10;

/// What a stream is.
#[derive(Clone, Debug)]
pub(crate) struct MediaPlan {
    pub(crate) params: MediaParams,
    pub(crate) algorithm: media::Algorithm,
}

/// Where an end sends.
#[derive(Clone, Debug)]
struct Outlet {
    flow: FlowId,
    marking: Marking,
    to: EndpointId,
    routes: Routes,
}

impl Outlet {
    fn send(&mut self, port: &mut Port<'_>, size: u32, ecn: Ecn, datagram: Datagram) {
        let datagram = Datagram { len: size.saturating_sub(HEADERS), ..datagram };
        let (flow, to, Marking { class, dscp }) = (self.flow, self.to, self.marking);
        port.send(self.routes.next(), Packet { size, ecn, class, dscp, ..Packet::udp(flow, to, datagram) });
    }
}

/// The end that sends the media.
#[derive(Debug)]
pub(super) struct MediaSender {
    sender: Sender,
    outlet: Outlet,
    /// Reports whose packets are in the network, by number.
    reports: BTreeMap<u64, Report>,
}

impl MediaSender {
    /// Keeps a report until its packet arrives.
    fn expect(&mut self, number: u64, report: Report) {
        self.reports.insert(number, report);
        if self.reports.len() > UNDER_WAY {
            self.reports.pop_first();
        }
    }

    /// Sends what may be sent, and sets the timer.
    fn pump(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
        self.sender.handle_timeout(now);
        while let Some((packet, ecn)) = self.sender.poll_transmit(now) {
            let datagram = Datagram {
                seq: packet.seq,
                created: packet.captured,
                note: packet.note(),
                ..Datagram::default()
            };
            self.outlet.send(port, packet.bytes, ecn, datagram);
        }
        set_timer(now, timer, self.sender.poll_timeout(), port);
    }

    /// Captures no more frames.
    pub(super) fn stop(&mut self) {
        self.sender.stop();
    }
    pub(super) fn reset_extremes(&mut self) {
        self.sender.reset_extremes();
    }

    /// Adds its counters to those of its flow.
    pub(super) fn add_to(&self, totals: &mut FlowTotals) {
        let stats = self.sender.stats();
        totals.sent_packets += stats.packets;
        totals.sent_bytes += stats.bytes;
        totals.retransmitted_packets += stats.again;
        totals.rtt.count += stats.rtt_count;
        totals.rtt.sum = totals.rtt.sum.saturating_add(stats.rtt_sum);
        totals.rtt.max = totals.rtt.max.max(stats.rtt_max);
        totals.rtt_min = stats.rtt_min;
        let frames = totals.frames.get_or_insert_default();
        frames.sent += stats.frames;
        frames.ticks += stats.ticks;
        frames.target_sum += stats.target_sum;
    }

    /// Its window, round-trip time and target rate.
    pub(super) fn window(&self) -> Window {
        Window {
            cwnd: self.sender.control().cwnd(),
            ssthresh: None,
            in_flight: Some(self.sender.in_flight()),
            srtt: Some(self.sender.srtt()).filter(|srtt| !srtt.is_zero()),
            target: Some(self.sender.control().target_rate().as_bps()),
        }
    }
}

/// The end that receives it.
#[derive(Debug)]
pub(super) struct MediaReceiver {
    receiver: Receiver,
    sink: UdpSink,
    delay: Delays,
    delays: Distribution,
    outlet: Outlet,
    /// Number of the next report.
    next: u64,
}

impl MediaReceiver {
    fn handle(&mut self, now: Timestamp, datagram: &Datagram, ce: bool) {
        let bytes = datagram.len + HEADERS;
        let packet = MediaPacket::read(datagram.seq, datagram.created, bytes, datagram.note);
        let new = self.receiver.handle_packet(now, &packet, ce);
        // What comes twice, or too late to be shown, is not delivered.
        let len = if new { bytes - media::HEADERS.min(bytes) } else { 0 };
        self.sink.handle_datagram(now, &Datagram { len, ..*datagram }, ce);
    }

    /// Handles the passing of time, and sets the timer. Returns the report that is due, with its number.
    fn pump(
        &mut self,
        now: Timestamp,
        stop: Timestamp,
        timer: TimerId,
        port: &mut Port<'_>,
    ) -> Option<(u64, Report)> {
        match now < stop {
            true => self.receiver.handle_timeout(now),
            false => self.receiver.stop(now),
        }
        while let Some(delay) = self.receiver.poll_shown() {
            self.delay.add(delay);
            self.delays.record(delay);
        }
        let report = self.receiver.poll_report(now).map(|report| {
            let number = self.next;
            self.next += 1;
            let datagram = Datagram { seq: number, created: now, ..Datagram::default() };
            self.outlet.send(port, report.wire_size(), Ecn::NotEct, datagram);
            (number, report)
        });
        let next = self.receiver.poll_timeout();
        set_timer(now, timer, if now < stop { next.min(stop) } else { next }, port);
        report
    }

    /// When the last packet arrived.
    pub(super) fn last_arrival(&self) -> Option<Timestamp> {
        self.sink.last_arrival()
    }

    pub(super) fn reset_extremes(&mut self) {
        self.sink.reset_extremes();
        self.delay.reset_extremes();
        self.delays = Distribution::default();
    }

    /// Adds its counters to those of its flow.
    pub(super) fn add_to(&self, totals: &mut FlowTotals) {
        self.sink.add_to(totals);
        let frames = FrameTotals {
            watched: *self.receiver.watched(),
            delay: self.delay.clone(),
            delays: self.delays.clone(),
            ..FrameTotals::default()
        };
        warpline_core::counter::Counter::merge(&mut totals.frames, &Some(Box::new(frames)));
    }
}

/// Sets a timer, unless there is nothing to wait for.
fn set_timer(now: Timestamp, timer: TimerId, at: Timestamp, port: &mut Port<'_>) {
    if at.is_set() {
        port.set_timer(timer, at.max(now));
    }
}

impl ModelHosts {
    /// Adds the receiving end of a stream.
    pub(super) fn add_media_receiver(&mut self, flow: FlowId, plan: &MediaPlan) {
        let spec = Arc::clone(&self.flows[flow.index()].spec);
        let outlet =
            Outlet { flow, marking: spec.marking, to: End::sender(0).id(), routes: spec.routes.1.clone() };
        let end = Box::new(MediaReceiver {
            receiver: Receiver::new(&plan.params, plan.algorithm.report_rule()),
            sink: UdpSink::new(spec.record_latency),
            delay: Delays::default(),
            delays: Distribution::default(),
            outlet,
            next: 0,
        });
        let timer = self.add_endpoint(Endpoint::MediaReceiver(end));
        self.flows[flow.index()].sink = Some(timer);
        self.newest[flow.index()][1] = Newest { end: End::receiver(0), timer };
    }

    /// Starts a stream.
    #[cold]
    pub(super) fn start_media(&mut self, now: Timestamp, flow: FlowId, port: &mut Port<'_>) {
        let state = &self.flows[flow.index()];
        let (spec, Some(running)) = (&state.spec, &state.running) else { return };
        let Some(plan) = &spec.media else { return };
        let outlet =
            Outlet { flow, marking: spec.marking, to: End::receiver(0).id(), routes: spec.routes.0.clone() };
        // Nothing else of this flow draws from its stream.
        let mut sender = Sender::new(&plan.params, &plan.algorithm, running.stream.clone());
        sender.start(now);
        let end = Box::new(MediaSender { sender, outlet, reports: BTreeMap::new() });
        let timer = self.add_endpoint(Endpoint::MediaSender(end));
        self.flows[flow.index()].media = Some(timer);
        self.newest[flow.index()][0] = Newest { end: End::sender(0), timer };
        self.pump_media(now, timer, port);
    }

    /// A packet of a stream has arrived.
    pub(super) fn handle_media(
        &mut self,
        now: Timestamp,
        timer: TimerId,
        (datagram, ce): (&Datagram, bool),
        port: &mut Port<'_>,
    ) {
        match self.endpoints.get_mut(timer.index()) {
            Some(Endpoint::MediaSender(end)) => {
                // A copy that the network made finds nothing.
                let Some(report) = end.reports.remove(&datagram.seq) else { return };
                end.sender.handle_report(now, &report);
            }
            Some(Endpoint::MediaReceiver(end)) => end.handle(now, datagram, ce),
            _ => return,
        }
        self.pump_media(now, timer, port);
    }

    /// Handles the timer of an end of a stream, and lets it send.
    pub(super) fn pump_media(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
        match self.endpoints.get_mut(timer.index()) {
            Some(Endpoint::MediaSender(end)) => end.pump(now, timer, port),
            Some(Endpoint::MediaReceiver(end)) => {
                let flow = end.outlet.flow;
                let stop = self.flows[flow.index()].stop;
                if let Some((number, report)) = end.pump(now, stop, timer, port) {
                    let sender = self.flows[flow.index()].spec.from.0;
                    match self.parts.elsewhere(sender) {
                        Some(part) => self.parts.post(part, Note::Report { flow, number, report }),
                        None => self.expect_report(flow, number, report),
                    }
                }
            }
            _ => {}
        }
    }

    /// Keeps a report until its packet arrives.
    pub(super) fn expect_report(&mut self, flow: FlowId, number: u64, report: Report) {
        let timer = self.flows.get(flow.index()).and_then(|flow| flow.media);
        if let Some(Endpoint::MediaSender(end)) =
            timer.and_then(|timer| self.endpoints.get_mut(timer.index()))
        {
            end.expect(number, report);
        }
    }
}
