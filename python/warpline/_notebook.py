"""HTML for notebooks: small tables, and drawings of lines as SVG. There are no scripts in it, and all text is escaped."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WIDTH, HEIGHT, MARGIN = 560, 120, 18
"""Of a drawing, and the room below it for text, in pixels."""
POINTS = 280
"""A line has at most so many; each is the mean of the values there."""
ROWS = 12
"""A table has at most so many; a last one says how many more there are."""
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Paul Tol's bright colours, which colour-blind people can tell apart."""


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    cells = "".join(f"<th>{html.escape(word)}</th>" for word in head)
    shown = rows if len(rows) <= ROWS else rows[: ROWS - 1]
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in shown)
    if len(shown) < len(rows):
        body += f'<tr><td colspan="{len(head)}">and {len(rows) - len(shown)} more</td></tr>'
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def entries(caption: str, data: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    """A table of entries of a scenario, with those of `keys` that any of them has."""
    used = [key for key in keys if any(entry.get(key) is not None for entry in data)]
    if not used:
        return table(caption, [], []) if caption else ""
    return table(caption, used, [[_text(entry.get(key)) for key in used] for entry in data])


def _text(value: Any) -> str:
    """A value of a scenario in a few words."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        rest = [f"{key}={_text(item)}" for key, item in value.items() if key != "kind" and item is not None]
        return ",".join([*([str(value["kind"])] if "kind" in value else []), *rest])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " – ".join(_text(item) for item in value)
    return str(value)


def drawing(lines: Mapping[str, Mapping[float, float]], heading: str, show: Callable[[float], str]) -> str:
    """Lines over time: for each name, values by time in seconds. Empty if there is nothing to draw."""
    drawn = {name: _thinned(line) for name, line in lines.items() if len(line) > 1}
    most = max((value for line in drawn.values() for _, value in line), default=0.0)
    end = max((time for line in drawn.values() for time, _ in line), default=0.0)
    if most <= 0 or end <= 0:
        return ""
    paths, legend, at = [], [], 0
    for number, (name, line) in enumerate(drawn.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{time / end * WIDTH:.1f},{HEIGHT - value / most * HEIGHT:.1f}" for time, value in line)
        paths.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"><title>{html.escape(name)}</title></polyline>')
        if number < len(COLOURS):
            legend.append(f'<text x="{at}" y="{HEIGHT + MARGIN - 4}" fill="{colour}">{html.escape(name[:24])}</text>')
            at += 8 * len(name[:24]) + 12
    text = f"{heading}, up to {show(most)}, over {end:g} s"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 -{MARGIN} {WIDTH} {HEIGHT + 2 * MARGIN}" width="{WIDTH}" '
        f'height="{HEIGHT + 2 * MARGIN}" font-family="sans-serif" font-size="11"><title>{html.escape(text)}</title>'
        f'<text x="0" y="-6" fill="#888888">{html.escape(text)}</text>'
        f'<path d="M0 0V{HEIGHT}H{WIDTH}" fill="none" stroke="#888888" stroke-width="0.5"/>{"".join(paths)}{"".join(legend)}</svg>'
    )


def _thinned(line: Mapping[float, float]) -> list[tuple[float, float]]:
    """A line of at most `POINTS` points, in the order of time."""
    points = sorted(line.items())
    step = -(-len(points) // POINTS)
    parts = [points[at : at + step] for at in range(0, len(points), step)]
    return [(part[-1][0], sum(value for _, value in part) / len(part)) for part in parts]
