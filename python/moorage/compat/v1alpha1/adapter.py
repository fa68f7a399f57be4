"""Adapters that run plugins of v1alpha1 in profiles of the current framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from moorage.engine.framework import interface as today
from moorage.engine.framework.handle import FrameworkHandle as TodaysHandle
from moorage.engine.framework.status import CycleState
from moorage.engine.framework.waiting_pods import WaitingPod as TodaysWaitingPod
from moorage.errors import MoorageError
from moorage.kube import Pod

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


class PermitWait(Struct, frozen=True):
    """A `WaitingPod` of v1alpha1 over a waiting pod of the current framework.

    Attributes
    ----------
    waiting : moorage.engine.framework.waiting_pods.WaitingPod
    plugins : tuple of str
        The names of the plugins of v1alpha1 in the profile. Allow allows the pod for all of them; the pod
        still waits for current plugins that have not allowed it.
    clock : callable
        The clock of the scheduler, in seconds.
    """

    waiting: TodaysWaitingPod
    plugins: tuple[str, ...]
    clock: Callable[[], float]

    def GetPod(self) -> Pod:
        """Return the pod, as it was assumed."""
        return self.waiting.pod

    def Allow(self) -> bool:
        """Allow the pod for all plugins of v1alpha1 that wait; return whether the signal was delivered."""
        self.waiting.expire(self.clock())
        return self.waiting.allow(*self.plugins)

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable.

        Returns
        -------
        bool
            Whether the signal was delivered.
        """
        self.waiting.expire(self.clock())
        pending = self.waiting.get_pending_plugins()
        plugin = next((name for name in pending if name in self.plugins), "")
        return self.waiting.reject(plugin, f"rejected while waiting at permit: {msg}")


class ProfileHandle(FrameworkHandle):
    """The FrameworkHandle of v1alpha1 over a handle of the current framework.

    Attributes
    ----------
    today : moorage.engine.framework.handle.FrameworkHandle or None
        The current handle; None until the plugin is part of a scheduler.
    """

    def __init__(self, today: TodaysHandle | None = None) -> None:
        self.today = today
        self._snapshot: NodeInfoSnapshot | None = None

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        """Return the snapshot of the scheduler."""
        if self._snapshot is None:
            self._snapshot = NodeInfoSnapshot(self._todays().snapshot())
        return self._snapshot

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call a function for each waiting pod."""
        self._todays().iterate_over_waiting_pods(lambda waiting: callback(self._waiting(waiting)))

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with a UID, or None."""
        waiting = self._todays().get_waiting_pod(uid)
        return None if waiting is None else self._waiting(waiting)

    def _waiting(self, waiting: TodaysWaitingPod) -> PermitWait:
        """Adapt a waiting pod."""
        handle = self._todays()
        permits = () if handle.framework is None else handle.framework.profile.at(today.PermitPlugin)
        names = tuple(plugin.name for plugin in permits if isinstance(plugin, _Adapted))
        return PermitWait(waiting, names, handle.cache.clock)

    def _todays(self) -> TodaysHandle:
        """Return the current handle; raise FrameworkError if there is none."""
        if self.today is None:
            raise FrameworkError("the plugin is not part of a scheduler")
        return self.today


# ---- plugins -----------------------------------------------------------------------------------------------


class ContextEntry:
    """The entry of a CycleState that holds the PluginContext of the cycle; clones of the state share it."""

    def __init__(self) -> None:
        self.context = NewPluginContext()

    def clone(self) -> ContextEntry:
        """Return this entry."""
        return self


def context_of(state: CycleState) -> PluginContext:
    """Return the PluginContext of a scheduling cycle, created at the first call."""
    try:
        entry: ContextEntry = state.read(CONTEXT_KEY)
    except MoorageError:
        entry = ContextEntry()
        state.write(CONTEXT_KEY, entry)
    return entry.context


def today_status(status: Any) -> Any:
    """Convert a status of v1alpha1 to the current framework.

    Parameters
    ----------
    status : object
        The result of a plugin of v1alpha1.

    Returns
    -------
    object
        A current Status, with the code ERROR for a code that v1alpha1 does not have. An object that is not a
        Status is returned unchanged, and rejected by the current framework.
    """
    if not isinstance(status, Status):
        return status
    code = CODES.get(status.code, today.Code.ERROR)
    return today.Status(code, (status.message,) if status.message else ())


