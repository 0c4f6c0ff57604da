//! Rows of the result tables that the runner fills in: flows, transfers, links and their time series.
//!
//! Times are seconds of the run unless the name says otherwise. Rates are bits per second. "After warm-up" means from the
//! scenario's `warmup` to the end of the flow or of the run.

use crate::column::table;

table! {
    /// A row per flow instance (`flows.parquet`), and in a live run a row for each direction of traffic between programs that carried payload.
    pub struct FlowRow: "flows" #[serde(default)] {
        /// Number of the flow within the run.
        flow: u32 ["" key called("№")],
        /// Name: the group and the instance's number, "bulk.0".
        name: String ["" terminal(1, "flow")],
        /// Name of the scenario's entry that it is an instance of.
        group: String [""],
        /// Host that opens the flow.
        from: String [""],
        /// Host at the other end.
        to: String [""],
        /// Application: bulk, transfer, cbr, messages, web and so on; "program" for traffic of real programs among themselves.
        app: String ["" called("Application")],
        /// Nodes that the scenario lets it pass (`via`), with " > " between them; absent where it says none.
        via: Option<String> [""],
        /// Name of the multipath connection that it is a subflow of; absent for other flows.
        connection: Option<String> [""],
        /// Transport: tcp, udp, quic or sctp; for programs also icmp, or the number of another protocol.
        transport: String [""],
        /// Congestion control; absent for UDP, and where it is a real program's.
        cc: Option<String> ["" called("Congestion control")],
        /// When it started.
        start_s: f64 ["s"],
        /// When its last byte was delivered, or it stopped if that is later; absent while it still runs at the end.
        end_s: Option<f64> ["s"],
        /// What went wrong: refused, reset, unreachable, timed out, no answer, closed by the program, aborted; absent where nothing did.
        outcome: Option<String> ["" terminal(3, "outcome") if_any],
        /// Packets sent after warm-up by both ends' data senders, retransmissions included.
        sent_packets: u64 ["packets" called("Packets sent")],
        /// Bytes on the wire after warm-up, from the IP header on, retransmissions included.
        sent_bytes: u64 ["B" called("Bytes sent")],
        /// Packets sent after warm-up that carried bytes that had been sent before; 0 for QUIC, where what a packet carries is encrypted.
        retransmitted_packets: u64 ["packets" compared sum called("Retransmitted")],
        /// Unique application bytes delivered after warm-up, which over TCP are those in order: what a missing packet held back counts when that packet has come,
        /// and may have crossed the links during warm-up. Of a subflow, those that it was the first to bring.
        delivered_bytes: u64 ["B" sum called("Delivered")],
        /// Unique application data delivered per second after warm-up.
        goodput_bps: f64 ["bit/s" compared terminal(2, "goodput")],
        /// Goodput of the multipath connection that it is a subflow of: the sum over its subflows.
        connection_goodput_bps: Option<f64> ["bit/s"],
        /// Data sent on the wire per second after warm-up.
        throughput_bps: f64 ["bit/s" compared],
        /// Packets declared lost by the sender after warm-up; for UDP, gaps seen by the receiver: what was sent after the last datagram that arrived is not among them.
        lost_packets: u64 ["packets" compared sum called("Lost")],
        /// Longest time in which a flow delivered no new application bytes, from the flow's start to its end, in steps of the sampling interval; pauses
        /// of the application count, too. Absent for what real programs send, where time was skipped, and where no time series is kept.
        stalled_max_s: Option<f64> ["s" max called("Longest stall")],
        /// Retransmission time-outs.
        rtos: u64 ["" compared sum terminal(10, "time-outs") if_any called("Time-outs")],
        /// Loss recovery episodes.
        recoveries: u64 [""],
        /// Reductions undone because the retransmission was spurious.
        undos: u64 [""],
        /// Packets that arrived with the congestion-experienced mark.
        ce_marks: u64 ["packets" compared sum called("CE marks")],
        /// Smallest round-trip time sample; this and the next two are absent for stacks, whose round-trip time is in the time series.
        rtt_min_ms: Option<f64> ["ms"],
        /// Mean of the round-trip time samples.
        rtt_mean_ms: Option<f64> ["ms" compared terminal(6, "RTT")],
        /// Largest round-trip time sample.
        rtt_max_ms: Option<f64> ["ms"],
        /// Mean per-packet latency: first transmission to acknowledgement for TCP, one way for UDP.
        latency_mean_ms: Option<f64> ["ms" compared mean],
        /// Median per-packet latency.
        latency_p50_ms: Option<f64> ["ms"],
        /// 95th percentile of the per-packet latency.
        latency_p95_ms: Option<f64> ["ms" compared terminal(7, "latency p95")],
        /// 99th percentile of the per-packet latency.
        latency_p99_ms: Option<f64> ["ms"],
        /// Largest per-packet latency.
        latency_max_ms: Option<f64> ["ms"],
        /// Mean time from a message's creation to its last byte's delivery.
        message_latency_mean_ms: Option<f64> ["ms" compared terminal(8, "message latency")],
        /// 95th percentile of the message latency.
        message_latency_p95_ms: Option<f64> ["ms"],
        /// Largest message latency.
        message_latency_max_ms: Option<f64> ["ms"],
        /// Transfers begun after warm-up: sized transfers and web objects.
        transfers: u64 [""],
        /// Those of them that completed.
        transfers_completed: u64 ["" sum called("Transfers done")],
        /// Mean completion time of those.
        completion_mean_s: Option<f64> ["s" compared terminal(9, "completion")],
        /// Of a media stream: frames sent after warm-up.
        frames_sent: Option<u64> ["" called("Frames sent")],
        /// Frames that the receiver showed.
        frames_shown: Option<u64> ["" called("Frames shown")],
        /// Frames shown later after their capture than the stream allows (`late`).
        frames_late: Option<u64> ["" called("Frames late")],
        /// Frames that the receiver gave up because a part of them was missing, and frames that depend on those.
        frames_lost: Option<u64> ["" called("Frames lost")],
        /// Mean time from a frame's capture to its being shown.
        frame_delay_mean_ms: Option<f64> ["ms" compared mean terminal(12, "frame delay")],
        /// 95th percentile of the frame delay.
        frame_delay_p95_ms: Option<f64> ["ms" compared terminal(13, "frame delay p95")],
        /// 99th percentile of the frame delay.
        frame_delay_p99_ms: Option<f64> ["ms"],
        /// Freezes: gaps between shown frames of at least three times the mean of the last 30, and 150 ms longer than it (freezeCount of WebRTC's statistics).
        freezes: Option<u64> ["" compared terminal(14, "freezes")],
        /// Time in freezes.
        frozen_s: Option<f64> ["s" compared terminal(15, "frozen")],
        /// Mean of the rate that the congestion control asked the encoder for.
        target_rate_mean_bps: Option<f64> ["bit/s" called("Target rate mean")],
        /// Quality of what was seen, averaged over time: the logarithm of the encoder's rate, 0 at its lowest and 1 at its highest; 0 in freezes.
        quality: Option<f64> ["index" compared terminal(16, "quality")],
    }
    computed flow {
        /// What decides how fast it sends: its congestion control, or its transport where it has none.
        control: String ["" terminal(4, "control")] = flow.cc.clone().unwrap_or_else(|| flow.transport.clone()),
        /// Retransmitted share of the packets sent; absent where nothing is sent again.
        retransmit_ratio: Option<f64> ["1" terminal(5, "retransmitted")] = match flow.transport.as_str() {
            "tcp" | "sctp" => share(flow.retransmitted_packets, flow.sent_packets),
            _ => None,
        },
        /// Both ends, and between them the nodes that the scenario lets it pass.
        path: String ["" terminal(11, "path")] = match &flow.via {
            Some(via) => format!("{} > {via} > {}", flow.from, flow.to),
            None => format!("{} > {}", flow.from, flow.to),
        },
        /// Share of a subflow in the goodput of its connection.
        share: Option<f64> ["1" terminal(3, "share") if_any] = flow.connection_goodput_bps.filter(|whole| *whole > 0.0)
            .map(|whole| flow.goodput_bps / whole),
    }
}

