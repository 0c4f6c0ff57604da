"""The traffic of a topology that has none: the flows that are asked for, or one between two nodes that are far apart."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from fractions import Fraction

from warpline.convert._draft import ConvertError, Draft
from warpline.convert._source import Options

Ways = Mapping[str, Mapping[str, Fraction]]
"""From each node, the nodes that a link leads to, and the delay of each link."""


def add(draft: Draft, options: Options, ways: Ways, names: Mapping[str, str] | None = None) -> None:
    """Adds the flows that `options` ask for, or one that is assumed. `names` has the nodes' names, by those of the source.

    Raises:
        ConvertError: If a flow has no such ends, or no two nodes reach each other.
    """
    for word in options.flow:
        one, colon, other = word.partition(":")
        ends = [(names or {}).get(end, end) for end in (one, other)]
        if not colon or not all(end in ways for end in ends):
            known = ", ".join(sorted(ways)[:10]) + (" and others" if len(ways) > 10 else "")
            raise ConvertError(f"--flow {word}: write FROM:TO with two nodes of {draft.source}; there are {known}")
        draft.flow(*ends)
    if options.flow:
        return
    one, other = far_apart(draft.source, ways)
    draft.assumed.add("the source has no traffic, so there is one TCP flow that sends as much as it can, between two nodes that are far apart (--flow FROM:TO)")
    draft.flow(one, other)


def far_apart(source: str, ways: Ways) -> tuple[str, str]:
    """Two nodes that reach each other, with a long way between them.

    Raises:
        ConvertError: If no two nodes reach each other.
    """
    region = _largest(ways)
    if len(region) < 2:
        raise ConvertError(f"{source}: no two nodes reach each other in both directions, as a connection needs; add links for the way back")
    one = _farthest(ways, region, region[0])
    return one, _farthest(ways, region, one)


def _reached(ways: Ways, start: str) -> dict[str, None]:
    seen = {start: None}
    waiting = [start]
    while waiting:
        for node in ways.get(waiting.pop(), {}):
            if node not in seen:
                seen[node] = None
                waiting.append(node)
    return seen


def _largest(ways: Ways) -> list[str]:
    """The largest group of nodes each of which reaches each other; the first of several, in the order of the nodes."""
    back: dict[str, dict[str, Fraction]] = {node: {} for node in ways}
    for node, links in ways.items():
        for other, delay in links.items():
            back.setdefault(other, {})[node] = delay
    best: list[str] = []
    settled: set[str] = set()
    for start in ways:
        if start in settled:
            continue
        behind = _reached(back, start)
        region = [node for node in _reached(ways, start) if node in behind]
        settled.update(region)
        if len(region) > len(best):
            best = region
    return best


def _farthest(ways: Ways, region: list[str], start: str) -> str:
    """The node of `region` with the longest shortest way from `start`: by delay, then by links, then the first."""
    inside = set(region)
    order = {node: place for place, node in enumerate(region)}
    distance: dict[str, tuple[Fraction, int]] = {}
    waiting = [((Fraction(0), 0), order[start], start)]
    while waiting:
        so_far, _, node = heapq.heappop(waiting)
        if node in distance:
            continue
        distance[node] = so_far
        for other, delay in ways[node].items():
            if other in inside and other not in distance:
                heapq.heappush(waiting, ((so_far[0] + delay, so_far[1] + 1), order[other], other))
    return max((node for node in region if node != start and node in distance), key=lambda node: (distance[node], -order[node]))
