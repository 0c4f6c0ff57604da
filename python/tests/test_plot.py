"""Plots show the values of the tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

import warpline
from warpline import plot

from conftest import dumbbell


def line(axes: Any, label: str) -> Any:
    (found,) = [one for one in axes.lines if one.get_label() == label]
    return found


def ink(axes: Any) -> float:
    """Share of the pixels that are not background."""
    axes.figure.canvas.draw()
    pixels = np.asarray(axes.figure.canvas.buffer_rgba())[..., :3]
    return float((pixels.max(axis=2) < 250).mean())


@pytest.mark.parametrize(
    ("draw", "column", "factor", "label"),
    [
        (plot.throughput, "throughput_bps", 1e6, "Throughput (Mbit/s)"),
        (lambda run: plot.throughput(run, goodput=True), "goodput_bps", 1e6, "Goodput (Mbit/s)"),
        (plot.cwnd, "cwnd_bytes", 1e3, "Congestion window (kB)"),
        (plot.rtt, "srtt_ms", 1, "Smoothed RTT (ms)"),
    ],
)
def test_series_of_flows(finished: warpline.Run, draw: Any, column: str, factor: float, label: str) -> None:
    axes = draw(finished)
    assert axes.get_ylabel() == label
    assert axes.get_xlabel() == "Time (s)"
    assert axes.get_title() == "two-flows"
    frame = finished.series_flows.polars()
    for number, name in enumerate(finished.flows["name"]):
        mine = frame.filter(frame["flow"] == number).drop_nulls(column)
        drawn = line(axes, name)
        assert np.allclose(drawn.get_xdata(), mine["time_s"])
        assert np.allclose(drawn.get_ydata() * factor, mine[column])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == finished.flows["name"]
    assert 0.01 < ink(axes) < 0.9


def test_flows_are_chosen_by_name_group_or_number(finished: warpline.Run) -> None:
    def labels(selection: Any) -> list[Any]:
        return [one.get_label() for one in plot.cwnd(finished, flows=selection).lines]

    assert labels("bulk") == ["bulk.0", "bulk.1"]
    assert labels("bulk.1") == ["bulk.1"]
    assert labels([2, "bulk.0"]) == ["files.0", "bulk.0"]
    with pytest.raises(KeyError, match=r"bulk\.0, bulk\.1, files\.0"):
        plot.cwnd(finished, flows="bulky")


def test_given_axes_are_drawn_on(finished: warpline.Run) -> None:
    _, axes = pyplot.subplots(2)
    assert plot.cwnd(finished, axes[0]) is axes[0]
    assert plot.queue(finished, axes[1], links="r1>r2") is axes[1]
    assert axes[0].lines
    assert axes[1].lines


def test_the_threshold_is_dashed(finished: warpline.Run) -> None:
    axes = plot.cwnd(finished, flows="bulk.0", ssthresh=True)
    assert line(axes, "bulk.0 ssthresh").get_linestyle() == "--"
    assert line(axes, "bulk.0 ssthresh").get_color() == line(axes, "bulk.0").get_color()


def test_queues(finished: warpline.Run) -> None:
    axes = plot.queue(finished)
    names = [one.get_label() for one in axes.lines]
    assert "r1>r2" in names
    # Links that never queue are left out.
    assert len(names) < len(finished.links)
    rows = finished.series_links.polars()
    number = finished.links["link"][finished.links["name"].index("r1>r2")]
    mine = rows.filter(rows["link"] == number)
    assert np.allclose(line(axes, "r1>r2").get_ydata(), mine["backlog_packets"])
    assert axes.get_ylabel() == "Queue (packets)"
    assert plot.queue(finished, unit="delay", links="r1>r2").get_ylabel() == "Queueing delay (ms)"
    assert plot.queue(finished, unit="bytes", links="r1>r2").get_ylabel() == "Queue (kB)"
    with pytest.raises(ValueError, match="packets, bytes or delay"):
        plot.queue(finished, unit="cars")


def test_time_sequence(finished: warpline.Run) -> None:
    axes: Any = plot.time_sequence(finished, "bulk.0")
    drawn = {text.get_text() for text in axes.get_legend().get_texts()}
    assert {"sent", "acknowledged", "retransmitted"} <= drawn
    segments: dict[Any, Any] = {one.get_label(): one for one in axes.collections if isinstance(one, LineCollection)}
    frame = finished.tcp.polars()
    mine = frame.filter((frame["flow"] == 0) & (frame["event"] == "sent") & (frame["end"] > frame["seq"]))
    sent = segments["sent"].get_segments()
    assert len(sent) == mine.filter(mine["side"] == 0).height
    unit = {"kB": 1e3, "MB": 1e6}[axes.get_ylabel().split("(")[1].rstrip(")")]
    assert sent[0][1][1] * unit == pytest.approx(mine["end"][0])
    assert sent[0][0][0] == pytest.approx(mine["time_ns"][0] / 1e9)
    assert to_rgba(segments["retransmitted"].get_color()[0]) == to_rgba("tab:red")
    assert axes.get_title() == "two-flows: bulk.0"
    # Acknowledgements never go down, and never beyond what was sent.
    acknowledged = np.asarray(line(axes, "acknowledged").get_ydata())
    assert (np.diff(acknowledged) >= 0).all()
    assert acknowledged.max() * unit <= max(mine["end"].to_list()) + 1
    assert 0.005 < ink(axes) < 0.9
    with pytest.raises(ValueError, match='record = \\["tcp"\\]'):
        plot.time_sequence(finished, "files")


def test_cdf(finished: warpline.Run) -> None:
    axes: Any = plot.cdf(finished)
    (drawn,) = axes.lines
    times = sorted(value for value in finished.transfers["completion_s"] if value is not None)
    assert list(drawn.get_xdata()[1:]) == times
    assert list(drawn.get_ydata()) == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])
    assert axes.get_xlabel() == "Completion time (s)"
    assert plot.cdf(finished, "goodput_bps").get_xlabel() == "Goodput (Mbit/s)"
    assert plot.cdf(finished, "srtt_ms", table="series_flows").get_xlabel() == "Smoothed RTT (ms)"
    with pytest.raises(KeyError, match="nonsense"):
        plot.cdf(finished, "nonsense")
    with pytest.raises(ValueError, match="no numbers"):
        plot.cdf(finished, "name")
    with pytest.raises(ValueError, match="the tables are transfers"):
        plot.cdf(finished, table="nonsense")


def test_several_runs_share_axes(finished: warpline.Run) -> None:
    axes = plot.cdf(finished)
    plot.cdf(dumbbell(seed=2, name="second").run(progress=False), ax=axes)
    assert [one.get_label() for one in axes.lines] == ["two-flows", "second"]


def test_a_plot_of_nothing_says_why() -> None:
    udp = dumbbell(flow=[{"from": "left", "to": "right", "app": "cbr", "rate": "1Mbit/s"}]).run(progress=False)
    with pytest.raises(ValueError, match="UDP has no window"):
        plot.cwnd(udp)
    assert plot.throughput(udp).lines


def live(active: list[float], complete: bool = True) -> Any:
    """A live run that was sampled at 1, 2 and 3 s, and whose only flow, that of a program, carried 6 Mbit/s at these times."""
    rows = len(active)
    series = {"time_s": active, "flow": [0] * rows, "goodput_bps": [6e6] * rows, "srtt_ms": [20.0] * rows}
    summary = {"flows": [{"flow": 0, "name": "web", "group": "web"}], "live": {}}
    return SimpleNamespace(complete=complete, summary=summary, series_flows=series, series_links={"time_s": [1.0, 2.0, 3.0]})


def quiet(*skipped: tuple[float, float], audited: bool = False) -> Any:
    """A run of 10 s that was sampled each second, except where it skipped time, and sent 6 Mbit/s."""
    times = [float(second) for second in range(1, 11) if audited or not any(start < second <= end for start, end in skipped)]
    run = live(times)
    run.summary["scenario"] = "quiet"
    run.summary["stretches"] = [{"from_s": start, "until_s": end, "audited": audited} for start, end in skipped]
    run.series_flows["throughput_bps"] = run.series_flows["goodput_bps"]
    run.series_links["time_s"] = times
    return run


def seeds(*runs: Any) -> Any:
    return list(runs)


def drawn(axes: Any) -> list[tuple[float, ...]]:
    """The stretches of time in which a line is drawn, each with its samples."""
    curve = axes.lines[0]
    parts: list[list[float]] = [[]]
    for second, value in zip(curve.get_xdata(), curve.get_ydata(), strict=True):
        if np.isnan(value):
            parts.append([])
        else:
            parts[-1].append(float(second))
    return [tuple(part) for part in parts]


def test_nothing_is_drawn_across_time_that_was_skipped() -> None:
    assert drawn(plot.throughput(quiet((3, 6)))) == [(1, 2, 3), (7, 8, 9, 10)]
    assert drawn(plot.throughput(quiet((3, 6), audited=True))) == [tuple(range(1, 11))]
    # A band has a gap where all runs skipped time, and none where one of them has samples.
    axes: Any = plot.bands(seeds(quiet((2, 6)), quiet((4, 8))), "throughput")
    assert drawn(axes) == [(1, 2, 3, 4), (7, 8, 9, 10)]
    axes = plot.bands(seeds(quiet((2, 6), (8, 9)), quiet((2, 6), (8, 9))), "throughput")
    assert drawn(axes) == [(1, 2), (7, 8), (10,)]
    (band,) = axes.collections
    assert len(band.get_paths()) == 3
    assert len(drawn(plot.bands(seeds(quiet((2, 6)), quiet()), "throughput"))) == 1
    # Before the first sample and behind the last there is nothing to cut.
    assert drawn(plot.throughput(quiet((0, 3), (8, 10)))) == [(4, 5, 6, 7, 8)]


def means(runs: Any, quantity: str) -> list[float]:
    axes: Any = plot.bands(runs, quantity)
    return [float(value) for value in axes.lines[0].get_ydata()]


def test_idle_programs_count_as_zero_in_a_sum_and_not_in_a_mean() -> None:
    runs = [live([1.0, 2.0, 3.0]), live([1.0, 3.0])]
    assert means(runs, "goodput") == [6.0, 3.0, 6.0]
    assert means(runs, "rtt") == [20.0, 20.0, 20.0]


def test_runs_that_are_not_complete_are_left_out_unless_there_is_only_one() -> None:
    stopped = live([1.0], complete=False)
    assert means([live([1.0, 2.0, 3.0]), stopped], "goodput") == [6.0, 6.0, 6.0]
    assert means([stopped], "goodput") == [6.0, 0.0, 0.0]


def test_the_target_rate_of_several_flows_is_their_mean() -> None:
    run = live([1.0, 2.0])
    run.summary["flows"].append({"flow": 1, "name": "call", "group": "call"})
    run.series_flows = {"time_s": [1.0, 1.0], "flow": [0, 1], "target_rate_bps": [1e6, 3e6]}
    # As `warpline compare --plot` draws it.
    assert means([run], "target") == [2.0]


def test_programs_send_nothing_while_they_are_idle() -> None:
    run = live([1.0, 3.0])
    run.summary["scenario"] = "web"
    run.series_flows["throughput_bps"] = [6e6, 6e6]
    curve: Any = plot.throughput(run).lines[0]
    assert (list(curve.get_xdata()), list(curve.get_ydata())) == ([1.0, 2.0, 3.0], [6.0, 0.0, 6.0])
    # Clocks of several hosts are not the same to the last digit.
    run.series_flows["time_s"] = [1.0001, 2.9999]
    assert drawn(plot.throughput(run)) == [(1.0001, 2.0, 2.9999)]
    # Flows of simulated hosts have a row whenever the run is sampled, and a missing one is not for idleness.
    del run.summary["live"]
    assert drawn(plot.throughput(run)) == [(1.0001, 2.9999)]


def test_runs_on_the_same_axes_have_the_same_unit() -> None:
    slow, fast, idle = (live([1.0, 2.0, 3.0]) for _ in range(3))
    for run, bps in ((slow, 6e5), (fast, 6e6), (idle, 0.0)):
        run.summary["scenario"] = "web"
        run.series_flows["throughput_bps"] = [bps] * 3
    axes: Any = plot.throughput(idle)
    plot.throughput(slow, axes)
    plot.throughput(fast, axes)
    assert [curve.get_ydata()[0] for curve in axes.lines] == [0.0, 600.0, 6000.0]
    assert axes.get_ylabel() == "Throughput (kbit/s)"
    # Other axes are not concerned, and neither are these once they are empty again.
    assert plot.throughput(fast).get_ylabel() == "Throughput (Mbit/s)"
    axes.clear()
    assert plot.throughput(fast, axes).get_ylabel() == "Throughput (Mbit/s)"
