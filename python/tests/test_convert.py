"""Converters in general: all readers, the command, and the formats that there are."""

from __future__ import annotations

import ast
import graphlib
import string
from dataclasses import fields
from pathlib import Path
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpline
from warpline import convert
from warpline.convert import ConvertError
from warpline.convert.__main__ import main
from warpline.convert._formats import MEASURED, READERS, WRITERS
from warpline.convert._source import Options, Reader, Source

from conftest import write
from converters import GML


def test_no_module_is_needed_by_one_that_it_needs() -> None:
    """Imports within functions count, too."""
    needs: dict[str, set[str]] = {}
    for file in Path(convert.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("warpline.convert"):
                _, _, module = (node.module or "").partition("warpline.convert.")
                needs.setdefault(file.stem, set()).update([module] if module else [name.name for name in node.names])
    assert "_units" in needs["graph"]
    graphlib.TopologicalSorter(needs).prepare()


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(READERS), st.one_of(st.text(max_size=200), st.text(string.printable, max_size=300)), st.sampled_from(["", "graph [\n", "<graphml>", "general:\nnetwork:\nhosts:\n", "topology:\n", "mm-link ", "tc qdisc add ", "{\"nodes\": ", "1\n2\n"]))
def test_no_text_breaks_a_reader(reader: Any, text: str, start: str) -> None:
    source = Source("the file", start + text)
    reader.claims(source)
    try:
        reader.read(source, Options()).toml()
    except ConvertError as error:
        assert "the file" in str(error) or str(error)


# The command ----------------------------------------------------------------------------------------------------------

P2P = ("simple-p2p", "--delay=15ms", "--bandwidth=10Mbps", "--queue=25")


def test_the_command_writes_a_file_that_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = write(tmp_path, "town.gml", GML), tmp_path / "town.toml"
    assert main(["import", str(file), "--out", str(out), "--flow", "1:0", "--duration", "3s"]) == 0
    assert "2 links, 1 flow" in capsys.readouterr().out
    scenario = warpline.Scenario.load(out)
    assert scenario.to_dict()["duration"] == "3s"
    assert scenario.to_dict()["flow"][0]["from"] == "Łódź"
    assert out.read_text(encoding="utf-8").startswith("# Made by `warpline import` of ")
    assert main(["import", str(file), "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["import", str(file), "--out", str(out), "--force"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.gml"], "nowhere.gml: cannot be read"),
        (["some", "words"], "is in none of the formats"),
        (["some", "words"], "quic-interop, and with results in place of a network iperf3 (name it with --from"),
        (["tc", "qdisc", "add", "dev", "e", "root", "netem", "delay", "5ms", "--out", "x.toml"], "options go before the words of a command: warpline import --out ... tc ..."),
        (["tc", "qdisc", "add", "dev", "e", "root", "netem", "delay", "5"], ""),
        (["--rate", "fast", "tc", "qdisc", "add", "root", "netem", "delay", "5ms"], "--rate fast: 'fast' does not begin with a number"),
        (["--guests", "tc", "qdisc", "add", "root", "netem", "delay", "5ms"], "--guests means nothing to tc; it takes --duration, --rate, --flow"),
        (["--rate", "1Mbit/s", "--", *P2P], "--rate means nothing to quic-interop; it takes no options"),
        (["--duration", "60s", "--", *P2P], "--duration means nothing to quic-interop; it takes no options"),
        (["--duration", "60s", "--from", "shadow", "some", "words"], "--duration means nothing to shadow; it takes --flow"),
        ([], "name a file"),
    ],
)
def test_what_the_command_says(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", *words]) == (2 if message else 0)
    assert message in capsys.readouterr().err


def test_python_refuses_options_that_mean_nothing_too() -> None:
    with pytest.raises(ConvertError, match="--duration means nothing to quic-interop; it takes no options"):
        convert.read(P2P, duration="60s")
    with pytest.raises(ConvertError, match="--guests means nothing to graph; it takes --duration, --rate"):
        convert.from_networkx(networkx.path_graph(2), guests=True)
    with pytest.raises(ConvertError, match="there are no words; name a file, or a command"):
        convert.read([])
    with pytest.raises(ConvertError, match="is not the name of a file"):
        convert.read("a\0b")
    # What is not given is not refused.
    assert convert.read(P2P, guests=False, script=None, rate=None, flow=()).toml


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_options_of_formats_are_options(reader: Reader) -> None:
    assert set(reader.takes) <= {one.name for one in fields(Options)}


def test_text_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.gml").write_bytes(b"graph [\n\xff\xfe")
    with pytest.raises(ConvertError, match=r"a.gml:2: is not text in UTF-8"):
        convert.read(tmp_path / "a.gml")


def test_every_format_stands_in_the_chapter() -> None:
    chapter = (Path(__file__).parents[2] / "docs/src/formats.md").read_text(encoding="utf-8")
    for name in [*(one.name for one in READERS), *(one.name for one in MEASURED), *(one.name for one in WRITERS)]:
        assert f"`{name}`" in chapter, name
