"""Draws the pictures of the book's gallery, and writes its page, docs/src/gallery.md.

Run it after a change of the list below or of a scenario in it: `python python/tools/draw_gallery.py`, or with the names of the pictures to draw again. A test compares
the page with what this file says. A new picture is a line in the list.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SCENARIOS = ROOT / "scenarios"
PAGE = ROOT / "docs" / "src" / "gallery.md"


@dataclass
class Picture:
    """What is drawn of a run, and of which: a scenario's file below scenarios/, and its changed keys."""

    scenario: str
    plots: Sequence[tuple[str, dict[str, Any]]]
    """Functions of `warpline.plot`, each with its arguments, from above."""
    changed: dict[str, Any] = field(default_factory=dict)
    log: str = ""
    """Axes with a logarithmic scale: "x", "y" or "xy"."""
    every: str | None = None
    """The interval of samples, if the scenario's own is too coarse for a picture."""
    until: float | None = None
    """The end of the picture, in seconds, if it is before that of the run."""

    @property
    def name(self) -> str:
        return Path(self.scenario).stem


def plot(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return name, arguments


PICTURES = [
    Picture("dumbbell.toml", [plot("cwnd"), plot("queue", links=["r1>r2"], unit="delay")]),
    Picture("lessons/slow-start.toml", [plot("cwnd")], every="10ms"),
    Picture("lessons/lost-packets.toml", [plot("time_sequence")]),
    Picture("lessons/aimd.toml", [plot("cwnd")], every="50ms"),
    Picture("lessons/long-fat-paths.toml", [plot("cwnd")]),
    Picture("lessons/bufferbloat.toml", [plot("queue", links=["home>server"], unit="delay")], every="100ms"),
    Picture("lessons/aqm.toml", [plot("queue", links=["r1>r2"], unit="delay")], every="50ms"),
    Picture("lessons/bbr.toml", [plot("throughput")]),
    Picture("lessons/background.toml", [plot("throughput")]),
    Picture("lessons/incast.toml", [plot("queue")], every="20us", until=0.004),
    Picture("lessons/dilation.toml", [plot("cwnd")], every="10ms"),
    Picture("lessons/capacity.toml", [plot("throughput"), plot("queue")]),
    Picture("tutorial/home.toml", [plot("rtt"), plot("queue", links=["home>isp"])]),
    Picture("codel-vs-droptail.toml", [plot("cwnd"), plot("queue", links=["r1>r2"], unit="delay")]),
    Picture("old-tcp.toml", [plot("cwnd")]),
    Picture("parking-lot.toml", [plot("throughput")]),
    Picture("multipath.toml", [plot("throughput")]),
    Picture("video-call.toml", [plot("throughput"), plot("queue", links=["home>isp"], unit="delay")]),
    Picture("rrul.toml", [plot("throughput")]),
    Picture("cellular.toml", [plot("throughput"), plot("queue", links=["tower>phone"], unit="delay")]),
    Picture("careful-resume.toml", [plot("cwnd")]),
    Picture("data-centre.toml", [plot("cdf", column="slowdown")], log="x"),
]


def about(picture: Picture) -> str:
    """What the scenario says of itself: its description, or the first sentence of its head."""
    import warpline

    text = (SCENARIOS / picture.scenario).read_text(encoding="utf-8")
    described = warpline.Scenario.load(SCENARIOS / picture.scenario).to_dict().get("description")
    head = " ".join(line.lstrip("# ") for line in text.split("\n\n")[0].splitlines() if line.startswith("#"))
    return str(described).rstrip(".") if described else head.split(". ")[0].split("? ")[0].rstrip(".")


def page() -> str:
    """The gallery's page."""
    parts = [
        "# Gallery",
        "Pictures to begin with. Below each is the command that opens its scenario in the [lab](lab.md), where it moves; `warpline run` with the same file makes its report. "
        "The lab has most of them under **Open or begin**, too.",
    ]
    for picture in PICTURES:
        changes = "".join(f" --set {key}={value}" for key, value in picture.changed.items())
        command = f"warpline run scenarios/{picture.scenario}{changes}" if changes else f"warpline lab scenarios/{picture.scenario}"
        parts += [f"## {about(picture)}", f"![{about(picture)}](gallery/{picture.name}.svg)", f"```sh\n{command}\n```"]
    return "\n\n".join(parts) + "\n"


def draw(picture: Picture) -> None:
    """Runs the scenario and draws it."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    import warpline

    finer = {"sample_interval": picture.every} if picture.every else {}
    run = warpline.Scenario.load(SCENARIOS / picture.scenario).replace(**picture.changed, **finer).run()
    # Text stays text, and the same run gives the same file.
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": picture.name, "path.simplify_threshold": 0.5, "lines.linewidth": 1.2, "font.size": 9}):
        figure, axes = pyplot.subplots(len(picture.plots), 1, figsize=(8, 2.4 * len(picture.plots)), sharex=True, squeeze=False, layout="constrained")
        for (name, arguments), ax in zip(picture.plots, axes[:, 0], strict=True):
            getattr(warpline.plot, name)(run, ax=ax, **arguments)
        for ax in axes[:-1, 0]:
            ax.set_xlabel("")
        for ax in axes[:, 0]:
            ax.set_title("")
            for axis in picture.log:
                ax.set(**{f"{axis}scale": "log"})
            if picture.until:
                ax.set_xlim(0, picture.until)
        PAGE.with_suffix("").mkdir(exist_ok=True)
        figure.savefig(PAGE.with_suffix("") / f"{picture.name}.svg", metadata={"Date": None})
        pyplot.close(figure)


def main(names: Callable[[str], bool]) -> None:
    for picture in PICTURES:
        if names(picture.name):
            print(picture.name)
            draw(picture)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    chosen = sys.argv[1:]
    main(lambda name: not chosen or name in chosen)
