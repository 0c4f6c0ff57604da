"""Processes that do pieces of work: those that end while they start."""

from __future__ import annotations

import itertools
import signal

import pytest

from warpline import _pool
from warpline._pool import WorkerDiedError, Workers


def killed(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Has the processes with these numbers, from 1, killed while they start."""
    count = itertools.count(1)

    class Killed(_pool._Worker):
        def __init__(self) -> None:
            super().__init__()
            if next(count) in numbers:
                self._process.kill()

    monkeypatch.setattr(_pool, "_Worker", Killed)


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("number", [1, 2])
def test_a_process_that_is_killed_while_it_starts_is_started_once_more(hidden: bool, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(monkeypatch, number)
    with Workers(2, hidden=hidden) as workers:
        futures = [workers.submit(abs, -value) for value in range(50)]
        assert [future.result() for future in futures] == list(range(50))


def test_a_process_that_will_not_start_fails_one_piece_of_work_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    killed(monkeypatch, 1, 2)
    with Workers(1, hidden=True) as workers:
        futures = [workers.submit(abs, -value) for value in range(5)]
        error = futures[0].exception()
        assert [future.result() for future in futures[1:]] == [1, 2, 3, 4]
    assert isinstance(error, WorkerDiedError)
    assert str(error).startswith("two worker processes in a row ended while they started, the second by signal 9 (SIGKILL)")
    assert "cloudpickle" not in str(error) and "__main__" not in str(error)


def test_ctrl_c_waits_for_what_may_not_be_left_half_done() -> None:
    done = False
    with pytest.raises(KeyboardInterrupt), _pool.undisturbed():
        signal.raise_signal(signal.SIGINT)
        done = True
    assert done
    # What ends for an error already ends for that.
    with pytest.raises(ValueError, match="first"), _pool.undisturbed():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("first")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
