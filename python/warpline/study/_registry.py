"""Finds declarations: `repro/PAPER/declarations.py`, and files of one's own. A new figure is one declaration, and stands in no other list."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from warpline._errors import WarplineError
from warpline.study import _code
from warpline.study._declare import Elsewhere, Figure, Paper
from warpline.study._paths import is_special
from warpline.study._study import Study
from warpline.study._told import RAISED, StudyError, in_words, naming

FILE = "declarations.py"
"""The file in the directory of a paper."""

REPRO = "WARPLINE_REPRO"
"""The variable that names the directory with the papers."""


@dataclass(frozen=True)
class Declared:
    """A file of declarations.

    Attributes:
        name: The paper's short name: that of its directory, unless it has another.
        file: Where it is.
        paper: What it declares.
        package: The package that has its module, and the modules beside it that it imports. Other processes cannot import it.
    """

    name: str
    file: Path
    paper: Paper
    package: ModuleType

    @property
    def directory(self) -> Path:
        """The directory of the file."""
        return self.file.parent

    @property
    def figures(self) -> list[Figure]:
        """The figures that a study can run."""
        return [figure for figure in self.paper.figures if isinstance(figure, Figure)]

    def study(self, figure: Figure, *, quick: bool = False) -> Study:
        """The study of a figure, with its results in `results/` beside the declaration, those of the quick form in `results/quick/`.

        Raises:
            StudyError: If the quick form is wrong.
        """
        results = self.directory / "results" / ("quick" if quick else "")
        beside = [Path(str(module.__file__)).name for name, module in sys.modules.items() if name.startswith(f"{self.package.__name__}.")]
        name = f"{self.name}/{figure.name}"
        if quick:
            with naming(f"{name}, quick form"):
                figure = figure.quickly()
        # Its own module is one of them.
        return Study(name, figure, self.directory, results / f"{figure.name}.parquet", list(dict.fromkeys([self.file.name, *beside])))


class _Loader(SourceFileLoader):
    """Loads a module beside a declaration, which keeps its text for digests."""

    def exec_module(self, module: ModuleType) -> None:
        """Runs it."""
        path = Path(self.path)
        _execute(module, path, path.read_text(encoding="utf-8"))


def _execute(module: ModuleType, path: Path, text: str) -> None:
    """Runs the text of a declaration, or of a module beside it.

    Raises:
        StudyError: If it imports a module beside the declaration as if it were installed.
    """
    if (past := _code.imported_past(module, path, text)) is not None:
        raise StudyError(f"{path}:{past[0]}: this module is beside the declaration: write `{past[1]}`, so that a change of it is noticed, and other machines have it")
    _code.execute(module, path, text)


class _Finder(MetaPathFinder):
    """Finds the modules beside declarations."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where a module is."""
        found = PathFinder.find_spec(fullname, path, target) if fullname.startswith(_code.PACKAGE) else None
        if found is not None and isinstance(found.loader, SourceFileLoader):
            found.loader = _Loader(found.loader.name, found.loader.path)
        return found


sys.meta_path.insert(0, _Finder())


def load(path: Path, name: str | None = None) -> Declared:
    """Reads a file of declarations, and what it imports of its directory (`from .nsc import Stack`), as they are now, whatever was read before.

    Raises:
        StudyError: If it cannot be read, or declares nothing.
    """
    path = path.resolve()
    name = name or path.stem
    # A package of its own for each file: papers may have modules of the same name, and so may directories of the same name.
    package = _code.PACKAGE + hashlib.sha256(str(path).encode()).hexdigest()[:16]
    for earlier in [known for known in sys.modules if known.startswith(f"{package}.")]:
        del sys.modules[earlier]
    importlib.invalidate_caches()
    parent = ModuleType(package, "Declarations, and the modules beside them.")
    parent.__path__ = [str(path.parent)]
    sys.modules[package] = parent
    module = ModuleType(f"{package}.{path.stem}")
    module.__package__ = package
    sys.modules[module.__name__] = module
    try:
        _execute(module, path, _text(path))
        paper = _paper(module, path, name)
    except WarplineError:
        raise
    except RAISED as error:
        place = next((f":{frame.tb_lineno}" for frame in _frames(error) if frame.tb_frame.f_code.co_filename == str(path)), "")
        raise StudyError(f"{path}{place}: {in_words(error)}") from error
    return Declared(paper.name or name, path, paper, parent)


