"""The command: `warpline study run`, `warpline reproduce` and so on call it, and so does `python -m warpline.study`."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warpline import _command
from warpline._command import DIFFERS, NOT_WRITTEN, SUCCESS, WRONG_INPUT
from warpline._errors import MissingDependencyError, RunError, ScenarioError, WarplineError
from warpline._files import write_whole
from warpline._sweep import Scalar
from warpline.study import _imported, _registry, _report
from warpline.study._declare import Elsewhere, NoPointsError
from warpline.study._imported import ImportFailedError
from warpline.study._paths import to_write
from warpline.study._progress import runs
from warpline.study._told import StudyError
from warpline.study._work import AT_ONCE, Done, dask, draw, drawn, run

CODES = (
    ((StudyError, ScenarioError, NoPointsError, MissingDependencyError, ImportFailedError), WRONG_INPUT),
    ((RunError, OSError), NOT_WRITTEN),
    ((WarplineError,), DIFFERS),
)
"""Exit codes of errors."""

NAMED: dict[str, Scalar] = {"true": True, "false": False, "none": None}
"""Values of an axis that are neither text nor number, as the command line has them, in small or large letters."""

NAMES = "PAPER/FIGURE (tcp-nice/fig3), PAPER for all its figures, FILE.py for declarations of your own, or FILE.py:FIGURE"


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    return _command.run(_parser(), words, CODES, "interrupted; what has run is kept, and the same command goes on")


class _Command(argparse.ArgumentParser):
    """The parser of a command, which refuses itself what it does not know, with its own usage. That of all commands would show what there is beside it."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reads all words."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="warpline study", description="Experiments that are declared in Python, run once, kept, and judged.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)

    def command(name: str, about: str, do: Callable[[argparse.Namespace], int], prog: str | None = None) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about, prog=prog or f"warpline study {name}")
        made.add_argument("--repro", type=Path, metavar="DIR", help=f"directory with the papers (default: {_registry.REPRO}, or repro here or above)")
        made.set_defaults(do=do)
        return made

    def runs(made: argparse.ArgumentParser) -> None:
        made.add_argument("--quick", action="store_true", help="the small form of each figure, whose results are kept apart")
        made.add_argument("--force", action="store_true", help="run again what has run")
        made.add_argument("--keep", action="store_true", help="take results that other builds of Warpline made")
        made.add_argument("--only", action="append", default=[], metavar="AXIS=VALUE,...", help="only the points with these values of an axis; again for other axes, and for values that have a comma")
        made.add_argument("--jobs", type=_positive, metavar="N", help=f"how many runs at a time (default: one per CPU, and up to {AT_ONCE} in dilated time)")
        made.add_argument("--dask", metavar="ADDRESS", help="run on a Dask cluster, by the address of its scheduler (tcp://host:8786)")
        made.add_argument("--page", type=Path, metavar="FILE", help="write the progress as a page that refreshes itself")

    one = command("run", "Run figures, and judge them", _run)
    one.add_argument("names", nargs="+", metavar="NAME", help=NAMES)
    runs(one)
    again = command("reproduce", "Run figures of the papers again, and judge them", _reproduce, "warpline reproduce")
    again.add_argument("names", nargs="*", metavar="NAME", help="PAPER/FIGURE (tcp-nice/fig3), or PAPER for all its figures")
    again.add_argument("--all", action="store_true", help="all figures of all papers")
    again.add_argument("--list", action="store_true", help="list the figures and how they stand")
    runs(again)
    look = command("judge", "Judge the results that are there, without running anything", _judge)
    look.add_argument("names", nargs="*", metavar="NAME", help=f"{NAMES}; all papers by default")
    look.add_argument("--quick", action="store_true", help="the results of the quick form")
    look.add_argument("--draw", action="store_true", help="write the table and the picture of the results that are there, too")
    less = command("prune", "Drop the results of runs that are not declared any more", _prune)
    less.add_argument("names", nargs="+", metavar="NAME", help=NAMES)
    less.add_argument("--quick", action="store_true", help="the results of the quick form")
    take = command("import", "Take over mean values that another program has measured of the same scenarios", _import)
    take.add_argument("name", metavar="NAME", help="PAPER/FIGURE, or FILE.py:FIGURE")
    take.add_argument("table", type=Path, metavar="FILE.csv", help="a row for each point and line; columns half_width_95 and seeds")
    take.add_argument("--column", action="append", default=[], metavar="HEADING=NAME", help="which axis, 'line' or measure a column is; once for each")
    take.add_argument("--at", action="append", default=[], metavar="AXIS=VALUE", help="an axis that has one value in the whole file")
    take.add_argument("--made-by", required=True, metavar="TEXT", help="what has measured it: the program and its version; the book says so")
    book = command("evidence", "Write the page of the book with all papers and verdicts", _evidence)
    book.add_argument("--out", type=Path, metavar="FILE", help="the page (default: docs/src/evidence.md beside the papers' directory)")
    book.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    return parser


def _positive(word: str) -> int:
    if not (word.isdecimal() and int(word) >= 1):
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number of at least 1")
    return int(word)


def _run(options: argparse.Namespace) -> int:
    done: list[Done] = []
    if options.dask is not None and options.jobs:
        raise StudyError("--jobs is for this machine: how many runs a Dask cluster makes at a time depends on its workers")
    with contextlib.ExitStack() as stack:
        executor = None if options.dask is None else stack.enter_context(dask(options.dask))
        done = run(
            *options.names,
            quick=options.quick,
            force=options.force,
            keep=options.keep,
            only=_only(options.only),
            jobs=options.jobs,
            executor=executor,
            page=options.page,
            repro=options.repro,
            said=_say,
        )
    verdicts = [verdict for one in done for verdict in one.judged.verdicts]
    failed = sum(len(one.failures) for one in done)
    print(f"{len(done)} {'figure' if len(done) == 1 else 'figures'}: {_report.count(verdicts)}" + (f"; {runs(failed)} failed" if failed else ""))
    return SUCCESS if all(one.good for one in done) else DIFFERS


