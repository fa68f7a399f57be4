"""When the pods of workloads become available, and which workloads wait for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from msgspec import Struct

from moorage.kube.model.meta import Object
from moorage.kube.model.pod import Pod
from moorage.kube.workloads.ownership import is_healthy


class PodTimes(Struct, frozen=True, kw_only=True):
    """How long a pod takes for what its kubelet does with it, in whole seconds.

    Attributes
    ----------
    start : int
        From its binding until its containers run.
    ready : int
        From then until it is ready.
    stop : int
        From its deletion until it is gone, unless its grace period ends before.
    """

    start: int = 2
    ready: int = 8
    stop: int = 5


TimesOf = Callable[[Pod], PodTimes]
"""Returns how long a pod takes."""


class Availability:
    """Tells which pods are available: those that have been ready for `minReadySeconds`.

    A pod of which nobody reports the condition Ready is ready as it is bound, or some seconds later if a
    workload waits for pods by then.

    Parameters
    ----------
    now : callable
        Returns seconds.
    times : callable
        Returns how long a pod takes.

    Attributes
    ----------
    waiting : dict of (str, str) to float
        The workloads with a step to come, by kind and ``namespace/name``, to the time at which their next pod
        becomes available; infinite where no pod waits for its time.
    """

    def __init__(self, now: Callable[[], float], times: TimesOf) -> None:
        self.now = now
        self._times = times
        self.waiting: dict[tuple[str, str], float] = {}
        self._ready: dict[str, float] = {}  # when a pod became ready, or will, by UID

    def save(self) -> object:
        """Return the state, for `undo`."""
        return self.waiting.copy(), self._ready.copy()

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`."""
        waiting, ready = saved
        self.waiting, self._ready = waiting.copy(), ready.copy()

    def note_binding(self, pod: Pod) -> None:
        """Note that a pod was bound, while a workload waits for pods."""
        times = self._times(pod)
        self._ready[pod.metadata.uid] = self.now() + times.start + times.ready

    def of(self, min_ready_seconds: int) -> AvailablePods:
        """Return a predicate for the pods of a workload."""
        return AvailablePods(self.now(), min_ready_seconds, self._ready)

    def wait(self, obj: Object, is_complete: bool, due: float) -> None:
        """Note whether a workload has a step to come.

        Parameters
        ----------
        is_complete : bool
            Whether it has none.
        due : float
            When its next pod becomes available; infinite where no pod waits for its time.
        """
        if is_complete:
            self.waiting.pop((obj.kind, obj.key), None)
        else:
            self.waiting[obj.kind, obj.key] = due

    def wait_for_events(self, workloads: Iterable[tuple[str, str]]) -> None:
        """Have workloads wait for an event whose time has come and brought no change.

        Parameters
        ----------
        workloads : iterable of (str, str)
            By kind and ``namespace/name``.
        """
        now = self.now()
        for workload in workloads:
            if self.waiting.get(workload, inf) <= now:
                self.waiting[workload] = inf


class AvailablePods:
    """Whether a pod is available now.

    Parameters
    ----------
    now : float
        Seconds.
    period : int
        `minReadySeconds`.
    ready : dict of str to float
        When pods became ready, or will, by UID; is added to.

    Attributes
    ----------
    now : float
    due : float
        When the next of the pods that were asked for becomes available.
    """

    def __init__(self, now: float, period: int, ready: dict[str, float]) -> None:
        self.due = inf
        self.now, self._period, self._ready = now, period, ready

    def __call__(self, pod: Pod) -> bool:
        when = self.since(pod)
        if when > self.now:
            self.due = min(self.due, when)
        return when <= self.now

    def since(self, pod: Pod) -> float:
        """Return the time from which a pod is available; infinite for one that is not ready.

        Returns
        -------
        float
            Seconds.
        """
        if not is_healthy(pod):
            return inf
        uid = pod.metadata.uid
        ready = self._ready.setdefault(uid, self.now) if self._period else self._ready.get(uid, -inf)
        return ready + self._period
