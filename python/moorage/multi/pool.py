"""Pools of workers, in threads of this process or in processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from moorage.errors import MoorageError

from .worker import BinderUpdate, ProposedPlacements, Worker, WorkerInit

DIED = "scheduler {} has died"
Ints = npt.NDArray[np.int32]


class Pool:
    """Workers that run concurrently; arguments and results are in the order of the workers.

    Attributes
    ----------
    died : tuple of type
        The errors of a worker whose process has ended.
    """

    died: tuple[type[BaseException], ...] = (BrokenExecutor,)

    def propose(self, pods: Sequence[Ints]) -> list[ProposedPlacements]:
        """Call `Worker.propose` of each worker.

        Parameters
        ----------
        pods : sequence of (n,) int32 array
            Pods of each worker, as indices in `WorkerInit.pods`.

        Returns
        -------
        list of ProposedPlacements

        Raises
        ------
        MoorageError
            The process of a worker has ended.
        """
        return self._call("propose", pods)

    def update(self, updates: Sequence[BinderUpdate]) -> None:
        """Call `Worker.update` of each worker.

        Parameters
        ----------
        updates : sequence of BinderUpdate
            The update of each worker.

        Raises
        ------
        MoorageError
            The process of a worker has ended.
        """
        self._call("update", updates)

    def close(self) -> None:
        """End the workers."""
        raise NotImplementedError

    def _submit(self, number: int, method: str, argument: Any) -> Future[Any]:
        raise NotImplementedError

    def _call(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        futures: list[Future[Any]] = []
        results: list[Any] = []
        try:
            for argument in arguments:
                futures.append(self._submit(len(futures), method, argument))
            for future in futures:
                results.append(future.result())
        except self.died:
            number = len(results) if len(futures) == len(arguments) else len(futures)
            raise MoorageError(DIED.format(number)) from None
        return results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class Threads(Pool):
    """Workers in threads; decisions in the core run in parallel, because it releases the GIL."""

    def __init__(self, inits: Sequence[WorkerInit]) -> None:
        self.workers = [Worker(init) for init in inits]
        self._threads = ThreadPoolExecutor(len(inits), "moorage-worker")

    def _submit(self, number: int, method: str, argument: Any) -> Future[Any]:
        return self._threads.submit(getattr(self.workers[number], method), argument)

    def close(self) -> None:
        self._threads.shutdown()


class Processes(Pool):
    """Workers in processes, which share no memory with this one.

    Attributes
    ----------
    pids : list of int
        Identifiers of the processes.
    """

    def __init__(self, inits: Sequence[WorkerInit]) -> None:
        # Not fork: locks held by threads of this process would stay locked in the child.
        context = multiprocessing.get_context("spawn")
        self._executors = [ProcessPoolExecutor(1, context) for _ in inits]
        try:
            self.pids: list[int] = self._call("start", inits)
        except BaseException:
            self.close()
            raise

    def _submit(self, number: int, method: str, argument: Any) -> Future[Any]:
        return self._executors[number].submit(run_in_process, method, argument)

    def close(self) -> None:
        for executor in self._executors:
            executor.shutdown()


_workers: list[Worker] = []
"""The worker of this process."""


def run_in_process(method: str, argument: Any) -> Any:
    """Create the worker of this process, or call one of its methods.

    Parameters
    ----------
    method : str
        ``start``, or the name of a method.
    argument : object
        `WorkerInit`, or the argument of the method.

    Returns
    -------
    object
        The identifier of the process, or the result of the method.
    """
    if method == "start":
        _workers.append(Worker(argument))
        return os.getpid()
    return getattr(_workers[0], method)(argument)
