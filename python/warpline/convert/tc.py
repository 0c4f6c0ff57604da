"""Words of Linux's `tc` as keys of a link: netem, shapers and queues.

    from warpline.convert import tc

    tc.link("netem delay 20ms 5ms loss 1%").keys
    tc.link("qdisc add dev eth0 root handle 1: tbf rate 10mbit burst 32kb latency 50ms").keys

Units are those of tc(8): "10mbit" is 10^7 bit/s and "10mbps" 8 * 10^7, sizes count by 1024, and a percentage may lack its sign.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from warpline.convert import _units
from warpline.convert._draft import ConvertError, Draft, Notes
from warpline.convert._source import Options, Reader, Source

# The numbers of tc -----------------------------------------------------------------------------------------------------

_RATES = {
    prefix.lower() + unit: factor * bits
    for prefix, factor in (
        ("", 1), ("k", 10**3), ("m", 10**6), ("g", 10**9), ("t", 10**12),
        ("ki", 2**10), ("mi", 2**20), ("gi", 2**30), ("ti", 2**40),
    )
    for unit, bits in (("bit", 1), ("bps", 8))
}  # fmt: skip
_SIZES = {
    "": Fraction(1), "b": Fraction(1), "k": Fraction(2**10), "kb": Fraction(2**10), "m": Fraction(2**20), "mb": Fraction(2**20),
    "g": Fraction(2**30), "gb": Fraction(2**30), "kbit": Fraction(2**7), "mbit": Fraction(2**17), "gbit": Fraction(2**27),
}  # fmt: skip
_TIMES = {
    "": Fraction(1, 10**6), "s": Fraction(1), "sec": Fraction(1), "secs": Fraction(1),
    **{unit: Fraction(1, 10**3) for unit in ("ms", "msec", "msecs")},
    **{unit: Fraction(1, 10**6) for unit in ("us", "usec", "usecs")},
    **{unit: Fraction(1, 10**9) for unit in ("ns", "nsec", "nsecs")},
}  # fmt: skip


def _read(kind: str, units: dict[str, Any], word: str, most: int, example: str) -> Fraction:
    value, unit = _units.split(word)
    if unit.lower() not in units:
        raise ValueError(f"{word!r} is not a {kind} of tc, such as {example}")
    value *= units[unit.lower()]
    if not 0 <= value <= most:
        raise ValueError(f"{word!r} is {'negative' if value < 0 else 'too large'} for a {kind}")
    return value


def rate(word: str) -> Fraction:
    """A rate in bit/s."""
    if word.endswith("%"):
        raise ValueError(f"{word!r} is a share of the device's speed, which the words do not say; write the rate, such as 10mbit")
    return _read("rate", {"": 1, **_RATES}, word, _units.MOST_RATE, "10mbit")


def size(word: str) -> Fraction:
    """A number of bytes."""
    return _read("size", _SIZES, word, 2**40, "32kb")


def time(word: str) -> Fraction:
    """A time in seconds."""
    return _read("time", _TIMES, word, _units.MOST_TIME, "20ms")


def share(word: str) -> Fraction:
    """A percentage, as a share."""
    value = _units.number(word[:-1] if word.endswith("%") else word) / 100
    if not 0 <= value <= 1:
        raise ValueError(f"{word!r} is not a percentage from 0 to 100")
    return value


def count(word: str) -> int:
    """A whole number."""
    if not re.fullmatch(r"\d{1,12}", word, re.ASCII):
        raise ValueError(f"{word!r} is not a whole number")
    return int(word)


def _is(read: Callable[[str], Any], word: str) -> bool:
    try:
        read(word)
    except ValueError:
        return False
    return True


# Words -----------------------------------------------------------------------------------------------------------------


class Words:
    """The words that are left of a command, with the place where it stands."""

    def __init__(self, words: Sequence[str], place: str) -> None:
        self.words = list(words)
        self.place = place
        self.last = ""

    def __bool__(self) -> bool:
        return bool(self.words)

    def __iter__(self) -> Iterator[str]:
        while self.words:
            yield self.next()

    def next(self) -> str:
        """The next word."""
        self.last = self.words.pop(0)
        return self.last

    def value(self, read: Callable[[str], Any] = str) -> Any:
        """The value of the word that came last.

        Raises:
            ConvertError: If there is none, or it is not what `read` takes.
        """
        name = self.last
        if not self.words:
            raise ConvertError(f"{self.place}: {name} has no value behind it")
        word = self.words.pop(0)
        try:
            return read(word)
        except ValueError as error:
            hint = "; a variable of a shell has to be replaced by its value first" if "$" in word else ""
            raise ConvertError(f"{self.place}: {name} {word}: {error}{hint}") from error

    def maybe(self, read: Callable[[str], Any]) -> Any:
        """The next word's value if `read` takes it, else None."""
        return read(self.words.pop(0)) if self.words and _is(read, self.words[0]) else None

    def unknown(self, allowed: str) -> ConvertError:
        """The error that the word that came last is none of those that are allowed."""
        return ConvertError(f"{self.place}: the word {self.last!r} is not known here; there are {allowed}")


