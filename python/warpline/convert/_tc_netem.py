"""netem's words (tc-netem(8)) as keys of a link, as the table in the chapter Scenarios has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from warpline.convert import _units
from warpline.convert._draft import ConvertError, Notes
from warpline.convert._tc_words import Words, count, is_a, rate, share, time


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


def _correlated(words: Words, link: Link, key: str) -> None:
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
        _correlated(words, link, "loss")
    if words.words[:1] == ["ecn"]:
        words.next()
        link.left_out.add("netem's ecn: a loss model drops, and only queues mark")


NETEM = "limit, delay, distribution, reorder, gap, loss, drop, ecn, corrupt, duplicate, rate, slot, seed"


def netem(words: Words, link: Link) -> None:
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
            _correlated(words, link, word)
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
            while words and (is_a(time, words.words[0]) or words.words[0] in ("distribution", "packets", "bytes", "normal", "uniform", "pareto")):
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
