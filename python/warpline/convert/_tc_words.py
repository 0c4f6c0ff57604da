"""Words of `tc` one by one, and its numbers: rates, sizes, times and percentages (tc(8)). The engine knows their units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from warpline._warpline import tc_percent, tc_value
from warpline.convert._draft import ConvertError


def rate(word: str) -> Fraction:
    """A rate in bit/s."""
    return Fraction(tc_value("rate", word))


def size(word: str) -> Fraction:
    """A number of bytes."""
    return Fraction(tc_value("size", word))


def time(word: str) -> Fraction:
    """A time in seconds."""
    return Fraction(tc_value("time", word), 10**9)


def share(word: str) -> Fraction:
    """A percentage, as a share."""
    return Fraction(repr(tc_percent(word))) / 100


def count(word: str) -> int:
    """A whole number."""
    return tc_value("count", word)


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
