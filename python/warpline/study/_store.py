"""The results of a figure in a Parquet file beside its declaration.

While a study runs, each run that ends is appended to a journal (a line of JSON) and flushed to the disk, so that a kill loses the runs under way and no
others. The next study, or the end of this one, moves them to the Parquet file, which is written whole.

A column of a Parquet file has values of one kind. Where a measure, an axis or the lines have several, or whole numbers of more than 64 bits, the values are
JSON, and the name of the column ends with `JSON`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from warpline._errors import RunError
from warpline._pool import undisturbed
from warpline._sweep import Scalar, fits_64_bits, kind
from warpline._warpline import Table
from warpline.study._declare import ALLOWED, DECLARED_IN, RESERVED
from warpline.study._locks import is_at
from warpline.study._machine import MACHINE
from warpline.study._paths import is_special

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None  # type: ignore[assignment]

Row = Mapping[str, Scalar]
"""A line of a run: the columns of `RESERVED`, the axes, and the measures."""


JSON = " (as JSON)"
"""How the name of a column ends whose values are JSON."""


def number(scenario: str) -> int:
    """The hash of a scenario ("sha256:..."), of a point or of a model as a number of 60 bits, which takes a quarter of the room of its text."""
    return int(scenario.partition(":")[2][:15], 16)


def _current(row: Row) -> Row:
    """A row as rows are now: earlier versions kept the hash as text, and a key made of what the row has anyway."""
    if lacking := [name for name in OF_EACH_RUN if name not in row]:
        raise LookupError(f"a row without {lacking[0]}")
    scenario = row["scenario"]
    return {**{name: value for name, value in row.items() if name != "key"}, "scenario": number(scenario)} if isinstance(scenario, str) else row


def _packed(name: str, values: list[Scalar]) -> tuple[str, list[Scalar]]:
    """A column as the file has it: its name and its values."""
    kinds = {kind(value) for value in values if value is not None}
    small = all(type(value) is not int or fits_64_bits(value) for value in values)
    if len(kinds) <= 1 and small and not name.endswith(JSON):
        return name, values
    return name + JSON, [None if value is None else json.dumps(value) for value in values]


def _unpacked(name: str, values: list[Any]) -> tuple[str, list[Scalar]]:
    """A column of the file as it was."""
    if not name.endswith(JSON):
        return name, values
    return name.removesuffix(JSON), [None if value is None else json.loads(value) for value in values]


def _may_be_cut_off(line: str) -> bool:
    """Whether a kill may have cut a line of the journal off: it begins as one with rows does, or has nothing at all."""
    begin = '[{"'
    return line.startswith(begin) or begin.startswith(line)


OF_EACH_RUN = ("scenario", "seed", "ran", "measured")
"""Columns without which a row says nothing of a run."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Names the file that is read meanwhile, if it has no results.

    Raises:
        RunError: In place of the error; or if there is something that is not to be read, because it is no regular file.
    """
    if is_special(path):
        raise RunError(f"{path} is not a regular file, so that it has no results; move it away")
    try:
        yield
    except (RunError, ValueError, TypeError, AttributeError, LookupError) as error:
        why = str(error).removeprefix(f"{path} cannot be read: ").removesuffix("; run the scenario again to replace it")
        raise RunError(f"{path} has no results of a study that can be read ({why}); move it away or delete it, and the study runs again what it had") from error


class Store:
    """The results of a figure. As a context it may be written, by one study at a time.

    Args:
        path: The Parquet file.
        allows: Whether a failure of a run is a result. What was kept with another failure counts no more; rows of versions that did not note failures do.
        alone: Whether the runs need the machine for themselves. Then those that do not say which it was have shared it, and do not count.

    Raises:
        RunError: If the file cannot be read, or another study writes it.
    """

    def __init__(self, path: Path, allows: Callable[[str], bool] = lambda _: True, *, alone: bool = False) -> None:
        self.path = path
        self._allows = allows
        self._alone = alone
        self._journal_path = path.with_suffix(".jsonl")
        self._journal: TextIO | None = None
        self._read()

    def _read(self) -> None:
        """Reads both files. A study that ends meanwhile moves the journal to the other: so the journal is read first, and its rows count."""
        self._runs: dict[tuple[int, int], list[Row]] = {}
        journal = self._journal_lines()
        if self.path.exists():
            with reading(self.path):
                table = Table.read(self.path)
                columns = dict(_unpacked(name, table[name]) for name in table.column_names)
                self._take(dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
        with reading(self._journal_path):
            for place, line in enumerate(journal, 1):
                rows = None
                try:
                    rows = json.loads(line)
                except ValueError:
                    if _may_be_cut_off(line):
                        continue
                if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
                    raise ValueError(f"line {place} is none that a study has written")
                self._take(rows)

    def _take(self, rows: Iterable[Row]) -> None:
        fresh: dict[tuple[int, int], list[Row]] = {}
        for row in map(_current, rows):
            fresh.setdefault((int(row["scenario"] or 0), int(row["seed"] or 0)), []).append(row)
        self._runs |= fresh

    def _journal_lines(self) -> list[str]:
        with reading(self._journal_path):
            try:
                return self._journal_path.read_text(encoding="utf-8").splitlines()
            except FileNotFoundError:
                return []

    def __len__(self) -> int:
        """How many runs are kept."""
        return len(self._runs)

    @property
    def seeds(self) -> list[int]:
        """The seeds of which runs are kept, in rising order."""
        return sorted({seed for _, seed in self._runs})

    @property
    def files(self) -> list[str]:
        """The names of the files of declarations that made the runs, as far as the rows name them."""
        return sorted({str(rows[0][DECLARED_IN]) for rows in self._runs.values() if rows[0].get(DECLARED_IN) is not None})

    def find(self, scenario: str, seed: int, measured: str, ran: str | None = None, builds: str | None = None) -> list[Row]:
        """The rows of a run that what is declared now has measured; of any build, or of the build `ran` only; with any kernels and stacks, or with the `builds`
        only (rows of versions that did not note them count). None if it has not run."""
        rows = self._runs.get((number(scenario), seed), [])
        if not rows or not self._counts(rows[0], measured):
            return []
        of_builds = builds is None or rows[0].get("builds") in (None, builds)
        return rows if of_builds and ran in (None, rows[0]["ran"]) else []

    def _counts(self, row: Row, measured: str) -> bool:
        """Whether what is declared now has measured the run of a row, on a machine that it says if it needs one, and allows its failures."""
        if row["measured"] != measured or (self._alone and row.get(MACHINE) is None):
            return False
        return all(map(self._allows, json.loads(str(row.get(ALLOWED) or "[]"))))

    def places(self, axes: Sequence[str], declared: str, measured: str) -> dict[tuple[tuple[Scalar, ...], int], list[Row]]:
        """The rows of the runs of a declaration, by the values of the axes and the seed. Of two that are the same in these (of another file that the
        scenarios read, say), neither."""
        found: dict[tuple[tuple[Scalar, ...], int], list[Row]] = {}
        twice = set()
        for (_, seed), rows in self._runs.items():
            if rows[0].get("declared") == declared and self._counts(rows[0], measured):
                at = (tuple(rows[0].get(axis) for axis in axes), seed)
                if at in found:
                    twice.add(at)
                found[at] = rows
        return {at: rows for at, rows in found.items() if at not in twice}

    def renew(self, rows: Sequence[Row], declared: str) -> list[Row]:
        """The rows of a run that were found for a declaration, with its digest, under which they are kept from now on."""
        renewed: list[Row] = [{**row, "declared": declared} for row in rows]
        self._take(renewed)
        return renewed

    def put(self, runs: Sequence[Sequence[Row]]) -> None:
        """Keeps the rows of some runs, in place of those of an earlier build. They are on the disk when this returns."""
        assert self._journal is not None, "the store is open for reading only"
        # First here: what a Ctrl-C meets on its way to the disk is written when the store closes.
        for rows in runs:
            self._take(rows)
        self._journal.writelines(json.dumps(list(rows)) + "\n" for rows in runs)
        self._journal.flush()
        os.fsync(self._journal.fileno())

    def others(self, declared: Iterable[tuple[int, int]]) -> int:
        """How many runs are kept that are not declared any more. Those that are, are named by the numbers of their scenarios and their seeds."""
        return len(self._runs.keys() - set(declared))

    def drop_others(self, declared: Iterable[tuple[int, int]]) -> int:
        """Drops the runs that are not declared any more, and returns how many there were. The arguments are those of `others`."""
        assert self._journal is not None, "the store is open for reading only"
        dropped = self._runs.keys() - set(declared)
        for run in dropped:
            del self._runs[run]
        return len(dropped)

    def builds(self, declared: Iterable[tuple[int, int]]) -> list[str]:
        """What made the results of these runs: the build of Warpline, and kernels and stacks, if any."""
        made = {(str(row["ran"]), row.get("builds")) for run in declared if run in self._runs for row in self._runs[run][:1]}
        return sorted(f"{ran} with {builds}" if builds else ran for ran, builds in made)

    def __enter__(self) -> Store:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while not self._locked():
            pass
        assert self._journal is not None
        # What another study has written since the files were read.
        self._read()
        # A line that a kill cut off must not take the next one with it.
        if os.fstat(self._journal.fileno()).st_size > 0:
            self._journal.write("\n")
        return self

    def _locked(self) -> bool:
        """Opens the journal and locks it. Not if another study has ended in between, and removed it: then the lock keeps nobody out."""
        journal = self._journal_path.open("a", encoding="utf-8")
        if fcntl is not None:
            try:
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                journal.close()
                raise RunError(f"another study is running that writes {self.path}; wait for it, or stop it") from None
            if not is_at(journal.fileno(), self._journal_path):
                journal.close()
                return False
        self._journal = journal
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._journal is not None
        with undisturbed():
            self._write()
            # The lock lasts until the file is gone. Windows has none, and removes no file that is open.
            steps = (self._journal_path.unlink, self._journal.close)
            for step in steps if fcntl is not None else steps[::-1]:
                step()
            self._journal = None

    def _write(self) -> None:
        """Writes the Parquet file, in an order that does not depend on which run ended first."""
        rows: list[Row] = [row for run in sorted(self._runs, key=self._place) for row in self._runs[run]]
        if not rows:
            return
        names = dict.fromkeys(name for row in rows for name in row)
        Table.from_columns(dict(_packed(name, [row.get(name) for row in rows]) for name in names)).write(self.path)

    def _place(self, run: tuple[int, int]) -> tuple[Any, ...]:
        row = self._runs[run][0]
        # Those that are no number come behind the numbers: compared with one, nan is neither smaller nor larger.
        nans = {name for name, value in row.items() if isinstance(value, float) and math.isnan(value)}
        values = {name: value for name, value in row.items() if name not in RESERVED and isinstance(value, (str, int, float))}
        return ([(isinstance(value, str), name in nans, 0 if name in nans else value) for name, value in values.items()], run)
