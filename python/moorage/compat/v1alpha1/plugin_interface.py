"""What plugins are to the framework, and the framework to plugins: statuses, the data of a scheduling cycle,
plugins and their registry, the handle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from threading import Condition
from typing import Any, Protocol, runtime_checkable

from moorage.cache import NodeInfo, SchedulerCache, Snapshot
from moorage.errors import CacheError, MoorageError
from moorage.objects.model.pod import Pod

NotFound = "not found"

ContextKey = str
ContextData = Any

# ---- statuses ----------------------------------------------------------------------------------------------


class FrameworkError(MoorageError):
    """What v1alpha1 returned as an error; its text is upstream's."""


class Code(IntEnum):
    """Status codes. The numbers are those of v1alpha1: Wait is 3, where it is 4 today."""

    Success = 0
    Error = 1
    Unschedulable = 2
    Wait = 3


Success = Code.Success
Error = Code.Error
Unschedulable = Code.Unschedulable
Wait = Code.Wait

# Inside Status, `Code` is the method.
_Code = Code


@dataclass(frozen=True, slots=True)
class Status:
    """The result of a plugin: a code, and a message that says why where the code is not Success.

    None in its place is Success. The methods can be asked of None through the class: ``Status.Code(None)``.
    """

    code: _Code = Success
    message: str = ""

    def Code(self: Status | None) -> _Code:
        """The code; Success of None."""
        return Success if self is None else self.code

    def Message(self: Status | None) -> str:
        """The message; "" of None, where upstream crashed."""
        return "" if self is None else self.message

    def IsSuccess(self: Status | None) -> bool:
        """Whether the code is Success."""
        return Status.Code(self) == Success

    def AsError(self: Status | None) -> FrameworkError | None:
        """None of a success, else an error with the message as its text."""
        return None if Status.IsSuccess(self) else FrameworkError(Status.Message(self))


def NewStatus(code: _Code, msg: str) -> Status:
    """A status of this code and message."""
    return Status(code, msg)


# ---- the data of a cycle -----------------------------------------------------------------------------------


class RWMutex:
    """A lock that either several readers hold or one writer; not re-entrant, and not tied to threads.

    The order is that of Go's sync.RWMutex, without starvation: while a writer waits no reader joins those it
    waits for, and the readers that have come meanwhile go before the next writer.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._readers = 0  # that hold the lock
        self._writing = False  # a writer holds the lock, or waits for the readers to leave
        self._turn = 0  # of writers that have left
        self._next_readers = 0  # that wait for this writer to leave

    def Lock(self) -> None:
        """Acquire the write lock."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing)
            self._writing = True
            self._changed.wait_for(lambda: self._readers == 0)

    def Unlock(self) -> None:
        """Release the write lock; RuntimeError where it is not held."""
        with self._changed:
            if not self._writing:
                raise RuntimeError("sync: Unlock of unlocked RWMutex")
            self._writing = False
            self._turn += 1
            self._readers += self._next_readers
            self._next_readers = 0
            self._changed.notify_all()

    def RLock(self) -> None:
        """Acquire the read lock."""
        with self._changed:
            if not self._writing:
                self._readers += 1
                return
            turn = self._turn
            self._next_readers += 1  # Unlock makes it a reader
            self._changed.wait_for(lambda: self._turn != turn)

    def RUnlock(self) -> None:
        """Release the read lock; RuntimeError where it is not held."""
        with self._changed:
            if self._readers == 0:
                raise RuntimeError("sync: RUnlock of unlocked RWMutex")
            self._readers -= 1
            self._changed.notify_all()


class PluginContext(RWMutex):
    """Arbitrary data by key, shared by the plugins of one scheduling cycle.

    What one plugin stores another can read, alter or delete. Read, Write and Delete take no lock: where there
    are several threads the caller takes it first, with Lock and Unlock, or RLock and RUnlock to read.
    """

    def __init__(self) -> None:
        super().__init__()
        self._storage: dict[ContextKey, ContextData] = {}

    def Read(self, key: ContextKey) -> ContextData:
        """The data of a key; FrameworkError ``not found`` where there is none."""
        try:
            return self._storage[key]
        except KeyError:
            raise FrameworkError(NotFound) from None

    def Write(self, key: ContextKey, val: ContextData) -> None:
        """Store data under a key, in place of what was there."""
        self._storage[key] = val

    def Delete(self, key: ContextKey) -> None:
        """Delete the data of a key, if there is any."""
        self._storage.pop(key, None)


def NewPluginContext() -> PluginContext:
    """An empty context."""
    return PluginContext()


# ---- plugins -----------------------------------------------------------------------------------------------


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


class Registry(dict[str, PluginFactory]):
    """Factories of all available plugins by name; the framework builds each of them, in this order."""

    def Register(self, name: str, factory: PluginFactory) -> None:
        """Add a plugin; FrameworkError where the name is taken."""
        if name in self:
            raise FrameworkError(f"a plugin named {name} already exists")
        self[name] = factory

    def Unregister(self, name: str) -> None:
        """Remove a plugin; FrameworkError where there is none of this name."""
        if name not in self:
            raise FrameworkError(f"no plugin named {name} exists")
        del self[name]


def NewRegistry() -> Registry:
    """The registry of the default plugins, of which there were none yet."""
    return Registry()
