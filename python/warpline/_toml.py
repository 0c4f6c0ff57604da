"""Plain data as TOML text: values of a scenario's keys."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any


def text(value: Any) -> str:
    """A value as TOML on one line. Mappings lose keys that are None.

    Raises:
        TypeError: If it is, or holds, something that TOML has no text for.
        ValueError: If it is None, or a list holds None.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's text is TOML's but for this one character, and surrogates, which no file can have.
        plain = value.encode("utf-8", "replace").decode("utf-8")
        return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
    # By its own type: the text of a number of another library, or of an enumeration, may be no number.
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key(str(name))} = {text(item)}" for name, item in value.items() if item is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return "[" + ", ".join(map(text, value)) + "]"
    if value is None:
        raise ValueError("None cannot be a value in a scenario: TOML has no text for it; leave the key out")
    raise TypeError(f"a value of type {type(value).__name__} cannot be a value in a scenario; write text, a number, true or false, a list or a mapping")


def key(name: str) -> str:
    """The name of a key as TOML, in quotation marks where it needs them."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else text(name)
