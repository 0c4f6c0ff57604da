"""Words of Linux's `tc` as keys of a link: netem, shapers and queues.

    from warpline.convert import tc

    tc.link("netem delay 20ms 5ms loss 1%").keys
    tc.link("qdisc add dev eth0 root handle 1: tbf rate 10mbit burst 32kb latency 50ms").keys

Units are those of tc(8): "10mbit" is 10^7 bit/s and "10mbps" 8 * 10^7, sizes count by 1024, and a percentage may lack its sign.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from warpline.convert._draft import ConvertError, Draft, differences
from warpline.convert._source import Options, Reader, Source
from warpline.convert._tc_device import Device, handle_of
from warpline.convert._tc_netem import Link
from warpline.convert._tc_queues import DEFAULT, TABLES, Qdisc
from warpline.convert._tc_words import Words

VERBS = ("add", "replace", "change", "link")
SHOWN = ("show", "list", "ls", "del", "delete", "monitor", "get")
SETS = re.compile(rf"\btc\b.*\b(qdisc|class|filter)\b(?!\s+({'|'.join(SHOWN)})\b)")
"""A text with a command of tc that sets something."""
ANYWHERE = ("if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "exec", "command", "env")
"""Words of a shell before a command that do not say where it runs."""


def _ends_in_comment(text: str) -> bool:
    """Whether a comment is open at the end of a text of a shell."""
    with contextlib.suppress(ValueError):  # Within quotation marks there is none.
        return shlex.split(f"{text} \0", comments=True)[-1:] != ["\0"]
    return False


def commands(source: Source) -> Iterator[tuple[str, list[str]]]:
    """The commands of tc in a text, each with its place: those of a script, or of `tc -batch`.

    Raises:
        ConvertError: If a line has quotation marks that do not end.
    """
    if source.words is not None and len(source.words) > 1:
        yield source.name, list(source.words)
        return
    held = ""
    lines = source.text.splitlines() or [source.text]
    for number, line in enumerate(lines, 1):
        # A comment ends with its line.
        if line.rstrip().endswith("\\") and not _ends_in_comment(held + line.rstrip()[:-1]):
            held += line.rstrip()[:-1] + " "
            if number < len(lines):
                continue
            line = ""
        line, held = held + line, ""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            if not re.search(r"\b(tc|qdisc|netem)\b", line):
                continue
            raise ConvertError(f"{source.at(number)}: {error}") from error
        # A line of a shell can have several commands, and say where their output goes.
        command: list[str] = []
        redirected = False
        for word in [*words, ";"]:
            if redirected or re.match(r"(\d|&)?>", word):
                redirected = not redirected and word.endswith((">", ">>"))
                continue
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


class Interface(NamedTuple):
    """A device, and where it is: the words before tc, such as "docker exec a", and the network namespace; nothing if it is here."""

    where: str
    device: str

    def __str__(self) -> str:
        return f"{self.where}: {self.device}" if self.where else self.device


def _stripped(words: list[str]) -> tuple[str, list[str]]:
    """Where the devices of a command are, and the command without what stands before tc's own words."""
    before: list[str] = []
    for at, word in enumerate(words):
        if _program(word) == "tc":
            before, words = words[:at], words[at + 1 :]
            break
    namespace = ""
    while words[:1] and words[0].startswith("-"):
        option, words = words[0], words[1:]
        if re.fullmatch("-n(e(t(ns?)?)?)?", option):
            namespace, words = " ".join(words[:1]), words[1:]
    return _where(before, namespace), words


def _where(before: list[str], namespace: str) -> str:
    """Where the devices are, by the words before tc and the value of its option -netns."""
    before = [word for word in before if _program(word) != "sudo"]
    while before and (before[0] in ANYWHERE or re.match(r"-|\w+=", before[0])):
        before = before[1:]
    if len(before) > 3 and [_program(before[-4]), *before[-3:-1]] == ["ip", "netns", "exec"]:
        namespace, before = namespace or before[-1], before[:-4]
    return " ".join([*before, *(["netns", namespace] if namespace else [])])


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def parse(source: Source) -> dict[Interface, Device]:
    """What commands say of each device, in the order in which they are named.

    Raises:
        ConvertError: If a command is not one of tc's, or says no queue.
    """
    devices: dict[Interface, Device] = {}
    quoted: list[str] = []
    for place, raw in commands(source):
        where, words = _stripped(raw)
        if words[:1] and (words[0] in (*TABLES, *DEFAULT, "netem", "htb", "prio")):
            words = ["qdisc", "add", "dev", "eth0", "root", *words]
        elif words[:1] in (["dev"], ["root"], ["handle"], ["parent"]):
            words = ["qdisc", "add", *words]
        if not words or words[0] not in ("qdisc", "class", "filter"):
            if source.words is not None and len(source.words) > 1 or raw != words:
                raise ConvertError(f"{place}: {words[0] if words else 'tc'!r} is none of qdisc, class and filter; write qdisc add dev eth0 root netem delay 20ms")
            if any(re.search(r"\s", word) and SETS.search(word) for word in raw):
                quoted.append(place)
            continue
        if len(words) > 1 and words[1] in SHOWN:
            continue
        _command(devices, where, Words(words, place))
    if not devices:
        raise ConvertError(f"{source.name}: has no command of tc that adds a queue; write qdisc add dev eth0 root netem delay 20ms")
    next(iter(devices.values())).quoted = quoted
    return devices


