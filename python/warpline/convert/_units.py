"""Quantities: read as other programs write them, and written as scenarios have them."""

from __future__ import annotations

import math
import re
from fractions import Fraction

RATES = {"Gbit/s": 10**9, "Mbit/s": 10**6, "kbit/s": 10**3, "bit/s": 1}
"""Units of rates in scenarios, in bit/s."""
TIMES = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}
"""Units of times in scenarios, in seconds."""

MOST_RATE = 10**15
"""Rates above this, in bit/s, are taken for mistakes."""
MOST_TIME = 10**9
"""Times above this, in seconds, are taken for mistakes."""


def number(text: str) -> Fraction:
    """A decimal number, exactly.

    Raises:
        ValueError: If it is none, or larger than anything that is meant.
    """
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", text.strip(), re.ASCII) or len(text) > 60:
        raise ValueError(f"{text!r} is not a number")
    return Fraction(text.strip())


def split(text: str) -> tuple[Fraction, str]:
    """A number and what stands behind it: "10 Mbit" is 10 and "Mbit".

    Raises:
        ValueError: If it does not begin with a number.
    """
    found = re.match(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2}(?![A-Za-z0-9]))?)\s*(.*?)\s*$", text, re.ASCII | re.DOTALL)
    if found is None:
        raise ValueError(f"{text!r} does not begin with a number")
    return number(found[1]), found[2]


_PREFIXES = {
    "": 1, "k": 10**3, "kilo": 10**3, "m": 10**6, "mega": 10**6, "g": 10**9, "giga": 10**9, "t": 10**12, "tera": 10**12,
    "ki": 2**10, "kibi": 2**10, "mi": 2**20, "mebi": 2**20, "gi": 2**30, "gibi": 2**30, "ti": 2**40, "tebi": 2**40,
}  # fmt: skip
_SECONDS = {
    "": Fraction(1), "s": Fraction(1), "sec": Fraction(1), "secs": Fraction(1), "second": Fraction(1), "seconds": Fraction(1),
    "m": Fraction(60), "min": Fraction(60), "mins": Fraction(60), "minute": Fraction(60), "minutes": Fraction(60),
    "h": Fraction(3600), "hr": Fraction(3600), "hrs": Fraction(3600), "hour": Fraction(3600), "hours": Fraction(3600),
    "ms": Fraction(1, 10**3), "msec": Fraction(1, 10**3), "msecs": Fraction(1, 10**3), "millisecond": Fraction(1, 10**3), "milliseconds": Fraction(1, 10**3),
    "us": Fraction(1, 10**6), "\N{MICRO SIGN}s": Fraction(1, 10**6), "\N{GREEK SMALL LETTER MU}s": Fraction(1, 10**6),
    "usec": Fraction(1, 10**6), "usecs": Fraction(1, 10**6), "microsecond": Fraction(1, 10**6), "microseconds": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9), "nsec": Fraction(1, 10**9), "nsecs": Fraction(1, 10**9), "nanosecond": Fraction(1, 10**9), "nanoseconds": Fraction(1, 10**9),
}  # fmt: skip


def read_rate(text: str, bare: int | None = None) -> Fraction:
    """A rate in bit/s: "10Mbit/s", "1 Gbit", "100 Mbps", "2 MB/s". A number without a unit counts `bare`, if that is given.

    Raises:
        ValueError: If it is no rate.
    """
    value, unit = split(text)
    if not unit and bare is not None:
        return _in_range(value * bare, MOST_RATE, text)
    found = re.fullmatch(r"([A-Za-z]*?)(bits?|[bB]|bytes?|B)?(/s|/sec|ps|PS)?", unit)
    prefix = None if found is None else _PREFIXES.get(found[1].lower())
    if found is None or prefix is None or not unit:
        raise ValueError(f"{text!r} is not a rate with its unit, such as \"10Mbit/s\"")
    if found[2] == "B" and found[3] == "PS":
        scale = found[1].lower() if found[1].lower() == "k" else found[1].upper()
        raise ValueError(f"{text!r} may be bits or bytes; write \"{scale}bit/s\" for bits, \"{scale}B/s\" for bytes")
    octets = found[2] is not None and (found[2] == "B" or found[2].startswith("byte"))
    return _in_range(value * prefix * (8 if octets else 1), MOST_RATE, text)


def read_time(text: str, bare: Fraction | None = None) -> Fraction:
    """A time in seconds: "20ms", "1 min", "50 milliseconds". A number without a unit counts `bare`, if that is given.

    Raises:
        ValueError: If it is no time.
    """
    value, unit = split(text)
    if not unit:
        if bare is None:
            raise ValueError(f"{text!r} is not a time with its unit, such as \"20ms\"")
        return _in_range(value * bare, MOST_TIME, text)
    if unit.lower() not in _SECONDS:
        raise ValueError(f"{text!r} is not a time with its unit, such as \"20ms\"")
    return _in_range(value * _SECONDS[unit.lower()], MOST_TIME, text)


def _in_range(value: Fraction, most: int, text: str) -> Fraction:
    if not 0 <= value <= most:
        raise ValueError(f"{text!r} is {'negative' if value < 0 else 'too large'}")
    return value


def rate(bps: Fraction | float) -> str:
    """A rate as scenarios have it: "10Mbit/s"."""
    whole = _rounded(bps)
    unit, factor = next(((unit, factor) for unit, factor in RATES.items() if whole * 1000 % factor == 0 and whole >= factor), ("bit/s", 1))
    return _decimal(Fraction(whole, factor)) + unit


def time(seconds: Fraction | float) -> str:
    """A time as scenarios have it, to the nanosecond: "20ms"."""
    nanos = _rounded(Fraction(seconds) * 10**9)
    if nanos == 0:
        return "0s"
    exact = Fraction(nanos, 10**9)
    unit = next(unit for unit, one in TIMES.items() if exact >= one and (exact / one * 1000).denominator == 1)
    return _decimal(exact / TIMES[unit]) + unit


def size(octets: Fraction | float) -> str:
    """A number of bytes as scenarios have it: "1500B"."""
    return f"{_rounded(octets)}B"


def percent(share: Fraction | float) -> str:
    """A probability as scenarios have it: "1%"."""
    return f"{_decimal(Fraction(round(Fraction(share) * 10**14), 10**12))}%"


def _rounded(value: Fraction | float) -> int:
    return math.floor(Fraction(value) + Fraction(1, 2))


def _decimal(value: Fraction) -> str:
    """A decimal number without superfluous digits; `value` has a finite one, and is not negative."""
    digits = 0
    while (value * 10**digits).denominator != 1 and digits < 15:
        digits += 1
    whole, decimals = divmod(int(value * 10**digits), 10**digits)
    return f"{whole}.{decimals:0{digits}}" if digits else str(whole)