/// A part as a share of the whole; none of nothing.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

table! {
    /// A row per sized transfer, web object or message batch (`transfers.parquet`).
    pub struct TransferRow: "transfers" #[serde(default)] {
        /// Number of the transfer within the run.
        transfer: u64 ["" key called("№")],
        /// Flow that carried it.
        flow: u32 ["" key],
        /// Name: the flow's, and what was moved.
        name: String [""],
        /// Host that receives it.
        to: String [""],
        /// Application bytes to move.
        bytes: u64 ["B"],
        /// When it was asked for.
        start_s: f64 ["s"],
        /// When its last byte was delivered; absent if that did not happen.
        end_s: Option<f64> ["s"],
        /// From being asked for to the last byte's delivery.
        completion_s: Option<f64> ["s" mean called("Completion time")],
        /// Whether every byte was delivered.
        complete: bool [""],
        /// The completion time that it is compared with, of a path with nobody else on it: propagation delays there and back, and the time
        /// in which the slowest link sends its bytes with their headers. The handshake, slow start, store and forward, and framing are not counted;
        /// absent where the rate is not known. The rate of a link that changes is its mean over the run, so that transfers at a better time may be faster than this.
        ideal_s: Option<f64> ["s"],
        /// Completion time as a multiple of the ideal one.
        slowdown: Option<f64> ["index" mean],
    }
}

