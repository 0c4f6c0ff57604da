"""The summary of a run as typed mappings: what summary.json holds.

Generated from the declarations of the columns by python/tools/generate_summary.py; change those, not this file.
"""

from __future__ import annotations

from typing import Any, TypedDict

Totals = TypedDict(
    "Totals",
    {
        # Unique application bits delivered per second of the measured part of the run. A flow's own goodput is over its
        # own lifetime, so that those of flows that come and go add up to more.
        "goodput_bps": float,
        # Wire bits sent per second of the measured part of the run.
        "throughput_bps": float,
        # Packets lost on all links.
        "drops": int,
        # Packets marked congestion-experienced on all links.
        "marks": int,
        # Jain's fairness index of the goodput of the scenario's flows, without what programs send each other; absent of
        # fewer than two flows, or without goodput.
        "jain": float | None,
    },
)
"""Metrics of the whole run."""

GroupSummary = TypedDict(
    "GroupSummary",
    {
        # Name of the group.
        "group": str,
        # Application.
        "app": str,
        # Congestion control, or the transport where there is none.
        "cc": str,
        # Number of flows; the subflows of a multipath connection are one.
        "flows": int,
        # Unique application bits delivered per second of the measured part of the run.
        "goodput_bps": float,
        # Mean of the flows' own goodput, in bit/s.
        "goodput_mean_bps": float,
        # Wire bits sent per second of the measured part of the run.
        "throughput_bps": float,
        # Jain's fairness index of the flows' goodput; absent of fewer than two flows, or without goodput.
        "jain": float | None,
        # Packets sent.
        "sent_packets": int,
        # Packets retransmitted.
        "retransmitted_packets": int,
        # Retransmitted share of the packets sent, 0 to 1.
        "retransmit_ratio": float,
        # Packets lost.
        "lost_packets": int,
        # Retransmission time-outs.
        "rtos": int,
        # Mean round-trip time in milliseconds: the flows' means, weighted by packets sent.
        "rtt_mean_ms": float | None,
        # Mean per-packet latency in milliseconds: the flows' means, weighted by packets sent for the first time.
        "latency_mean_ms": float | None,
        # Largest of the flows' 95th percentiles of the latency, in milliseconds.
        "latency_p95_max_ms": float | None,
        # Largest latency, in milliseconds.
        "latency_max_ms": float | None,
        # Mean of the flows' mean message latencies, in milliseconds.
        "message_latency_mean_ms": float | None,
        # Transfers begun.
        "transfers": int,
        # Transfers completed.
        "transfers_completed": int,
        # Mean completion time in seconds, over all completed transfers.
        "completion_mean_s": float | None,
        # Unique application bytes delivered after warm-up, which over TCP are those in order: what a missing packet
        # held back counts when that packet has come, and may have crossed the links during warm-up. Of a subflow, those
        # that it was the first to bring.
        "delivered_bytes": int,
        # Longest time in which a flow delivered no new application bytes, from the flow's start to its end, in steps of
        # the sampling interval; pauses of the application count, too. Absent for what real programs send, where time
        # was skipped, and where no time series is kept.
        "stalled_max_s": float | None,
        # Packets that arrived with the congestion-experienced mark.
        "ce_marks": int,
        # Mean time from a frame's capture to its being shown.
        "frame_delay_mean_ms": float | None,
    },
)
"""Metrics of the flows of one scenario entry."""

SizeSummary = TypedDict(
    "SizeSummary",
    {
        # Name of the group of flows that carried them.
        "group": str,
        # The range of sizes; its upper end belongs to it.
        "sizes": str,
        # Transfers begun.
        "transfers": int,
        # Those of them that completed. What follows is of these.
        "completed": int,
        # Mean completion time.
        "completion_mean_ms": float | None,
        # Median completion time.
        "completion_p50_ms": float | None,
        # 99th percentile of the completion times.
        "completion_p99_ms": float | None,
        # Mean slowdown: completion time as a multiple of the ideal one (`ideal_s` of transfers).
        "slowdown_mean": float | None,
        # Median slowdown.
        "slowdown_p50": float | None,
        # 99th percentile of the slowdowns.
        "slowdown_p99": float | None,
    },
)
"""The transfers of one scenario entry that have sizes of one range, without those that began during the warm-up."""

