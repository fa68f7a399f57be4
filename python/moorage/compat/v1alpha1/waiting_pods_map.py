"""Pods that wait at the permit point."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition
from typing import Protocol

from moorage.framework.configuration.durations import format_duration
from moorage.objects.model.pod import Pod

from .context import RWMutex
from .v1alpha1_status import Status, Unschedulable


class Clock(Protocol):
    """The time by which pods wait, in seconds from any start."""

    def now(self) -> float:
        """The time; it does not go back."""

    def wait(self, condition: Condition, until: float) -> None:
        """Block until the condition is notified or it is `until`, or less. The caller holds the condition."""


class MonotonicClock:
    """The clock of the machine."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, condition: Condition, until: float) -> None:
        condition.wait(max(0.0, until - time.monotonic()))


class PodInPermit:
    """A `WaitingPod` of a framework that runs by itself.

    One signal at most is delivered, from the moment the pod is among the waiting ones until it is decided or
    its time is over. (Upstream also lost signals that came before its goroutine had begun to listen.)
    """

    def __init__(self, pod: Pod, timeout: float, clock: Clock) -> None:
        self._pod = pod
        self._timeout = timeout
        self._clock = clock
        self._deadline = clock.now() + timeout
        self._changed = Condition()
        self._decided = False
        self._status: Status | None = None

    def GetPod(self) -> Pod:
        """The pod itself."""
        return self._pod

    def Allow(self) -> bool:
        """Let the pod be scheduled, however many plugins asked to wait; True if the signal was delivered."""
        return self._signal(None)

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable; True if the signal was delivered."""
        return self._signal(Status(Unschedulable, f"rejected while waiting at permit: {msg}"))

    def _signal(self, status: Status | None) -> bool:
        with self._changed:
            if self._decided or self._clock.now() >= self._deadline:
                return False
            self._decided, self._status = True, status
            self._changed.notify_all()
            return True

    def wait(self) -> Status | None:
        """Block until a signal or the timeout; for the framework. The answer is that of the permit point."""
        with self._changed:
            while not self._decided:
                if self._clock.now() >= self._deadline:
                    after = format_duration(self._timeout)
                    text = f"pod {self._pod.name} rejected due to timeout after waiting {after} at permit"
                    return Status(Unschedulable, text)
                self._clock.wait(self._changed, self._deadline)
            return self._status


class WaitingPods:
    """The waiting pods by UID; of two with one UID the later is found."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPermit] = {}
        self._lock = RWMutex()

    def add(self, waiting: PodInPermit) -> None:
        """A pod begins to wait."""
        self._lock.Lock()
        try:
            self._pods[waiting.GetPod().metadata.uid] = waiting
        finally:
            self._lock.Unlock()

    def remove(self, uid: str) -> None:
        """A pod has ended to wait."""
        self._lock.Lock()
        try:
            self._pods.pop(uid, None)
        finally:
            self._lock.Unlock()

    def get(self, uid: str) -> PodInPermit | None:
        """The waiting pod with this UID, or None. One look needs no lock, so it may be taken in an iteration
        while another pod wants to leave."""
        return self._pods.get(uid)

    def iterate(self, callback: Callable[[PodInPermit], object]) -> None:
        """Call back for each, under the read lock."""
        self._lock.RLock()
        try:
            for waiting in self._pods.values():
                callback(waiting)
        finally:
            self._lock.RUnlock()
