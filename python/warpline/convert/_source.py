"""What is converted: a file, standard input or the words of a command; and the options that say what it leaves open."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.convert import _units
from warpline.convert._draft import ConvertError, Draft

if TYPE_CHECKING:
    from warpline._run import Run
    from warpline._warpline import Table

LARGEST = 64 << 20
"""Files larger than this are refused: no topology is."""


@dataclass(frozen=True)
class Source:
    """What is converted.

    Attributes:
        name: What errors call it: the file as it was named, or "the command".
        text: What the file holds; the words of a command with spaces between them.
        words: The words of a command; None for a file.
        directory: Directory that paths in it are relative to.
    """

    name: str
    text: str
    words: tuple[str, ...] | None = None
    directory: Path = field(default_factory=Path)

    @classmethod
    def of(cls, words: Sequence[str]) -> Source:
        """The file that a single word names ("-" is standard input), or the words of a command.

        Raises:
            ConvertError: If the file cannot be read, or there are no words.
        """
        if not words:
            raise ConvertError("there are no words; name a file, or a command and its words")
        if len(words) == 1:
            path = Path(words[0])
            if words[0] == "-":
                return cls("standard input", _text("standard input", sys.stdin.buffer.read(LARGEST + 1)))
            if path.is_file() or not re.search(r"\s", words[0]):
                return cls.file(path)
            return cls("the command", words[0])
        return cls("the command", " ".join(words), tuple(words))

    @classmethod
    def file(cls, path: Path) -> Source:
        """A file.

        Raises:
            ConvertError: If it cannot be read.
        """
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except OSError as error:
            raise ConvertError(f"{path}: cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            # A character 0 in its name.
            raise ConvertError(f"{str(path)!r}: is not the name of a file: {error}") from error
        return cls(str(path), _text(str(path), content), None, path.parent)

    def at(self, line: int) -> str:
        """A place in it, for messages."""
        return self.name if self.name == "the command" else f"{self.name}:{line}"

    @cached_property
    def stem(self) -> str:
        """A name for the scenario: the file's, without its endings."""
        return "imported" if self.name == "the command" else re.sub(r"(\.clab)?\.[A-Za-z0-9]+$", "", Path(self.name).name) or "imported"


def _text(name: str, content: bytes) -> str:
    if len(content) > LARGEST:
        raise ConvertError(f"{name}: is larger than {LARGEST >> 20} MiB; that is not a topology or a command")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConvertError(f"{name}:{line}: is not text in UTF-8; compressed files have to be unpacked first") from error


def flag(name: str) -> str:
    """An option as the command line has it."""
    return f"--{name.replace('_', '-')}"


def option(default: Any, about: str, metavar: str | None = None, check: Callable[[str], Any] | None = None) -> Any:
    """A field of `Options`: its default, and what the command line says of it."""
    return field(default=default, metadata={"about": about, "metavar": metavar, "check": check})


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a source leaves open. Each is an option of the command line, too."""

    duration: str = option("10s", "how long the run lasts, where the file does not say", "TIME", _units.read_time)
    rate: str = option("1Gbit/s", "rate of a link of which the file says none", "RATE", _units.read_rate)
    delay: str = option("1ms", "delay of a link of which the file says none", "TIME", _units.read_time)
    flow: tuple[str, ...] = option((), "a flow in place of the one that is assumed: FROM:TO; may be given several times", "FROM:TO")
    rate_from: str | None = option(None, "attribute of an edge that is its rate, if it has another name than usual", "NAME")
    delay_from: str | None = option(None, "attribute of an edge that is its delay, if it has another name than usual", "NAME")
    rate_unit: str | None = option(None, f"unit of rates that are bare numbers: {', '.join(_units.RATES)}", "UNIT", _units.RATES.__getitem__)
    delay_unit: str | None = option(None, f"unit of delays that are bare numbers: {', '.join(_units.TIMES)}", "UNIT", _units.TIMES.__getitem__)
    loss_unit: str | None = option(None, "unit of losses that are bare numbers: % or share", "UNIT", {"%": 0, "share": 1}.__getitem__)
    script: str | os.PathLike[str] | None = option(None, "a script with `containerlab tools netem set` commands, beside a topology of containerlab", "FILE")
    guests: bool = option(False, "hosts that can be Linux guests are guests; else they are simulated")

    def __post_init__(self) -> None:
        """Checks each.

        Raises:
            ConvertError: If one is not what it has to be.
        """
        for one in fields(self):
            value, check = getattr(self, one.name), one.metadata["check"]
            if value is None or check is None:
                continue
            if not isinstance(value, str):
                raise ConvertError(f"{flag(one.name)} {value!r}: write it as text, such as {one.default or 'Mbit/s'!r}")
            try:
                check(value)
            except (ValueError, KeyError) as error:
                # A dictionary's error says nothing but the word.
                why = f"it is the {one.metadata['about']}" if isinstance(error, KeyError) else str(error)
                raise ConvertError(f"{flag(one.name)} {value}: {why}") from error

    @property
    def link_rate(self) -> str:
        """`rate` as scenarios have it."""
        return _units.rate(_units.read_rate(self.rate))

    @property
    def link_delay(self) -> str:
        """`delay` as scenarios have it."""
        return _units.time(_units.read_time(self.delay))

    @property
    def run_time(self) -> str:
        """`duration` as scenarios have it."""
        return _units.time(_units.read_time(self.duration))

    @property
    def delay_seconds(self) -> Fraction:
        """`delay` in seconds."""
        return _units.read_time(self.delay)


@dataclass(frozen=True)
class Reader:
    """A format of which a scenario can be made.

    Attributes:
        name: The word for it on the command line.
        about: What it is, in a few words.
        claims: Whether something is in this format. The first reader that says yes takes it.
        read: Makes a scenario of it.
        takes: The options that mean something to it.
    """

    name: str
    about: str
    claims: Callable[[Source], bool]
    read: Callable[[Source, Options], Draft]
    takes: tuple[str, ...] = ()

    def options(self, given: Mapping[str, Any]) -> Options:
        """The options with these values; None, False and what is empty count as not given.

        Raises:
            ConvertError: If one means nothing to this format, or is not what it has to be.
        """
        for name, value in given.items():
            if value and name not in self.takes:
                takes = ", ".join(map(flag, self.takes)) or "no options"
                raise ConvertError(f"{flag(name)} means nothing to {self.name}; it takes {takes}")
        whole = {name: value for name, value in given.items() if value is not None}
        # One flow, and not the letters of its text.
        if isinstance(whole.get("flow"), str):
            whole["flow"] = (whole["flow"],)
        return Options(**whole)


@dataclass(frozen=True)
class Measured:
    """A format that has results of another program.

    Attributes:
        name: The word for it on the command line.
        about: What it is, in a few words.
        claims: Whether something is in this format.
        read: Its flows, as a table with the columns of `flows`.
    """

    name: str
    about: str
    claims: Callable[[Source], bool]
    read: Callable[[Source], Table]


@dataclass(frozen=True)
class Writer:
    """A format that the results of a run can be written in.

    Attributes:
        name: The word for it on the command line.
        about: What it is, in a few words.
        ending: How names of its files end.
        write: The content of the file.
    """

    name: str
    about: str
    ending: str
    write: Callable[[Run], bytes]