# Queues ----------------------------------------------------------------------------------------------------------------


@dataclass
class Qdisc:
    """A queueing discipline, a class or a filter, as a command says it."""

    kind: str
    words: Words
    parent: str
    handle: str


@dataclass
class Link:
    """What a device's queueing disciplines are, as keys of a link.

    Attributes:
        keys: The keys: rate, delay, jitter, loss, queue and so on.
        assumed: What they have that the words do not say.
        left_out: What the words say and they do not have.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    assumed: Notes = field(default_factory=Notes)
    left_out: Notes = field(default_factory=Notes)


def _correlated(words: Words, name: str, link: Link, key: str) -> None:
    """`loss 1% 25%`, `duplicate 1%` and so on."""
    probability = words.value(share)
    correlation = words.maybe(share)
    if correlation:
        link.keys[key] = {"kind": "correlated", "probability": _units.percent(probability), "correlation": _units.percent(correlation), "form": "netem"}
    elif probability:
        link.keys[key] = _units.percent(probability)
    else:
        link.keys.pop(key, None)


def _loss(words: Words, link: Link) -> None:
    if words.words[:1] == ["state"]:
        words.next()
        p13 = words.value(share)
        p31, p32, p23, p14 = (words.maybe(share) for _ in range(4))
        link.keys["loss"] = {
            "kind": "four-state",
            "begin": _units.percent(p13),
            "end": _units.percent(1 - p13 if p31 is None else p31),
            "pass": _units.percent(p32 or 0),
            "lose": _units.percent(1 if p23 is None else p23),
            "alone": _units.percent(p14 or 0),
        }
    elif words.words[:1] == ["gemodel"]:
        words.next()
        p = words.value(share)
        r, bad, good = (words.maybe(share) for _ in range(3))
        link.keys["loss"] = {
            "kind": "gilbert-elliott",
            "good_to_bad": _units.percent(p),
            "bad_to_good": _units.percent(1 - p if r is None else r),
            "loss_bad": _units.percent(1 if bad is None else bad),
            "loss_good": _units.percent(good or 0),
        }
    else:
        if words.words[:1] == ["random"]:
            words.next()
        _correlated(words, "loss", link, "loss")
    if words.words[:1] == ["ecn"]:
        words.next()
        link.left_out.add("netem's ecn: a loss model drops, and only queues mark")


NETEM = "limit, delay, distribution, reorder, gap, loss, drop, ecn, corrupt, duplicate, rate, slot, seed"


def _netem(words: Words, link: Link) -> None:
    """netem's words (tc-netem(8)), as the table in the chapter Scenarios has them."""
    delay, spread, distribution = Fraction(0), Fraction(0), "uniform"
    reorder: tuple[Fraction, Fraction] | None = None
    gap = limit = None
    for word in words:
        if word in ("delay", "latency"):
            delay = words.value(time)
            spread = words.maybe(time) or Fraction(0)
            if (correlation := words.maybe(share)) is not None and correlation:
                link.left_out.add("the correlation of netem's delays, which has no counterpart")
        elif word == "distribution":
            distribution = words.value()
        elif word in ("loss", "drop"):
            _loss(words, link)
        elif word in ("duplicate", "corrupt"):
            _correlated(words, word, link, word)
        elif word == "reorder":
            reorder = (words.value(share), words.maybe(share) or Fraction(0))
        elif word == "gap":
            gap = words.value(count)
        elif word == "limit":
            limit = words.value(count)
        elif word == "rate":
            link.keys["rate"] = _units.rate(words.value(rate))
            if (overhead := words.maybe(lambda value: int(_units.number(value)))) is not None and overhead > 0:
                link.keys["framing"] = _units.size(overhead)
            elif overhead:
                link.left_out.add("netem's packet overhead below zero")
            if words.maybe(count):
                link.left_out.add("netem's cell size and overhead; a CAKE queue counts cells (atm)")
                words.maybe(lambda value: int(_units.number(value)))
        elif word == "slot":
            while words and (_is(time, words.words[0]) or words.words[0] in ("distribution", "packets", "bytes", "normal", "uniform", "pareto")):
                words.next()
            link.left_out.add("netem's slot; a trace of opportunities or radio = { kind = \"wifi\", ... } sends in bursts")
        elif word == "seed":
            words.value()
            link.left_out.add("netem's seed; the scenario has its own")
        elif word == "ecn":
            link.left_out.add("netem's ecn: a loss model drops, and only queues mark")
        else:
            raise words.unknown(f"{NETEM} (tc-netem(8))")
    if limit is not None:
        if "rate" in link.keys:
            link.keys["queue"] = f"{max(limit, 1)}p"
        else:
            link.left_out.add("netem's limit: it counts packets that are delayed, too, and here those are on the wire and need no queue")
    _delay(link, delay, spread, distribution)
    if reorder is not None:
        _reorder(link, words, delay, reorder, gap, spread)
    elif gap:
        link.left_out.add("netem's gap without reorder")