impl TransferRow {
    /// With the slowdown that follows from the other columns.
    pub fn with_slowdown(self) -> Self {
        let ideal = self.ideal_s.filter(|ideal| *ideal > 0.0);
        let slowdown = self.completion_s.zip(ideal).map(|(time, ideal)| time / ideal);
        TransferRow { slowdown, ..self }
    }
}

table! {
    /// A row per direction of a link (`links.parquet`). In a simulated run, a direction has no row if no path of a flow uses it and it is not
    /// recorded. Packets and bytes are counted after warm-up.
    pub struct LinkRow: "links" #[serde(default)] {
        /// Number of the link direction within the run.
        link: u32 ["" key called("№")],
        /// Name: "r1>r2".
        name: String ["" terminal(1, "link")],
        /// Node at the sending end.
        from: String [""],
        /// Node at the receiving end.
        to: String [""],
        /// Rate; its mean after warm-up where it follows a schedule or a trace, absent where the link has none.
        rate_bps: Option<f64> ["bit/s" terminal(2, "rate")],
        /// Propagation delay.
        delay_s: f64 ["s"],
        /// Packets transmitted.
        sent_packets: u64 ["packets" called("Packets sent")],
        /// Bytes transmitted, from the IP header on, with the link's framing.
        sent_bytes: u64 ["B" called("Bytes sent")],
        /// Data transmitted per second after warm-up.
        throughput_bps: f64 ["bit/s" compared],
        /// Share of the rate that was used after warm-up, 0 to 1; absent where the link has no rate.
        utilisation: Option<f64> ["1" compared max terminal(3, "used")],
        /// Packets dropped because the queue was full.
        drops_overflow: u64 ["packets" called("Drops: overflow")],
        /// Packets dropped early by active queue management.
        drops_aqm: u64 ["packets" called("Drops: AQM")],
        /// Packets taken by the loss model.
        drops_loss: u64 ["packets" called("Drops: loss")],
        /// Packets dropped because the link was down.
        drops_down: u64 ["packets" called("Drops: link down")],
        /// Packets marked congestion-experienced here.
        marks: u64 ["packets" compared terminal(6, "marked") if_any],
        /// Packets of which the link made a copy (`duplicate`); copies do not count as sent.
        duplicated: u64 ["packets" called("Packets duplicated")],
        /// Packets of which the link changed a bit (`corrupt`): they arrived, and their receivers dropped them.
        corrupted: u64 ["packets" compared terminal(9, "corrupted") if_any called("Packets corrupted")],
        /// Packets offered to the link.
        arrivals: u64 ["packets" called("Packets offered")],
        /// How often the link was paused by priority flow control.
        pauses: u64 ["" terminal(9, "pauses") if_any called("Pauses")],
        /// For how long it was paused.
        paused_s: f64 ["s" called("Paused")],
        /// Mean time in the queue of the packets transmitted.
        queue_delay_mean_ms: f64 ["ms" compared terminal(7, "queue") called("Queueing delay mean")],
        /// Longest time in the queue of a packet transmitted.
        queue_delay_max_ms: f64 ["ms" compared max terminal(8, "longest") called("Queueing delay max")],
    }
    computed link {
        /// Packets lost on this link, for whatever reason.
        drops: u64 ["packets" compared terminal(4, "lost")] = link.drops(),
        /// Lost share of the packets offered.
        loss_ratio: Option<f64> ["1" terminal(5, "of arrivals")] = share(link.drops(), link.arrivals),
    }
}

