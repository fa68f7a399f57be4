"""Pods that wait at Permit, and pods in PreBind.

Source: kube-scheduler v1.36, framework/runtime, waiting_pods_map.go and pods_in_prebind_map.go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from moorage.kube import Pod
from moorage.kube.go_texts import format_duration

from .status import Code, Status

MAX_TIMEOUT = 15 * 60.0
NEVER = float("inf")


class WaitingPod:
    """A pod that waits until each waiting plugin has allowed it, or one plugin has rejected it.

    Each waiting plugin has a timer, which rejects the pod. Timers use the clock of the caller of `expire`.
    Thread-safe.

    Parameters
    ----------
    timeouts : mapping of str to float
        Seconds to wait by plugin; the pod is rejected at once for zero or less.
    now : float
        Time in seconds at which the waiting begins.

    Attributes
    ----------
    began : float
        `now`, in seconds.
    """

    def __init__(self, pod: Pod, timeouts: Mapping[str, float], now: float) -> None:
        self.pod, self.began = pod, now
        self._timeouts = dict(timeouts)
        self._deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
        self._pending = list(timeouts)
        self._signal: Status | None = None
        self._listeners: list[Callable[[], object]] = []
        self._changed = threading.Condition(threading.RLock())
        self.expire(now)

    @property
    def signal(self) -> Status | None:
        """Success or the rejection; None while the pod waits."""
        return self._signal

    def get_pending_plugins(self) -> list[str]:
        """Return the plugins that have not allowed the pod yet."""
        with self._changed:
            return list(self._pending)

    def allow(self, *plugins: str) -> bool:
        """Allow the pod for some plugins; the pod is allowed with the last one.

        Parameters
        ----------
        *plugins : str
            Names of the plugins.

        Returns
        -------
        bool
            False if none of them was waiting, or the pod was decided before.
        """
        with self._changed:
            waited = self._signal is None and not set(plugins).isdisjoint(self._pending)
            for plugin in plugins:
                self._deadlines.pop(plugin, None)
            self._pending = [plugin for plugin in self._pending if plugin not in plugins]
            if not self._pending:
                self._decide(Status(Code.SUCCESS))
            return waited

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod.

        Parameters
        ----------
        plugin, message : str
            Name of the plugin, and the reason.

        Returns
        -------
        bool
            False if the pod was decided before.
        """
        return self._decide(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Fail the pod with an Error, so that it is retried soon.

        Parameters
        ----------
        plugin, message : str
            Name of the plugin, and the message.

        Returns
        -------
        bool
            False if the pod was decided before.
        """
        return self._decide(Status(Code.ERROR, (message,), plugin))

    def _decide(self, status: Status) -> bool:
        with self._changed:
            if self._signal is not None:
                return False
            self._deadlines.clear()
            self._signal = status
            self._changed.notify_all()
            for listener in self._listeners:
                listener()
            return True

    def when_decided(self, listener: Callable[[], object]) -> None:
        """Register a function to call when the pod is decided; it is called at once if it is.

        Parameters
        ----------
        listener : callable
            The function.
        """
        with self._changed:
            self._listeners.append(listener)
            if self._signal is not None:
                listener()

    def save(self) -> object:
        """Return the state, for `undo`."""
        with self._changed:
            return self._deadlines.copy(), self._pending.copy(), self._signal, self._listeners.copy()

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`."""
        with self._changed:
            deadlines, pending, self._signal, listeners = saved
            self._deadlines, self._pending = deadlines.copy(), pending.copy()
            self._listeners = listeners.copy()

    def copy(self) -> WaitingPod:
        """Return an independent copy without listeners."""
        with self._changed:
            out = WaitingPod(self.pod, {}, NEVER)
            out._timeouts, out._deadlines = self._timeouts, self._deadlines.copy()
            out._pending, out._signal = self._pending.copy(), self._signal
        return out

    def deadline(self) -> float:
        """Return the time of the first timer in seconds; infinity without timers."""
        with self._changed:
            return min(self._deadlines.values(), default=NEVER)

    def expire(self, now: float) -> bool:
        """Fire the earliest timer if it is due.

        Parameters
        ----------
        now : float
            Current time in seconds, on the clock of the timers.

        Returns
        -------
        bool
            Whether the timer rejected the pod.
        """
        with self._changed:
            if not self._deadlines:
                return False
            plugin = min(self._deadlines, key=self._deadlines.__getitem__)
            if self._deadlines[plugin] > now:
                return False
            waited = format_duration(self._timeouts[plugin])
            return self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def wait(self, clock: Callable[[], float] | None = None) -> Status:
        """Block until the pod is decided.

        Parameters
        ----------
        clock : callable, optional
            Returns the time in seconds by which timers are fired here; without a clock, another thread calls
            `expire`.

        Returns
        -------
        Status
            Success, or the rejection.
        """
        with self._changed:
            while (signal := self._signal) is None:
                deadline = self.deadline()
                if clock is None or deadline == NEVER:
                    self._changed.wait()
                elif not self.expire(clock()):
                    self._changed.wait(max(deadline - clock(), 0))
            return signal


class WaitingPods:
    """The waiting pods of a framework by UID, in order of insertion. Thread-safe."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._pods)

    def save(self) -> object:
        """Return the waiting pods and their states, for `undo`."""
        with self._lock:
            return [(uid, waiting, waiting.save()) for uid, waiting in self._pods.items()]

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`."""
        with self._lock:
            self._pods = {uid: waiting for uid, waiting, _ in saved}
            for _, waiting, decided in saved:
                waiting.undo(decided)

    def copy_from(self, other: WaitingPods) -> None:
        """Take copies of the pods of another framework."""
        with other._lock, self._lock:
            self._pods = {uid: waiting.copy() for uid, waiting in other._pods.items()}

    def add(self, waiting: WaitingPod) -> None:
        """Add a pod, in place of an earlier one with the same UID.

        Parameters
        ----------
        waiting : WaitingPod
            The waiting pod.
        """
        with self._lock:
            self._pods.pop(waiting.pod.metadata.uid, None)
            self._pods[waiting.pod.metadata.uid] = waiting

    def remove(self, uid: str) -> None:
        """Remove a pod if it is waiting.

        Parameters
        ----------
        uid : str
            UID of the pod.
        """
        with self._lock:
            self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        """Return a waiting pod, or None.

        Parameters
        ----------
        uid : str
            UID of the pod.
        """
        with self._lock:
            return self._pods.get(uid)

    def iterate(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call a function for each pod, which it may allow or reject.

        No pod is removed during the iteration.

        Parameters
        ----------
        callback : callable
            Called with each waiting pod.
        """
        with self._lock:
            for waiting in list(self._pods.values()):
                callback(waiting)


class PodInPreBind:
    """A pod in PreBind, which can be cancelled until `mark_prebound`. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finished = False
        self._cause: str | None = None

    @property
    def cause(self) -> str:
        """The reason of the cancellation; "" if the pod was not cancelled."""
        return self._cause or ""

    def cancel_pod(self, message: str) -> bool:
        """Cancel the binding of the pod.

        Parameters
        ----------
        message : str
            The reason; that of the first call is kept.

        Returns
        -------
        bool
            False after `mark_prebound`.
        """
        with self._lock:
            if self._finished:
                return False
            if self._cause is None:
                self._cause = message
            return True

    def mark_prebound(self) -> bool:
        """Mark the end of PreBind; False if the pod was cancelled before."""
        with self._lock:
            self._finished = self._cause is None
            return self._finished