def _reorder(link: Link, words: Words, delay: Fraction, reorder: tuple[Fraction, Fraction], gap: int | None, spread: Fraction) -> None:
    probability, correlation = reorder
    if not delay:
        raise ConvertError(f"{words.place}: reorder needs a delay, since packets overtake those that are delayed; write delay 10ms reorder 25%")
    if spread:
        link.left_out.add("netem's jitter, since a link has one model of delays: packets that overtake")
    link.keys.pop("delay", None)
    link.keys["jitter"] = {
        "kind": "overtaking",
        "delay": _units.time(delay),
        "probability": _units.percent(probability),
        **({"correlation": _units.percent(correlation), "form": "netem"} if correlation else {}),
        **({"gap": gap} if gap else {}),
    }


def _delay(link: Link, delay: Fraction, spread: Fraction, distribution: str) -> None:
    if not spread:
        if delay:
            link.keys["delay"] = _units.time(delay)
        return
    # How far below its mean a delay can be, in jitters: all of it uniformly; three standard deviations; and, by iproute2's table of
    # Pareto delays (4/3 of a jitter times a Pareto number of shape 3, less two jitters), what that begins with.
    reach = {"uniform": spread, "pareto": 2 * spread}.get(distribution, 3 * spread)
    if distribution not in ("uniform", "normal", "pareto"):
        link.left_out.add(f"netem's distribution {distribution}: the normal one stands in its place")
    base = max(delay - reach, Fraction(0))
    mean = delay - base
    if base:
        link.keys["delay"] = _units.time(base)
    if reach > delay and distribution in ("uniform", "pareto"):
        link.left_out.add(f"netem's delays below zero, which it makes zero: here they are {distribution} from zero on")
    if distribution == "uniform":
        jitter = {"kind": "uniform", "max": _units.time(min(2 * spread, delay + spread)), "reorder": True}
    elif distribution == "pareto":
        jitter = {"kind": "pareto", "mean": _units.time(mean or spread), "shape": 3.0, "reorder": True}
    else:
        # It is cut off at zero, as netem's.
        jitter = {"kind": "normal", "mean": _units.time(mean), "stddev": _units.time(spread), "reorder": True}
    link.keys["jitter"] = jitter


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
    "fq_codel": ("ce_threshold", "memory_limit"),
    "codel": ("ce_threshold",),
    "pie": ("bytemode", "nobytemode", "dq_rate_estimator", "no_dq_rate_estimator"),
    "fq_pie": ("memory_limit", "bytemode", "nobytemode", "dq_rate_estimator", "no_dq_rate_estimator"),
    "red": ("burst", "bandwidth", "nodrop"),
    "sfq": ("min", "max", "probability", "redflowlimit", "avpkt", "ecn", "harddrop"),
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