def _paper(module: ModuleType, path: Path, name: str) -> Paper:
    """What a module declares."""
    paper = getattr(module, "PAPER", None)
    if isinstance(paper, Paper):
        return paper
    # One that has several names is one.
    figures = list({id(value): value for value in vars(module).values() if isinstance(value, (Figure, Elsewhere))}.values())
    if not figures:
        raise StudyError(f"{path} declares nothing: assign a study.Paper to PAPER, or a study.Figure to any name")
    about = (module.__doc__ or "").strip().splitlines()
    return Paper(about[0] if about else name, figures)


def _text(path: Path) -> str:
    if is_special(path):
        raise StudyError(f"{path} cannot be read: it is not a regular file")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror}") from error


def _frames(error: BaseException) -> list[TracebackType]:
    """Where an error came from, the innermost first."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    return frames[::-1]


def repro_directory(given: Path | None = None) -> Path:
    """The directory with the papers: the one given, that of WARPLINE_REPRO, or `repro` in the current directory or one above.

    Raises:
        StudyError: If there is none.
    """
    named = given or (Path(os.environ[REPRO]) if os.environ.get(REPRO) else None)
    candidates = [named] if named is not None else [above / "repro" for above in (Path.cwd(), *Path.cwd().parents)]
    for candidate in candidates:
        if any(candidate.glob(f"*/{FILE}")):
            return candidate
    where = f"{named} has no PAPER/{FILE}" if named is not None else f"no directory repro with PAPER/{FILE} here or above"
    raise StudyError(f"{where}: name the one of Warpline's source with --repro DIR, or {REPRO}")


def papers(directory: Path) -> list[Declared]:
    """All papers, in the order of their names."""
    return [load(file, file.parent.name) for file in sorted(directory.glob(f"*/{FILE}"))]


def find(names: Sequence[str], repro: Path | None) -> list[tuple[Declared, list[Figure]]]:
    """What is meant by PAPER/FIGURE, PAPER (all its figures), FILE.py, and FILE.py:FIGURE. A figure that several names mean is there once.

    Raises:
        StudyError: If a name is unknown; the text has those that are similar.
    """
    found: list[tuple[Declared, list[Figure]]] = []
    known: list[Declared] | None = None
    files: dict[Path, Declared] = {}
    named: set[tuple[Path, str]] = set()
    for name in names:
        path, _, wanted = name.partition(":") if ".py" in name else (name, "", "")
        if path.endswith(".py"):
            file = Path(path).resolve()
            declared = files[file] = files.get(file) or load(file)
        else:
            own = Path(f"{path}.py")
            hint = f"; for the declarations in {own} here, write {own}" if own.is_file() else ""
            try:
                known = papers(repro_directory(repro)) if known is None else known
            except StudyError as error:
                raise StudyError(f"{error}{hint}") from error
            paper, _, wanted = name.strip("/").partition("/")
            matching = [one for one in known if one.name == paper]
            if not matching:
                raise StudyError(f"no paper {paper!r}{_similar(paper, [one.name for one in known])}; there are {', '.join(one.name for one in known)}{hint}")
            declared = matching[0]
        figures = [figure for figure in declared.figures if wanted in ("", figure.name)]
        if not figures:
            names_here = [figure.name for figure in declared.figures]
            others = {one.name: one for one in declared.paper.figures if isinstance(one, Elsewhere)}
            if wanted in others:
                raise StudyError(f"{name} is not a declaration, because {others[wanted].why}; it is made by: {others[wanted].how}")
            raise StudyError(f"{declared.name} has no figure {wanted!r}{_similar(wanted, names_here)}; there are {', '.join(names_here) or 'none'}")
        fresh = [figure for figure in figures if (declared.file, figure.name) not in named]
        named.update((declared.file, figure.name) for figure in fresh)
        if fresh:
            found.append((declared, fresh))
    return found


def _similar(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f" (is it {close[0]}?)" if close else ""
