"""What plugins are to the framework, and the framework to plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from moorage.cache import NodeInfo, SchedulerCache, Snapshot
from moorage.errors import CacheError
from moorage.objects.model.pod import Pod

from .context import PluginContext
from .v1alpha1_status import Status


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


class NodeInfoMap(Mapping[str, NodeInfo]):
    """The NodeInfos of a snapshot by node name, as it is now."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __getitem__(self, name: str) -> NodeInfo:
        try:
            return self._snapshot.get(name)
        except CacheError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return (info.name for info in self._snapshot.node_info_list)

    def __len__(self) -> int:
        return self._snapshot.num_nodes


class NodeInfoSnapshot:
    """NodeInfos as of the beginning of a scheduling cycle.

    Attributes
    ----------
    NodeInfoMap : mapping of str to NodeInfo
        By node name; a node that is gone while its pods remain is left out.
    """

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._snapshot = Snapshot() if snapshot is None else snapshot
        self.NodeInfoMap = NodeInfoMap(self._snapshot)

    @property
    def Generation(self) -> int:
        """Sequence number of the last change that the snapshot contains."""
        return self._snapshot.generation

    def Update(self, cache: SchedulerCache) -> None:
        """Bring the snapshot up to date in place, always from the same cache. Who runs scheduling cycles
        calls this as each begins."""
        cache.update_snapshot(self._snapshot)


class WaitingPod(Protocol):
    """A pod that waits in the permit phase. One signal at most is delivered, until it is decided."""

    def GetPod(self) -> Pod:
        """The pod itself."""

    def Allow(self) -> bool:
        """Let the pod be scheduled, however many plugins asked to wait; True if the signal was delivered."""

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable; True if the signal was delivered."""


class FrameworkHandle(Protocol):
    """What plugins can use of the framework; factories receive it, and plugins keep it."""

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        """The latest snapshot: always the same object, brought up to date as each scheduling cycle begins and
        unchanged until the pod has passed the reserve plugins."""

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call back for each waiting pod, under a read lock: meanwhile none joins and none leaves."""

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this UID, or None."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The arguments of a plugin as they were written (apimachinery, runtime.Unknown)."""

    Raw: bytes
    ContentType: str


PluginFactory = Callable[[Unknown | None, FrameworkHandle], Plugin]
"""Builds a plugin from its configuration and the framework's handle; an error is raised."""