def _queue(qdisc: Qdisc, link: Link) -> dict[str, Any]:
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
            if word not in _WITHOUT_VALUE:
                words.value()
            link.left_out.add(f"{kind}'s word {word}")
        else:
            raise words.unknown(f"{', '.join([*table, *ignored])} (tc-{kind}(8))")
    return made


def _short(queue: dict[str, Any]) -> str:
    """A queue in its short form, as the leaf of a class."""
    parameters = ",".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in queue.items() if key != "kind")
    return queue["kind"] + (f":{parameters}" if parameters else "")


# The tree of a device --------------------------------------------------------------------------------------------------


@dataclass
class Device:
    """What commands say of a device."""

    qdiscs: list[Qdisc] = field(default_factory=list)
    classes: list[Qdisc] = field(default_factory=list)
    filters: list[Qdisc] = field(default_factory=list)

    def child(self, *parents: str) -> Qdisc | None:
        """The queue whose parent is one of these handles."""
        return next((qdisc for qdisc in self.qdiscs if qdisc.parent in parents), None)

    def fold(self, options: Options) -> Link:
        """All of it as the keys of one link.

        Raises:
            ConvertError: If a word is not known, or its value is wrong.
        """
        link = Link()
        root = self.child("root")
        if root is not None:
            self._fold(root, link)
        if self.filters:
            link.left_out.add("filters of tc other than by code point; a class takes flows by `class` and `dscp`")
        if not link.keys.keys() & {"rate", "trace"}:
            link.keys = {"rate": options.link_rate, **link.keys}
            link.assumed.add(f"the words do not say how fast the device is, so the link has {options.link_rate} (--rate)")
        return link

    def _fold(self, qdisc: Qdisc, link: Link) -> None:
        inner = self.child(qdisc.handle, f"{qdisc.handle}1", f"{qdisc.handle}0") if qdisc.handle else None
        if qdisc.kind == "netem":
            _netem(qdisc.words, link)
            if inner is not None:
                if link.keys.keys() & {"loss", "duplicate"}:
                    link.assumed.add("netem's losses and copies come behind the queue; in Linux its child has the packets that it leaves")
                self._fold(inner, link)
        elif qdisc.kind == "tbf":
            queue = _queue(qdisc, link)
            if "rate" not in queue or "burst" not in queue:
                raise ConvertError(f"{qdisc.words.place}: tbf needs a rate and a burst, such as tbf rate 10mbit burst 32kb latency 50ms")
            if queue.get("limit", "B")[-1] == "s":
                # A latency is what may wait beyond the burst (tc-tbf(8)).
                beyond = _units.read_rate(queue["rate"]) * _units.read_time(queue["limit"]) / 8
                queue["limit"] = _units.size(max(beyond + int(queue["burst"][:-1]), Fraction(1)))
            if inner is None or inner.kind == "netem":
                link.keys["queue"] = queue
                if inner is not None:
                    self._behind(inner, link)
            else:
                self._fold(inner, link)
                leaf = link.keys.get("queue")
                if isinstance(leaf, dict) and leaf["kind"] != "htb":
                    line = f"all rate {queue['rate']} burst {queue['burst']} cburst {queue['burst']} default leaf {_short(leaf)}"
                    link.keys["queue"] = {"kind": "htb", "classes": [line]}
                    if "peak" in queue:
                        link.left_out.add("tbf's peakrate, where it has a queue of another kind in it")
                else:
                    link.keys["queue"] = queue
                    link.left_out.add("the queue in tbf, which has classes or is none")
        elif qdisc.kind == "htb":
            self._htb(qdisc, link)
        elif qdisc.kind == "prio":
            bands = 3
            for word in qdisc.words:
                if word == "bands":
                    bands = qdisc.words.value(count)
                elif word == "priomap":
                    while qdisc.words and _is(count, qdisc.words.words[0]):
                        qdisc.words.next()
                    link.left_out.add("prio's priomap: a flow says its `class`, 0 first")
                else:
                    raise qdisc.words.unknown("bands, priomap (tc-prio(8))")
            if not 2 <= bands <= 16:
                raise ConvertError(f"{qdisc.words.place}: prio has from 2 to 16 bands, not {bands}")
            link.keys["queue"] = {"kind": "priority", "classes": bands}
            for child in self.qdiscs:
                if child.parent.startswith(qdisc.handle or "\0") and child is not qdisc:
                    link.left_out.add(f"the {child.kind} in a band of prio: bands here are plain queues of one link")
        elif qdisc.kind in TABLES:
            link.keys["queue"] = _queue(qdisc, link)
        elif qdisc.kind in DEFAULT:
            link.left_out.add(f"{qdisc.kind} and its words: the link has its default queue")
        else:
            known = ", ".join(["netem", "htb", "prio", *TABLES, *DEFAULT])
            raise ConvertError(f"{qdisc.words.place}: the queue {qdisc.kind!r} has no counterpart; there are {known}")

    def _behind(self, netem: Qdisc, link: Link) -> None:
        """A netem inside a shaper: its own limit is the shaper's queue then."""
        queue = link.keys.pop("queue")
        self._fold(netem, link)
        if "rate" not in link.keys:
            link.left_out.add("netem's limit, where it stands inside a shaper")
        link.keys["queue"] = queue

    def _htb(self, qdisc: Qdisc, link: Link) -> None:
        default = ""
        for word in qdisc.words:
            if word == "default":
                default = qdisc.words.value(_minor)
            elif word in ("r2q", "direct_qlen", "debug"):
                qdisc.words.value()
                link.left_out.add(f"htb's word {word}")
            elif word == "offload":
                link.left_out.add("htb's word offload")
            else:
                raise qdisc.words.unknown("default, r2q, direct_qlen, offload (tc-htb(8))")
        classes = [one for one in self.classes if one.kind == "htb"]
        if not classes:
            link.keys["queue"] = {"kind": "htb"}
            return
        parents = {one.parent for one in classes}
        leaves = [one for one in classes if one.handle not in parents]
        points = self._points()
        # A class that takes no packets is refused: what filters sent there, flows can send by their `class`.
        number = 0
        for one in leaves:
            if len(leaves) > 1 and one.handle not in points and one.handle.partition(":")[2] != default:
                number += 1
                points[one.handle] = [f"class {number}"]
                link.assumed.add(f"flows of class {number} go to htb's class {one.handle}, as filters said by other means")
        lines = {one.handle: self._class(one, one in leaves, points.get(one.handle, []), default, link, len(leaves) == 1) for one in classes}
        # Parents stand before those that borrow from them.
        ordered: list[str] = []
        waiting = list(classes)
        while waiting:
            ready = [one for one in waiting if one.parent not in {other.handle for other in waiting}]
            if not ready:
                raise ConvertError(f"{waiting[0].words.place}: the class {waiting[0].handle} is its own parent")
            ordered += [lines[one.handle] for one in ready]
            waiting = [one for one in waiting if one not in ready]
        link.keys["queue"] = {"kind": "htb", "classes": ordered}

    def _class(self, one: Qdisc, leaf: bool, points: list[str], default: str, link: Link, only: bool) -> str:
        words = one.words
        known = {other.handle for other in self.classes}
        line = [_class_name(one.handle)]
        if one.parent in known:
            line += ["parent", _class_name(one.parent)]
        given: dict[str, str] = {}
        for word in words:
            if word in ("rate", "ceil"):
                given[word] = _units.rate(words.value(rate))
            elif word in ("burst", "buffer", "maxburst"):
                given["burst"] = _units.size(words.value(lambda value: size(value.partition("/")[0])))
            elif word in ("cburst", "cbuffer", "cmaxburst"):
                given["cburst"] = _units.size(words.value(lambda value: size(value.partition("/")[0])))
            elif word == "prio":
                given["prio"] = str(words.value(count))
            elif word == "quantum":
                given["quantum"] = _units.size(words.value(size))
            elif word in ("mpu", "overhead", "mtu", "linklayer"):
                words.value()
                link.left_out.add(f"htb's word {word}")
            else:
                raise words.unknown("rate, ceil, burst, cburst, prio, quantum, mpu, overhead, mtu, linklayer (tc-htb(8))")
        if "rate" not in given:
            raise ConvertError(f"{words.place}: a class of htb needs a rate, such as rate 10mbit")
        line += [word for name in ("rate", "ceil", "burst", "cburst", "prio", "quantum") if name in given for word in (name, given[name])]
        if not leaf:
            return " ".join(line)
        if points and points[0].startswith("class "):
            line += points[0].split()
        elif points:
            line += ["dscp", ",".join(dict.fromkeys(points))]
        minor = one.handle.partition(":")[2]
        if default and (minor == default or only):
            line.append("default")
        inner = self.child(one.handle)
        if inner is not None and inner.kind == "netem":
            if only:
                _netem(inner.words, link)
                link.keys.pop("queue", None)
            else:
                link.left_out.add("the netem in one class of several: a link delays all of its packets alike", one.handle)
        elif inner is not None and inner.kind in TABLES and inner.kind != "tbf":
            line += ["leaf", _short(_queue(inner, link))]
        elif inner is not None:
            link.left_out.add(f"the {inner.kind} in a class of htb", one.handle)
        return " ".join(line)

    def _points(self) -> dict[str, list[str]]:
        """The code points that filters send to each class; such filters are done with."""
        points: dict[str, list[str]] = {}
        rest: list[Qdisc] = []
        for one in self.filters:
            words = one.words.words
            tos = next((words[at + 3 : at + 5] for at in range(len(words) - 4) if words[at] == "match" and words[at + 1] in ("ip", "ip6") and words[at + 2] in ("tos", "dsfield", "priority")), None)
            flow = next((words[at + 1] for at in range(len(words) - 1) if words[at] in ("flowid", "classid")), "")
            by_point = tos is not None and words.count("match") == 1 and flow and _is(_hexadecimal, tos[0]) and tos[1].lower() in ("0xfc", "0xff")
            if tos is not None and by_point:
                points.setdefault(flow, []).append(str(_hexadecimal(tos[0]) >> 2))
            else:
                rest.append(one)
        self.filters = rest
        return points


