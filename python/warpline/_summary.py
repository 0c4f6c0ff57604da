"""The summary of a run as typed mappings: what summary.json holds."""

from __future__ import annotations

from typing import TypedDict

Totals = TypedDict(
    "Totals",
    {"goodput_bps": float, "throughput_bps": float, "drops": int, "marks": int, "jain": float | None},
)
"""Metrics of the whole run."""

GroupSummary = TypedDict(
    "GroupSummary",
    {
        "group": str,
        "app": str,
        "cc": str,
        "flows": int,
        "goodput_bps": float,
        "goodput_mean_bps": float,
        "throughput_bps": float,
        "jain": float | None,
        "sent_packets": int,
        "retransmitted_packets": int,
        "retransmit_ratio": float,
        "lost_packets": int,
        "rtos": int,
        "rtt_mean_ms": float | None,
        "latency_mean_ms": float | None,
        "latency_p95_max_ms": float | None,
        "latency_max_ms": float | None,
        "message_latency_mean_ms": float | None,
        "transfers": int,
        "transfers_completed": int,
        "completion_mean_s": float | None,
    },
)
"""Metrics of the flows of one scenario entry."""

FlowRow = TypedDict(
    "FlowRow",
    {
        "flow": int,
        "name": str,
        "group": str,
        "from": str,
        "to": str,
        "app": str,
        "transport": str,
        "cc": str | None,
        "start_s": float,
        "end_s": float | None,
        "outcome": str | None,
        "sent_packets": int,
        "sent_bytes": int,
        "retransmitted_packets": int,
        "delivered_bytes": int,
        "goodput_bps": float,
        "throughput_bps": float,
        "lost_packets": int,
        "rtos": int,
        "recoveries": int,
        "undos": int,
        "ce_marks": int,
        "rtt_min_ms": float | None,
        "rtt_mean_ms": float | None,
        "rtt_max_ms": float | None,
        "latency_mean_ms": float | None,
        "latency_p50_ms": float | None,
        "latency_p95_ms": float | None,
        "latency_p99_ms": float | None,
        "latency_max_ms": float | None,
        "message_latency_mean_ms": float | None,
        "message_latency_p95_ms": float | None,
        "message_latency_max_ms": float | None,
        "transfers": int,
        "transfers_completed": int,
        "completion_mean_s": float | None,
    },
)
"""Metrics of one flow."""

LinkRow = TypedDict(
    "LinkRow",
    {
        "link": int,
        "name": str,
        "from": str,
        "to": str,
        "rate_bps": float | None,
        "delay_s": float,
        "sent_packets": int,
        "sent_bytes": int,
        "throughput_bps": float,
        "utilisation": float | None,
        "drops_overflow": int,
        "drops_aqm": int,
        "drops_loss": int,
        "drops_down": int,
        "marks": int,
        "arrivals": int,
        "queue_delay_mean_ms": float,
        "queue_delay_max_ms": float,
    },
)
"""Metrics of one direction of a link."""


class Summary(TypedDict):
    """What ran, and its metrics in total, per group, per flow and per link direction."""

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