def _say(one: Done) -> None:
    print(_report.text(one.judged))
    for line in _report.failed(one.failures):
        print(f"  {line}")
    if one.not_drawn:
        print(f"  not drawn: {one.not_drawn}")
    if one.files:
        print(f"  {', '.join(_near(path) for path in one.files)}")
    sys.stdout.flush()


def _near(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def _reproduce(options: argparse.Namespace) -> int:
    if options.list:
        return _list(options)
    if options.all == bool(options.names):
        raise StudyError("name figures or papers (`--list` lists them), or `--all`: one of the two")
    if options.all:
        options.names = [declared.name for declared in _registry.papers(_registry.repro_directory(options.repro)) if declared.figures]
    return _run(options)


def _list(options: argparse.Namespace) -> int:
    wanted = {name.strip("/") for name in options.names}
    unknown = set(wanted)
    for declared in _registry.papers(_registry.repro_directory(options.repro)):
        known = [(figure, {declared.name, f"{declared.name}/{figure.name}"}) for figure in declared.paper.figures]
        figures = [figure for figure, names in known if not wanted or names & wanted]
        unknown -= set().union(*(names for _, names in known))
        if figures:
            print(f"{declared.name}: {declared.paper.title}")
        for figure in figures:
            if isinstance(figure, Elsewhere):
                print(f"  {figure.name:<12} {figure.title}; made by: {figure.how}")
            else:
                print(f"  {declared.name + '/' + figure.name:<32} {figure.title} ({_report.judge(declared, figure, quick=options.quick).short})")
    if unknown:
        # It says what there is.
        _registry.find(sorted(unknown), options.repro)
        raise StudyError(f"{', '.join(sorted(unknown))}: `--list` lists papers and their figures")
    return SUCCESS


def _judge(options: argparse.Namespace) -> int:
    names = options.names or [one.name for one in _registry.papers(_registry.repro_directory(options.repro)) if one.figures]
    all_good = True
    for declared, figures in _registry.find(names, options.repro):
        for figure in figures:
            study = declared.study(figure, quick=options.quick)
            one = _report.judged(study)
            print(_report.text(one))
            if options.draw:
                draw(study, one, lambda text: print(f"{study.name}: {text}", file=sys.stderr))
                if files := drawn(study):
                    print(f"  {', '.join(_near(path) for path in files)}")
            all_good &= one.good
    return SUCCESS if all_good else DIFFERS


def _prune(options: argparse.Namespace) -> int:
    for declared, figures in _registry.find(options.names, options.repro):
        for figure in figures:
            study = declared.study(figure, quick=options.quick)
            print(f"{study.name}: {runs(study.prune())} dropped")
    return SUCCESS


def _import(options: argparse.Namespace) -> int:
    ((declared, figures),) = _registry.find([options.name], options.repro)
    if len(figures) != 1:
        raise StudyError(f"{options.name} has {len(figures)} figures; name one")
    study = declared.study(figures[0])
    names = dict(_pair("--column", "HEADING=NAME", word, last=True) for word in options.column)
    fixed = dict(_pair("--at", "AXIS=VALUE", word) for word in options.at)
    count = _imported.take(figures[0], study.hash_of, study.results_path, options.table, names, fixed, options.made_by)
    print(f"{count} means in {_near(_imported.path_of(study.results_path))}")
    return SUCCESS


def _only(chosen: Sequence[str]) -> dict[str, list[Scalar]]:
    """The values of the axes that are to be run. An axis that is named again has these values, too."""
    values: dict[str, list[Scalar]] = {}
    for word in chosen:
        axis, words = _pair("--only", "AXIS=VALUE", word)
        values.setdefault(axis, []).extend(_values(words))
    return values


def _values(words: str) -> list[Scalar]:
    """Values of an axis, with commas between them: texts, numbers, true or false, none. The whole can be one text, too."""
    values: list[Scalar] = [words]
    for word in words.split(","):
        values.append(word)
        with contextlib.suppress(ValueError):
            values.append(float(word))
        if word.lower() in NAMED:
            values.append(NAMED[word.lower()])
    return values


def _pair(option: str, form: str, word: str, *, last: bool = False) -> tuple[str, str]:
    """The parts of the word behind an option, before and after the first "=", or the last: a value may have one, and so may a heading.

    Raises:
        StudyError: If it has none. The text has the `form` in which it is written.
    """
    name, equals, value = word.rpartition("=") if last else word.partition("=")
    if not equals:
        raise StudyError(f"{option} {word}: write {option} {form}")
    return name, value


def _evidence(options: argparse.Namespace) -> int:
    repro = _registry.repro_directory(options.repro)
    out = to_write(options.out or repro.parent / "docs" / "src" / "evidence.md")
    text = _report.book(_registry.papers(repro))
    if not options.check:
        write_whole(out, text.encode())
        return SUCCESS
    before = out.read_text(encoding="utf-8") if out.exists() else ""
    if before == text:
        return SUCCESS
    sys.stdout.writelines(difflib.unified_diff(before.splitlines(keepends=True), text.splitlines(keepends=True), str(out), "from the results"))
    print(f"{out} is out of date: warpline study evidence", file=sys.stderr)
    return DIFFERS


if __name__ == "__main__":
    sys.exit(main())
