"""Plugins of v1alpha1 in today's profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from moorage.errors import MoorageError
from moorage.framework.plugin import interface as today
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.objects.model.pod import Pod

from .adapted_handle import ProfileHandle
from .context import NewPluginContext, PluginContext
from .framework import MAX_TIMEOUT
from .plugin_interface import (
    PermitPlugin,
    Plugin,
    PluginFactory,
    PrebindPlugin,
    ReservePlugin,
    Unknown,
    UnreservePlugin,
)
from .v1alpha1_status import Code, FrameworkError, Status

CONTEXT_KEY = "moorage.compat.v1alpha1/PluginContext"

CODES = {
    Code.Success: today.Code.SUCCESS,
    Code.Error: today.Code.ERROR,
    Code.Unschedulable: today.Code.UNSCHEDULABLE,
    Code.Wait: today.Code.WAIT,
}


class SharedContext:
    """The PluginContext of a cycle, as its state keeps it. It has no clone: copies of the state share it."""

    def __init__(self) -> None:
        self.context = NewPluginContext()

    def clone(self) -> SharedContext:
        return self


def context_of(state: CycleState) -> PluginContext:
    """The one PluginContext of this scheduling cycle, made when the first plugin asks for it."""
    try:
        shared: SharedContext = state.read(CONTEXT_KEY)
    except MoorageError:
        shared = SharedContext()
        state.write(CONTEXT_KEY, shared)
    return shared.context


def today_status(status: Any) -> Any:
    """A status with today's code; a code that v1alpha1 does not know is an Error. What is no Status stays as
    it is, for today's framework to refuse."""
    if not isinstance(status, Status):
        return status
    code = CODES.get(status.code, today.Code.ERROR)
    return today.Status(code, (status.message,) if status.message else ())


class _Adapted(today.Plugin):
    """Plugins find their handle in `adapted_handle`; it is part of a scheduler as soon as this plugin is."""

    def __init__(self, plugin: Any, handle: ProfileHandle) -> None:
        self.adapted_handle = handle
        super().__init__(None, handle.today)
        self.plugin = plugin

    @property
    def handle(self) -> FrameworkHandle | None:
        return self.adapted_handle.today

    @handle.setter
    def handle(self, handle: FrameworkHandle | None) -> None:
        self.adapted_handle.today = handle


class _Reserve(_Adapted, today.ReservePlugin):
    """Today reserve and unreserve are one interface; of what the plugin does not have, nothing happens."""

    unreserves_in_order = True

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> today.Status | None:
        """Whatever is no Success is an Error, as RunReservePlugins had it."""
        if not isinstance(self.plugin, ReservePlugin):
            return None
        status = today_status(self.plugin.Reserve(context_of(state), pod, node_name))
        if isinstance(status, today.Status) and not status.is_success:
            return today.Status(today.Code.ERROR, status.reasons)
        return status  # type: ignore[no-any-return]

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Told only where the pod was reserved, that is where no plugin failed at Reserve."""
        if state.reserved and isinstance(self.plugin, UnreservePlugin):
            self.plugin.Unreserve(context_of(state), pod, node_name)


class _Permit(_Adapted, today.PermitPlugin):
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[today.Status | None, float]:
        """How long counts where the plugin asks to wait; the shortest time of all plugins decides."""
        answer, seconds = self.plugin.Permit(context_of(state), pod, node_name)
        status = today_status(answer)
        waits = isinstance(status, today.Status) and status.is_wait
        return status, min(MAX_TIMEOUT, seconds) if waits else 0.0


class _PreBind(_Adapted, today.PreBindPlugin):
    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Success, for there was no such question: `pre_bind` is always called, and alone."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> today.Status | None:
        return today_status(self.plugin.Prebind(context_of(state), pod, node_name))  # type: ignore[no-any-return]


POINTS = (
    (_Reserve, (ReservePlugin, UnreservePlugin)),
    (_Permit, (PermitPlugin,)),
    (_PreBind, (PrebindPlugin,)),
)


def adapt(plugin: Plugin, handle: ProfileHandle | None = None) -> today.Plugin:
    """A plugin of today's framework that does what a plugin of v1alpha1 does.

    It has the methods `reserve` and `unreserve`, `permit` and `pre_bind` of the points that the plugin has.
    Codes are today's; the plugins of one cycle share one PluginContext, kept in its CycleState. As in
    v1alpha1, any failure at Reserve is an Error after which no plugin is unreserved, Unreserve runs forward,
    and a pod that several plugins asked to wait waits for the shortest time, and for one Allow.

    Parameters
    ----------
    handle : ProfileHandle, optional
        What the plugin was given as its FrameworkHandle, if it was given one.

    Raises
    ------
    FrameworkError
        For what has no Name.
    """
    if not isinstance(plugin, Plugin):
        raise FrameworkError(f"{plugin!r} has no Name")
    bases = tuple(base for base, kinds in POINTS if isinstance(plugin, kinds)) or (_Adapted,)
    made: type[_Adapted] = type(type(plugin).__name__, bases, {"name": plugin.Name()})
    return made(plugin, ProfileHandle() if handle is None else handle)


class TodaysFactory(Protocol):
    """Makes a plugin of today's framework, for a `moorage.Registry` or a profile."""

    def __call__(
        self, args: Mapping[str, Any] | None = None, handle: FrameworkHandle | None = None
    ) -> today.Plugin: ...


def adapt_factory(factory: PluginFactory) -> TodaysFactory:
    """What makes today's plugins of a factory of v1alpha1: in a registry it can be named in a configuration,
    and what it makes can be put in a profile. The factory is given the arguments of the plugin's pluginConfig
    as JSON, None where it has none."""

    def make(args: Mapping[str, Any] | None = None, handle: FrameworkHandle | None = None) -> today.Plugin:
        given = ProfileHandle(handle)
        configuration = None if args is None else Unknown(msgspec.json.encode(args), "application/json")
        return adapt(factory(configuration, given), given)

    return make