def _hexadecimal(word: str) -> int:
    if not re.fullmatch("0x[0-9a-fA-F]{1,2}", word):
        raise ValueError(f"{word!r} is not a byte, such as 0xb8")
    return int(word, 16)


def _minor(word: str) -> str:
    """The second part of a handle: "10", "0x10" and "1:10" are the same."""
    return word.rpartition(":")[2].removeprefix("0x").lstrip("0") or "0"


def _class_name(handle: str) -> str:
    return "c" + re.sub("[^0-9A-Za-z]", "-", handle)


# Commands --------------------------------------------------------------------------------------------------------------

VERBS = ("add", "replace", "change", "link")
SHOWN = ("show", "list", "ls", "del", "delete", "monitor", "get")


def commands(source: Source) -> Iterator[tuple[str, list[str]]]:
    """The commands of tc in a text, each with its place: those of a script, or of `tc -batch`.

    Raises:
        ConvertError: If a line has quotation marks that do not end.
    """
    if source.words is not None and len(source.words) > 1:
        yield source.name, list(source.words)
        return
    held = ""
    for number, line in enumerate(source.text.splitlines() or [source.text], 1):
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
            continue
        line, held = held + line, ""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            if not re.search(r"\b(tc|qdisc|netem)\b", line):
                continue
            raise ConvertError(f"{source.at(number)}: {error}") from error
        # A line of a shell can have several commands.
        command: list[str] = []
        for word in [*words, ";"]:
            if word in (";", "&&", "||", "|", "&"):
                if command:
                    yield source.at(number), command
                command = []
            else:
                ends = word.endswith(";")
                command.append(word.removesuffix(";"))
                if ends:
                    yield source.at(number), command
                    command = []


