"""The Internet Topology Zoo: networks of operators, as GML or GraphML, with speeds of links and places of nodes.

Knight et al., "The Internet Topology Zoo", IEEE JSAC 29(9), 2011. `_zoo` says what their attributes become.
"""

from __future__ import annotations

import re

from warpline.convert import _zoo, graph
from warpline.convert._draft import Draft
from warpline.convert._source import Options, Reader, Source


def _read(source: Source, options: Options) -> Draft:
    zoo = graph.parse(source)
    name = str(zoo.graph.get("label") or zoo.graph.get("Network") or source.stem)
    draft = graph.draft(_zoo.translated(zoo), f"{source.name} (Topology Zoo)", name, options)
    draft.assumed.add(f"delays are those of light in fibre ({_zoo.SPEED:.0f} km/s) along the great circle; real cables are longer")
    return draft


def _claims(source: Source) -> bool:
    graphs = graph.is_graphml(source) or graph.is_gml(source)
    return graphs and re.search(r"Topology Zoo Toolset|\bLinkSpeedRaw\b", source.text) is not None


READER = Reader("topology-zoo", "a network of the Internet Topology Zoo: speeds of links, and delays by the distance of their ends", _claims, _read, graph.TAKES)