FlowRow = TypedDict(
    "FlowRow",
    {
        # Number of the flow within the run.
        "flow": int,
        # Name: the group and the instance's number, "bulk.0".
        "name": str,
        # Name of the scenario's entry that it is an instance of.
        "group": str,
        # Host that opens the flow.
        "from": str,
        # Host at the other end.
        "to": str,
        # Application: bulk, transfer, cbr, messages, web and so on; "program" for traffic of real programs among
        # themselves.
        "app": str,
        # Nodes that the scenario lets it pass (`via`), with " > " between them; absent where it says none.
        "via": str | None,
        # Name of the multipath connection that it is a subflow of; absent for other flows.
        "connection": str | None,
        # Transport: tcp, udp, quic or sctp; for programs also icmp, or the number of another protocol.
        "transport": str,
        # Congestion control; absent for UDP, and where it is a real program's.
        "cc": str | None,
        # When it started.
        "start_s": float,
        # When its last byte was delivered, or it stopped if that is later; absent while it still runs at the end.
        "end_s": float | None,
        # What went wrong: refused, reset, unreachable, timed out, no answer, closed by the program, aborted; absent
        # where nothing did.
        "outcome": str | None,
        # Packets sent after warm-up by both ends' data senders, retransmissions included.
        "sent_packets": int,
        # Bytes on the wire after warm-up, from the IP header on, retransmissions included.
        "sent_bytes": int,
        # Packets sent after warm-up that carried bytes that had been sent before; 0 for QUIC, where what a packet
        # carries is encrypted.
        "retransmitted_packets": int,
        # Unique application bytes delivered after warm-up, which over TCP are those in order: what a missing packet
        # held back counts when that packet has come, and may have crossed the links during warm-up. Of a subflow, those
        # that it was the first to bring.
        "delivered_bytes": int,
        # Unique application data delivered per second after warm-up.
        "goodput_bps": float,
        # Goodput of the multipath connection that it is a subflow of: the sum over its subflows.
        "connection_goodput_bps": float | None,
        # Data sent on the wire per second after warm-up.
        "throughput_bps": float,
        # Packets declared lost by the sender after warm-up; for UDP, gaps seen by the receiver: what was sent after the
        # last datagram that arrived is not among them.
        "lost_packets": int,
        # Longest time in which a flow delivered no new application bytes, from the flow's start to its end, in steps of
        # the sampling interval; pauses of the application count, too. Absent for what real programs send, where time
        # was skipped, and where no time series is kept.
        "stalled_max_s": float | None,
        # Retransmission time-outs.
        "rtos": int,
        # Loss recovery episodes.
        "recoveries": int,
        # Reductions undone because the retransmission was spurious.
        "undos": int,
        # Packets that arrived with the congestion-experienced mark.
        "ce_marks": int,
        # Smallest round-trip time sample; this and the next two are absent for stacks, whose round-trip time is in the
        # time series.
        "rtt_min_ms": float | None,
        # Mean of the round-trip time samples.
        "rtt_mean_ms": float | None,
        # Largest round-trip time sample.
        "rtt_max_ms": float | None,
        # Mean per-packet latency: first transmission to acknowledgement for TCP, one way for UDP.
        "latency_mean_ms": float | None,
        # Median per-packet latency.
        "latency_p50_ms": float | None,
        # 95th percentile of the per-packet latency.
        "latency_p95_ms": float | None,
        # 99th percentile of the per-packet latency.
        "latency_p99_ms": float | None,
        # Largest per-packet latency.
        "latency_max_ms": float | None,
        # Mean time from a message's creation to its last byte's delivery.
        "message_latency_mean_ms": float | None,
        # 95th percentile of the message latency.
        "message_latency_p95_ms": float | None,
        # Largest message latency.
        "message_latency_max_ms": float | None,
        # Transfers begun after warm-up: sized transfers and web objects.
        "transfers": int,
        # Those of them that completed.
        "transfers_completed": int,
        # Mean completion time of those.
        "completion_mean_s": float | None,
        # Of a media stream: frames sent after warm-up.
        "frames_sent": int | None,
        # Frames that the receiver showed.
        "frames_shown": int | None,
        # Frames shown later after their capture than the stream allows (`late`).
        "frames_late": int | None,
        # Frames that the receiver gave up because a part of them was missing, and frames that depend on those.
        "frames_lost": int | None,
        # Mean time from a frame's capture to its being shown.
        "frame_delay_mean_ms": float | None,
        # 95th percentile of the frame delay.
        "frame_delay_p95_ms": float | None,
        # 99th percentile of the frame delay.
        "frame_delay_p99_ms": float | None,
        # Freezes: gaps between shown frames of at least three times the mean of the last 30, and 150 ms longer than it
        # (freezeCount of WebRTC's statistics).
        "freezes": int | None,
        # Time in freezes.
        "frozen_s": float | None,
        # Mean of the rate that the congestion control asked the encoder for.
        "target_rate_mean_bps": float | None,
        # Quality of what was seen, averaged over time: the logarithm of the encoder's rate, 0 at its lowest and 1 at
        # its highest; 0 in freezes.
        "quality": float | None,
    },
)
"""A row per flow instance (flows.parquet), and in a live run a row for each direction of traffic between programs that
carried payload."""