impl LinkRow {
    /// Packets lost on this link, for whatever reason.
    pub fn drops(&self) -> u64 {
        self.drops_overflow + self.drops_aqm + self.drops_loss + self.drops_down
    }
}

table! {
    /// State of a flow at the end of a sampling interval (`series_flows.parquet`).
    pub struct FlowSample: "series_flows" {
        /// End of the interval.
        time_s: f64 ["s" key],
        /// Flow.
        flow: u32 ["" key],
        /// Unique application data delivered per second in the interval.
        goodput_bps: f64 ["bit/s" drawn("goodput") sum],
        /// Data sent on the wire per second in the interval.
        throughput_bps: f64 ["bit/s" drawn("throughput") sum],
        /// Congestion window of the data sender; absent for UDP.
        cwnd_bytes: Option<u64> ["B" drawn("cwnd") mean called("Congestion window")],
        /// Slow-start threshold; absent while it is unset.
        ssthresh_bytes: Option<u64> ["B" called("Slow-start threshold")],
        /// Bytes sent and not yet acknowledged or declared lost.
        in_flight_bytes: Option<u64> ["B"],
        /// Smoothed round-trip time; absent before the first sample.
        srtt_ms: Option<f64> ["ms" drawn("rtt") mean called("Smoothed RTT")],
        /// Mean latency of the packets of the interval: first transmission to acknowledgement for TCP, one way for UDP; absent where there was none.
        latency_ms: Option<f64> ["ms" drawn("latency") mean],
        /// Packets retransmitted in the interval.
        retransmits: u64 ["packets" ticks],
        /// Rate that the congestion control of a media stream asks the encoder for; absent for others.
        target_rate_bps: Option<f64> ["bit/s" drawn("target") called("Target rate")],
        /// Mean time from capture to being shown of the frames shown in the interval; absent where none was.
        frame_delay_ms: Option<f64> ["ms" drawn("frame-delay") mean called("Frame delay")],
    }
}

impl FlowSample {
    /// A sample of what every flow has.
    pub fn new(time_s: f64, flow: u32, goodput_bps: f64, throughput_bps: f64) -> FlowSample {
        FlowSample { time_s, flow, goodput_bps, throughput_bps, ..FlowSample::default() }
    }
}

table! {
    /// State of a link direction at the end of a sampling interval (`series_links.parquet`).
    pub struct LinkSample: "series_links" {
        /// End of the interval.
        time_s: f64 ["s" key],
        /// Link direction.
        link: u32 ["" key],
        /// Data transmitted per second in the interval, from the IP header on.
        throughput_bps: f64 ["bit/s" drawn("load") called("Link throughput")],
        /// Bits per second that the link could have carried in the interval: its rate, or its trace's opportunities; absent where it has no limit.
        capacity_bps: Option<f64> ["bit/s"],
        /// Packets waiting at the end of the interval.
        backlog_packets: u32 ["packets" drawn("queue") called("Queue")],
        /// Bytes waiting at the end of the interval.
        backlog_bytes: u64 ["B" called("Queue")],
        /// Packets lost in the interval, for whatever reason.
        drops: u64 ["packets" ticks],
        /// Packets marked congestion-experienced in the interval.
        marks: u64 ["packets" ticks],
        /// Mean time in the queue of the packets served in the interval; absent if none was served.
        queue_delay_ms: Option<f64> ["ms" drawn("delay") called("Queueing delay")],
    }
}
