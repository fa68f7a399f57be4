"""Plugins of v1alpha1 in today's profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from moorage.errors import MoorageError
from moorage.framework.plugin import interface as today
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.handle import FrameworkHandle as TodaysHandle
from moorage.framework.plugin.waiting_pods import WaitingPod as TodaysWaitingPod
from moorage.objects import Pod

from .framework import MAX_TIMEOUT
from .plugin_interface import (
    Code,
    FrameworkError,
    FrameworkHandle,
    NewPluginContext,
    NodeInfoSnapshot,
    PermitPlugin,
    Plugin,
    PluginContext,
    PluginFactory,
    PrebindPlugin,
    ReservePlugin,
    Status,
    Unknown,
    UnreservePlugin,
    WaitingPod,
)

CONTEXT_KEY = "moorage.compat.v1alpha1/PluginContext"

CODES = {
    Code.Success: today.Code.SUCCESS,
    Code.Error: today.Code.ERROR,
    Code.Unschedulable: today.Code.UNSCHEDULABLE,
    Code.Wait: today.Code.WAIT,
}


# ---- the handle --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PermitWait:
    """A pod that waits on Permit in today's framework, as a `WaitingPod`.

    Attributes
    ----------
    waiting : moorage.framework.plugin.waiting_pods.WaitingPod
    plugins : tuple of str
        The plugins of v1alpha1 of the profile, for all of which Allow allows the pod. It still waits for
        plugins of today that have not allowed it.
    clock : callable
        The scheduler's clock, in seconds.
    """

    waiting: TodaysWaitingPod
    plugins: tuple[str, ...]
    clock: Callable[[], float]

    def GetPod(self) -> Pod:
        """The pod itself, as it was assumed."""
        return self.waiting.pod

    def Allow(self) -> bool:
        """Allow the pod for all plugins of v1alpha1 that wait; True if the signal was delivered."""
        self.waiting.expire(self.clock())
        return self.waiting.allow(*self.plugins)

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable; True if the signal was delivered.

        Parameters
        ----------
        msg : str
            The reason.
        """
        self.waiting.expire(self.clock())
        pending = self.waiting.get_pending_plugins()
        plugin = next((name for name in pending if name in self.plugins), "")
        return self.waiting.reject(plugin, f"rejected while waiting at permit: {msg}")


class ProfileHandle(FrameworkHandle):
    """The FrameworkHandle of plugins that are adapted to a profile.

    Attributes
    ----------
    today : moorage.framework.plugin.handle.FrameworkHandle or None
        None until the plugin is part of a scheduler.
    """

    def __init__(self, today: TodaysHandle | None = None) -> None:
        self.today = today
        self._snapshot: NodeInfoSnapshot | None = None

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        if self._snapshot is None:
            self._snapshot = NodeInfoSnapshot(self._todays().snapshot())
        return self._snapshot

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        self._todays().iterate_over_waiting_pods(lambda waiting: callback(self._waiting(waiting)))

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        waiting = self._todays().get_waiting_pod(uid)
        return None if waiting is None else self._waiting(waiting)

    def _waiting(self, waiting: TodaysWaitingPod) -> PermitWait:
        handle = self._todays()
        permits = () if handle.framework is None else handle.framework.profile.at(today.PermitPlugin)
        names = tuple(plugin.name for plugin in permits if isinstance(plugin, _Adapted))
        return PermitWait(waiting, names, handle.cache.clock)

    def _todays(self) -> TodaysHandle:
        if self.today is None:
            raise FrameworkError("the plugin is not part of a scheduler")
        return self.today


# ---- plugins -----------------------------------------------------------------------------------------------


class ContextEntry:
    """The entry of a CycleState with the PluginContext of the cycle, which clones of the state have too."""

    def __init__(self) -> None:
        self.context = NewPluginContext()

    def clone(self) -> ContextEntry:
        return self


def context_of(state: CycleState) -> PluginContext:
    """The PluginContext of a scheduling cycle, created at the first call.

    Parameters
    ----------
    state : CycleState
    """
    try:
        entry: ContextEntry = state.read(CONTEXT_KEY)
    except MoorageError:
        entry = ContextEntry()
        state.write(CONTEXT_KEY, entry)
    return entry.context


