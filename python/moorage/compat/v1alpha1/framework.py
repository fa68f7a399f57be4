"""Framework: builds plugins of v1alpha1 and runs them at their extension points.

The rules are those of pkg/scheduler/framework/v1alpha1 before Kubernetes v1.15.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Condition
from typing import Protocol

from moorage.kube import Pod
from moorage.kube.go_texts import format_duration

from .plugin_interface import (
    Error,
    FrameworkError,
    FrameworkHandle,
    NodeInfoSnapshot,
    PermitPlugin,
    Plugin,
    PluginContext,
    PrebindPlugin,
    Registry,
    ReservePlugin,
    RWMutex,
    Status,
    Success,
    UnreservePlugin,
    Unschedulable,
    Wait,
    WaitingPod,
)

MAX_TIMEOUT = 15 * 60.0

logger = logging.getLogger("moorage.compat.v1alpha1")


class Clock(Protocol):
    """A monotonic clock for waiting pods, in seconds from an arbitrary start."""

    def now(self) -> float:
        """Return the time in seconds."""

    def wait(self, condition: Condition, until: float) -> None:
        """Block until the condition is notified or the time is `until`; may return earlier.

        Parameters
        ----------
        condition : threading.Condition
            Held by the caller.
        until : float
            Seconds on this clock.
        """


class MonotonicClock:
    """The monotonic clock of the machine, `time.monotonic`."""

    def now(self) -> float:
        """Return the monotonic time of the machine, in seconds."""
        return time.monotonic()

    def wait(self, condition: Condition, until: float) -> None:
        """Block until the condition is notified or the time is `until`.

        Parameters
        ----------
        until : float
            Seconds on this clock.
        """
        condition.wait(max(0.0, until - time.monotonic()))


class PodInPermit:
    """A `WaitingPod` of a `Framework`.

    One signal at most is delivered, before the deadline. (Upstream also loses a signal that is sent before
    its goroutine receives from the channel.)

    Parameters
    ----------
    timeout : float
        Seconds from the creation of this object to the deadline.
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
        """Return the pod."""
        return self._pod

    def Allow(self) -> bool:
        """Allow the pod for all plugins that wait; return whether the signal was delivered."""
        return self._signal(None)

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable.

        Returns
        -------
        bool
            Whether the signal was delivered.
        """
        return self._signal(Status(Unschedulable, f"rejected while waiting at permit: {msg}"))

    def _signal(self, status: Status | None) -> bool:
        """Set the result, if there is none yet and the deadline has not passed."""
        with self._changed:
            if self._decided or self._clock.now() >= self._deadline:
                return False
            self._decided, self._status = True, status
            self._changed.notify_all()
            return True

    def wait(self) -> Status | None:
        """Block until a signal or the deadline.

        Returns
        -------
        Status or None
            The result of the permit point; None if the pod was allowed.
        """
        with self._changed:
            while not self._decided:
                if self._clock.now() >= self._deadline:
                    after = format_duration(self._timeout)
                    text = f"pod {self._pod.name} rejected due to timeout after waiting {after} at permit"
                    return Status(Unschedulable, text)
                self._clock.wait(self._changed, self._deadline)
            return self._status


class WaitingPods:
    """The waiting pods by UID; a later pod with the same UID replaces an earlier one."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPermit] = {}
        self._lock = RWMutex()

    def add(self, waiting: PodInPermit) -> None:
        """Add a pod that begins to wait."""
        uid = waiting.GetPod().metadata.uid
        self._lock.Lock()
        try:
            self._pods[uid] = waiting
        finally:
            self._lock.Unlock()

    def remove(self, uid: str) -> None:
        """Remove a pod that no longer waits.

        Parameters
        ----------
        uid : str
            Ignored if it is unknown.
        """
        self._lock.Lock()
        try:
            self._pods.pop(uid, None)
        finally:
            self._lock.Unlock()

    def get(self, uid: str) -> PodInPermit | None:
        """Return the waiting pod with a UID.

        This acquires no lock, since the callback of an iteration may call it while a writer waits.
        """
        return self._pods.get(uid)

    def iterate(self, callback: Callable[[PodInPermit], object]) -> None:
        """Call a function for each waiting pod, under the read lock.

        Parameters
        ----------
        callback : callable
            Its argument is a PodInPermit.
        """
        self._lock.RLock()
        try:
            for waiting in self._pods.values():
                callback(waiting)
        finally:
            self._lock.RUnlock()


