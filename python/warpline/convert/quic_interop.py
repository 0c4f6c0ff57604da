"""The network simulator of the QUIC interop runner: its scenarios as one command, `simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25`.

The client and the server are machines outside, behind eth0 and eth1 of the simulator's container, with the addresses that the runner gives them
(docker-compose.yml of github.com/quic-interop/quic-network-simulator). They ask port 57832 of the simulator whether it is ready.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from warpline.convert import _units
from warpline.convert._draft import ConvertError, Draft
from warpline.convert._source import Options, Reader, Source

CLIENT, SERVER = "client", "server"
LEFT, RIGHT = "left", "right"
"""The simulator's nodes beside the client and the server."""
READY = 57832
"""The port that is open when the simulator is ready."""
CROSS_PAYLOAD, UDP_HEADERS = 512, 28
"""Bytes of payload of a datagram of ns-3's OnOffApplication, and of its headers."""
CROSS_START = "20s"
"""When the simulator's datagrams begin."""
LASTS = "10h"
"""Ends the run, if the runner does not."""


@dataclass(frozen=True)
class End:
    """A machine outside, and the simulator's node on its network."""

    name: str
    node: str
    device: str
    network: tuple[str, str]

    def keys(self) -> dict[str, Any]:
        """The keys of the machine as a host."""
        v4, v6 = self.network
        return {"endpoint": "interface", "device": self.device, "address": f"{v4}.100", "address6": f"{v6}:100"}

    def own(self) -> dict[str, Any]:
        """The keys of the simulator's node, which is the machine's gateway."""
        v4, v6 = self.network
        return {"address": f"{v4}.2", "address6": f"{v6}:2"}


ENDS = (End(CLIENT, LEFT, "eth0", ("193.167.0", "fd00:cafe:cafe:0:")), End(SERVER, RIGHT, "eth1", ("193.167.100", "fd00:cafe:cafe:100:")))


@dataclass
class Path:
    """The bottleneck, the keys of the way to the server and of that to the client; and more keys of the client."""

    toserver: dict[str, Any] = field(default_factory=dict)
    toclient: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)


Given = dict[str, str]
Builder = Callable[[Source, Given, Draft, Path], None]


def _need(source: Source, given: Given, name: str, what: str) -> str:
    if name not in given:
        raise ConvertError(f"{source.name}: --{name} is missing: {what}")
    return given.pop(name)


def _read(source: Source, name: str, word: str, read: Callable[[str], Any], what: str) -> Any:
    try:
        return read(word)
    except ValueError as error:
        raise ConvertError(f"{source.name}: --{name}={word}: {error}; it has to be {what}") from error


def _time(source: Source, name: str, word: str) -> Fraction:
    # The simulator reads times as ns-3 does: a bare number is seconds.
    found: Fraction = _read(source, name, f"{word}s" if re.fullmatch(r"[\d.]+", word) else word, _units.read_time, "a time such as 15ms")
    return found


def _whole(word: str) -> int:
    if not re.fullmatch(r"\d{1,9}", word, re.ASCII):
        raise ValueError("is not a whole number")
    return int(word)


def _percent(word: str) -> int:
    value = _whole(word)
    if value > 100:
        raise ValueError("is above 100")
    return value


def _simple(source: Source, given: Given, draft: Draft, path: Path) -> None:
    """Nothing but the link."""


def _chance(key: str) -> Builder:
    """Packets that are lost or changed by chance, with a limit of how many in a row."""

    def build(source: Source, given: Given, draft: Draft, path: Path) -> None:
        for way, keys in (("client", path.toclient), ("server", path.toserver)):
            percent = _read(source, f"rate_to_{way}", _need(source, given, f"rate_to_{way}", "percent of the packets"), _percent, "percent, 0 to 100")
            burst = given.pop(f"burst_to_{way}", None)
            if percent:
                longest = {} if burst is None else {"longest": _read(source, f"burst_to_{way}", burst, _whole, "a number of packets")}
                keys[key] = {"kind": "bernoulli", "probability": percent / 100, **longest}
        draft.assumed.add(f"{key} is of all packets, not of UDP's only")

    return build


def _listed(source: Source, given: Given, draft: Draft, path: Path) -> None:
    """Packets that are lost by their numbers."""
    for way, keys in (("client", path.toclient), ("server", path.toserver)):
        word = given.pop(f"drops_to_{way}", "")
        if word:
            keys["loss"] = {"kind": "list", "packets": [_read(source, f"drops_to_{way}", one, _whole, "numbers of packets from 1 on, such as 1,3,15") for one in word.split(",")]}


def _blackhole(source: Source, given: Given, draft: Draft, path: Path) -> None:
    """Times at which nothing passes."""
    on, off = (_time(source, name, _need(source, given, name, "a time such as 10s")) for name in ("on", "off"))
    times = _read(source, "repeat", given.pop("repeat", "1"), _whole, "a number of times")
    direction = given.pop("direction", "both")
    if direction not in ("both", "toclient", "toserver"):
        raise ConvertError(f"{source.name}: --direction={direction}: it has to be both, toclient or toserver")
    down = [{"at": _units.time(number * (on + off) + on), "for": _units.time(off)} for number in range(times)]
    for way, keys in (("toclient", path.toclient), ("toserver", path.toserver)):
        if down and direction in ("both", way):
            keys["down"] = down