def today_status(status: Any) -> Any:
    """A status with today's code; a code that v1alpha1 does not know is an Error. Other objects are returned
    unchanged: today's framework refuses them.

    Parameters
    ----------
    status : object
        The result of a plugin of v1alpha1.
    """
    if not isinstance(status, Status):
        return status
    code = CODES.get(status.code, today.Code.ERROR)
    return today.Status(code, (status.message,) if status.message else ())


class _Adapted(today.Plugin):
    """A plugin of v1alpha1; `adapted_handle` is its handle, bound to a scheduler when this plugin is."""

    def __init__(self, plugin: Any, handle: ProfileHandle) -> None:
        self.adapted_handle = handle
        super().__init__(None, handle.today)
        self.plugin = plugin

    @property
    def handle(self) -> TodaysHandle | None:
        return self.adapted_handle.today

    @handle.setter
    def handle(self, handle: TodaysHandle | None) -> None:
        self.adapted_handle.today = handle


class _Reserve(_Adapted, today.ReservePlugin):
    """Reserve and unreserve, one interface today; a method that the plugin lacks does nothing."""

    unreserves_in_order = True

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> today.Status | None:
        """Any code other than Success is an Error, as in RunReservePlugins."""
        if not isinstance(self.plugin, ReservePlugin):
            return None
        status = today_status(self.plugin.Reserve(context_of(state), pod, node_name))
        if isinstance(status, today.Status) and not status.is_success:
            return today.Status(today.Code.ERROR, status.reasons)
        return status  # type: ignore[no-any-return]

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Unreserve, only if no plugin failed at Reserve."""
        if state.reserved and isinstance(self.plugin, UnreservePlugin):
            self.plugin.Unreserve(context_of(state), pod, node_name)


class _Permit(_Adapted, today.PermitPlugin):
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[today.Status | None, float]:
        """The timeout counts if the code is Wait; the shortest of all plugins decides."""
        answer, seconds = self.plugin.Permit(context_of(state), pod, node_name)
        status = today_status(answer)
        waits = isinstance(status, today.Status) and status.is_wait
        return status, min(MAX_TIMEOUT, seconds) if waits else 0.0


class _PreBind(_Adapted, today.PreBindPlugin):
    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Success: v1alpha1 has no such call, and `pre_bind` always runs."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> today.Status | None:
        return today_status(self.plugin.Prebind(context_of(state), pod, node_name))  # type: ignore[no-any-return]


POINTS = (
    (_Reserve, (ReservePlugin, UnreservePlugin)),
    (_Permit, (PermitPlugin,)),
    (_PreBind, (PrebindPlugin,)),
)


def adapt(plugin: Plugin, handle: ProfileHandle | None = None) -> today.Plugin:
    """Adapt a plugin of v1alpha1 to today's framework.

    The result has the methods `reserve` and `unreserve`, `permit` and `pre_bind` of the plugin's extension
    points. Codes are today's; the CycleState of a cycle has the PluginContext of its plugins. As in v1alpha1,
    any failure at Reserve is an Error after which no plugin is unreserved, Unreserve runs forward, and a pod
    for which several plugins returned Wait waits for the shortest timeout, and for one Allow.

    Parameters
    ----------
    plugin : Plugin
    handle : ProfileHandle, optional
        The FrameworkHandle of the plugin, if it has one.

    Raises
    ------
    FrameworkError
        The object has no Name.
    """
    if not isinstance(plugin, Plugin):
        raise FrameworkError(f"{plugin!r} has no Name")
    bases = tuple(base for base, kinds in POINTS if isinstance(plugin, kinds)) or (_Adapted,)
    made: type[_Adapted] = type(type(plugin).__name__, bases, {"name": plugin.Name()})
    return made(plugin, ProfileHandle() if handle is None else handle)


class TodaysFactory(Protocol):
    """Makes a plugin of today's framework, for a `moorage.Registry` or a profile."""

    def __call__(
        self, args: Mapping[str, Any] | None = None, handle: TodaysHandle | None = None
    ) -> today.Plugin: ...


def adapt_factory(factory: PluginFactory) -> TodaysFactory:
    """Adapt a plugin factory of v1alpha1 to today's registries and profiles.

    Parameters
    ----------
    factory : PluginFactory
        Its first argument will be the plugin's pluginConfig as JSON, or None.
    """

    def make(args: Mapping[str, Any] | None = None, handle: TodaysHandle | None = None) -> today.Plugin:
        adapted = ProfileHandle(handle)
        configuration = None if args is None else Unknown(msgspec.json.encode(args), "application/json")
        return adapt(factory(configuration, adapted), adapted)

    return make
