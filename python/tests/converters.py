"""What the tests of converters share: inputs, and data spoilt in any way."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from warpline import convert
from warpline.convert import ConvertError

GML = """\
    graph [
      node [ id 0 label "New York" Country "US" ]
      node [ id 1 label "Łódź" ]
      node [ id 2 label "New York" ]
      node [ id 3 label "alone" ]
      edge [ source 0 target 1 bandwidth "10 Mbit/s" latency "5 ms" packet_loss "0.5%" colour "red" ]
      edge [ source 1 target 2 speed "1 Gbit" ]
      edge [ source 1 target 2 speed "500 Mbps" delay "2ms" ]
      edge [ source 2 target 2 ]
    ]
"""

STREAM = {"socket": 5, "start": 0, "end": 2.0, "seconds": 2.0, "bytes": 2_500_000, "bits_per_second": 1e7}
IPERF = {
    "start": {"connected": [{"socket": 5, "local_host": "10.0.0.1", "remote_host": "10.0.0.2"}], "test_start": {"protocol": "TCP", "reverse": 0}},
    "intervals": [{"streams": [{**STREAM, "end": 1.0, "retransmits": 2, "snd_cwnd": 14480, "rtt": 20500, "omitted": False}]}],
    "end": {
        "streams": [{"sender": {**STREAM, "retransmits": 3, "min_rtt": 20000, "mean_rtt": 21000, "max_rtt": 40000}, "receiver": {**STREAM, "bytes": 2_400_000, "bits_per_second": 9.6e6}}],
        "sender_tcp_congestion": "cubic",
    },
}


def lost(share: float) -> dict[str, Any]:
    """Independent losses, as a scenario with its defaults has them."""
    return {"kind": "bernoulli", "probability": share}


def said(imported: convert.Imported) -> str:
    return "\n".join([*imported.assumed, *imported.left_out])


JUNK: tuple[Any, ...] = (None, [], {}, "", "x", "\0", "~nobody-of-this-name/x", 1, -1.5, True, [{}], [[1]], {"a": [None]}, 10**400, math.nan, math.inf)


def spoilt(data: Any) -> Iterator[Any]:
    """The data, with something else in place of each of its parts, or without it."""

    def places(part: Any, way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        for key in part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
            yield (*way, key)
            yield from places(part[key], (*way, key))

    for *way, last in places(data, ()):
        for junk in (*JUNK, ...):
            made = copy.deepcopy(data)
            part = made
            for key in way:
                part = part[key]
            if junk is ...:
                del part[last]
            else:
                part[last] = junk
            yield made


def taken_or_refused(read: Callable[[Path], object], file: Path, data: Any, text: Callable[[Any], str] = json.dumps) -> None:
    """Checks that data spoilt in any way is read, or refused with a `ConvertError`."""
    refused = 0
    for number, made in enumerate(spoilt(data)):
        file.write_text(text(made), encoding="utf-8")
        try:
            read(file)
        except ConvertError:
            refused += 1
    assert 0 < refused < number