def _command(devices: dict[Interface, Device], where: str, words: Words) -> None:
    what = words.next()
    verb = words.next() if words.words[:1] and words.words[0] in VERBS else "add"
    device = parent = handle = ""
    while words and words.words[0] in ("dev", "root", "parent", "handle", "classid", "ingress", "clsact", "protocol", "proto", "pref", "prio", "estimator", "est"):
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
            parent = words.value(handle_of)
        elif word in ("handle", "classid"):
            # A filter's handle is a number of its own, such as 800::1 or 0x6/0xff.
            handle = words.value(str if what == "filter" else handle_of)
        elif word in ("estimator", "est"):
            # An interval and a time constant.
            words.value()
            words.value()
        else:
            words.value()
    device = device or "eth0"
    of = devices.setdefault(Interface(where, device), Device())
    if parent == "ingress" or parent.startswith("ffff:"):
        of.filters.append(Qdisc("ingress", Words([], words.place), parent, handle))
        return
    if not words and what != "filter":
        raise ConvertError(f"{words.place}: has no kind of queue, such as netem; write {what} add dev {device} root netem delay 20ms")
    kind = words.next() if words else ""
    if what == "filter":
        of.filters.append(Qdisc(kind, words, parent, handle))
        return
    if what == "qdisc" and not parent:
        # Only its handle says which queue is meant, if it is not the root.
        parent = next((one.parent for one in of.qdiscs if handle and one.handle == handle), "root")
    # A command that changes a queue takes the place of the one before it.
    of_kind = of.qdiscs if what == "qdisc" else of.classes
    same = [one for one in of_kind if (one.parent == parent if what == "qdisc" else one.handle == handle)]
    for one in same:
        of_kind.remove(one)
        of.replaced.append(one.words.place)
    if what == "qdisc" and same:
        (old,) = same
        if verb in ("change", "link") or verb == "replace" and kind == old.kind and handle in ("", old.handle):
            # It is the same queue with other settings.
            handle = handle or old.handle
        elif parent == "root":
            _without_tree(of)
    of_kind.append(Qdisc(kind, words, parent, handle))


def _without_tree(of: Device) -> None:
    """Takes away what is below the root, as Linux does when another queue comes there."""
    gone = [*of.qdiscs, *of.classes, *(one for one in of.filters if one.kind != "ingress")]
    of.replaced += [one.words.place for one in gone]
    of.qdiscs.clear()
    of.classes.clear()
    of.filters[:] = [one for one in of.filters if one.kind == "ingress"]


def link(words: str | Sequence[str], **options: Any) -> Link:
    """The keys of a link that does what these words of tc say, of one device.

    Raises:
        ConvertError: If a word is not known, or its value is wrong, or the words are about several devices.
    """
    source = Source("the command", words, None) if isinstance(words, str) else Source("the command", " ".join(words), tuple(words))
    devices = parse(source)
    if len(devices) > 1:
        raise ConvertError(f"{source.name}: is about the devices {', '.join(map(str, devices))}; give the words of one")
    return next(iter(devices.values())).fold(READER.options(options))


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
        raise ConvertError(f"{source.name}: has the devices {', '.join(map(str, devices))}, and a link has two directions; keep the lines of one or two")
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
        keys["reverse"] = differences(keys, folded[1].keys)
        comment = f"{first} from a to b, {list(devices)[1]} from b to a"
    else:
        plain = {"rate": options.link_rate}
        keys["reverse"] = differences(keys, plain)
        comment = f"{first} from a to b"
        draft.assumed.add(f"the words are about what {first} sends, so the way back has {options.link_rate} and no delay (--rate)")
    draft.link("a", "b", comment=comment, **keys)
    for word in options.flow or ("a:b",):
        sender, _, receiver = word.partition(":")
        if {sender, receiver} != {"a", "b"}:
            raise ConvertError(f"--flow {word}: the hosts are a and b; write a:b or b:a")
        draft.flow(sender, receiver)
    if not options.flow:
        draft.assumed.add("the words have no traffic, so there is one TCP flow that sends as much as it can (--flow b:a for the other way)")
    return draft


READER = Reader("tc", "words of Linux's tc: netem, tbf, htb, fq_codel and others; a command, a script, or the lines of tc -batch", _claims, read, ("duration", "rate", "flow"))