def _stripped(words: list[str]) -> list[str]:
    """A command without what stands before tc's own words."""
    for at, word in enumerate(words):
        if word.rpartition("/")[2] == "tc":
            words = words[at + 1 :]
            break
    while words[:1] and words[0].startswith("-"):
        words = words[1:]
    return words


def parse(source: Source) -> dict[str, Device]:
    """What commands say of each device, in the order in which they are named.

    Raises:
        ConvertError: If a command is not one of tc's, or says no queue.
    """
    devices: dict[str, Device] = {}
    for place, raw in commands(source):
        words = _stripped(raw)
        if words[:1] and (words[0] in (*TABLES, *DEFAULT, "netem", "htb", "prio")):
            words = ["qdisc", "add", "dev", "eth0", "root", *words]
        elif words[:1] in (["dev"], ["root"], ["handle"], ["parent"]):
            words = ["qdisc", "add", *words]
        if not words or words[0] not in ("qdisc", "class", "filter"):
            if source.words is not None and len(source.words) > 1 or raw != words:
                raise ConvertError(f"{place}: {words[0] if words else 'tc'!r} is none of qdisc, class and filter; write qdisc add dev eth0 root netem delay 20ms")
            continue
        if len(words) > 1 and words[1] in SHOWN:
            continue
        _command(devices, Words(words, place))
    if not devices:
        raise ConvertError(f"{source.name}: has no command of tc that adds a queue; write qdisc add dev eth0 root netem delay 20ms")
    return devices


