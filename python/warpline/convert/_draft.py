"""A scenario that is being made of something else: its entries, what was assumed, what was left out, and its text."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpline import _toml
from warpline._errors import WarplineError
from warpline._scenario import Scenario

NAMED = 6
"""So many places are named in a note; of the others it says how many there are."""

FAST = "1Tbit/s"
"""The rate of a link that stands for something without a rate."""


class ConvertError(WarplineError, ValueError):
    """Something cannot be converted. The text says where it stands, what is wrong, what is allowed, and what to do."""


class File(str):
    """The path of a file that the scenario reads, relative to the directory of the source."""

    __slots__ = ()


@dataclass
class Entry:
    """A `[[link]]`, `[[host]]`, `[[host.program]]` or `[[flow]]`."""

    keys: dict[str, Any]
    comment: str = ""
    programs: list[Entry] = field(default_factory=list)


class Notes:
    """Sentences, each with the places that it is about."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}

    def add(self, text: str, place: str = "") -> None:
        """Notes `text`, of `place` if it is not about the whole."""
        places = self._places.setdefault(_flat(text), [])
        if place and _flat(place) not in places:
            places.append(_flat(place))

    def lines(self) -> list[str]:
        """A line for each, in the order in which they came up."""
        return [f"{text}{_named(places)}" for text, places in self._places.items()]


def _named(places: list[str]) -> str:
    if not places:
        return ""
    more = len(places) - NAMED
    return ": " + ", ".join(places[:NAMED]) + (f" and {more} more" if more > 0 else "")


class Names:
    """Names that a scenario can have, of names that it cannot."""

    def __init__(self) -> None:
        self._given: dict[object, str] = {}
        self._taken: set[str] = set()

    def of(self, key: object, label: object = None) -> str:
        """The name of `key`: the same each time, and no other key's. It is like `label`, or else like the key."""
        if key not in self._given:
            wanted = "".join(c if c.isalnum() or c in "-_." else "-" for c in str(key if label is None else label))
            wanted = re.sub("-+", "-", wanted).strip("-").lstrip(".")[:80] or "node"
            name, number = wanted, 2
            while name in self._taken:
                name, number = f"{wanted}-{number}", number + 1
            self._taken.add(name)
            self._given[key] = name
        return self._given[key]


@dataclass(frozen=True)
class Imported:
    """A scenario made of something else.

    Attributes:
        toml: The scenario as a file, with comments.
        assumed: What it has that the source does not say.
        left_out: What the source says and it does not have.
        directory: Directory that the paths in it are relative to.
    """

    toml: str
    assumed: tuple[str, ...]
    left_out: tuple[str, ...]
    directory: Path

    @property
    def scenario(self) -> Scenario:
        """The scenario, checked.

        Raises:
            ScenarioError: With all its errors.
        """
        return Scenario.from_toml(self.toml, name="the scenario made by warpline.convert", directory=self.directory)


class Draft:
    """A scenario that is being made."""

    def __init__(self, source: str, name: str = "imported") -> None:
        """Begins a scenario that is made of `source`, in words."""
        self.source = source
        self.head: dict[str, Any] = {"name": Names().of(name), "duration": None}
        self.links: list[Entry] = []
        self.hosts: list[Entry] = []
        self.flows: list[Entry] = []
        self.assumed = Notes()
        self.left_out = Notes()

    def link(self, one: str, other: str, *, oneway: bool = False, comment: str = "", **keys: Any) -> Entry:
        """Adds a link between two nodes, or from one to the other; without the keys that are None or empty."""
        ends = {"from": one, "to": other} if oneway else {"between": [one, other]}
        return self._add(self.links, {**ends, **keys}, comment)

    def host(self, name: str, comment: str = "", **keys: Any) -> Entry:
        """Adds a host with settings of its own."""
        return self._add(self.hosts, {"name": name, **keys}, comment)

    def flow(self, from_: str, to: str, comment: str = "", **keys: Any) -> Entry:
        """Adds a flow."""
        return self._add(self.flows, {**keys, "from": from_, "to": to}, comment)

    @staticmethod
    def _add(entries: list[Entry], keys: dict[str, Any], comment: str) -> Entry:
        entry = Entry({key: value for key, value in keys.items() if value is not None and value != {}}, comment)
        entries.append(entry)
        return entry

    def imported(self, directory: Path, target: Path | None = None) -> Imported:
        """The scenario as it is now. Its paths, which are relative to `directory`, are made relative to `target` if that is given."""
        target = directory if target is None else target
        if directory.resolve() != target.resolve():
            for entry in self.links:
                entry.keys = _moved(entry.keys, directory, target)
        return Imported(self.toml(), tuple(self.assumed.lines()), tuple(self.left_out.lines()), target)

    def toml(self) -> str:
        """The scenario as a file, with comments."""
        lines = [f"# Made by `warpline import` of {_flat(self.source)}."]
        for heading, notes in (("Assumed", self.assumed), ("Left out", self.left_out)):
            if found := notes.lines():
                lines += ["#", f"# {heading}:", *(f"# - {line}" for line in found)]
        lines.append("")
        lines += _keys(self.head)
        for table, entries in (("link", self.links), ("host", self.hosts), ("flow", self.flows)):
            for entry in entries:
                lines += _table(table, entry)
                for program in entry.programs:
                    lines += _table(f"{table}.program", program)
        return "\n".join(lines) + "\n"


OFF = {"loss": "none", "duplicate": "none", "corrupt": "none", "jitter": {"kind": "none"}, "delay": "0s", "framing": "0B", "queue": "1000p"}
"""What a direction of a link has if the other one's key does not hold for it."""


def differences(forward: dict[str, Any], backward: dict[str, Any]) -> dict[str, Any]:
    """What is different on the way back: the key `reverse` of a link with these keys in its two directions."""
    off = {key: OFF[key] for key in forward if key in OFF and key not in backward}
    return {**{key: value for key, value in backward.items() if forward.get(key) != value}, **off}


def _moved(value: Any, directory: Path, target: Path) -> Any:
    """A value whose paths are relative to `target` rather than to `directory`."""
    if isinstance(value, File):
        return File(os.path.relpath(directory / value, target))
    if isinstance(value, dict):
        return {key: _moved(item, directory, target) for key, item in value.items()}
    return value


def _table(name: str, entry: Entry) -> list[str]:
    comment = [f"# {_flat(entry.comment)}"] if entry.comment else []
    return ["", *comment, f"[[{name}]]", *_keys(entry.keys)]


def _keys(keys: dict[str, Any]) -> list[str]:
    return [f"{_toml.key(key)} = {_toml.text(value)}" for key, value in keys.items() if value is not None]


def _flat(text: object) -> str:
    """Text on one line, for a comment: no character in it can end the line."""
    shown = "".join(c if c.isprintable() else " " for c in str(text))
    return re.sub(" +", " ", shown).strip()
