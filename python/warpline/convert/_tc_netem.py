"""netem's words (tc-netem(8)) as keys of a link. The engine reads them, as those of `warpline shell --netem`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from warpline._warpline import tc_netem
from warpline.convert._draft import ConvertError, Notes
from warpline.convert._tc_words import Words


@dataclass
class Link:
    """What a device's queueing disciplines are, as keys of a link.

    Attributes:
        keys: The keys: rate, delay, jitter, loss, queue and so on.
        assumed: What they have that the words do not say.
        left_out: What the words say and they do not have.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    assumed: Notes = field(default_factory=Notes)
    left_out: Notes = field(default_factory=Notes)


def netem(words: Words, link: Link) -> dict[str, Any]:
    """Takes all words that are left, and gives the keys that they came to.

    Raises:
        ConvertError: If one is not known, or its value is wrong.
    """
    try:
        keys, left_out = tc_netem(words.words, "rate" in link.keys)
    except ValueError as error:
        raise ConvertError(f"{words.place}: {error}") from error
    words.words.clear()
    made: dict[str, Any] = json.loads(keys)
    link.keys.update(made)
    for line in left_out:
        link.left_out.add(line)
    return made
