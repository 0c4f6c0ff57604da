"""The formats: a line for each."""

from __future__ import annotations

from warpline.convert import containerlab, flent, graph, iperf3, mahimahi, openmetrics, quic_interop, shadow, tc, topology_zoo
from warpline.convert._source import Measured, Reader, Writer

READERS: tuple[Reader, ...] = (
    topology_zoo.READER,
    graph.READER,
    shadow.READER,
    containerlab.READER,
    mahimahi.READER,
    mahimahi.TRACE,
    tc.READER,
    quic_interop.READER,
)
"""What scenarios can be made of. The first one that claims a source reads it."""

MEASURED: tuple[Measured, ...] = (iperf3.MEASURED,)
"""What has results of other programs."""

WRITERS: tuple[Writer, ...] = (
    flent.WRITER,
    openmetrics.WRITER,
)
"""What results can be written as, besides the formats of `warpline export`."""
