"""Executors of sweeps: threads, processes, and Ray clusters, behind the interface of concurrent.futures."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from moorage.errors import InputError, missing

P = ParamSpec("P")
T = TypeVar("T")

EXECUTORS = "serial", "threads", "processes", "ray"
RETRIES = 5  # of a task whose Ray worker or node died


def make_executor(name: str, workers: int | None = None) -> Executor:
    """Return an executor.

    Parameters
    ----------
    name : {"serial", "threads", "processes", "ray"}
        ``ray`` uses the Ray cluster to which the process is connected, or starts one on this machine. It
        needs the extra ``ray``.
    workers : int, optional
        Threads or processes; as many as the machine has processors by default. A Ray cluster has its own.

    Raises
    ------
    InputError
        The name is unknown, the number is below 1, or Ray is not installed.
    """
    if name not in EXECUTORS:
        raise InputError(f"executor must be one of {', '.join(EXECUTORS)}, not {name!r}")
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, not {workers}")
    count = workers or os.cpu_count() or 1
    if name == "serial":
        return SerialExecutor()
    if name == "threads":
        return ThreadPoolExecutor(count)
    if name == "processes":
        # A child of fork would inherit locks that other threads of the parent hold.
        return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
    return RayExecutor()


class SerialExecutor(Executor):
    """Runs each task when it is submitted."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a task.

        Returns
        -------
        Future
            Done already.
        """
        future: Future[T] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class RayExecutor(Executor):
    """Runs tasks on the Ray cluster to which the process is connected, or on one of its own.

    A task whose worker or node dies is run again elsewhere.

    Raises
    ------
    InputError
        Ray is not installed.
    """

    def __init__(self) -> None:
        try:
            import ray
        except ImportError as error:
            raise InputError(missing("ray", "ray")) from error
        self._ray: Any = ray
        self._owns = not ray.is_initialized()
        if self._owns:
            ray.init(include_dashboard=False, log_to_driver=False)
        self._task: Any = ray.remote(max_retries=RETRIES)(_call)
        self._shared: dict[int, tuple[object, Any]] = {}

    def share(self, value: object) -> Any:
        """Return a reference to a value in the object store, which workers read without a copy each."""
        if id(value) not in self._shared:
            self._shared[id(value)] = value, self._ray.put(value)  # kept, so that the id is not used again
        return self._shared[id(value)][1]

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a task on the cluster."""
        future: Future[T] = self._task.remote(function, *args, **kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the Ray cluster if this executor has started it."""
        if self._owns:
            self._ray.shutdown()


def _call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function: the one task that Ray knows, which references among the arguments are resolved for."""
    return function(*args, **kwargs)
