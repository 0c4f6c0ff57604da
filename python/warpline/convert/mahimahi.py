"""mahimahi's shells: `mm-delay 20 mm-link up.trace down.trace`, and its traces of opportunities to deliver a packet.

A shell inside another is nearer to the program. Each is a link of its own where the order matters: losses in front of a queue keep packets
from it, and those behind it do not. A delay commutes with the rest, and is on the link of `mm-link`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from warpline.convert import _units
from warpline.convert._draft import FAST, ConvertError, Draft, Entry, File, differences
from warpline.convert._source import Options, Reader, Source

INSIDE, OUTSIDE = "inside", "outside"
"""The hosts: the one in the shell, and the rest of the world."""

OTHERS = {
    "mm-meter": "mm-meter, which shows what passes; the results have that",
    "mm-delay-graph": "mm-delay-graph, which draws; `warpline report` does",
    "mm-throughput-graph": "mm-throughput-graph, which draws; `warpline report` does",
    "mm-webrecord": "mm-webrecord, which records web pages",
    "mm-webreplay": "mm-webreplay, which serves recorded web pages; a [[flow]] with app = \"web\" has sessions",
    "mm-onoff": "mm-onoff: a link is down at given times (`down`), not at random ones",
    "mm-intermittent": "mm-intermittent: a link is down at given times (`down`), not at random ones",
}
"""What has no counterpart, and how many words it takes."""
TAKEN = {"mm-webrecord": 1, "mm-webreplay": 1, "mm-onoff": 3, "mm-intermittent": 3}
FLAGS = ("--once", "--meter-uplink", "--meter-uplink-delay", "--meter-downlink", "--meter-downlink-delay", "--meter-all")
VALUED = ("--uplink-log", "--downlink-log", "--uplink-queue", "--downlink-queue", "--uplink-queue-args", "--downlink-queue-args")
SHELLS = ("mm-delay", "mm-link", "mm-loss", *OTHERS)


@dataclass
class _Shell:
    """A link: keys of what goes out of the shell, and of what comes in."""

    up: dict[str, Any] = field(default_factory=dict)
    down: dict[str, Any] = field(default_factory=dict)


def _number(source: Source, shell: str, word: str, read: Callable[[str], Any], what: str) -> Any:
    try:
        return read(word)
    except ValueError as error:
        raise ConvertError(f"{source.name}: {shell} {word}: {error}; it has to be {what}") from error


def _shells(source: Source, words: list[str], draft: Draft) -> tuple[list[_Shell], Fraction, list[str]]:
    """The shells from the outermost on, the delay of all of them, and the command inside."""
    found: list[_Shell] = []
    delay = Fraction(0)

    def take(shell: str, what: str) -> str:
        if not words:
            raise ConvertError(f"{source.name}: {shell} needs {what}")
        return words.pop(0)

    while words and Path(words[0]).name in SHELLS:
        shell = Path(words.pop(0)).name
        if shell == "mm-delay":
            milliseconds = _number(source, shell, take(shell, "a delay in milliseconds, such as mm-delay 20"), _whole, "a whole number of milliseconds")
            delay += Fraction(milliseconds, 1000)
        elif shell == "mm-loss":
            way = take(shell, "uplink or downlink, and a rate of losses, such as mm-loss uplink 0.1")
            if way not in ("uplink", "downlink"):
                raise ConvertError(f"{source.name}: mm-loss {way}: it has to be uplink or downlink")
            loss = _number(source, shell, take(shell, "a rate of losses, such as 0.1"), _share, "a number from 0 to 1")
            keys = {"rate": FAST, **({"loss": _units.percent(loss)} if loss else {})}
            found.append(_Shell(keys, {"rate": FAST}) if way == "uplink" else _Shell({"rate": FAST}, keys))
        elif shell == "mm-link":
            found.append(_link(source, words, draft, take))
        else:
            draft.left_out.add(OTHERS[shell])
            for _ in range(TAKEN.get(shell, 0)):
                take(shell, "more words")
            while words and words[0].startswith("--"):
                words.pop(0)
        if words[:1] == ["--"]:
            words.pop(0)
    return found, delay, words


def _whole(word: str) -> int:
    if not re.fullmatch(r"\d{1,9}", word, re.ASCII):
        raise ValueError("is not a whole number")
    return int(word)


def _share(word: str) -> Fraction:
    value = _units.number(word)
    if not 0 <= value <= 1:
        raise ValueError("is out of range")
    return value


def _link(source: Source, words: list[str], draft: Draft, take: Callable[[str, str], str]) -> _Shell:
    given: dict[str, str] = {}
    traces: list[str] = []
    # Options may stand before, between and behind the traces, as getopt(3) has it.
    while words and (len(traces) < 2 or words[0].startswith("--") and words[0] != "--"):
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            traces.append(word)
        elif name in VALUED:
            given[name] = value if equals else take(name, "a value")
        elif name in FLAGS:
            given[name] = ""
        else:
            raise ConvertError(f"{source.name}: mm-link has no option {word}; there are {', '.join((*FLAGS, *VALUED))}")
    if len(traces) < 2:
        raise ConvertError(f"{source.name}: mm-link needs two traces, up and down: mm-link up.trace down.trace")
    if "--once" in given:
        draft.left_out.add("--once: a trace begins again when it is over; end the run before (`duration`)")
    for name in given:
        if name.startswith("--meter") or name.endswith("-log"):
            draft.left_out.add(f"{name}: the results have what passes")
    ways = []
    for way, trace in zip(("uplink", "downlink"), traces, strict=True):
        path = Path(trace)
        _check(Source.file(path if path.is_absolute() else source.directory / path))
        queue = _queue(source, given.get(f"--{way}-queue", "infinite"), given.get(f"--{way}-queue-args", ""), draft)
        ways.append({"trace": File(trace), "queue": queue})
    return _Shell(*ways)


def _queue(source: Source, kind: str, args: str, draft: Draft) -> Any:
    """A queue of mm-link. Its times are in milliseconds."""
    given: dict[str, int] = {}
    for pair in filter(None, re.split(r"[,\s]+", args.strip())):
        name, _, value = pair.partition("=")
        if name not in ("packets", "bytes", "target", "interval", "qdelay_ref", "max_burst") or not re.fullmatch(r"\d{1,12}", value, re.ASCII):
            raise ConvertError(f"{source.name}: the queue's argument {pair!r} is not known; there are packets, bytes, target, interval, qdelay_ref and max_burst, each with = and a whole number")
        given[name] = int(value)
    limit = f"{given['packets']}p" if given.get("packets") else f"{given['bytes']}B" if given.get("bytes") else "unlimited"
    if given.get("packets") and given.get("bytes"):
        draft.left_out.add("the bytes of a queue that has a limit in packets, too")
    times = {name: _units.time(Fraction(given[name], 1000)) for name in ("target", "interval", "qdelay_ref", "max_burst") if given.get(name)}
    if kind == "infinite":
        if given:
            raise ConvertError(f"{source.name}: the queue infinite takes no arguments; name another one, such as --uplink-queue=droptail --uplink-queue-args=packets=100")
        return "unlimited"
    if kind in ("droptail", "drophead") and limit == "unlimited":
        raise ConvertError(f"{source.name}: the queue {kind} needs a limit, such as --uplink-queue-args=packets=100")
    if kind == "droptail":
        return limit
    if kind == "drophead":
        draft.assumed.add("a drop-tail queue in place of drophead: the newest packet is dropped, and not the oldest")
        return limit
    needed = {"codel": ("target", "interval"), "pie": ("qdelay_ref", "max_burst")}.get(kind)
    if needed is None:
        raise ConvertError(f"{source.name}: there is no queue {kind!r}; there are infinite, droptail, drophead, codel and pie")
    if not all(name in times for name in needed):
        raise ConvertError(f"{source.name}: the queue {kind} needs {' and '.join(needed)}, in milliseconds")
    if kind == "codel":
        return {"kind": "codel", "limit": limit, "target": times["target"], "interval": times["interval"]}
    return {"kind": "pie", "limit": limit, "target": times["qdelay_ref"], "max_burst": times["max_burst"], "update": "30ms"}


def _check(trace: Source) -> None:
    """Makes sure that a file is a trace.

    Raises:
        ConvertError: With the line that is wrong.
    """
    last = 0
    for number, line in enumerate(trace.text.splitlines(), 1):
        if not re.fullmatch(r"\d{1,15}", line, re.ASCII) or int(line) < last:
            raise ConvertError(f"{trace.at(number)}: {line[:40]!r} is not a line of a trace: whole numbers of milliseconds, none below the one before")
        last = int(line)
    if last == 0:
        raise ConvertError(f"{trace.name}: is not a trace: its last line has to be above 0, since the trace begins again then")


def _words(source: Source) -> list[str]:
    if source.words is not None and len(source.words) > 1:
        return list(source.words)
    lines = [line for line in source.text.replace("\\\n", " ").splitlines() if re.search(r"\bmm-[a-z]+", line) and not line.lstrip().startswith("#")]
    if len(lines) != 1:
        raise ConvertError(f"{source.name}: has {len(lines)} lines with mm- commands; give one, such as mm-delay 20 mm-link up.trace down.trace")
    try:
        return shlex.split(lines[0], comments=True)
    except ValueError as error:
        raise ConvertError(f"{source.name}: {error}") from error


def _read(source: Source, options: Options) -> Draft:
    draft = Draft(f"{source.name} (mahimahi)", "mahimahi" if source.words is not None else source.stem)
    draft.head["duration"] = options.run_time
    words = _words(source)
    while words and Path(words[0]).name not in SHELLS:
        words.pop(0)
    shells, delay, command = _shells(source, words, draft)
    if not shells:
        shells = [_Shell({"rate": FAST}, {"rate": FAST})]
        draft.assumed.add(f"there is no mm-link, so the line is as fast as need be ({FAST})")
    if delay:
        slowest = next((shell for shell in shells if "trace" in shell.up), shells[0])
        slowest.up["delay"] = slowest.down["delay"] = _units.time(delay)
    # The innermost shell is the nearest to the program.
    shells.reverse()
    nodes = [INSIDE, *(f"shell{number}" for number in range(1, len(shells))), OUTSIDE]
    for one, other, shell in zip(nodes[:-1], nodes[1:], shells, strict=True):
        draft.link(one, other, **shell.up, reverse=differences(shell.up, shell.down))
    _traffic(source, draft, command, options)
    return draft


def _traffic(source: Source, draft: Draft, command: list[str], options: Options) -> None:
    if options.guests:
        if not command:
            raise ConvertError(f"{source.name}: --guests: the shells have no command that could run on a guest; add one, or leave out --guests")
        if options.flow:
            raise ConvertError(f"{source.name}: --flow {options.flow[0]}: with --guests the traffic is that of the command; leave out one of the two")
        # mahimahi tells programs the way out by this variable.
        line = shlex.join(command).replace("'$MAHIMAHI_BASE'", "$MAHIMAHI_BASE").replace("$MAHIMAHI_BASE", f"{{{OUTSIDE}}}")
        inside = draft.host(INSIDE, endpoint="guest")
        inside.programs.append(Entry({"command": line, "expect": "any"}))
        draft.host(OUTSIDE, comment="What answers the command has to run here: add it as a [[host.program]] with `ready`.", endpoint="guest")
        draft.assumed.add("the command runs on a Linux guest, and may end in any way")
        return
    if command:
        draft.left_out.add(f"the command, which needs what answers it (--guests makes it a program of a Linux guest): {shlex.join(command)}")
    for word in options.flow or (f"{OUTSIDE}:{INSIDE}",):
        one, _, other = word.partition(":")
        if {one, other} != {INSIDE, OUTSIDE}:
            raise ConvertError(f"--flow {word}: the hosts are {INSIDE} and {OUTSIDE}; write {INSIDE}:{OUTSIDE} or {OUTSIDE}:{INSIDE}")
        draft.flow(one, other)
    if not options.flow:
        draft.assumed.add(f"one TCP flow sends as much as it can into the shell (--flow {INSIDE}:{OUTSIDE} for the other way)")


def _claims(source: Source) -> bool:
    if source.words is not None and len(source.words) > 1:
        return any(Path(word).name in SHELLS for word in source.words)
    return re.search(r"^[^#\n]*\bmm-(delay|link|loss|onoff|intermittent|meter|webrecord|webreplay)\b", source.text, re.MULTILINE) is not None


READER = Reader("mahimahi", "a command line of mahimahi: mm-link, mm-delay, mm-loss", _claims, _read, ("duration", "flow", "guests"))


# Traces by themselves --------------------------------------------------------------------------------------------------


def _read_trace(source: Source, options: Options) -> Draft:
    _check(source)
    draft = Draft(f"{source.name} (a trace of mahimahi)", source.stem)
    draft.head["duration"] = options.run_time
    draft.link(INSIDE, OUTSIDE, rate=options.link_rate, delay=options.link_delay, reverse={"trace": File(Path(source.name).name)})
    draft.assumed.add(f"the trace is that of what comes in; the way out has {options.link_rate} (--rate), and each way {options.link_delay} (--delay)")
    _traffic(source, draft, [], options)
    return draft


def _is_trace(source: Source) -> bool:
    return source.words is None and re.match(r"(\d+\r?\n){2}", source.text) is not None


TRACE = Reader("mahimahi-trace", "a trace of mahimahi: a line of milliseconds for each 1500 bytes that can pass", _is_trace, _read_trace, ("duration", "rate", "delay", "flow"))
