"""The Internet Topology Zoo: networks of operators, as GML or GraphML, with speeds of links and places of nodes.

Knight et al., "The Internet Topology Zoo", IEEE JSAC 29(9), 2011. A link's rate is `LinkSpeedRaw` (bit/s), and its delay that of light in
fibre along the great circle between its ends' `Latitude` and `Longitude`.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from warpline.convert import _units, graph
from warpline.convert._draft import Draft
from warpline.convert._source import Options, Reader, Source

if TYPE_CHECKING:
    from warpline.convert.graph import Graph

RADIUS = 6371.0
"""Mean radius of the earth, in km."""
SPEED = 299_792.458 / 1.468
"""Speed of light in fibre, in km/s: a group index of 1.468 (ITU-T G.652 fibre at 1550 nm)."""

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
"""What `LinkSpeedUnits` stand for, in bit/s."""


def _distance(one: dict[str, Any], other: dict[str, Any]) -> float | None:
    """Kilometres between two nodes on the great circle; None if one has no place."""
    try:
        places = [(math.radians(float(node["Latitude"])), math.radians(float(node["Longitude"]))) for node in (one, other)]
    except (KeyError, TypeError, ValueError):
        return None
    (lat1, lon1), (lat2, lon2) = places
    if not all(math.isfinite(angle) for angle in (lat1, lon1, lat2, lon2)):
        return None
    haversine = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * RADIUS * math.asin(math.sqrt(min(max(haversine, 0.0), 1.0)))


def _speed(data: dict[str, Any]) -> Fraction | None:
    """Bits per second of an edge; None if it does not say."""
    try:
        if data.get("LinkSpeedRaw") is not None:
            return Fraction(str(data["LinkSpeedRaw"])) or None
        value = Fraction(str(data["LinkSpeed"]))
    except (KeyError, ValueError, ZeroDivisionError):
        return None
    unit = UNITS.get(str(data.get("LinkSpeedUnits", "")).strip().upper()[:1])
    return None if unit is None else value * unit or None


def is_of_it(found: Graph) -> bool:
    """Whether a graph has the attributes of the Topology Zoo."""
    return any("LinkSpeedRaw" in data for *_, data in found.edges(data=True)) or "Topology Zoo" in str(found.graph.get("Creator"))


def translated(zoo: Graph) -> Graph:
    """The graph with rates and delays as `graph` knows them, and without what they were made of."""
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


def _read(source: Source, options: Options) -> Draft:
    zoo = graph.parse(source)
    name = str(zoo.graph.get("label") or zoo.graph.get("Network") or source.stem)
    draft = graph.draft(translated(zoo), f"{source.name} (Topology Zoo)", name, options)
    draft.assumed.add(f"delays are those of light in fibre ({SPEED:.0f} km/s) along the great circle; real cables are longer")
    return draft


def _claims(source: Source) -> bool:
    graphs = graph.is_graphml(source) or graph.is_gml(source)
    return graphs and re.search(r"Topology Zoo Toolset|\bLinkSpeedRaw\b", source.text) is not None


READER = Reader("topology-zoo", "a network of the Internet Topology Zoo: speeds of links, and delays by the distance of their ends", _claims, _read, graph.TAKES)
