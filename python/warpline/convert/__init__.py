"""Other programs' topologies, commands and results as Warpline's, and Warpline's results as theirs.

    from warpline import convert

    imported = convert.read("Abilene.graphml")
    imported.scenario.run()                                  # a warpline.Scenario
    imported.assumed, imported.left_out                      # what to know of it
    convert.read("mm-delay 20 mm-link up.trace down.trace").toml
    convert.from_networkx(networkx.petersen_graph(), rate="100Mbit/s")
    convert.tc.link("netem delay 20ms 5ms loss 1%").keys
    convert.iperf3.flows("client.json").polars()
    convert.write(run, "flent", "run.flent.gz")

The command `warpline import` does the first ones. The extra `convert` has what reading graphs (NetworkX) and YAML (PyYAML) needs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpline._files import write_whole
from warpline._run import Run
from warpline.convert import iperf3, tc
from warpline.convert._draft import ConvertError, Imported
from warpline.convert._formats import MEASURED, READERS, WRITERS
from warpline.convert._source import Reader, Source
from warpline.convert.graph import from_networkx

__all__ = ["ConvertError", "Imported", "from_networkx", "iperf3", "read", "tc", "write"]


def read(what: str | os.PathLike[str] | Sequence[str], format: str | None = None, *, directory: str | os.PathLike[str] | None = None, **options: Any) -> Imported:
    """A scenario of another program's file, or of a command as text or words.

    Args:
        what: A file, or a command: "mm-delay 20 mm-link up.trace down.trace", "tc qdisc add dev eth0 root netem delay 20ms".
        format: What it is, by the names that `warpline import --help` lists; by default that is found out.
        directory: Directory that paths in the scenario are relative to; by default that of the file.
        options: What the source leaves open: `duration`, `rate`, `delay`, `flow` and others, as `warpline import --help` lists them. One that means nothing to the format is refused.

    Raises:
        ConvertError: With the place, what is wrong, and what is allowed.
    """
    source = Source.of([os.fspath(what)] if isinstance(what, (str, os.PathLike)) else list(what))
    return draw(source, format, options, None if directory is None else Path(directory))


def draw(source: Source, format: str | None, options: Mapping[str, Any], target: Path | None) -> Imported:
    """The scenario of a source; paths in it are relative to `target`."""
    found = reader(source, format)
    return found.read(source, found.options(options)).imported(source.directory, target)


def reader(source: Source, format: str | None) -> Reader:
    """The reader of a format, or the one that claims a source.

    Raises:
        ConvertError: If there is none.
    """
    names = ", ".join(one.name for one in READERS)
    if format is not None:
        found = next((one for one in READERS if one.name == format), None)
        if found is None:
            raise ConvertError(f"there is no format {format!r} to make a scenario of; there are {names}")
        return found
    found = next((one for one in READERS if one.claims(source)), None)
    if found is None:
        other = next((f"; it looks like {one.name}: {one.about}" for one in MEASURED if one.claims(source)), "")
        results = ", ".join(one.name for one in MEASURED)
        raise ConvertError(f"{source.name}: is in none of the formats that are known: {names}, and with results in place of a network {results} (name it with --from if it is{other})")
    return found


def write(run: Run, format: str, path: str | os.PathLike[str]) -> Path:
    """Writes the results of a run in another program's format, whole or not at all, and returns the path.

    Raises:
        ConvertError: If there is no such format, or the run has nothing for it.
    """
    found = next((one for one in WRITERS if one.name == format), None)
    if found is None:
        raise ConvertError(f"there is no format {format!r} to write; there are {', '.join(one.name for one in WRITERS)}, and those of `warpline export`")
    write_whole(Path(path), found.write(run))
    return Path(path)

