"""What plugins are to the framework, and the framework to plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from moorage.cache import NodeInfo, SchedulerCache, Snapshot
from moorage.objects.pod import Pod

from .context import PluginContext
from .status import Status
from .waiting_pods import WaitingPod


@runtime_checkable
class Plugin(Protocol):
    """The parent of all plugins. As in Go, a plugin is whatever has the methods."""

    def Name(self) -> str: ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Called at the reservation point, before the pod is assumed; to update the plugin's own state.

    It should answer Success or Error; any other code than Success rejects the pod too.
    """

    def Reserve(self, pc: PluginContext, p: Pod, node_name: str, /) -> Status | None: ...


@runtime_checkable
class PrebindPlugin(Plugin, Protocol):
    """Called before a pod is bound; any code but Success rejects the pod."""

    def Prebind(self, pc: PluginContext, p: Pod, node_name: str, /) -> Status | None: ...


@runtime_checkable
class UnreservePlugin(Plugin, Protocol):
    """Told that a reserved pod was rejected in a later phase; to clean up what belongs to it."""

    def Unreserve(self, pc: PluginContext, p: Pod, node_name: str, /) -> None: ...


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """Called before prebind plugins; prevents or delays the binding.

    It answers Success, or Wait and for how many seconds; otherwise the pod is rejected.
    """

    def Permit(self, pc: PluginContext, p: Pod, node_name: str, /) -> tuple[Status | None, float]: ...


class NodeInfoSnapshot:
    """NodeInfos as of the beginning of a scheduling cycle.

    Attributes
    ----------
    NodeInfoMap : dict of str to NodeInfo
        By node name; a node that is gone while its pods remain is left out.
    Generation : int
        Sequence number of the last change that the snapshot contains.
    """

    def __init__(self) -> None:
        self.NodeInfoMap: dict[str, NodeInfo] = {}
        self.Generation = 0
        self._snapshot = Snapshot()

    def Update(self, cache: SchedulerCache) -> None:
        """Bring the snapshot up to date in place, always from the same cache. Who runs scheduling cycles
        calls this as each begins."""
        cache.update_snapshot(self._snapshot)
        fresh = {info.name: info for info in self._snapshot.node_info_list}
        for name in self.NodeInfoMap.keys() - fresh.keys():
            del self.NodeInfoMap[name]
        self.NodeInfoMap.update(fresh)
        self.Generation = self._snapshot.generation


class FrameworkHandle(Protocol):
    """What plugins can use of the framework; factories receive it, and plugins keep it."""

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        """The latest snapshot: always the same object, brought up to date as each scheduling cycle begins and
        unchanged until the pod has passed the reserve plugins."""

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call back for each waiting pod, under a read lock: meanwhile none joins and none leaves."""

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this UID, or None."""


PluginFactory = Callable[[object, FrameworkHandle], Plugin]
"""Builds a plugin from its configuration and the framework's handle; an error is raised."""
