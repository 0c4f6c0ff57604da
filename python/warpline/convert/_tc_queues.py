"""Queues of `tc` without classes: which of their words is which parameter here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from warpline.convert import _units
from warpline.convert._tc_netem import Link
from warpline.convert._tc_words import Words, count, rate, share, size, time


@dataclass
class Qdisc:
    """A queueing discipline, a class or a filter, as a command says it."""

    kind: str
    words: Words
    parent: str
    handle: str


_Table = dict[str, tuple[str, Callable[[Words], Any]]]


def _of(read: Callable[[str], Any], write: Callable[[Any], Any] = lambda value: value) -> Callable[[Words], Any]:
    return lambda words: write(words.value(read))


def _packets(value: int) -> str:
    return f"{max(value, 1)}p"


def _at_least_one(value: int) -> int:
    return max(value, 1)


_ECN: _Table = {"ecn": ("ecn", lambda words: True), "noecn": ("ecn", lambda words: False)}
_CODEL: _Table = {
    "limit": ("limit", _of(count, _packets)),
    "target": ("target", _of(time, _units.time)),
    "interval": ("interval", _of(time, _units.time)),
    **_ECN,
}
_PIE: _Table = {
    "limit": ("limit", _of(count, _packets)),
    "target": ("target", _of(time, _units.time)),
    "tupdate": ("update", _of(time, _units.time)),
    # The kernel counts alpha and beta in sixteenths of a probability per second (tc-pie(8)).
    "alpha": ("alpha", _of(count, lambda value: value / 16)),
    "beta": ("beta", _of(count, lambda value: value / 16)),
    **_ECN,
}
_CAKE_DIFFSERV = ("besteffort", "diffserv3", "diffserv4", "diffserv8", "precedence")
_CAKE_FLOWS = ("flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost", "triple-isolate")
_CAKE_RTT = {
    "datacentre": "100us", "lan": "1ms", "metro": "10ms", "regional": "30ms", "internet": "100ms", "oceanic": "300ms", "satellite": "1s",
    "interplanetary": "3600s",
}  # fmt: skip

TABLES: dict[str, _Table] = {
    "pfifo": {"limit": ("limit", _of(count, _packets))},
    "bfifo": {"limit": ("limit", _of(size, _units.size))},
    "codel": _CODEL,
    "fq_codel": {
        **_CODEL,
        "flows": ("flows", _of(count, _at_least_one)),
        "quantum": ("quantum", _of(size, _units.size)),
        "drop_batch": ("drop_batch", _of(count, _at_least_one)),
    },
    "pie": _PIE,
    "fq_pie": {**_PIE, "flows": ("flows", _of(count, _at_least_one)), "quantum": ("quantum", _of(size, _units.size)), "ecn_prob": ("mark_up_to", _of(share, _units.percent))},
    "sfq": {
        "limit": ("limit", _of(count, _packets)),
        "depth": ("depth", _of(count, _at_least_one)),
        "quantum": ("quantum", _of(size, _units.size)),
        "divisor": ("divisor", _of(count, _at_least_one)),
        "flows": ("flows", _of(count, _at_least_one)),
        "perturb": ("perturb", _of(count, lambda value: f"{value}s")),
        "headdrop": ("head_drop", lambda words: True),
    },
    "red": {
        "limit": ("limit", _of(size, _units.size)),
        "min": ("min_threshold", _of(size, _units.size)),
        "max": ("max_threshold", _of(size, _units.size)),
        "probability": ("max_probability", _of(lambda word: _probability(word), _units.percent)),
        "avpkt": ("mean_packet", _of(size, _units.size)),
        "burst": ("burst", _of(count)),
        "harddrop": ("hard_drop", lambda words: True),
        "adaptive": ("adaptive", lambda words: True),
        **_ECN,
    },
    "tbf": {
        "rate": ("rate", _of(rate, _units.rate)),
        **{word: ("burst", _of(lambda word: size(word.partition("/")[0]), _units.size)) for word in ("burst", "buffer", "maxburst")},
        "limit": ("limit", _of(size, _units.size)),
        "latency": ("limit", _of(time, _units.time)),
        "peakrate": ("peak", _of(rate, _units.rate)),
        **{word: ("peak_burst", _of(lambda word: size(word.partition("/")[0]), _units.size)) for word in ("mtu", "minburst")},
        "overhead": ("", _of(str)),
        "linklayer": ("", _of(str)),
        "mpu": ("", _of(str)),
    },
    "cake": {
        "bandwidth": ("bandwidth", _of(rate, _units.rate)),
        "unlimited": ("", lambda words: None),
        "overhead": ("overhead", _of(lambda word: max(count(word), 0), _units.size)),
        "mpu": ("mpu", _of(count, _units.size)),
        "memlimit": ("memlimit", _of(size, _units.size)),
        "rtt": ("rtt", _of(time, _units.time)),
        "ingress": ("ingress", lambda words: True),
        "egress": ("ingress", lambda words: False),
        "ack-filter": ("ack_filter", lambda words: "on"),
        "ack-filter-aggressive": ("ack_filter", lambda words: "aggressive"),
        "no-ack-filter": ("ack_filter", lambda words: "off"),
        **{word: ("atm", lambda words: words.last) for word in ("atm", "ptm", "noatm")},
        **{word: ("diffserv", lambda words: words.last) for word in _CAKE_DIFFSERV},
        **{word: ("flowmode", lambda words: words.last) for word in _CAKE_FLOWS},
        **{word: ("rtt", lambda words: _CAKE_RTT[words.last]) for word in _CAKE_RTT},
        **{word: ("", lambda words: None) for word in ("nat", "nonat", "wash", "nowash", "split-gso", "no-split-gso", "autorate-ingress")},
        "fwmark": ("", _of(str)),
    },
    "dualpi2": {
        "limit": ("limit", _of(count, _packets)),
        "target": ("target", _of(time, _units.time)),
        "tupdate": ("update", _of(time, _units.time)),
        "coupling_factor": ("coupling", _of(lambda word: float(_units.number(word)))),
        "step_thresh": ("step", _of(time, _units.time)),
        "classic_protection": ("classic_share", _of(share, _units.percent)),
    },
}
"""For each queue, tc's words: the parameter here (none if there is none), and how its value is read."""
IGNORED = {
    "fq_codel": ("ce_threshold", "ce_threshold_selector", "memory_limit"),
    "codel": ("ce_threshold",),
    "pie": ("bytemode", "nobytemode", "dq_rate_estimator", "no_dq_rate_estimator"),
    "fq_pie": ("memory_limit", "bytemode", "nobytemode", "dq_rate_estimator", "no_dq_rate_estimator"),
    "red": ("bandwidth", "nodrop"),
    "sfq": ("min", "max", "probability", "redflowlimit", "avpkt", "burst", "ecn", "harddrop"),
    "cake": (
        *("raw", "conservative", "ethernet", "ether-vlan", "docsis", "pppoa-vcmux", "pppoa-llc", "pppoe-vcmux", "pppoe-llcsnap", "bridged-vcmux"),
        *("bridged-llcsnap", "ipoa-vcmux", "ipoa-llcsnap", "pppoe-ptm", "bridged-ptm", "via-ethernet", "linklayer"),
    ),
    "dualpi2": ("alpha", "beta", "drop_on_overload", "overflow", "drop_enqueue", "drop_dequeue", "split_gso", "no_split_gso", "max_rtt", "typical_rtt", "memlimit"),
}
"""Words that have no counterpart."""
_WITHOUT_VALUE = frozenset(
    ("bytemode", "nobytemode", "dq_rate_estimator", "no_dq_rate_estimator", "nodrop", "ecn", "harddrop", "drop_on_overload", "overflow")
    + ("drop_enqueue", "drop_dequeue", "split_gso", "no_split_gso")
)
SIMPLE = {"pfifo": "droptail", "bfifo": "droptail"}
"""Queues that have another name here."""
DEFAULT = ("pfifo_fast", "noqueue", "mq", "fq", "multiq")
"""Queues of a device that nobody has set up, or that only a sender's own stack needs."""


