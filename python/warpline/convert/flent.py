"""flent's data files (`.flent.gz`, format 4), which its plots and its window open.

TCP flows are flent's uploads and downloads: those that go the way of the first flow are uploads. Flows of other transports, such as a real
ping (ICMP), QUIC or SCTP, are neither. A run with one way is flent's test
`tcp_nup` or `tcp_ndown`, one with both `rrul_be_nflows`. A run has no ping of its own. Where UDP flows with recorded latencies go both ways, as RRUL's probes, the
sum of their mean latencies in both stands in its place; elsewhere the smoothed round-trip time of the TCP flows. The file's note says which.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from warpline.convert._draft import ConvertError
from warpline.convert._source import Writer

if TYPE_CHECKING:
    from warpline._run import Run

FORMAT = 4
"""The version of the format (flent's resultset.py, FILEFORMAT_VERSION)."""
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""When a run starts by its guests' clocks; results have no other date."""
PING = "Ping (ms) ICMP"

Series = list["float | None"]


def content(run: Run) -> bytes:
    """A data file of a run: the same bytes for the same results.

    Raises:
        ConvertError: If the run has no TCP flows, or no time series.
    """
    data = json.dumps(_data(run), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as out:
        out.write(data)
    return packed.getvalue()


def _data(run: Run) -> dict[str, Any]:
    summary = run.summary
    flows, series = run.flows, run.series_flows
    tcp, udp = ([number for number, transport in zip(flows["flow"], flows["transport"], strict=True) if transport == one] for one in ("tcp", "udp"))
    if not tcp or not len(series):
        raise ConvertError(f"{summary['scenario']}: has no TCP flows with a time series, and so nothing that flent's plots of TCP show")
    times = sorted(set(series["time_s"]))
    place = {time: number for number, time in enumerate(times)}
    columns: dict[str, dict[int, Series]] = {name: {number: [None] * len(times) for number in flows["flow"]} for name in ("goodput_bps", "srtt_ms", "cwnd_bytes", "latency_ms")}
    for name, by_flow in columns.items():
        for time, flow, value in zip(series["time_s"], series["flow"], series[name], strict=True):
            by_flow[flow][place[time]] = value
    up = dict(zip(flows["flow"], _uploads(flows["from"], flows["to"]), strict=True))
    ways = {"upload": [flow for flow in tcp if up[flow]], "download": [flow for flow in tcp if not up[flow]]}
    both = all(ways.values())
    results: dict[str, Series] = {}
    raw: dict[str, list[dict[str, Any]]] = {}
    meta: dict[str, dict[str, Any]] = {}
    names = dict(zip(flows["flow"], flows["name"], strict=True))
    control = dict(zip(flows["flow"], flows["cc"], strict=True))
    for way, of_way in ways.items():
        if not of_way:
            continue
        rates = []
        for number, flow in enumerate(of_way, 1):
            name = f"TCP {way} BE::{number}" if both else f"TCP {way}::{number}"
            rate = [None if value is None else value / 1e6 for value in columns["goodput_bps"][flow]]
            rates.append(rate)
            results[name] = rate
            raw[name] = [
                {key: value for key, value in point.items() if value is not None}
                for point in (
                    {"t": _epoch(time), "val": rate[at], "tcp_rtt": columns["srtt_ms"][flow][at], "tcp_cwnd": columns["cwnd_bytes"][flow][at]}
                    for at, time in enumerate(times)
                )
                if point["val"] is not None
            ]
            meta[name] = {"UNITS": "Mbits/s", "FLOW": names[flow], "TCP_CONG_CONTROL": control[flow], "MEAN_VALUE": _mean(rate)}
        results[f"TCP {way} sum"] = [_sum(values) for values in zip(*rates, strict=True)]
        results[f"TCP {way} avg"] = [_mean(values) for values in zip(*rates, strict=True)]
        if not both:
            results[f"TCP {way} fairness"] = [_jain(values) for values in zip(*rates, strict=True)]
    if both:
        results["TCP totals"] = [_sum(values) for values in zip(results["TCP upload sum"], results["TCP download sum"], strict=True)]
    probes = [[columns["latency_ms"][flow] for flow in udp if up[flow] == way and _there(columns["latency_ms"][flow])] for way in (True, False)]
    probed = all(probes)
    if probed:
        there, back = ([_mean(values) for values in zip(*way, strict=True)] for way in probes)
        results[PING] = [None if one is None or other is None else one + other for one, other in zip(there, back, strict=True)]
    else:
        results[PING] = [_mean(values) for values in zip(*(columns["srtt_ms"][flow] for flow in tcp), strict=True)]
    if both:
        results["Ping (ms) avg"] = results[PING]
    raw[PING] = [{"t": _epoch(time), "val": value} for time, value in zip(times, results[PING], strict=True) if value is not None]
    for name in results:
        meta.setdefault(name, {"UNITS": "ms" if name.startswith("Ping") else "Idx" if name.endswith("fairness") else "Mbits/s"})
    duration = float(summary["simulated_s"])
    hosts = [flows["from"][0], flows["to"][0]]
    test = "rrul_be_nflows" if both else "tcp_nup" if ways["upload"] else "tcp_ndown"
    start = START.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "version": FORMAT,
        "x_values": times,
        "results": results,
        "raw_values": raw,
        "metadata": {
            "NAME": test,
            "TITLE": str(summary["scenario"]),
            "NOTE": f"Made by Warpline of a run with seed {summary['seed']}. Times are those of the run, which begins at {start}. "
            + ("The ping is the sum of the mean latencies of the UDP flows in both directions." if probed else "The ping is the smoothed round-trip time of the TCP flows."),
            "TIME": start,
            "T0": start,
            "LOCAL_HOST": hosts[0],
            "HOST": hosts[1],
            "HOSTS": [hosts[1]],
            "LENGTH": duration,
            "TOTAL_LENGTH": duration,
            "STEP_SIZE": round(times[1] - times[0], 9) if len(times) > 1 else duration,
            "IP_VERSION": 4,
            "TEST_PARAMETERS": {f"{way}_streams": str(len(of_way)) for way, of_way in ways.items() if of_way},
            "FLENT_VERSION": None,
            "DATA_FILENAME": f"{test}-{summary['scenario']}.flent.gz",
            "SERIES_META": meta,
        },
    }


def _uploads(senders: Sequence[str], receivers: Sequence[str]) -> list[bool]:
    """Whether each flow goes the way of the first one: hosts that send and receive are on two sides."""
    side: dict[str, bool] = {}
    up = []
    for one, other in zip(senders, receivers, strict=True):
        way = side.get(one, not side.get(other, False))
        side.setdefault(one, way)
        side.setdefault(other, not way)
        up.append(way)
    return up


def _epoch(time: float) -> float:
    return (START + timedelta(seconds=time)).timestamp()


def _there(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _sum(values: Sequence[float | None]) -> float | None:
    there = _there(values)
    return sum(there) if there else None


def _mean(values: Sequence[float | None]) -> float | None:
    there = _there(values)
    return sum(there) / len(there) if there else None


def _jain(values: Sequence[float | None]) -> float | None:
    there = _there(values)
    squares = len(there) * sum(value * value for value in there)
    return sum(there) ** 2 / squares if squares else None


WRITER = Writer("flent", "a data file of flent, for its plots and its window", ".flent.gz", content)
