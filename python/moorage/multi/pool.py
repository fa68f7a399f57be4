"""Where workers run: in threads of this process, or each in a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from moorage.errors import MoorageError

from .worker import News, Proposals, Share, Worker

DIED = "scheduler {} has died"
Ints = npt.NDArray[np.int32]


class Pool(Protocol):
    """Workers, each asked in turn; answers stand in the order of the workers."""

    def propose(self, pods: Sequence[Ints]) -> list[Proposals]:
        """Have each worker decide about its pods, all at the same time."""

    def hear(self, news: Sequence[News]) -> None:
        """Tell each worker what the binder has decided."""

    def close(self) -> None:
        """End the workers."""


class _Closing:
    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Threads(_Closing):
    """Workers in threads: decisions run side by side where the core makes them, as it needs no lock then."""

    def __init__(self, shares: Sequence[Share]) -> None:
        self.workers = [Worker(share) for share in shares]
        self._threads = ThreadPoolExecutor(len(shares), "moorage-worker")

    def propose(self, pods: Sequence[Ints]) -> list[Proposals]:
        asked = zip(self.workers, pods, strict=True)
        return _results([self._threads.submit(worker.propose, some) for worker, some in asked])

    def hear(self, news: Sequence[News]) -> None:
        asked = zip(self.workers, news, strict=True)
        _results([self._threads.submit(worker.hear, some) for worker, some in asked])

    def close(self) -> None:
        self._threads.shutdown()


def _results(futures: Sequence[Future[Any]]) -> list[Any]:
    return [future.result() for future in futures]


class Processes(_Closing):
    """Workers in processes that share nothing with this one."""

    def __init__(self, shares: Sequence[Share]) -> None:
        # Not forked: threads of this process may hold locks, which nobody would release in the copy.
        context = multiprocessing.get_context("spawn")
        self._lines: list[Connection[Any, Any]] = []
        self.processes = []
        for share in shares:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, share), daemon=True)
            process.start()
            theirs.close()
            self._lines.append(ours)
            self.processes.append(process)
        try:
            self._answers()  # all have made their copies
        except BaseException:
            self.close()
            raise

    def propose(self, pods: Sequence[Ints]) -> list[Proposals]:
        return self._ask("propose", pods)

    def hear(self, news: Sequence[News]) -> None:
        self._ask("hear", news)

    def _ask(self, what: str, arguments: Sequence[object]) -> list[Any]:
        for number, (line, argument) in enumerate(zip(self._lines, arguments, strict=True)):
            try:
                line.send((what, argument))
            except BrokenPipeError:
                raise MoorageError(DIED.format(number)) from None
        return self._answers()

    def _answers(self) -> list[Any]:
        answers = []
        for number, line in enumerate(self._lines):
            try:
                answer = line.recv()
            except EOFError:
                raise MoorageError(DIED.format(number)) from None
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
        return answers

    def close(self) -> None:
        for line in self._lines:
            line.close()
        for process in self.processes:
            process.join()


def _serve(line: Connection[Any, Any], share: Share) -> None:
    """What a worker's process does: answer, until nobody asks any more."""
    try:
        worker = Worker(share)
        line.send(None)
        while True:
            what, argument = line.recv()
            line.send(getattr(worker, what)(argument))
    except EOFError:
        return
    except Exception as error:
        line.send(error)  # the caller's, from here on
