"""Plugins of v1alpha1 in today's profiles."""

from __future__ import annotations

from typing import Any, Protocol

from moorage.errors import MoorageError
from moorage.framework import interface as today
from moorage.objects.pod import Pod

from .context import NewPluginContext, PluginContext
from .interface import PermitPlugin, Plugin, PrebindPlugin, ReservePlugin, UnreservePlugin
from .status import Code, Status

CONTEXT_KEY = "moorage.framework.v1alpha1/PluginContext"

CODES = {
    Code.Success: today.Code.SUCCESS,
    Code.Error: today.Code.ERROR,
    Code.Unschedulable: today.Code.UNSCHEDULABLE,
    Code.Wait: today.Code.WAIT,
}


class CycleState(Protocol):
    """What is needed of today's CycleState; `read` of an absent key raises a MoorageError."""

    def read(self, key: str) -> Any: ...

    def write(self, key: str, value: Any) -> None: ...


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


def today_status(status: Status | None) -> today.Status | None:
    """A status with today's code; a code that v1alpha1 does not know is an Error."""
    if status is None:
        return None
    code = CODES.get(status.code, today.Code.ERROR)
    return today.Status(code, (status.message,) if status.message else ())


class _Adapted(today.Plugin):
    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin


class _Reserve(_Adapted):
    """Today reserve and unreserve are one interface; of what the plugin does not have, nothing happens."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> today.Status | None:
        if not isinstance(self.plugin, ReservePlugin):
            return None
        return today_status(self.plugin.Reserve(context_of(state), pod, node_name))

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if isinstance(self.plugin, UnreservePlugin):
            self.plugin.Unreserve(context_of(state), pod, node_name)


class _Permit(_Adapted):
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[today.Status | None, float]:
        status, seconds = self.plugin.Permit(context_of(state), pod, node_name)
        return today_status(status), seconds


class _PreBind(_Adapted):
    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Success, for there was no such question: `pre_bind` is always called, and alone."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> today.Status | None:
        return today_status(self.plugin.Prebind(context_of(state), pod, node_name))


POINTS = (
    (today.RESERVE, _Reserve, (ReservePlugin, UnreservePlugin)),
    (today.PERMIT, _Permit, (PermitPlugin,)),
    (today.PRE_BIND, _PreBind, (PrebindPlugin,)),
)


def adapt(plugin: Plugin) -> today.Plugin:
    """A plugin of today's framework that does what a plugin of v1alpha1 does.

    It has the methods `reserve` and `unreserve`, `permit` and `pre_bind` of the points that the plugin has.
    Codes are today's; the plugins of one cycle share one PluginContext, kept in its CycleState.
    Reserve, waiting and failures follow today's rules: what waits is found through today's handle.
    """
    joined = [(point, base) for point, base, kinds in POINTS if isinstance(plugin, kinds)]
    names = {"name": plugin.Name(), "extension_points": tuple(point for point, _ in joined)}
    adapted: _Adapted = type(type(plugin).__name__, (*(base for _, base in joined), _Adapted), names)(plugin)
    return adapted
