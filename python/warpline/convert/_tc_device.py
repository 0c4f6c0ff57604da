"""The queues, classes and filters of a device as a whole: a tree, which becomes one link."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from warpline.convert import _units
from warpline.convert._draft import ConvertError
from warpline.convert._source import Options
from warpline.convert._tc_netem import Link, netem
from warpline.convert._tc_queues import DEFAULT, TABLES, Qdisc, queue_of, short
from warpline.convert._tc_words import Words, count, is_a, rate, size


REPLACED = "the earlier settings of a queue that a later command replaces"
"""A note: a scenario begins with what holds at the end of the commands."""
UNREACHED = "queues and classes of tc for which the link has no place"
"""A note, of those that the commands do not tie to the root of their device, too."""
INCOMING = "what tc does with packets that come in (ingress, clsact); another device can say what the way back is like"
"""A note."""


@dataclass
class Device:
    """What commands say of a device."""

    qdiscs: list[Qdisc] = field(default_factory=list)
    classes: list[Qdisc] = field(default_factory=list)
    filters: list[Qdisc] = field(default_factory=list)
    folded: list[Qdisc] = field(default_factory=list)
    """The queues and classes that the link has, and those of which a note says that it has not."""
    replaced: list[str] = field(default_factory=list)
    """Where the commands stand whose settings a later one replaces."""
    quoted: list[str] = field(default_factory=list)
    """Where commands stand within quotation marks, which are not read."""

    def child(self, *parents: str) -> Qdisc | None:
        """The queue whose parent is one of these handles."""
        return next((qdisc for qdisc in self.qdiscs if qdisc.parent in parents), None)

    def fold(self, options: Options | None) -> Link:
        """All of it as the keys of one link. Where nothing says how fast the device is, the rate is that of `options`; without them there is none.

        Raises:
            ConvertError: If a word is not known, or its value is wrong.
        """
        link = Link()
        for place in self.replaced:
            link.left_out.add(REPLACED, place)
        for place in self.quoted:
            link.left_out.add("commands of tc within quotation marks; write them without", place)
        root = self.child("root")
        if root is not None:
            self._fold(root, link)
        self._note_the_rest(link)
        if options is not None and not link.keys.keys() & {"rate", "trace"}:
            link.keys = {"rate": options.link_rate, **link.keys}
            link.assumed.add(f"the words do not say how fast the device is, so the link has {options.link_rate} (--rate)")
        return link

    def _note_the_rest(self, link: Link) -> None:
        """Says of which queues, classes and filters nothing was made."""
        for one in self.qdiscs:
            if not self._is_folded(one):
                link.left_out.add(UNREACHED, f"{one.words.place}: {one.kind} below {one.parent}")
        for one in self.classes:
            if not self._is_folded(one):
                link.left_out.add(UNREACHED, f"{one.words.place}: class {one.handle} of {one.kind}")
        for one in self.filters:
            what = INCOMING if one.kind == "ingress" else "filters of tc, other than those by code point to a leaf of htb; a class takes flows by `class` and `dscp`"
            link.left_out.add(what, one.words.place)

    def _is_folded(self, qdisc: Qdisc) -> bool:
        return any(one is qdisc for one in self.folded)

    def _fold(self, qdisc: Qdisc, link: Link) -> None:
        if self._is_folded(qdisc):
            raise ConvertError(f"{qdisc.words.place}: the {qdisc.kind} {qdisc.handle} is inside itself; its parent has to be root or another handle")
        self.folded.append(qdisc)
        inner = self.child(qdisc.handle, f"{qdisc.handle}1", f"{qdisc.handle}0") if qdisc.handle else None
        if qdisc.kind == "netem":
            limit = _netem(qdisc.words, link).get("queue")
            if inner is not None:
                if link.keys.keys() & {"loss", "duplicate"}:
                    link.assumed.add("netem's losses and copies come behind the queue; in Linux its child has the packets that it leaves")
                self._fold(inner, link)
                if limit is not None and link.keys.get("queue") != limit:
                    link.left_out.add("netem's limit, where it has another queue in it")
        elif qdisc.kind == "tbf":
            queue = queue_of(qdisc, link)
            if "rate" not in queue or "burst" not in queue:
                raise ConvertError(f"{qdisc.words.place}: tbf needs a rate and a burst, such as tbf rate 10mbit burst 32kb latency 50ms")
            if queue.get("limit", "B")[-1] == "s":
                # A latency is what may wait beyond the burst (tc-tbf(8)).
                latency = _units.read_time(queue["limit"])
                most = _units.read_rate(queue["rate"]) * latency / 8 + int(queue["burst"][:-1])
                if "peak" in queue and "peak_burst" in queue:
                    # The peak rate has to keep to it, too.
                    most = min(most, _units.read_rate(queue["peak"]) * latency / 8 + int(queue["peak_burst"][:-1]))
                queue["limit"] = _units.size(max(most, Fraction(1)))
            if inner is None or inner.kind == "netem":
                link.keys["queue"] = queue
                if inner is not None:
                    self._behind(inner, link)
            else:
                self._fold(inner, link)
                leaf = link.keys.get("queue")
                if isinstance(leaf, dict) and leaf["kind"] != "htb":
                    line = f"all rate {queue['rate']} burst {queue['burst']} cburst {queue['burst']} default leaf {short(leaf)}"
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
                    while qdisc.words and is_a(count, qdisc.words.words[0]):
                        qdisc.words.next()
                    link.left_out.add("prio's priomap: a flow says its `class`, 0 first")
                else:
                    raise qdisc.words.unknown("bands, priomap (tc-prio(8))")
            if not 2 <= bands <= 16:
                raise ConvertError(f"{qdisc.words.place}: prio has from 2 to 16 bands, not {bands}")
            # Each band is a FIFO with a limit of its own.
            link.keys["queue"] = {"kind": "priority", "classes": bands, "per_class": True}
            for child in self.qdiscs:
                if child.parent.startswith(qdisc.handle or "\0") and child is not qdisc:
                    self.folded.append(child)
                    link.left_out.add(f"the {child.kind} in a band of prio: bands here are plain queues of one link")
        elif qdisc.kind in TABLES:
            link.keys["queue"] = queue_of(qdisc, link)
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
        if "queue" in link.keys:
            link.left_out.add("the queue of a netem that stands inside a shaper: the shaper's is the link's")
        link.keys["queue"] = queue

    def _htb(self, qdisc: Qdisc, link: Link) -> None:
        default = ""
        for word in qdisc.words:
            if word == "default":
                default = qdisc.words.value(minor_of)
            elif word in ("r2q", "direct_qlen", "debug"):
                qdisc.words.value()
                link.left_out.add(f"htb's word {word}")
            elif word == "offload":
                link.left_out.add("htb's word offload")
            else:
                raise qdisc.words.unknown("default, r2q, direct_qlen, offload (tc-htb(8))")
        major = qdisc.handle.partition(":")[0]
        classes = [one for one in self.classes if one.kind == "htb" and (not major or one.handle.partition(":")[0] in ("", major))]
        self.folded += classes
        if not classes:
            link.keys["queue"] = {"kind": "htb"}
            return
        parents = {one.parent for one in classes}
        leaves = [one for one in classes if one.handle not in parents]
        handles = {one.handle for one in leaves}
        # A filter that takes everything is another way to say `default`.
        whole = next((one for one in self.filters if _takes_all(one) in handles), None)
        if whole is not None:
            default = _takes_all(whole).partition(":")[2]
            self.filters = [one for one in self.filters if one is not whole]
        points = self._points(handles)
        # A class that takes no packets is refused: what filters sent there, flows can send by their `class`.
        number = 0
        for one in leaves:
            if one.handle not in points and not (default and one.handle.partition(":")[2] == default):
                number += 1
                points[one.handle] = [f"class {number}"]
                link.assumed.add(f"flows of class {number} go to htb's class {one.handle}, which neither a code point nor htb's default names")
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
        if default and minor == default:
            line.append("default")
        inner = self.child(one.handle)
        if inner is not None:
            self.folded.append(inner)
        if inner is not None and inner.kind == "netem":
            if only:
                if "queue" in _netem(inner.words, link):
                    link.left_out.add("netem's limit, where it stands inside a shaper")
                link.keys.pop("queue", None)
            else:
                link.left_out.add("the netem in one class of several: a link delays all of its packets alike", one.handle)
        elif inner is not None and inner.kind in TABLES and inner.kind != "tbf":
            line += ["leaf", short(queue_of(inner, link))]
        elif inner is not None:
            link.left_out.add(f"the {inner.kind} in a class of htb", one.handle)
        return " ".join(line)

    def _points(self, leaves: set[str]) -> dict[str, list[str]]:
        """The code points that filters send to each of these classes; such filters are done with."""
        points: dict[str, list[str]] = {}
        rest: list[Qdisc] = []
        for one in self.filters:
            words = one.words.words
            tos = next((words[at + 3 : at + 5] for at in range(len(words) - 4) if words[at] == "match" and words[at + 1] in ("ip", "ip6") and words[at + 2] in ("tos", "dsfield", "priority")), None)
            flow = next((words[at + 1] for at in range(len(words) - 1) if words[at] in ("flowid", "classid")), "")
            to = handle_of(flow) if is_a(handle_of, flow) else ""
            by_point = tos is not None and words.count("match") == 1 and to in leaves and is_a(_hexadecimal, tos[0]) and tos[1].lower() in ("0xfc", "0xff")
            if tos is not None and by_point:
                points.setdefault(to, []).append(str(_hexadecimal(tos[0]) >> 2))
            else:
                rest.append(one)
        self.filters = rest
        return points


def _hexadecimal(word: str) -> int:
    if not re.fullmatch("0x[0-9a-fA-F]{1,2}", word):
        raise ValueError(f"{word!r} is not a byte, such as 0xb8")
    return int(word, 16)


def minor_of(word: str) -> str:
    """The second part of a handle: "10", "0x10" and "1:10" are the same, and so are "1a" and "1A"."""
    return word.rpartition(":")[2].lower().removeprefix("0x").lstrip("0") or "0"


def handle_of(word: str) -> str:
    """A handle in one form: "1:", "0x1:0", "1:0x1A" and "1:1a" as tc shows them.

    Raises:
        ValueError: If it is none.
    """
    if word == "root":
        return word
    if not re.fullmatch(r"[0-9a-fA-Fx]*:?[0-9a-fA-Fx]*", word) or not word:
        raise ValueError(f"{word!r} is not a handle, such as 1: or 1:10")
    major, _, minor = word.partition(":")
    minor = minor_of(minor)
    return f"{minor_of(major) if major else ''}:{'' if minor == '0' else minor}"


def _takes_all(one: Qdisc) -> str:
    """The class to which a filter sends every packet; "" if it is no such filter."""
    words = one.words.words
    flow = next((words[at + 1] for at in range(len(words) - 1) if words[at] in ("flowid", "classid")), "")
    everything = r"\bmatch (u32 (0x)?0+ (0x)?0+|ip (src|dst) (0|0\.0\.0\.0)/0)( |$)"
    every = one.kind == "matchall" or (one.kind == "u32" and words.count("match") == 1 and re.search(everything, " ".join(words)))
    return handle_of(flow) if every and is_a(handle_of, flow) else ""


def _netem(words: Words, link: Link) -> dict[str, Any]:
    """Takes netem's words. Delays of a netem inside another add up; of all else the inner one's holds, with a note."""
    before = dict(link.keys)
    made = netem(words, link)
    for key in made:
        if key == "delay" and key in before:
            link.keys[key] = _units.time(_units.read_time(before[key]) + _units.read_time(made[key]))
        elif key in before and key != "queue":
            link.left_out.add(f"the {key} of a netem that has another netem in it with a {key}")
    return made


def _class_name(handle: str) -> str:
    return "c" + re.sub("[^0-9A-Za-z]", "-", handle)
