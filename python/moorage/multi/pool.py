"""Pools of workers, of which this module has the one in threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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

    died: tuple[type[BaseException], ...] = ()

    def propose(self, pods: Sequence[Ints]) -> list[ProposedPlacements]:
        """Call `Worker.propose` of each worker.

        Parameters
        ----------
        pods : sequence of (n,) int32 array
            Pods of each worker, as indices in `WorkerInit.pods`.

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
