"""Words of `tc` one by one, and its numbers: rates, sizes, times and percentages (tc(8))."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from warpline.convert import _units
from warpline.convert._draft import ConvertError

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
    value *= Fraction(units[unit.lower()])
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


def is_a(read: Callable[[str], Any], word: str) -> bool:
    try:
        read(word)
    except ValueError:
        return False
    return True


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
        return read(self.words.pop(0)) if self.words and is_a(read, self.words[0]) else None

    def unknown(self, allowed: str) -> ConvertError:
        """The error that the word that came last is none of those that are allowed."""
        return ConvertError(f"{self.place}: the word {self.last!r} is not known here; there are {allowed}")