class Framework(FrameworkHandle):
    """The plugins of a registry, in its order; see `NewFramework`.

    An exception of a plugin becomes a status with the code Error, ``plugin "X" raised ValueError: …``.

    Parameters
    ----------
    clock : Clock
        The clock of waiting pods.

    Raises
    ------
    FrameworkError
        A factory raises, or its result has no Name.
    """

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._clock = clock
        self._snapshot = NodeInfoSnapshot()
        self._waiting = WaitingPods()
        plugins = [self._build(name, registry) for name in registry]
        self._reserve = [plugin for plugin in plugins if isinstance(plugin, ReservePlugin)]
        self._prebind = [plugin for plugin in plugins if isinstance(plugin, PrebindPlugin)]
        self._unreserve = [plugin for plugin in plugins if isinstance(plugin, UnreservePlugin)]
        self._permit = [plugin for plugin in plugins if isinstance(plugin, PermitPlugin)]

    def _build(self, name: str, registry: Registry) -> Plugin:
        """Build one plugin."""
        try:
            plugin = registry[name](None, self)
        except Exception as error:
            raise FrameworkError(f"error initializing plugin {name}: {error}") from error
        if not isinstance(plugin, Plugin):
            raise FrameworkError(f"error initializing plugin {name}: {plugin!r} has no Name")
        return plugin

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        """Return the snapshot of the nodes."""
        return self._snapshot

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call a function for each waiting pod, under the read lock."""
        self._waiting.iterate(callback)

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with a UID, or None."""
        return self._waiting.get(uid)

    def RunReservePlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the reserve plugins up to the first that does not return Success.

        No plugin is unreserved here.

        Returns
        -------
        Status or None
            None for a success; else a status with the code Error, whatever the code of the plugin.
        """
        for plugin in self._reserve:
            status = _status(plugin, plugin.Reserve, pc, pod, node_name)
            if not Status.IsSuccess(status):
                return _failure(plugin, "reserve", pod, status)
        return None

    def RunPrebindPlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the prebind plugins up to the first that does not return Success.

        Returns
        -------
        Status or None
            None for a success; Unschedulable if the plugin returned it; else Error.
        """
        for plugin in self._prebind:
            status = _status(plugin, plugin.Prebind, pc, pod, node_name)
            if not Status.IsSuccess(status):
                return _rejection(plugin, "prebind", pod, status)
        return None

    def RunUnreservePlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> None:
        """Run all unreserve plugins, in the order of reserve plugins. Exceptions are logged."""
        for plugin in self._unreserve:
            try:
                plugin.Unreserve(pc, pod, node_name)
            except Exception as error:
                logger.exception(_raised(plugin, error))

    def RunPermitPlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the permit plugins.

        If a plugin returns Wait and none rejects the pod, block until the pod is allowed or rejected, for at
        most the shortest timeout of the plugins and 15 minutes.

        Returns
        -------
        Status or None
            None for a success. Unschedulable if a plugin returned it, the pod was rejected while it waited,
            or the timeout has passed; Error for any other code than Success and Wait.
        """
        code, timeout = Success, MAX_TIMEOUT
        for plugin in self._permit:
            status, seconds = _permit(plugin, pc, pod, node_name)
            if Status.Code(status) == Wait:
                code, timeout = Wait, min(timeout, seconds)
            elif not Status.IsSuccess(status):
                return _rejection(plugin, "permit", pod, status)
        return self._wait(pod, timeout) if code == Wait else None

    def _wait(self, pod: Pod, timeout: float) -> Status | None:
        """Block until a pod is allowed or rejected, or the timeout (seconds) has passed."""
        waiting = PodInPermit(pod, timeout, self._clock)
        self._waiting.add(waiting)
        try:
            return waiting.wait()
        finally:
            self._waiting.remove(pod.metadata.uid)


def NewFramework(
    registry: Registry, configuration: object = None, *, clock: Clock | None = None
) -> Framework:
    """Build every plugin of a registry; each runs at the extension points whose methods it has.

    Parameters
    ----------
    registry : Registry
        Read once, in order.
    configuration : object
        Ignored, as in v1alpha1: the argument of each factory is None.
    clock : Clock, optional
        The clock of waiting pods; by default `MonotonicClock`.

    Raises
    ------
    FrameworkError
        ``error initializing plugin X: …`` for the first factory that raises.
    """
    return Framework(registry, MonotonicClock() if clock is None else clock)


def _raised(plugin: Plugin, error: Exception) -> str:
    """Return the message for an exception of a plugin."""
    return f'plugin "{plugin.Name()}" raised {type(error).__name__}: {error}'


def _checked(plugin: Plugin, result: object) -> Status | None:
    """Return the result of a plugin; a status with the code Error if it is not a Status."""
    if result is None or isinstance(result, Status):
        return result
    return Status(Error, f'plugin "{plugin.Name()}" answered {result!r}, which is no Status')


def _status(plugin: Plugin, method: Callable[..., Status | None], *arguments: object) -> Status | None:
    """Call a method of a plugin; return its status, Error if it raises."""
    try:
        return _checked(plugin, method(*arguments))
    except Exception as error:
        return Status(Error, _raised(plugin, error))


def _permit(plugin: PermitPlugin, pc: PluginContext, pod: Pod, node_name: str) -> tuple[Status | None, float]:
    """Call Permit; return its status and, for Wait, the timeout in seconds."""
    try:
        status, seconds = plugin.Permit(pc, pod, node_name)
        status = _checked(plugin, status)
        return status, min(MAX_TIMEOUT, seconds) if Status.Code(status) == Wait else 0.0
    except Exception as error:
        return Status(Error, _raised(plugin, error)), 0.0


def _failure(plugin: Plugin, point: str, pod: Pod, status: Status | None) -> Status:
    """Return the Error of an extension point for the status of a plugin."""
    message = Status.Message(status)
    return Status(Error, f"error while running {plugin.Name()} {point} plugin for pod {pod.name}: {message}")


def _rejection(plugin: Plugin, point: str, pod: Pod, status: Status | None) -> Status:
    """Return the status of an extension point for the status of a plugin: Unschedulable or Error."""
    if Status.Code(status) == Unschedulable:
        return Status(Unschedulable, f"rejected by {plugin.Name()} at {point}: {Status.Message(status)}")
    return _failure(plugin, point, pod, status)
