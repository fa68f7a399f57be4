"""The locks of v1alpha1, and what holds them."""

from __future__ import annotations

from collections.abc import Callable

from tests.compat.v1alpha1.world import ScriptedClock
from tests.doors.compat import PodInPermit, RWMutex, WaitingPods
from tests.locks import check_locked, guard
from tests.make import pod


class Mode:
    """A mutex as a lock that is held in one way."""

    def __init__(self, held: Callable[[], object]) -> None:
        self.held = held

    def acquire(self, blocking: bool) -> bool:
        return not self.held()

    def release(self) -> None:
        """Nothing was acquired."""


def test_a_mutex() -> None:
    one = RWMutex()
    calls = {"Lock": one.Lock, "Unlock": one.Unlock, "RLock": one.RLock, "RUnlock": one.RUnlock}
    check_locked(one, "_changed", ["_readers", "_writing", "_turn", "_next_readers"], calls)


def test_a_waiting_pod() -> None:
    one = PodInPermit(pod("p"), 1.0, ScriptedClock())
    calls = {"Allow": one.Allow, "Reject": lambda: one.Reject("no"), "wait": one.wait}
    check_locked(one, "_changed", ["_decided", "_status"], calls, exempt=["GetPod"])


def test_the_waiting_pods() -> None:
    one, waiting = WaitingPods(), PodInPermit(pod("p"), 1.0, ScriptedClock())
    mutex = one._lock
    writes, reads = Mode(lambda: mutex._writing), Mode(lambda: mutex._readers)
    for lock, call in (
        (writes, lambda: one.add(waiting)),
        (reads, lambda: one.iterate(lambda _: None)),
        (writes, lambda: one.remove("p")),
    ):
        touched = guard(one, lock, "_pods")
        call()
        assert touched
        one.__class__ = WaitingPods
        assert (mutex._writing, mutex._readers) == (False, 0)
