"""Turns Python values into the plain data (mappings, lists, text, numbers) from which a scenario is read."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar


class Part:
    """A part of a scenario: a dataclass whose fields are the keys of a TOML table."""

    __slots__ = ()

    KIND: ClassVar[str | None] = None
    """Value of the key `kind`, for parts that are one of several kinds."""

    def to_dict(self) -> dict[str, Any]:
        """The part as plain data, without the keys that are None."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        data: dict[str, Any] = {} if self.KIND is None else {"kind": self.KIND}
        for field in fields:
            value = getattr(self, field.name)
            if value is not None:
                data[field.name.rstrip("_")] = encode(value)
        return data


def span(value: timedelta) -> str:
    """A timedelta as text for a scenario, exact to the microsecond: "1500ms", "2s"."""
    micros = value // timedelta(microseconds=1)
    for unit, name in ((1_000_000, "s"), (1000, "ms")):
        if micros % unit == 0:
            return f"{micros // unit}{name}"
    return f"{micros}us"


def encode(value: Any) -> Any:
    """`value` as plain data: parts become mappings, timedeltas text, numbers of numpy and of enumerations Python's own. Mappings lose keys that are
    None."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{float(value)} is not allowed in a scenario; leave the key out for no limit")
        return float(value)
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, timedelta):
        return span(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [encode(item) for item in value]
    if isinstance(value, Decimal):
        return encode(float(value))
    if callable(item := getattr(value, "item", None)) and getattr(value, "shape", None) == ():
        return encode(item())
    if callable(tolist := getattr(value, "tolist", None)):
        return encode(tolist())
    if isinstance(value, type):
        raise TypeError(
            f"the class {value.__name__} is not allowed in a scenario; for a congestion control of your own write "
            f"CustomCc(name=\"mine\") there, and pass cc={{\"mine\": {value.__name__}}} to run or sweep"
        )
    raise TypeError(
        f"a value of type {type(value).__name__} is not allowed in a scenario; write text with a unit (\"50ms\"), a number, a "
        "list, a mapping, a timedelta or one of warpline's parts"
    )