def _command(devices: dict[str, Device], words: Words) -> None:
    what = words.next()
    if words.words[:1] and words.words[0] in VERBS:
        words.next()
    device = parent = handle = ""
    while words and words.words[0] in ("dev", "root", "parent", "handle", "classid", "ingress", "clsact", "protocol", "proto", "pref", "prio", "estimator"):
        word = words.next()
        if what != "filter" and word in ("protocol", "proto", "pref", "prio"):
            words.words.insert(0, word)
            break
        if word == "root":
            parent = "root"
        elif word in ("ingress", "clsact"):
            parent = "ingress"
        elif word == "dev":
            device = words.value()
        elif word == "parent":
            parent = words.value(_handle)
        elif word in ("handle", "classid"):
            handle = words.value(_handle)
        else:
            words.value()
    device = device or "eth0"
    of = devices.setdefault(device, Device())
    if parent == "ingress" or parent.startswith("ffff:"):
        of.filters.append(Qdisc("ingress", Words([], words.place), parent, handle))
        return
    if not words and what != "filter":
        raise ConvertError(f"{words.place}: has no kind of queue, such as netem; write {what} add dev {device} root netem delay 20ms")
    kind = words.next() if words else ""
    if what == "filter":
        of.filters.append(Qdisc(kind, words, parent, handle))
        return
    # A command that changes a queue takes the place of the one before it.
    of_kind = of.qdiscs if what == "qdisc" else of.classes
    same = [one for one in of_kind if (one.parent == parent if what == "qdisc" else one.handle == handle)]
    for one in same:
        of_kind.remove(one)
    of_kind.append(Qdisc(kind, words, parent or ("root" if what == "qdisc" else ""), handle))