def _probability(word: str) -> Fraction:
    value = _units.number(word)
    if not 0 <= value <= 1:
        raise ValueError(f"{word!r} is not a probability from 0 to 1")
    return value


def queue_of(qdisc: Qdisc, link: Link) -> dict[str, Any]:
    """A queue without classes, as a table."""
    words, kind = qdisc.words, qdisc.kind
    table, ignored = TABLES[kind], IGNORED.get(kind, ())
    made: dict[str, Any] = {"kind": SIMPLE.get(kind, kind)}
    for word in words:
        if word in table:
            key, read = table[word]
            value = read(words)
            if key:
                made[key] = value
            else:
                link.left_out.add(f"{kind}'s word {word}")
        elif word in ignored:
            if word not in _WITHOUT_VALUE and (kind != "cake" or word == "linklayer"):
                words.value()
            link.left_out.add(f"{kind}'s word {word}")
        else:
            raise words.unknown(f"{', '.join([*table, *ignored])} (tc-{kind}(8))")
    if kind == "red":
        _as_red(made, link)
    return made


def _as_red(made: dict[str, Any], link: Link) -> None:
    """What Linux's RED has where the words do not say it (tc-red(8)). The weight of the average is made of the burst, as tc makes it."""
    made["gentle"] = False
    if made.get("ecn"):
        made.setdefault("hard_drop", False)
    made.setdefault("max_probability", "2%")
    burst = made.pop("burst", 0)
    limit, most, least = (int(made[key][:-1]) if key in made else 0 for key in ("limit", "max_threshold", "min_threshold"))
    most = most or (3 * least if least else limit // 4)
    least = least or most // 3
    if not least:
        # Without a limit tc refuses the queue, and there is nothing to make the rest of.
        return
    made.update(min_threshold=_units.size(least), max_threshold=_units.size(most))
    packet = int(made.get("mean_packet", "1000B")[:-1])
    if packet:
        burst = burst or (2 * least + most) // (3 * packet)
        power = _weight(burst, Fraction(least, packet))
        if power is None:
            link.left_out.add("red's word burst: no weight of the average fits it")
        else:
            made["weight"] = _units.percent(Fraction(1, 2**power))


def _weight(burst: int, least: Fraction) -> int | None:
    """The weight of RED's average, as a power of one half, of a burst and the lower threshold in packets (tc_red_eval_ewma of iproute2).

    It is the largest W for which burst + 1 - least is at most (1 - (1 - W)^burst) / W; None if there is no such weight.
    """
    above = burst + 1 - float(least)
    if above < 1:
        return None
    return next((power for power in range(1, 32) if above <= (1 - (1 - 0.5**power) ** burst) / 0.5**power), None)


def short(queue: dict[str, Any]) -> str:
    """A queue in its short form, as the leaf of a class."""
    parameters = ",".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in queue.items() if key != "kind")
    return f"{queue['kind']}:{parameters}" if parameters else str(queue["kind"])
