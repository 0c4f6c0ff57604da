"""iperf3's JSON: what it measured as flows, with the columns of Warpline's own results.

    from warpline.convert import iperf3

    iperf3.flows("client.json").polars()       # a row per stream
    iperf3.series("client.json").polars()      # a row per stream and interval

Both `--json` and `--json-stream` are read. Columns that iperf3 does not measure are left out.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from warpline._columns import columns
from warpline._warpline import Table
from warpline.convert._draft import ConvertError
from warpline.convert._source import Measured, Source

N = TypeVar("N", int, float)

GROUP = "iperf3"
"""The group of its flows."""


def flows(path: str | os.PathLike[str]) -> Table:
    """A row per stream, as in `flows.parquet`.

    Raises:
        ConvertError: If it is not a result of iperf3.
    """
    return _flows(Source.file(Path(path)))


def series(path: str | os.PathLike[str]) -> Table:
    """A row per stream and interval, as in `series_flows.parquet`. Intervals that iperf3 was to omit are left out.

    Raises:
        ConvertError: If it is not a result of iperf3.
    """
    source = Source.file(Path(path))
    data = _data(source)
    numbers = {socket: number for number, socket in enumerate(_connected(source, data))}
    rows: list[dict[str, Any]] = []
    for interval in _list(source, data, "intervals"):
        for stream in _list(source, interval, "streams"):
            if stream.get("omitted"):
                continue
            rows.append(
                {
                    "time_s": _number(stream, "end"),
                    "flow": numbers.get(_whole(stream, "socket")),
                    "goodput_bps": _number(stream, "bits_per_second"),
                    "cwnd_bytes": _whole(stream, "snd_cwnd"),
                    "srtt_ms": _scaled(stream, "rtt"),
                    "retransmits": _whole(stream, "retransmits"),
                }
            )
    rows.sort(key=lambda row: (row["time_s"] or 0.0, row["flow"] or 0))
    return _table(rows, "series_flows")


def _flows(source: Source) -> Table:
    data = _data(source)
    test = _mapping(source, data["start"], "test_start")
    connected = _connected(source, data)
    transport = str(test.get("protocol", "TCP")).lower()
    rows: list[dict[str, Any]] = []
    for stream in _list(source, data["end"], "streams"):
        udp = _mapping(source, stream, "udp")
        sender = udp or _mapping(source, stream, "sender")
        receiver = udp or _mapping(source, stream, "receiver") or sender
        number = len(rows)
        # Of UDP, older versions say only what was sent, and what of it was lost.
        packets, lost = _number(udp, "packets"), _number(sender, "lost_packets")
        arrived = 1 - lost / packets if packets and lost else 1.0
        ends = connected.get(_whole(sender, "socket"), {})
        # `sender` says whether the end that wrote the file sends; with --reverse it receives.
        sends = sender.get("sender", not test.get("reverse"))
        local, remote = _text(ends, "local_host"), _text(ends, "remote_host")
        rows.append(
            {
                "flow": number,
                "name": f"{GROUP}.{number}",
                "group": GROUP,
                "from": local if sends else remote,
                "to": remote if sends else local,
                "app": "program",
                "transport": transport,
                "cc": _text(data["end"], "sender_tcp_congestion") if transport == "tcp" else None,
                "start_s": _number(sender, "start"),
                "end_s": _number(receiver, "end"),
                "sent_packets": _whole(sender, "packets"),
                "retransmitted_packets": _whole(sender, "retransmits"),
                "delivered_bytes": _part(_whole(receiver, "bytes"), arrived),
                "goodput_bps": _part(_number(receiver, "bits_per_second"), arrived),
                "lost_packets": _whole(sender, "lost_packets"),
                "rtt_min_ms": _scaled(sender, "min_rtt"),
                "rtt_mean_ms": _scaled(sender, "mean_rtt"),
                "rtt_max_ms": _scaled(sender, "max_rtt"),
            }
        )
    if not rows:
        raise ConvertError(f"{source.name}: has no streams at its end; the test did not come to it")
    return _table(rows, "flows")


def _table(rows: Sequence[Mapping[str, Any]], table: str) -> Table:
    """The columns that have a value, in the order in which results have them."""
    return Table.from_columns({name: [row[name] for row in rows] for name in columns(table) if any(row.get(name) is not None for row in rows)})


def _data(source: Source) -> dict[str, Any]:
    """The whole of a file, with `start` and `end`."""
    data: Any
    try:
        data = json.loads(source.text)
    except json.JSONDecodeError as error:
        data = _streamed(source, error)
    except (RecursionError, ValueError) as error:
        # Too deep, or a number with thousands of digits.
        raise ConvertError(f"{source.name}: is not a result of iperf3: {error}") from error
    if not isinstance(data, dict):
        raise ConvertError(f"{source.name}: is not a result of iperf3, which begins with {{")
    if "event" in data:
        data = _streamed(source, None)
    if data.get("error"):
        raise ConvertError(f"{source.name}: iperf3 says that the test failed: {data['error']}")
    for part in ("start", "end"):
        if not isinstance(data.get(part), dict):
            raise ConvertError(f"{source.name}: has no {part}, as iperf3 --json writes it")
    return {str(key): value for key, value in data.items()}


def _streamed(source: Source, first: json.JSONDecodeError | None) -> dict[str, Any]:
    """What `iperf3 --json-stream` wrote: an event in each line."""
    data: dict[str, Any] = {}
    intervals: list[Any] = []
    for number, line in enumerate(source.text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            name, content = event["event"], event["data"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            where = number if first is None or number > 1 else first.lineno
            raise ConvertError(f"{source.at(where)}: is not JSON as iperf3 writes it: {first.msg if first is not None else error}") from error
        if name == "interval":
            intervals.append(content)
        else:
            data[str(name)] = content
    return {**data, "intervals": intervals}


def _connected(source: Source, data: Mapping[str, Any]) -> dict[int | None, dict[str, Any]]:
    """The connections of a test by their sockets, in their order."""
    found: dict[int | None, dict[str, Any]] = {}
    for connection in _list(source, data["start"], "connected"):
        socket = _whole(connection, "socket")
        if socket is None:
            raise ConvertError(f"{source.name}: connected: {json.dumps(connection)[:60]} has no socket, a whole number, as iperf3 writes it")
        found[socket] = connection
    return found


def _mapping(source: Source, data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The mapping below a key; an empty one if there is none."""
    found = data.get(key)
    if found is not None and not isinstance(found, dict):
        raise ConvertError(f"{source.name}: {key} is not the mapping that iperf3 writes")
    return found or {}


def _list(source: Source, data: Any, key: str) -> list[dict[str, Any]]:
    found = data.get(key, []) if isinstance(data, dict) else None
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ConvertError(f"{source.name}: {key} is not the list that iperf3 writes")
    return found


def _number(data: Mapping[str, Any], key: str) -> float | None:
    value = data.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max else None


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) else None


def _whole(data: Mapping[str, Any], key: str) -> int | None:
    value = data.get(key)
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**62 else None


def _part(value: N | None, share: float) -> N | None:
    """A share of a value, of its own type."""
    return value if value is None or share == 1 else type(value)(value * share)


def _scaled(data: Mapping[str, Any], key: str) -> float | None:
    """Milliseconds of a key in microseconds; zero is that none was measured."""
    value = _number(data, key)
    return value / 1000 if value else None


def _claims(source: Source) -> bool:
    return source.words is None and re.match(r"\s*\{", source.text) is not None and re.search(r'"(test_start|connecting_to|sum_received|bits_per_second)"\s*:', source.text) is not None


MEASURED = Measured("iperf3", "results of iperf3 in JSON: flows, with the columns of results", _claims, _flows)
