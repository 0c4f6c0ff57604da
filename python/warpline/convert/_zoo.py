"""What the Internet Topology Zoo's attributes say of links: speeds, and delays by the places of nodes.

A link's rate is `LinkSpeedRaw` (bit/s), and its delay that of light in fibre along the great circle between its ends' `Latitude` and `Longitude`.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from warpline.convert import _units

if TYPE_CHECKING:
    import networkx

RADIUS = 6371.0
"""Mean radius of the earth, in km."""
SPEED = 299_792.458 / 1.468
"""Speed of light in fibre, in km/s: a group index of 1.468 (ITU-T G.652 fibre at 1550 nm)."""

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
"""What `LinkSpeedUnits` stand for, in bit/s."""

CIRCUITS = {"T1": 1_544_000, "DS1": 1_544_000, "T3": 44_736_000, "DS3": 44_736_000, "E1": 2_048_000, "E3": 34_368_000}
"""Rates of leased lines, in bit/s (ITU-T G.702)."""
CARRIERS = {"OC": 51_840_000, "STM": 155_520_000}
"""Rates of SONET and SDH: OC-48 is 48 times the first (ITU-T G.707)."""


def _distance(one: dict[str, Any], other: dict[str, Any]) -> float | None:
    """Kilometres between two nodes on the great circle; None if one has no place."""
    try:
        places = [(math.radians(float(node["Latitude"])), math.radians(float(node["Longitude"]))) for node in (one, other)]
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    (lat1, lon1), (lat2, lon2) = places
    if not all(math.isfinite(angle) for angle in (lat1, lon1, lat2, lon2)):
        return None
    haversine = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * RADIUS * math.asin(math.sqrt(min(max(haversine, 0.0), 1.0)))


def _speed(data: dict[str, Any]) -> Fraction | None:
    """Bits per second of an edge, as a number or by the label of its kind; None if it does not say."""
    try:
        if data.get("LinkSpeedRaw") is not None:
            return _units.number(str(data["LinkSpeedRaw"])) or None
        value = _units.number(str(data["LinkSpeed"]))
        return value * UNITS[str(data.get("LinkSpeedUnits", "")).strip().upper()[:1]] or None
    except (KeyError, ValueError):
        return next((speed for name in LABELS if (speed := _labelled(str(data.get(name, "")).strip())) is not None), None)


def _labelled(label: str) -> Fraction | None:
    """The rate that a label says by itself, such as "OC-48" or "622 Mbps"."""
    word = label.upper().replace(" ", "").replace("-", "")
    if word in CIRCUITS:
        return Fraction(CIRCUITS[word])
    if (found := re.fullmatch(r"(OC|STM)(\d{1,4})C?", word)) is not None:
        return Fraction(CARRIERS[found[1]] * int(found[2]))
    try:
        # Speeds of links are in bits, in capitals, too.
        return _units.read_rate(label.replace("BPS", "bps")) or None
    except ValueError:
        return None


def is_of_it(found: networkx.Graph[Any]) -> bool:
    """Whether a graph has the attributes of the Topology Zoo."""
    return any("LinkSpeedRaw" in data for *_, data in found.edges(data=True)) or "Topology Zoo" in str(found.graph.get("Creator"))


LABELS = ("LinkLabel", "LinkType")
"""Attributes that can say a rate in words."""


def translated(zoo: networkx.Graph[Any]) -> networkx.Graph[Any]:
    """The graph with rates and delays as `warpline.convert.graph` knows them, and without what they were made of."""
    made = zoo.copy()
    for one, other, data in made.edges(data=True):
        if (speed := _speed(data)) is not None and 1 <= speed <= _units.MOST_RATE:
            data["rate"] = _units.rate(speed)
        for name in ("LinkSpeed", "LinkSpeedUnits", "LinkSpeedRaw"):
            data.pop(name, None)
        if (distance := _distance(made.nodes[one], made.nodes[other])) is not None:
            data["delay"] = _units.time(round(distance / SPEED, 6))
    for _, data in made.nodes(data=True):
        for name in ("Latitude", "Longitude"):
            data.pop(name, None)
    return made
