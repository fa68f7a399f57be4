"""Framework: builds the plugins and runs them at their points, as the code that became Kubernetes v1.15."""

from __future__ import annotations

import logging
from collections.abc import Callable

from moorage.objects.model.pod import Pod

from .context import PluginContext
from .plugin_collection import Registry
from .plugin_interface import (
    FrameworkHandle,
    NodeInfoSnapshot,
    PermitPlugin,
    Plugin,
    PrebindPlugin,
    ReservePlugin,
    UnreservePlugin,
    WaitingPod,
)
from .v1alpha1_status import (
    Error,
    FrameworkError,
    Status,
    Success,
    Unschedulable,
    Wait,
)
from .waiting_pods_map import (
    Clock,
    MonotonicClock,
    PodInPermit,
    WaitingPods,
)

MAX_TIMEOUT = 15 * 60.0

logger = logging.getLogger("moorage.compat.v1alpha1")


class Framework(FrameworkHandle):
    """The plugins of a registry, in its order; made by `NewFramework`.

    A plugin that raises has answered Error, ``plugin "X" raised ValueError: …``.
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
        try:
            plugin = registry[name](None, self)
        except Exception as error:
            raise FrameworkError(f"error initializing plugin {name}: {error}") from error
        if not isinstance(plugin, Plugin):
            raise FrameworkError(f"error initializing plugin {name}: {plugin!r} has no Name")
        return plugin

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        return self._snapshot

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        self._waiting.iterate(callback)

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        return self._waiting.get(uid)

    def RunReservePlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the reserve plugins up to the first that does not answer Success: then Error, whatever code.
        Nothing is unreserved here."""
        for plugin in self._reserve:
            status = _status(plugin, plugin.Reserve, pc, pod, node_name)
            if not Status.IsSuccess(status):
                return _failure(plugin, "reserve", pod, status)
        return None

    def RunPrebindPlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the prebind plugins up to the first that does not answer Success: Unschedulable if that is its
        code, else Error."""
        for plugin in self._prebind:
            status = _status(plugin, plugin.Prebind, pc, pod, node_name)
            if not Status.IsSuccess(status):
                return _rejection(plugin, "prebind", pod, status)
        return None

    def RunUnreservePlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> None:
        """Run all unreserve plugins, in the same order as reserve plugins. What they raise is logged."""
        for plugin in self._unreserve:
            try:
                plugin.Unreserve(pc, pod, node_name)
            except Exception as error:
                logger.exception(_raised(plugin, error))

    def RunPermitPlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the permit plugins. Where any of them asked to wait and none rejected the pod, block for the
        shortest of their timeouts, 15 minutes at most, or until the pod is allowed or rejected.

        Returns
        -------
        Status or None
            None for a success. Unschedulable if a plugin said so, the pod was rejected while it waited, or
            the time is over; Error for any other answer than Success and Wait.
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
        waiting = PodInPermit(pod, timeout, self._clock)
        self._waiting.add(waiting)
        try:
            return waiting.wait()
        finally:
            self._waiting.remove(pod.metadata.uid)


def NewFramework(
    registry: Registry, configuration: object = None, *, clock: Clock | None = None
) -> Framework:
    """Build every plugin of a registry, each of which joins the points whose methods it has.

    Parameters
    ----------
    registry : Registry
        Read once, in its order.
    configuration : object
        Ignored, as it was then: each factory is given None.
    clock : Clock, optional
        By which pods wait; that of the machine by default.

    Raises
    ------
    FrameworkError
        ``error initializing plugin X: …`` for the first factory that raises.
    """
    return Framework(registry, MonotonicClock() if clock is None else clock)


def _raised(plugin: Plugin, error: Exception) -> str:
    return f'plugin "{plugin.Name()}" raised {type(error).__name__}: {error}'


def _checked(plugin: Plugin, answer: object) -> Status | None:
    if answer is None or isinstance(answer, Status):
        return answer
    return Status(Error, f'plugin "{plugin.Name()}" answered {answer!r}, which is no Status')


def _status(plugin: Plugin, method: Callable[..., Status | None], *arguments: object) -> Status | None:
    try:
        return _checked(plugin, method(*arguments))
    except Exception as error:
        return Status(Error, _raised(plugin, error))


def _permit(plugin: PermitPlugin, pc: PluginContext, pod: Pod, node_name: str) -> tuple[Status | None, float]:
    try:
        status, seconds = plugin.Permit(pc, pod, node_name)
        status = _checked(plugin, status)
        return status, min(MAX_TIMEOUT, seconds) if Status.Code(status) == Wait else 0.0
    except Exception as error:
        return Status(Error, _raised(plugin, error)), 0.0


def _failure(plugin: Plugin, point: str, pod: Pod, status: Status | None) -> Status:
    message = Status.Message(status)
    return Status(Error, f"error while running {plugin.Name()} {point} plugin for pod {pod.name}: {message}")


def _rejection(plugin: Plugin, point: str, pod: Pod, status: Status | None) -> Status:
    if Status.Code(status) == Unschedulable:
        return Status(Unschedulable, f"rejected by {plugin.Name()} at {point}: {Status.Message(status)}")
    return _failure(plugin, point, pod, status)
