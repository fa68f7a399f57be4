"""Plugins of few words, and clocks that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Event, Lock, Semaphore, Thread
from types import SimpleNamespace
from typing import Any

from tests.cache.threads import LIMIT
from tests.doors.compat import RWMutex

from moorage.compat.v1alpha1 import (
    Framework,
    NewFramework,
    NewPluginContext,
    NewRegistry,
    NewStatus,
    Plugin,
    Status,
    Wait,
)
from moorage.kube import Pod

Log = list[tuple[str, ...]]


def wait(seconds: float, message: str = "") -> tuple[Status, float]:
    """What a permit plugin answers that asks to wait."""
    return NewStatus(Wait, message), seconds


def plugin(name: str, log: Log | None = None, **answers: Any) -> Any:
    """A plugin of the points that are given, each with its answer: a value, an exception to raise, or a
    function of the point's arguments. It notes (name, point, pod, node) of its calls."""

    def method(point: str, answer: Any) -> Callable[..., Any]:
        def call(pc: Any, pod: Pod, node_name: str) -> Any:
            if log is not None:
                log.append((name, point, pod.name, node_name))
            if isinstance(answer, Exception):
                raise answer
            return answer(pc, pod, node_name) if callable(answer) else answer

        return call

    return SimpleNamespace(Name=lambda: name, **{point: method(point, answers[point]) for point in answers})


def framework(*plugins: Plugin, clock: Any = None) -> Framework:
    """A framework of plugins that are there already, in this order."""
    registry = NewRegistry()
    for each in plugins:
        registry.Register(each.Name(), lambda configuration, handle, each=each: each)  # type: ignore[misc]
    return NewFramework(registry, clock=clock)


class ScriptedClock:
    """Whoever waits does the next of `acts` instead; when none is left it is at once the time to wake up."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.time = 1000.0
        self.acts = list(acts)
        self.until: list[float] = []

    def now(self) -> float:
        return self.time

    def wait(self, condition: Condition, until: float) -> None:
        self.until.append(until - self.time)
        if self.acts:
            self.acts.pop(0)()
        else:
            self.time = until


class VirtualClock:
    """Time passes when the test says so; `blocked` counts the threads that have begun to wait."""

    def __init__(self) -> None:
        self.time = 0.0
        self.blocked = Semaphore(0)
        self._lock = Lock()
        self._conditions: list[Condition] = []

    def now(self) -> float:
        return self.time

    def wait(self, condition: Condition, until: float) -> None:
        with self._lock:
            if self.time >= until:
                return
            self._conditions.append(condition)
        self.blocked.release()
        assert condition.wait(LIMIT)

    def advance(self, seconds: float) -> None:
        with self._lock:
            self.time += seconds
            conditions, self._conditions = self._conditions, []
        for condition in conditions:
            with condition:
                condition.notify_all()


class Permitting:
    """RunPermitPlugins in a thread of its own, begun and blocked."""

    def __init__(self, run: Framework, clock: VirtualClock, pod: Pod) -> None:
        self.answers: list[Status | None] = []

        def permit() -> None:
            self.answers.append(run.RunPermitPlugins(NewPluginContext(), pod, "a"))

        self._thread = Thread(target=permit, daemon=True)
        self._thread.start()
        assert clock.blocked.acquire(timeout=LIMIT)

    def result(self) -> Status | None:
        self._thread.join(LIMIT)
        (answer,) = self.answers
        return answer


class Acquiring:
    """A thread that acquires a lock; whether it has is known once it stands before the lock or behind it."""

    def __init__(self, lock: RWMutex, acquire: Callable[[], None]) -> None:
        self.done = Event()
        asked = Event()
        wait_for = lock._changed.wait_for

        def told(predicate: Callable[[], bool]) -> bool:
            blocked = not predicate()
            if blocked:
                asked.set()
            return wait_for(predicate)

        def run() -> None:
            acquire()
            self.done.set()
            asked.set()

        lock._changed.wait_for = told  # type: ignore[method-assign, assignment]
        self.thread = Thread(target=run, daemon=True)
        self.thread.start()
        assert asked.wait(LIMIT)

    def acquired(self) -> bool:
        return self.done.is_set()

    def acquires(self) -> bool:
        return self.done.wait(LIMIT)
