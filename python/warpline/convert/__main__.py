"""The command: `warpline import` calls it, and so does `python -m warpline.convert`."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from warpline import _command
from warpline._command import NOT_WRITTEN, SUCCESS, WRONG_INPUT
from warpline._errors import MissingDependencyError, RunError, ScenarioError
from warpline._files import write_whole
from warpline._run import Run
from warpline._warpline import Table
from warpline.convert import draw, reader
from warpline.convert._draft import ConvertError, Imported
from warpline.convert._formats import MEASURED, READERS, WRITERS
from warpline.convert._source import Measured, Options, Source, flag

CODES = (((ConvertError, ScenarioError, MissingDependencyError, RunError), WRONG_INPUT), ((OSError,), NOT_WRITTEN))
"""Exit codes of errors."""

AHEAD = ("--out", "--from", "--force", *(flag(one.name) for one in fields(Options)))
"""The options, which go before the words of a command."""

FORMATS = {**{one.name: one.about for one in READERS}, **{one.name: one.about for one in MEASURED}}
"""What can be read, by its name."""

EXAMPLES = """\
Examples:
  warpline import Abilene.graphml --out abilene.toml
  warpline import shadow.yaml --out shadow.toml
  warpline import lab.clab.yml --guests --out lab.toml
  warpline import -- mm-delay 20 mm-link up.trace down.trace
  warpline import tc qdisc add dev eth0 root netem delay 20ms 5ms loss 1%
  warpline import iperf3.json --out flows.parquet
"""


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    return _command.run(_parser(), words, CODES)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m warpline.convert", description="Other programs' files as scenarios, and results as other programs' files.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    formats = "\n".join(f"  {name:<16} {about}" for name, about in FORMATS.items())
    take = commands.add_parser(
        "import",
        allow_abbrev=False,
        prog="warpline import",
        usage="warpline import [OPTION ...] FILE [OPTION ...], or warpline import [OPTION ...] [--] COMMAND WORD ...",
        help="make a scenario of another program's file or command",
        description="Make a scenario of another program's file or command. What was assumed and what was left out stands in its comments.",
        epilog=f"Formats:\n{formats}\n\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _import_options(take)
    take.add_argument("words", nargs=argparse.REMAINDER, metavar="FILE", help="a file, - for standard input, or the words of a command")
    take.set_defaults(do=_import)
    give = commands.add_parser("export", help="write results in another program's format", description="Write the results of a run in another program's format.")
    give.add_argument("run", type=Path, metavar="RUN", help="a run directory")
    give.add_argument("--to", required=True, choices=[one.name for one in WRITERS], help="; ".join(f"{one.name}: {one.about}" for one in WRITERS))
    give.add_argument("--output", type=Path, metavar="FILE", help="file to write (default: standard output)")
    give.set_defaults(do=_export)
    return parser


def _import_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="format", metavar="FORMAT", choices=list(FORMATS), help="what it is (default: found out)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    for one in fields(Options):
        about = one.metadata["about"]
        if one.default is False:
            parser.add_argument(flag(one.name), dest=one.name, action="store_true", default=None, help=about)
        elif one.default == ():
            parser.add_argument(flag(one.name), dest=one.name, action="append", metavar=one.metadata["metavar"], help=about)
        else:
            shown = "" if one.default is None else f" (default: {one.default})"
            parser.add_argument(flag(one.name), dest=one.name, metavar=one.metadata["metavar"], help=f"{about}{shown}".replace("%", "%%"))


def _import(options: argparse.Namespace) -> int:
    words: list[str] = options.words
    # Behind `--` all words are a command's; behind a file there may be further options.
    if words[:1] == ["--"]:
        words = words[1:]
    elif len(words) > 1 and (words[0] == "-" or Path(words[0]).is_file() or not any(one.claims(Source.of(words)) for one in READERS) and words[1].startswith("--")):
        parser = argparse.ArgumentParser(prog="warpline import", usage=argparse.SUPPRESS, add_help=False, allow_abbrev=False)
        _import_options(parser)
        parser.parse_args(words[1:], options)
        words = words[:1]
    if not words:
        raise ConvertError("name a file, or a command and its words; warpline import --help lists what can be read")
    source = Source.of(words)
    measured = next((one for one in MEASURED if options.format == one.name or options.format is None and one.claims(source)), None)
    given = {one.name: getattr(options, one.name) for one in fields(Options) if getattr(options, one.name) is not None}
    if measured is not None:
        return _measured(measured, source, options.out, options.force, given)
    if "flow" in given:
        given["flow"] = tuple(given["flow"])
    target = Path() if options.out is None else options.out.parent
    try:
        taken = reader(source, options.format)
        imported = draw(source, taken.name, given, target)
    except ConvertError as error:
        raise ConvertError(f"{error}{_misplaced(words, str(error))}") from error
    # The engine checks it, so that no scenario is written that does not run.
    scenario = imported.scenario.to_dict()
    if options.out is None:
        print(imported.toml, end="")
        return SUCCESS
    _write(options.out, imported.toml.encode(), options.force)
    counts = ", ".join(f"{len(scenario[part])} {part}{'' if len(scenario[part]) == 1 else 's'}" for part in ("link", "host", "flow") if scenario.get(part))
    print(f"{options.out}: {taken.name}, {counts}{_remarks(imported)}")
    return SUCCESS


def _misplaced(words: Sequence[str], error: str) -> str:
    """What to say of an option behind the words of a command, which count as one of them; nothing if that is not the error."""
    found = next((word for word in words[1:] if word.partition("=")[0] in AHEAD and repr(word) in error), None)
    return "" if found is None else f"; options go before the words of a command: warpline import {found} ... {words[0]} ..."


def _remarks(imported: Imported) -> str:
    lines = [*(f"assumed: {line}" for line in imported.assumed), *(f"left out: {line}" for line in imported.left_out)]
    return "".join(f"\n  {line}" for line in lines)


def _write(path: Path, content: bytes, force: bool) -> None:
    if path.exists() and not force:
        raise ConvertError(f"{path} is there already; name another file with --out, or replace it with --force")
    write_whole(path, content)


def _measured(measured: Measured, source: Source, out: Path | None, force: bool, given: dict[str, Any]) -> int:
    if given:
        raise ConvertError(f"{flag(next(iter(given)))} means nothing to {measured.name}, which has results and no network")
    table = measured.read(source)
    if out is not None and out.suffix == ".parquet":
        if out.exists() and not force:
            raise ConvertError(f"{out} is there already; name another file with --out, or replace it with --force")
        table.write(out)
        return SUCCESS
    text = _csv(table)
    if out is None:
        print(text, end="")
    else:
        _write(out, text.encode(), force)
    return SUCCESS


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*(table[name] for name in table.column_names), strict=True))
    return text.getvalue()


def _export(options: argparse.Namespace) -> int:
    writer = next(one for one in WRITERS if one.name == options.to)
    content = writer.write(Run.open(options.run))
    if options.output is None:
        sys.stdout.buffer.write(content)
    else:
        write_whole(options.output, content)
    return SUCCESS


if __name__ == "__main__":
    sys.exit(main())
