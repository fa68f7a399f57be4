"""The pool of threads: every chunk is done once, whoever calls, from wherever."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.core._kernels import ffi, lib

CHUNKS = 200


class Loop:
    """A loop whose chunks note the thread that does them."""

    def __init__(self, threads: int, inner: Loop | None = None) -> None:
        self.threads, self.inner = threads, inner
        self.done: list[tuple[int, int]] = []
        self.work = ffi.callback("mr_chunk", self.note)

    def note(self, _: Any, chunk: int) -> None:
        self.done.append((chunk, threading.get_ident()))
        if self.inner is not None and chunk == 3:
            self.inner.run()

    def run(self) -> None:
        lib.mr_parallel(self.threads, CHUNKS, self.work, ffi.NULL)

    def check(self) -> None:
        assert sorted(chunk for chunk, _ in self.done) == list(range(CHUNKS))


@pytest.mark.parametrize("threads", [1, 2, 5, 1024])
def test_each_chunk_is_done_once(threads: int) -> None:
    for _ in range(20):
        loop = Loop(threads)
        loop.run()
        loop.check()
        assert len({thread for _, thread in loop.done}) <= threads


def test_a_loop_within_a_loop() -> None:
    inner = Loop(3)
    outer = Loop(3, inner)
    outer.run()
    outer.check()
    inner.check()
    assert len({thread for _, thread in inner.done}) == 1


def test_callers_in_several_threads() -> None:
    loops = [Loop(3) for _ in range(40)]
    with ThreadPoolExecutor(8) as callers:
        for done in [callers.submit(loop.run) for loop in loops]:
            done.result(60)
    for loop in loops:
        loop.check()


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_fork_within_a_loop() -> None:
    """The child has neither the threads nor the loop of its parent, and begins its own."""
    codes = []

    def note(_: Any, chunk: int) -> None:
        if chunk == 1:
            codes.append(forked())

    def forked() -> int:
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        loop = Loop(2)
        for _ in range(3):
            loop.done.clear()
            loop.run()
        os._exit(0 if sorted(at for at, _ in loop.done) == list(range(CHUNKS)) else 1)

    work = ffi.callback("mr_chunk", note)
    lib.mr_parallel(2, 4, work, ffi.NULL)
    assert codes == [0]