def _crossed(source: Source, given: Given, draft: Draft, path: Path) -> None:
    """A TCP flow of the simulator's own from the server's side to the client's."""
    draft.flow(RIGHT, LEFT, cc="reno")


def _datagrams(source: Source, given: Given, draft: Draft, path: Path) -> None:
    """Datagrams of the simulator's own, at a constant rate, from the client's side to the server's."""
    rate = _read(source, "crossdatarate", _need(source, given, "crossdatarate", "a rate such as 5Mbps"), _units.read_rate, "a rate such as 5Mbps")
    # The rate is that of the payload there, and of whole packets here.
    draft.flow(LEFT, RIGHT, app="cbr", transport="udp", rate=_units.rate(rate * (CROSS_PAYLOAD + UDP_HEADERS) / CROSS_PAYLOAD), packet_size=_units.size(CROSS_PAYLOAD + UDP_HEADERS), start=CROSS_START)


def _rebound(source: Source, given: Given, draft: Draft, path: Path) -> None:
    """A NAT in front of the client that changes its ports, and its address if that is wanted."""
    first = _time(source, "first-rebind", _need(source, given, "first-rebind", "a time such as 1s"))
    every = _time(source, "rebind-freq", given.pop("rebind-freq", "0s"))
    moves = _read(source, "rebind-addr", given.pop("rebind-addr", "false"), _yes, "true or false")
    rebind = {"first": _units.time(first)}
    if every:
        rebind["every"] = _units.time(every)
    if moves:
        # Without the addresses of the client and of the simulator itself.
        rebind["addresses"] = f"{ENDS[0].network[0]}.128/25"
        draft.assumed.add("the client's new addresses are the upper half of its network, and of IPv4 only")
    path.client["rebind"] = rebind


def _yes(word: str) -> bool:
    if word.lower() not in ("true", "1", "false", "0"):
        raise ValueError("is neither true nor false")
    return word.lower() in ("true", "1")


SCENARIOS: Mapping[str, Builder] = {
    "simple-p2p": _simple,
    "drop-rate": _chance("loss"),
    "corrupt-rate": _chance("corrupt"),
    "droplist": _listed,
    "blackhole": _blackhole,
    "rebind": _rebound,
    "tcp-cross-traffic": _crossed,
    "udp-cross-traffic": _datagrams,
}
"""The simulator's scenarios."""

SWITCHES = ("rebind-addr",)
"""Options that need no value."""

def _words(source: Source) -> list[str]:
    try:
        return list(source.words) if source.words is not None and len(source.words) > 1 else shlex.split(source.text, comments=True)
    except ValueError as error:
        raise ConvertError(f"{source.name}: {error}") from error


def _make(source: Source, options: Options) -> Draft:
    kind, *words = _words(source) or [""]
    if kind not in SCENARIOS:
        raise ConvertError(f"{source.name}: there is no scenario {kind!r}; there are {', '.join(SCENARIOS)}")
    given: Given = {}
    for word in words:
        match = re.fullmatch(r"--([a-z_-]+)(?:=(.*))?", word)
        if match is None or (match[2] is None and match[1] not in SWITCHES):
            raise ConvertError(f"{source.name}: {word}: options have the form --name=value")
        given[match[1]] = "true" if match[2] is None else match[2]
    draft = Draft(f"{source.name} (QUIC interop runner)", kind)
    draft.head.update(duration=LASTS, clock={"mode": "real"})
    rate = _read(source, "bandwidth", _need(source, given, "bandwidth", "a rate such as 10Mbps"), _units.read_rate, "a rate such as 10Mbps")
    common: dict[str, Any] = {
        "rate": _units.rate(rate),
        "delay": _units.time(_time(source, "delay", _need(source, given, "delay", "a time such as 15ms"))),
        "queue": f"{_read(source, 'queue', _need(source, given, 'queue', 'a number of packets such as 25'), _whole, 'a number of packets')}p",
    }
    path = Path()
    SCENARIOS[kind](source, given, draft, path)
    if given:
        raise ConvertError(f"{source.name}: {kind} has no option --{next(iter(given))}")
    # What holds in one direction only must be taken back in the other.
    none = {"loss": "none", "corrupt": "none", "down": []}
    reverse = {**{key: none[key] for key in path.toserver if key not in path.toclient}, **path.toclient}
    draft.link(LEFT, RIGHT, **common, **path.toserver, reverse=reverse)
    for end in ENDS:
        draft.link(end.name, end.node, rate="1Gbit/s")
        draft.host(end.name, **end.keys(), **(path.client if end.name == CLIENT else {}))
        draft.host(end.node, comment="The gateway of the network, whose open port says that the simulator is ready.", **end.own())
        draft.flow(end.name, end.node, app="discard", port=READY)
    return draft


def _claims(source: Source) -> bool:
    return source.words is not None and source.words[0] in SCENARIOS or source.name == "the command" and source.text.split(" ")[0] in SCENARIOS


READER = Reader("quic-interop", "a scenario of the QUIC interop runner's simulator: simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25", _claims, _make)
