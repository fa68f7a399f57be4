"""What forks share is made under the lock of whoever makes it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event, RLock, Thread
from typing import Any

from fastrlock.rlock import FastRLock
from tests.doors.engine import ClusterState
from tests.make import pod

LIMIT = 60.0
MEANWHILE = 0.2
"""Seconds in which whoever does not wait for a lock comes to its end. Whoever waits for it never does."""


def lock_of(holder: object) -> Any:
    (lock,) = [held for held in gc.get_referents(holder) if isinstance(held, type(RLock()) | FastRLock)]
    return lock


def test_ids_that_are_new_wait_for_the_lock() -> None:
    state = ClusterState()
    table, classes = state.table, state.classes
    classes.intern(pod("known"))
    makes: list[tuple[Any, Callable[[], object]]] = [
        (state.symbols, lambda: state.symbols.intern("new")),
        (table.taint_sets, lambda: table.taint_sets.intern((("key", "value", "NoSchedule"),))),
        (table.port_sets, lambda: table.port_sets.intern(frozenset({(1, 2, 80)}))),
        (classes, lambda: classes.intern(pod("shape", requests={"cpu": 7}))),
        (classes, lambda: classes.intern(pod("labels", labels={"a": "b"}))),
    ]
    ended = [Event() for _ in makes]

    def work(make: Callable[[], object], end: Event) -> None:
        make()
        end.set()

    threads = [
        Thread(target=work, args=(make, end), daemon=True)
        for (_, make), end in zip(makes, ended, strict=True)
    ]
    with ExitStack() as held:
        for holder, _ in makes:
            held.enter_context(lock_of(holder))
        for thread in threads:
            thread.start()
        ended[0].wait(MEANWHILE)
        assert [end.is_set() for end in ended] == [False] * len(makes)
    for thread in threads:
        thread.join(LIMIT)
    assert all(end.is_set() for end in ended)
