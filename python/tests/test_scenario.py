"""Scenarios: built, read, written, changed; their errors."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import generate_model
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import warpline
from warpline import _model
from warpline._part import Part, encode, span
from warpline.convert import _units

from conftest import dumbbell

TEXT = """
name = "plain"
duration = "10s"

[[link]]
between = ["a", "b"]
rate = "10Mbit/s"
delay = "5ms"
queue = { kind = "red", limit = "1BDP", ecn = true }

[[flow]]
from = "a"
to = "b"
cc = { kind = "vegas", alpha = 1.0 }
"""


def plain(**changes: Any) -> warpline.Scenario:
    parts: dict[str, Any] = {
        "name": "plain",
        "duration": "10s",
        "link": [
            warpline.Link(
                between=("a", "b"), rate="10Mbit/s", delay="5ms", queue=warpline.Red(limit="1BDP", ecn=True)
            )
        ],
        "flow": [warpline.Flow(from_="a", to="b", cc=warpline.Vegas(alpha=1))],
    }
    return warpline.Scenario(**{**parts, **changes})


def test_a_stack_is_told_from_another_build_of_it(tmp_path: Path) -> None:
    assert plain().builds == []
    hosts = [{"name": "a", "endpoint": "stack:object", "library": "./mine.so"}]
    scenario = warpline.Scenario.from_toml(plain(host=hosts, flow=[{"from": "a", "to": "b"}]).to_toml(), directory=tmp_path)
    with pytest.raises(warpline.RunError, match=r"mine\.so"):
        _ = scenario.builds
    (tmp_path / "mine.so").write_text("one build")
    first = scenario.builds
    (tmp_path / "mine.so").write_text("another")
    assert [name.partition("-")[0] for name in first] == ["mine"] and first != scenario.builds


def test_python_and_toml_give_the_same_scenario() -> None:
    built, read = plain(), warpline.Scenario.from_toml(TEXT)
    assert built == read
    assert built.hash == read.hash
    assert hash(built) == hash(read)
    assert built != built.set("seed=2")


def test_the_generated_parts_match_the_schema() -> None:
    schema = warpline.json_schema()
    assert generate_model.TARGET.read_text(encoding="utf-8") == generate_model.generate(schema), (
        "python/warpline/_model.py is stale: run python/tools/generate_model.py"
    )
    keywords = set(inspect.signature(warpline.Scenario.__init__).parameters) - {"self", "directory"}
    # A former name is read in files only.
    assert keywords == {key for key, about in schema["properties"].items() if not about.get("deprecated")}
    # Independent of the generator: every object of the schema has a class with exactly its keys.
    tables = {
        "Link": "Link",
        "Flow": "Flow",
        "Host": "Host",
        "TcpOptions": "Tcp",
        "LinkOptions": "LinkOptions",
        "DuplexOptions": "DuplexOptions",
        "Web": "Web",
        "Clock": "Clock",
    }
    for definition, name in tables.items():
        fields = {field.name.rstrip("_") for field in dataclasses.fields(getattr(warpline, name))}
        assert fields == set(schema["$defs"][definition]["properties"]), name


def test_every_part_can_be_imported_from_the_package() -> None:
    parts = [name for name, value in vars(_model).items() if isinstance(value, type) and issubclass(value, Part)]
    assert len(parts) > 40
    assert [name for name in parts if name != "Part" and not hasattr(warpline, name)] == []


def test_times_are_text_or_timedeltas_and_never_bare_numbers() -> None:
    assert plain(duration=timedelta(seconds=10)) == plain()
    assert plain(duration=timedelta(milliseconds=1500)).to_dict()["duration"] == "1.5s"
    bare: Any = 10
    with pytest.raises(warpline.ScenarioError) as caught:
        plain(duration=bare)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.path == "duration"
    assert "unit" in str(caught.value) or "50ms" in str(caught.value) or '"10s"' in str(caught.value)
    rate: Any = 10_000_000
    with pytest.raises(warpline.ScenarioError, match=r"link\.0\.rate"):
        plain(link=[{"between": ["a", "b"], "rate": rate}])


@given(st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=11_000)))
@example(timedelta(days=11_000, microseconds=2))
@settings(max_examples=50, deadline=None)
def test_a_timedelta_arrives_exactly(duration: timedelta) -> None:
    number, unit = span(duration).removesuffix("s"), 1_000_000
    if number.endswith("m"):
        number, unit = number[:-1], 1000
    elif number.endswith("u"):
        number, unit = number[:-1], 1
    assert timedelta(microseconds=int(number) * unit) == duration
    made = plain(duration=duration)
    assert made == plain(duration=span(duration))
    # As the scenario writes it, too, where a floating-point number of nanoseconds is not exact.
    assert _units.read_time(made.to_dict()["duration"]) * 1_000_000 == duration // timedelta(microseconds=1)


def test_all_errors_are_reported_at_once_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(TEXT.replace('rate = "10Mbit/s"', 'rat = "10Mbit/s"').replace('"10s"', '"10 parsecs"'))
    with pytest.raises(warpline.ScenarioError) as caught:
        warpline.Scenario.load(path)
    error = caught.value
    assert len(error.diagnostics) >= 2
    places = {diagnostic.path: diagnostic for diagnostic in error.diagnostics}
    assert places["duration"].line == 3
    assert places["duration"].source == str(path)
    assert places["duration"].column is not None
    assert places["link.0.rat"].line == 7
    assert any("rate" in text for text in places["link.0.rat"].help) or "rate" in places["link.0.rat"].message
    for diagnostic in error.diagnostics:
        assert diagnostic.message in str(error)
    assert isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.diagnostics) == (str(error), error.diagnostics)


def test_errors_of_scenarios_built_in_python_name_the_key() -> None:
    with pytest.raises(warpline.ScenarioError) as caught:
        plain(flow=[{"from": "a", "to": "b", "cc": "renp"}])
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.path == "flow.0.cc"
    assert diagnostic.line is None
    assert "reno" in str(caught.value)


def test_changes_give_a_new_scenario() -> None:
    base = plain()
    changed = base.set("link.0.rate=5Mbit/s", "flow.bulk.cc=nice")
    assert changed.to_dict()["link"][0]["rate"] == "5Mbit/s"
    assert changed.to_dict()["flow"][0]["cc"] == "nice"
    assert base == plain()
    assert base.replace(duration="3s", seed=9).to_dict()["duration"] == "3s"
    assert base.replace(seed=9).seed == 9
    with pytest.raises(warpline.ScenarioError) as caught:
        base.set("link.0.rte=5Mbit/s")
    assert caught.value.diagnostics[0].source == "--set"
    with pytest.raises(warpline.ScenarioError):
        base.replace(duraton="3s")


def test_a_scenario_survives_toml_dicts_files_and_pickles(tmp_path: Path) -> None:
    scenario = dumbbell()
    assert warpline.Scenario.from_toml(scenario.to_toml()) == scenario
    assert warpline.Scenario.from_dict(scenario.to_dict()) == scenario
    assert pickle.loads(pickle.dumps(scenario)) == scenario
    scenario.save(tmp_path / "again.toml")
    loaded = warpline.Scenario.load(tmp_path / "again.toml")
    assert loaded.to_dict() == scenario.to_dict()
    assert loaded.directory == tmp_path
    assert warpline.Scenario.load(tmp_path / "again.toml", "seed=5").seed == 5


def test_a_missing_file_is_an_error_with_advice(tmp_path: Path) -> None:
    plain().save(tmp_path / "dumbbell.toml")
    with pytest.raises(warpline.ScenarioError, match=r"did you mean .*dumbbell\.toml"):
        warpline.Scenario.load(tmp_path / "dumbell.toml")


def test_values_from_numpy_and_paths_are_accepted() -> None:
    assert encode({"a": np.float64(0.5), "b": np.int64(3), "c": Path("x"), "d": None}) == {"a": 0.5, "b": 3, "c": "x"}
    assert encode(np.array([1, 2])) == [1, 2]
    assert [type(number) for number in encode([np.float64(0.5), np.int64(3), True])] == [float, int, bool]
    with pytest.raises(TypeError, match="object"):
        encode(object())
    for infinite in (float("inf"), Decimal("inf")):
        with pytest.raises(ValueError, match="no limit"):
            encode(infinite)


def test_parts_become_plain_data() -> None:
    assert warpline.Flow(from_="a", to="b", start=timedelta(seconds=1)).to_dict() == {"from": "a", "to": "b", "start": "1s"}
    assert warpline.Down(at="1s", for_="2s").to_dict() == {"at": "1s", "for": "2s"}
    assert warpline.EveryLoss(n=3).to_dict() == {"kind": "every", "n": 3}


def test_a_scenario_without_flows_can_be_shown() -> None:
    scenario = warpline.Scenario(
        name="programs",
        duration="1s",
        clock={"mode": "real"},
        link=[{"between": ["a", "b"], "rate": "1Mbit/s"}],
        host=[{"name": "a", "endpoint": "live", "program": [{"command": "true"}]}],
    )
    assert repr(scenario) == "<warpline.Scenario programs: 1s, 0 flow entries>"
    page = scenario._repr_html_()
    assert "programs: 1s, seed 1" in page and "live" in page


def test_a_notebook_shows_a_scenarios_parts() -> None:
    scenario = warpline.Scenario.from_dict(
        {"name": "n", "duration": "1s", "link": [{"between": ["a", "b"], "rate": "1Mbit/s"}], "flow": [{"from": "a", "to": "b", "cc": {"kind": "custom", "name": "<b>"}}]}
    )
    page = scenario._repr_html_()
    assert "a – b" in page
    assert "1Mbit/s" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    dumbbell = scenario.replace(link=[], topology={"kind": "dumbbell", "rtt": "10ms", "bottleneck": {"rate": "7Mbit/s"}}, flow=[{"from": "left", "to": "right"}])
    assert "7Mbit/s" in dumbbell._repr_html_()
