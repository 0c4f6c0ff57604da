"""Pieces of work in processes, one per core, or in any executor.

A process does one piece at a time. If it ends before its piece is done (a crash, no memory left), only that piece fails, and a new process takes
its place. One that ends while it starts is started once more. The processes end when this one does, however it ends.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, Protocol

from warpline._errors import WarplineError

_FAREWELL_S = 10.0
"""How long a process has to stop its run and to remove what belongs to it, in seconds."""

_GRACE_S = 0.5
"""How long a process has to notice a Ctrl-C by itself, in seconds."""


class ExecutorLike(Protocol):
    """Does pieces of work: an executor of concurrent.futures, dask's `client.get_executor()`, or another like them."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Starts `fn(*args)` and returns a future."""


class WorkerDiedError(WarplineError, RuntimeError):
    """A process ended before its piece of work was done."""


def cores() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Workers:
    """An executor with `jobs` processes. As a context, it ends them: at once if there is an exception, else when all work is done.

    `hidden` keeps the processes from importing the main module, for work that needs nothing from it.
    """

    def __init__(self, jobs: int, *, hidden: bool = False) -> None:
        self._hidden = hidden
        self._threads = ThreadPoolExecutor(max(1, jobs), thread_name_prefix="warpline-worker")
        self._own = threading.local()
        self._starting = threading.Lock()
        self._all: set[_Worker] = set()
        self._able = False
        """Whether a process has ever come to work."""
        self._unable: str | None = None
        """Why none ever will, where that is known."""
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Starts `fn(*args)` in the next process that is free. Its future has a `WorkerDiedError` if the process ends."""
        return self._threads.submit(self._do, fn, args)

    def _do(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = self._start()
        try:
            return worker.do(fn, args)
        except WorkerDiedError:
            self._own.worker = None
            self._all.discard(worker)
            raise

    def _start(self) -> _Worker:
        how = ""
        for _ in range(2):
            # One at a time: what hides the main module is global.
            with self._starting:
                if self._closed or self._unable is not None:
                    raise WorkerDiedError(self._unable or "stopped")
                with _main_hidden(self._hidden):
                    worker = _Worker()
                self._all.add(worker)
            if worker.ready():
                self._able = True
                return worker
            self._all.discard(worker)
            how = worker.ended()
            if not (self._hidden or self._able or worker.killed):
                # The main module ended it, and would end the next one, too.
                self._unable = (
                    f"a worker process ended {how} while it started. Without cloudpickle, workers import the main module, and a script needs "
                    '`if __name__ == "__main__":` around what it runs'
                )
                raise WorkerDiedError(self._unable)
        raise WorkerDiedError(f"two worker processes in a row ended while they started, the second {how} (no memory left?); fewer at once need less (jobs)")

    def close(self, *, now: bool = False) -> None:
        """Ends the processes: after all work, or with `now` at once, in which case runs under way stop and remove what belongs to them."""
        if not now:
            self._threads.shutdown(wait=True)
            for worker in list(self._all):
                worker.end()
            return
        with undisturbed():
            self._closed = True
            self._threads.shutdown(wait=False, cancel_futures=True)
            # Ctrl-C reaches all processes of a terminal, and a second one could come while they tidy up.
            workers = list(self._all)
            wait([worker.sentinel for worker in workers], timeout=_GRACE_S)
            for worker in workers:
                worker.interrupt()
            for worker in list(self._all):
                worker.end()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(now=kind is not None)


class _Worker:
    """A process, and the pipe to it."""

    def __init__(self) -> None:
        # Not "fork": the parent may have threads (polars, a notebook), and a fork of those can hang.
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=False)
        self._process.start()
        other.close()

    @property
    def sentinel(self) -> int:
        """What is ready when the process has ended."""
        return self._process.sentinel

    def ready(self) -> bool:
        """Waits until the process can work; False if it ended instead."""
        try:
            return bool(self._pipe.recv())
        except (EOFError, OSError):
            return False

    def do(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Has it do a piece of work, and returns the result."""
        data = pickle.dumps((fn, args))
        try:
            self._pipe.send_bytes(data)
            error, result = self._pipe.recv()
        except (EOFError, OSError):
            raise WorkerDiedError(f"a worker process ended {self.ended()} before its work was done (a crash, or no memory left?)") from None
        if error is not None:
            raise error
        return result

    @property
    def killed(self) -> bool:
        """Whether a signal has ended the process."""
        return (self._process.exitcode or 0) < 0

    def ended(self) -> str:
        """How a process has ended whose pipe is closed, in words: "by signal 9 (SIGKILL)", "with code 1"."""
        self._process.join(_FAREWELL_S)
        code = self._process.exitcode
        return f"by signal {-code} ({signal.Signals(-code).name})" if code is not None and code < 0 else f"with code {code}"

    def interrupt(self) -> None:
        """Stops what it does, as Ctrl-C would."""
        if self._process.pid is not None and self._process.is_alive():
            if sys.platform == "win32":
                self._process.terminate()
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._process.pid, signal.SIGINT)

    def end(self) -> None:
        """Ends it: it leaves when the pipe closes."""
        self._pipe.close()
        self._process.join(_FAREWELL_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection) -> None:
    """What a process does: pieces of work, until the pipe closes or Ctrl-C comes."""
    # The child of a background job of a shell would ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    try:
        pipe.send(True)
        while True:
            fn, args = pickle.loads(pipe.recv_bytes())
            try:
                outcome: tuple[Exception | None, Any] = None, fn(*args)
            except Exception as error:
                outcome = error, None
            try:
                pipe.send(outcome)
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                pipe.send((RuntimeError(f"the result cannot be sent back ({type(error).__name__}: {error})"), None))
    except (EOFError, OSError, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _follow(parent: int) -> None:
    """Stops the work under way when the parent has ended, and leaves."""
    wait([parent])
    if sys.platform != "win32":
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        threading.Event().wait(_FAREWELL_S)
    os._exit(1)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Holds back requests to end (SIGINT, SIGTERM) meanwhile, for what takes seconds at most: half done, it would leave processes or files behind.

    The first request is obeyed afterwards, unless an error or an earlier request is ending the work already.
    """
    came: list[int] = []
    asks = [signal.SIGINT, signal.SIGTERM] if threading.current_thread() is threading.main_thread() else []
    before = {ask: signal.signal(ask, lambda number, _frame: came.append(number)) for ask in asks}
    try:
        yield
    finally:
        for ask, handler in before.items():
            # None: it was not set from Python.
            signal.signal(ask, signal.SIG_DFL if handler is None else handler)
        if came and sys.exc_info()[0] is None:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def _main_hidden(hidden: bool) -> Iterator[None]:
    """While a process starts, keeps it from importing the main module.

    So a script needs no guard, and a program from standard input, which has no file, can use processes.
    """
    main = sys.modules["__main__"]
    names = ("__file__", "__spec__") if hidden else ()
    before = {name: getattr(main, name) for name in names if hasattr(main, name)}
    try:
        for name in before:
            setattr(main, name, None)
        yield
    finally:
        for name, value in before.items():
            setattr(main, name, value)


def cloud_dumps(*by_value: ModuleType) -> Callable[[Any], bytes] | None:
    """cloudpickle's `dumps`, or None if it is not installed. It includes what is defined in a script or notebook, functions without a name, and the
    code of the modules in `by_value`, which other processes cannot import."""
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError:
        return None

    def dumps(value: Any) -> bytes:
        known = set(cloudpickle.list_registry_pickle_by_value())
        mine = [module for module in by_value if module.__name__ not in known]
        for module in mine:
            cloudpickle.register_pickle_by_value(module)
        try:
            data: bytes = cloudpickle.dumps(value)
            return data
        finally:
            for module in mine:
                cloudpickle.unregister_pickle_by_value(module)

    return dumps