class _Adapted(today.Plugin):
    """A current plugin over one of v1alpha1, with those of `save`, `undo` and `clone` that the latter has.
    Setting `handle` also sets the handle of the latter."""

    save: Callable[[], Any]
    undo: Callable[[Any], object]
    clone: Callable[[], today.Plugin]

    def __init__(self, plugin: Any, handle: ProfileHandle) -> None:
        self.adapted_handle = handle
        super().__init__(None, handle.today)
        self.plugin = plugin
        if hasattr(plugin, "save") and hasattr(plugin, "undo"):
            self.save, self.undo = plugin.save, plugin.undo
        if hasattr(plugin, "clone"):
            self.clone = lambda: adapt(plugin.clone())

    @property
    def handle(self) -> TodaysHandle | None:
        return self.adapted_handle.today

    @handle.setter
    def handle(self, handle: TodaysHandle | None) -> None:
        self.adapted_handle.today = handle


class _Reserve(_Adapted, today.ReservePlugin):
    """An adapter for Reserve and Unreserve, which are one current interface; missing methods do nothing."""

    unreserves_in_order = True

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> today.Status | None:
        """Call Reserve; any code other than Success becomes ERROR, as in RunReservePlugins."""
        if not isinstance(self.plugin, ReservePlugin):
            return None
        status = today_status(self.plugin.Reserve(context_of(state), pod, node_name))
        if isinstance(status, today.Status) and not status.is_success:
            return today.Status(today.Code.ERROR, status.reasons)
        return status  # type: ignore[no-any-return]

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Call Unreserve if all plugins succeeded at Reserve."""
        if state.reserved and isinstance(self.plugin, UnreservePlugin):
            self.plugin.Unreserve(context_of(state), pod, node_name)


class _Permit(_Adapted, today.PermitPlugin):
    """An adapter for Permit."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[today.Status | None, float]:
        """Call Permit; return its status and, for Wait, the timeout in seconds."""
        result, seconds = self.plugin.Permit(context_of(state), pod, node_name)
        status = today_status(result)
        waits = isinstance(status, today.Status) and status.is_wait
        return status, min(MAX_TIMEOUT, seconds) if waits else 0.0


class _PreBind(_Adapted, today.PreBindPlugin):
    """An adapter for Prebind."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Return None, a success: v1alpha1 has no such call, and `pre_bind` always runs."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> today.Status | None:
        """Call Prebind."""
        return today_status(self.plugin.Prebind(context_of(state), pod, node_name))  # type: ignore[no-any-return]


POINTS = (
    (_Reserve, (ReservePlugin, UnreservePlugin)),
    (_Permit, (PermitPlugin,)),
    (_PreBind, (PrebindPlugin,)),
)


def adapt(plugin: Plugin, handle: ProfileHandle | None = None) -> today.Plugin:
    """Adapt a plugin of v1alpha1 to the current framework.

    The result has the methods `reserve` and `unreserve`, `permit` and `pre_bind` for the extension points of
    the plugin. Codes are converted; the CycleState of a cycle holds the PluginContext of its plugins. As in
    v1alpha1, any failure at Reserve is an Error, after which no plugin is unreserved; Unreserve runs in the
    order of the plugins; and a pod for which several plugins returned Wait waits for the shortest timeout, or
    for one Allow. Methods `save`, `undo` and `clone` of the plugin are called as those of a current plugin.

    Parameters
    ----------
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
    """A plugin factory of the current framework, for a `moorage.Registry` or a profile."""

    def __call__(
        self, args: Mapping[str, Any] | None = None, handle: TodaysHandle | None = None
    ) -> today.Plugin: ...


def adapt_factory(factory: PluginFactory) -> TodaysFactory:
    """Adapt a plugin factory of v1alpha1 to registries and profiles of the current framework.

    Parameters
    ----------
    factory : PluginFactory
        It is called with the pluginConfig of the plugin as JSON (None without one) and its handle.

    Returns
    -------
    callable
        A factory of the current framework.
    """

    def make(args: Mapping[str, Any] | None = None, handle: TodaysHandle | None = None) -> today.Plugin:
        adapted = ProfileHandle(handle)
        configuration = None if args is None else Unknown(msgspec.json.encode(args), "application/json")
        return adapt(factory(configuration, adapted), adapted)

    return make
