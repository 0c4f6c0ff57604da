"""Writes a log of web requests in Squid's native format: the foreground of figures 2 to 5 and 11 to 13, whose log from a proxy is not public.

    python3 repro/tcp-nice/surge.py --seed 1 > access.log

declarations.py has it written to results/access.log, which is not committed: the same seed gives the same log.

The requests are those of the SURGE model (P. Barford, M. Crovella, "Generating Representative Web Workloads for Network and Server Performance
Evaluation", SIGMETRICS 1998), with the distributions and parameters of its table 1. A client opens a page, reads, and opens the next; a page is an
object and those embedded in it, requested one after another with short pauses. Sizes belong to objects, whose popularity follows Zipf's law.
Temporal locality is left out: it matters to caches only.

The log is open-loop, as the paper's: a request has its time, however long the answers before took. SURGE is closed-loop, so the time of an answer is
taken to be that of slow start from two segments over 100 ms, by a client at 500 kbit/s. As many clients take part as make twelve active on average; a
client is active from the request for a page to the last answer of that page. The log begins when the model has run for ten minutes.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

# Objects of the server, and the largest of them; one larger would be a tenth of all bytes in the log.
OBJECTS, LARGEST = 2000, 1_000_000
# The answer's time: RTT in seconds, rate in bytes/s, bytes of a segment.
RTT, RATE, SEGMENT = 0.1, 62_500, 984
# Active clients on average: the paper's.
CLIENTS = 12
# Seconds before the log begins.
BEFORE = 600.0
# Seconds of the log: the paper's.
SECONDS = 900.0


@dataclass(frozen=True)
class Request:
    """One request: when it began and ended in seconds, whose it is, for what, and the bytes of the answer."""

    start: float
    end: float
    client: int
    object: int
    size: int


class Surge:
    """The distributions of table 1. Each is the inverse of its distribution function, so that a seed gives the same log with every Python."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.normal = NormalDist()
        sizes = [self.file_size() for _ in range(OBJECTS)]
        total, self.upto = 0.0, []
        for rank in range(1, OBJECTS + 1):
            total += 1 / rank
            self.upto.append(total)
        self.sizes = sizes

    def uniform(self) -> float:
        """Above 0 and below 1."""
        return (self.source.random() * (1 - 2e-12)) + 1e-12

    def pareto(self, least: float, shape: float) -> float:
        return least * self.uniform() ** (-1 / shape)

    def file_size(self) -> int:
        """Log-normal with a Pareto tail, which 7 % of the objects belong to."""
        while True:
            body = math.exp(9.357 + 1.318 * self.normal.inv_cdf(self.uniform()))
            size = self.pareto(133_000, 1.1) if self.uniform() < 0.07 else body
            if 1 <= size <= LARGEST:
                return int(size)

    def object(self) -> int:
        at, low, high = self.uniform() * self.upto[-1], 0, OBJECTS - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.upto[middle] < at else (low, middle)
        return low

    def embedded(self) -> int:
        """Objects of a page, itself included."""
        return min(int(self.pareto(1, 2.43)), 100)

    def active_off(self) -> float:
        """Pause between two requests of a page, in seconds: Weibull, up to the second from which on a pause is one to read (section 3 there)."""
        while True:
            pause = 1.46 * (-math.log(self.uniform())) ** (1 / 0.382)
            if pause < 1:
                return pause

    def inactive_off(self) -> float:
        """Time to read a page, in seconds."""
        return self.pareto(1, 1.5)


def answer(size: int) -> float:
    """Seconds from a request to the end of its answer."""
    rounds = math.ceil(math.log2(size / (2 * SEGMENT) + 1))
    return RTT * (1 + rounds) + size / RATE


def client(surge: Surge, number: int, seconds: float) -> Iterator[Request]:
    now = surge.uniform() * 10
    while now < seconds:
        for left in range(surge.embedded(), 0, -1):
            wanted = surge.object()
            size = surge.sizes[wanted]
            end = now + answer(size)
            yield Request(now, end, number, wanted, size)
            now = end + (surge.active_off() if left > 1 else 0)
        now += surge.inactive_off()


def active(requests: list[Request], begin: float, end: float) -> float:
    """Share of the time for which this client is active: from the first request of a page to its last answer. A pause of more than a second, which is
    the least that a page is read for, ends a page."""
    total, since, until = 0.0, None, 0.0
    for request in requests:
        if since is None or request.start > until + 1:
            total += max(0.0, min(until, end) - max(since, begin)) if since is not None else 0
            since = request.start
        until = request.end
    total += max(0.0, min(until, end) - max(since, begin)) if since is not None else 0
    return total / (end - begin)


def log(seed: int, seconds: float, wanted: float) -> list[Request]:
    """The requests of as many clients as make `wanted` active on average, by the end of each, from the begin of the log."""
    surge, taken, total, number = Surge(seed), [], 0.0, 0
    while total < wanted:
        own = list(client(surge, number, BEFORE + seconds))
        total += active(own, BEFORE, BEFORE + seconds)
        taken += own
        number += 1
    kept = [request for request in taken if BEFORE <= request.start < BEFORE + seconds]
    return sorted(kept, key=lambda request: (request.end, request.client))


def text(requests: list[Request]) -> str:
    """Squid's native format: end, elapsed milliseconds, client, status, bytes, method, URL."""
    return "".join(f"{r.end:.3f} {(r.end - r.start) * 1000:.0f} 10.0.{r.client // 250}.{r.client % 250 + 1} TCP_MISS/200 {r.size} GET "
                   f"http://surge.example/{r.object} - DIRECT/192.0.2.1 -\n" for r in requests)


# The files that this process has written, or found to be right, and the seed of each.
WRITTEN: dict[Path, int] = {}


def written(path: Path, seed: int = 1) -> None:
    """Writes the log of a seed into a file, whole or not at all, unless the file holds it already."""
    if WRITTEN.get(path) == seed:
        return
    # As a program, this file needs nothing but Python.
    from warpline._files import write_whole

    wanted = text(log(seed, SECONDS, CLIENTS)).encode()
    if not path.exists() or path.read_bytes() != wanted:
        write_whole(path, wanted)
    WRITTEN[path] = seed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"length of the log (default {SECONDS:g})")
    parser.add_argument("--clients", type=float, default=CLIENTS, help=f"active clients on average (default {CLIENTS})")
    parser.add_argument("--summary", action="store_true", help="print what is in the log, not the log")
    options = parser.parse_args()
    requests = log(options.seed, options.seconds, options.clients)
    if options.summary:
        people = len({request.client for request in requests})
        total = sum(request.size for request in requests)
        print(f"{len(requests)} requests of {people} clients, {total / 1e6:.1f} MB, {total * 8 / options.seconds / 1e6:.2f} Mbit/s")
        return 0
    sys.stdout.write(text(requests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