def _handle(word: str) -> str:
    """A handle in one form: "1:", "1:0x10" and "1:10" as tc shows them."""
    if word == "root":
        return word
    if not re.fullmatch(r"[0-9a-fA-Fx]*:?[0-9a-fA-Fx]*", word) or not word:
        raise ValueError(f"{word!r} is not a handle, such as 1: or 1:10")
    major, _, minor = word.partition(":")
    return f"{major}:{'' if minor in ('', '0') else _minor(minor)}"


def link(words: str | Sequence[str], **options: Any) -> Link:
    """The keys of a link that does what these words of tc say, of one device.

    Raises:
        ConvertError: If a word is not known, or its value is wrong, or the words are about several devices.
    """
    source = Source("the command", words, None) if isinstance(words, str) else Source("the command", " ".join(words), tuple(words))
    devices = parse(source)
    if len(devices) > 1:
        raise ConvertError(f"{source.name}: is about the devices {', '.join(devices)}; give the words of one")
    return next(iter(devices.values())).fold(Options(**options))


def _claims(source: Source) -> bool:
    if source.words is not None:
        return any(word in ("qdisc", "tc", "netem") for word in source.words) or source.words[0] in TABLES
    return re.search(r"^[^#\n]*(\btc\b.*\bqdisc\b|^\s*qdisc\s+(add|replace|change)\b|\bnetem\s+(delay|loss|rate|limit))", source.text, re.MULTILINE) is not None


def read(source: Source, options: Options) -> Draft:
    """A link between two hosts: what the first device sends goes from the first to the second, what the second sends the other way.

    Raises:
        ConvertError: If a word is not known, or its value is wrong, or there are more than two devices.
    """
    devices = parse(source)
    if len(devices) > 2:
        raise ConvertError(f"{source.name}: has the devices {', '.join(devices)}, and a link has two directions; keep the lines of one or two")
    draft = Draft(f"{source.name} (tc)", "tc" if source.words is not None else source.stem)
    draft.head["duration"] = options.run_time
    folded = [device.fold(options) for device in devices.values()]
    for one in folded:
        for line in one.assumed.lines():
            draft.assumed.add(line)
        for line in one.left_out.lines():
            draft.left_out.add(line)
    keys = dict(folded[0].keys)
    first = next(iter(devices))
    if len(folded) == 2:
        keys["reverse"] = _differences(keys, folded[1].keys)
        comment = f"{first} from a to b, {list(devices)[1]} from b to a"
    else:
        plain = {"rate": options.link_rate}
        keys["reverse"] = _differences(keys, plain)
        comment = f"{first} from a to b"
        draft.assumed.add(f"the words are about what {first} sends, so the way back has {options.link_rate} and no delay (--rate)")
    draft.link("a", "b", comment=comment, **keys)
    for word in options.flow or ("a:b",):
        one, _, other = word.partition(":")
        if {one, other} != {"a", "b"}:
            raise ConvertError(f"--flow {word}: the hosts are a and b; write a:b or b:a")
        draft.flow(one, other)
    if not options.flow:
        draft.assumed.add("the words have no traffic, so there is one TCP flow that sends as much as it can (--flow b:a for the other way)")
    return draft


_OFF = {"loss": "none", "duplicate": "none", "corrupt": "none", "jitter": {"kind": "none"}, "delay": "0s", "framing": "0B", "queue": "1000p"}
"""What a direction has if the other one's key does not hold for it."""


def _differences(forward: dict[str, Any], backward: dict[str, Any]) -> dict[str, Any]:
    """What is different on the way back."""
    off = {key: _OFF[key] for key in forward if key in _OFF and key not in backward}
    return {**{key: value for key, value in backward.items() if forward.get(key) != value}, **off}


READER = Reader("tc", "words of Linux's tc: netem, tbf, htb, fq_codel and others; a command, a script, or the lines of tc -batch", _claims, read, ("rate", "flow"))
