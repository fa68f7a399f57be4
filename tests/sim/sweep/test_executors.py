"""Executors of sweeps."""

from __future__ import annotations

import operator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import moorage as mo
from tests.doors.sim import make_executor


@pytest.mark.parametrize("name", ["serial", "threads", "processes"])
def test_an_executor_runs_tasks(name: str) -> None:
    with make_executor(name, 2) as executor:
        futures = [executor.submit(operator.add, at, 1) for at in range(4)]
        assert [future.result() for future in futures] == [1, 2, 3, 4]
        failed = executor.submit(operator.truediv, 1, 0)
        assert isinstance(failed.exception(), ZeroDivisionError)


def test_an_executor_has_the_workers_that_were_asked_for() -> None:
    with make_executor("threads", 3) as threads, make_executor("processes", 2) as processes:
        assert isinstance(threads, ThreadPoolExecutor)
        assert isinstance(processes, ProcessPoolExecutor)
        assert (threads._max_workers, processes._max_workers) == (3, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "workers", "text"),
    [
        ("cluster", None, "one of serial, threads, processes, ray"),
        ("threads", 0, "workers must be at least 1, not 0"),
    ],
)
def test_wrong_executors_are_refused(name: str, workers: int | None, text: str) -> None:
    with pytest.raises(mo.InputError, match=text):
        make_executor(name, workers)


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(mo.InputError, match="pip install ray"):
        make_executor("ray")
