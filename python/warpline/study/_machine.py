"""The machine of runs that depend on it, and what else it did meanwhile: their results are of that machine, at that time. One study has it at a time."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from warpline._pool import cores
from warpline._sweep import Scalar
from warpline.study._locks import is_at

if sys.platform != "win32":
    import fcntl

MACHINE = "machine"
"""The column that names the machine in the results of a run that depends on it."""

COLUMNS = (MACHINE, "load_before", "other_work")
"""Columns of the results of a run that depends on its machine: which machine, its load average of a minute at the start, and how many of its cores other
processes kept busy meanwhile, on average. On a virtual machine, what its host has given to others counts, too. No number is known where the system does not
tell it."""


ENOUGH = 0.9
"""What part of the CPUs may be busy on average while each program still gets one when it wants it."""


def name() -> str:
    """The machine in words: its processor, how many CPUs a run may use, its memory, and its kernel."""
    parts = [_processor(), f"{cores()} CPUs"]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        parts.append(f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB")
    return ", ".join([*parts, f"{platform.system()} {platform.release()}"])


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _busy() -> float | None:
    """For how many seconds the CPUs have been busy since the machine started, or not at our service."""
    if sys.platform != "linux":
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal; guests' time is part of the first two.
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """CPU time of this process and of its children that have ended, in seconds."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Watch:
    """Watches the machine while it is open as a context. Processes that are started meanwhile must have ended before it closes, to count as our own."""

    def __enter__(self) -> Watch:
        self._load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        self._began = time.monotonic(), _busy(), _own()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        began, before, own = self._began
        passed, busy = time.monotonic() - began, _busy()
        known = busy is not None and before is not None and passed > 0
        self._busy_cpus = (busy - before) / passed if known else None  # type: ignore[operator]
        # The machine counts in hundredths of a second.
        self._others = max(0.0, (busy - before - (_own() - own)) / passed) if known else None  # type: ignore[operator]

    @property
    def had_enough(self) -> bool:
        """Whether CPUs were left over, so that other runs can have taken nothing away from this one."""
        return self._busy_cpus is None or self._busy_cpus < ENOUGH * cores()

    @property
    def columns(self) -> dict[str, Scalar]:
        """The columns."""
        return dict(zip(COLUMNS, (name(), self._load, self._others), strict=True))


def told(rows: Iterable[Mapping[str, Scalar]]) -> list[str]:
    """For people: each machine that has made some of the rows, and how busy it was otherwise."""
    others: dict[str, list[float]] = {}
    for row in rows:
        machine, work = row.get(MACHINE), row.get("other_work")
        if machine is not None:
            others.setdefault(str(machine), []).extend([float(work)] if isinstance(work, (int, float)) else [])
    return [f"{machine}{_work(values)}" for machine, values in sorted(others.items())]


def _work(values: list[float]) -> str:
    return f"; other work kept {statistics.fmean(values):.2f} of its CPUs busy on average, and {max(values):.2f} in the busiest run" if values else ""


INSIDE = "WARPLINE_MACHINE_RUN"
"""A variable of the environment that has the number of a process while this process makes a run which needs the machine. The processes that the run starts
inherit it."""

_here = threading.local()
_count = 0
_counting = threading.Lock()

DISTURBED = "If another study on this machine makes runs that need it, both disturb each other"


def lock_path() -> Path:
    """The file whose lock the study has that makes runs which need the machine."""
    return Path(tempfile.gettempdir()) / "warpline-machine.lock"


def runs_lock_path() -> Path:
    """A file. Each process that makes a run which needs the machine has a shared lock of it meanwhile."""
    return lock_path().with_name("warpline-machine-runs.lock")


@contextlib.contextmanager
def alone(say: Callable[[str], object]) -> Iterator[None]:
    """Keeps other studies of this machine, also those of other users, from making runs that need it meanwhile. While another one makes some, or those of a study
    that was killed have not stopped yet, it waits, and says so. The system frees the locks when a process ends, however it ends. Without locks of files
    (Windows, some file systems), or if a file cannot be opened, nobody waits. Nor does a study that such a run makes: it would wait for itself."""
    if _inside():
        yield
        return
    with _locked(lock_path(), say, "another study on this machine makes runs that need it, or waits to make some"):
        with _locked(runs_lock_path(), say, "a run that needs this machine has not stopped yet"):
            pass
        yield


@contextlib.contextmanager
def in_use() -> Iterator[None]:
    """Has the shared lock while this process makes a run that needs the machine. So other studies wait for the run, even if its own study was killed."""
    if _inside():
        yield
        return
    with _locked(runs_lock_path(), lambda _: None, shared=True):
        _mark(1)
        try:
            yield
        finally:
            _mark(-1)


def _inside() -> bool:
    """Whether this is a part of a run that needs the machine: of one in this thread, or in a process above this one."""
    return getattr(_here, "runs", False) or os.environ.get(INSIDE, str(os.getpid())) != str(os.getpid())


def _mark(step: int) -> None:
    """Notes that a run in this thread begins (1) or ends (-1). Threads of one process may make several at once."""
    global _count
    _here.runs = step > 0
    with _counting:
        _count += step
        if _count:
            os.environ[INSIDE] = str(os.getpid())
        else:
            os.environ.pop(INSIDE, None)


@contextlib.contextmanager
def _locked(path: Path, say: Callable[[str], object], why: str = "", *, shared: bool = False) -> Iterator[None]:
    """Has the lock of a file, or a shared one, as soon as nobody else has one that keeps it out. `why` is for people who wait."""
    lock = None if sys.platform == "win32" else _lock(path, say, why, shared=shared)
    try:
        yield
    finally:
        # The file stays: one who waits for the lock of a removed file keeps nobody out.
        if lock is not None and sys.platform != "win32":
            # A process that was forked meanwhile has the file open, too, and would keep the lock.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)


if sys.platform != "win32":

    def _lock(path: Path, say: Callable[[str], object], why: str, *, shared: bool) -> int | None:
        """An open file that has the lock; None if there is no such file."""
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        while True:
            try:
                file = _opened(path)
            except OSError as error:
                say(f"{path} cannot be opened: {error.strerror}. {DISTURBED}")
                return None
            try:
                try:
                    fcntl.flock(file, how | fcntl.LOCK_NB)
                except BlockingIOError:
                    say(f"waits, because {why}, and has the lock of {path}")
                    fcntl.flock(file, how)
                # Unless somebody has removed it meanwhile: then another one may have the lock of a new file.
                if is_at(file, path):
                    return file
            except OSError as error:
                os.close(file)
                say(f"{path} cannot be locked: {error.strerror}. {DISTURBED}")
                return None
            except BaseException:
                os.close(file)
                raise
            os.close(file)

    def _opened(path: Path) -> int:
        """Opens a file that all users may read, which is enough for a lock. One that is there is opened as it is: in a directory for all, Linux does not let one user
        open another's file as one that may be made."""
        how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        while True:
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, how)
            with contextlib.suppress(FileExistsError):
                file = os.open(path, how | os.O_CREAT | os.O_EXCL)
                os.fchmod(file, 0o644)
                return file