LinkRow = TypedDict(
    "LinkRow",
    {
        # Number of the link direction within the run.
        "link": int,
        # Name: "r1>r2".
        "name": str,
        # Node at the sending end.
        "from": str,
        # Node at the receiving end.
        "to": str,
        # Rate; its mean after warm-up where it follows a schedule or a trace, absent where the link has none.
        "rate_bps": float | None,
        # Propagation delay.
        "delay_s": float,
        # Packets transmitted.
        "sent_packets": int,
        # Bytes transmitted, from the IP header on, with the link's framing.
        "sent_bytes": int,
        # Data transmitted per second after warm-up.
        "throughput_bps": float,
        # Share of the rate that was used after warm-up, 0 to 1; absent where the link has no rate.
        "utilisation": float | None,
        # Packets dropped because the queue was full.
        "drops_overflow": int,
        # Packets dropped early by active queue management.
        "drops_aqm": int,
        # Packets taken by the loss model.
        "drops_loss": int,
        # Packets dropped because the link was down.
        "drops_down": int,
        # Packets marked congestion-experienced here.
        "marks": int,
        # Packets of which the link made a copy (`duplicate`); copies do not count as sent.
        "duplicated": int,
        # Packets of which the link changed a bit (`corrupt`): they arrived, and their receivers dropped them.
        "corrupted": int,
        # Packets offered to the link.
        "arrivals": int,
        # How often the link was paused by priority flow control.
        "pauses": int,
        # For how long it was paused.
        "paused_s": float,
        # Mean time in the queue of the packets transmitted.
        "queue_delay_mean_ms": float,
        # Longest time in the queue of a packet transmitted.
        "queue_delay_max_ms": float,
    },
)
"""A row per direction of a link (links.parquet). In a simulated run, a direction has no row if no path of a flow uses
it and it is not recorded. Packets and bytes are counted after warm-up."""

InputFile = TypedDict(
    "InputFile",
    {
        # Its copy in the run directory.
        "file": str,
        # Its size in bytes.
        "bytes": int,
        # Hash of what it holds: "sha256:" and 64 hexadecimal digits.
        "hash": str,
    },
)
"""A file that the scenario reads, a trace or a log."""

FastForwardSummary = TypedDict(
    "FastForwardSummary",
    {
        # Time that was run exactly, in seconds.
        "exact_s": float,
        # Time that was skipped, in seconds.
        "skipped_s": float,
        # Stretches that were skipped.
        "skipped": int,
        # Stretches that were run exactly although they could have been skipped, to see how far off skipping them would
        # have been.
        "audited": int,
        # The total goodput is this close to that of an exact run, as a share of it: half of a 95 % interval, widened if
        # audits found more; absent if nothing was skipped.
        "goodput_within": float | None,
        # The same for the goodput of a flow, on average.
        "flow_goodput_within_mean": float | None,
        # The same for the flow for which it is worst.
        "flow_goodput_within_max": float | None,
        # Why nothing was skipped; absent if something was.
        "obstacle": str | None,
    },
)
"""What a run with fast_forward skipped, and how far off its results are for that."""

Stretch = TypedDict(
    "Stretch",
    {
        # Its start, in seconds since the start of the run.
        "from_s": float,
        # Its end.
        "until_s": float,
        # Whether it was run after all.
        "audited": bool,
        # Of an audited stretch: how many more bytes skipping would have counted than all flows delivered, as a share of
        # what they delivered; below zero if fewer.
        "goodput_error": float | None,
        # Of an audited stretch: `goodput_error` of the flow for which it is farthest from zero.
        "flow_goodput_error_max": float | None,
    },
)
"""A stretch of time that a run with fast_forward skipped, or could have skipped and ran to compare."""

AuditedMeasure = TypedDict(
    "AuditedMeasure",
    {
        # What was compared.
        "measure": str,
        # By what share more would have been counted than there was, on average.
        "error": float,
        # Lower end of its 95 % interval, over the quarters of all audited stretches.
        "low": float,
        # Upper end.
        "high": float,
        # The error of the stretch, or of the flow in a stretch, for which it is farthest from zero.
        "worst": float,
    },
)
"""What the audited stretches of a run with fast_forward say of a measure."""


class _Always(TypedDict):
    warpline: str
    format: int
    scenario: str
    scenario_hash: str
    seed: int
    clock: str
    duration_s: float
    warmup_s: float
    simulated_s: float
    complete: bool
    stopped: str | None
    packet_hops: int
    events: int
    totals: Totals
    groups: list[GroupSummary]
    flows: list[FlowRow]
    links: list[LinkRow]


class Summary(_Always, total=False):
    """What ran, and its metrics in total, per group, per flow and per link direction.

    `sizes` is there where there are transfers, `inputs` where the scenario reads files, `fast_forward`, `stretches` and
    `audits` where it skips time, `live` and `guests` in live runs and those with guests.
    """

    sizes: list[SizeSummary]
    inputs: list[InputFile]
    fast_forward: FastForwardSummary
    stretches: list[Stretch]
    audits: list[AuditedMeasure]
    live: dict[str, Any]
    guests: dict[str, Any]
