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
from moorage.objects import Pod

NotFound = "not found"

ContextKey = str
ContextData = Any

# ---- statuses ----------------------------------------------------------------------------------------------


class FrameworkError(MoorageError):
    """An error of v1alpha1, with upstream's text."""


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
    """The result of a plugin: a code, and a message with the reason of a code other than Success.

    None stands for Success. The methods accept None through the class: ``Status.Code(None)``.

    Attributes
    ----------
    code : Code
    message : str
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


NewStatus = Status


# ---- the data of a cycle -----------------------------------------------------------------------------------


class RWMutex:
    """A lock that either several readers hold or one writer; not re-entrant, and not tied to threads.

    The order is that of Go's sync.RWMutex, without starvation: a reader that arrives while a writer waits or
    writes gets the lock after this writer, and before the next one.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._readers = 0  # that hold the lock
        self._writing = False  # a writer holds the lock, or waits for the readers
        self._turn = 0  # number of finished writers
        self._next_readers = 0  # that wait for this writer

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

    Each plugin can read, change or delete the data of others. Read, Write and Delete acquire no lock: with
    several threads the caller acquires it first, with Lock and Unlock, or RLock and RUnlock to read.
    """

    def __init__(self) -> None:
        super().__init__()
        self._storage: dict[ContextKey, ContextData] = {}

    def Read(self, key: ContextKey) -> ContextData:
        """The data of a key.

        Parameters
        ----------
        key : str

        Raises
        ------
        FrameworkError
            ``not found``.
        """
        try:
            return self._storage[key]
        except KeyError:
            raise FrameworkError(NotFound) from None

    def Write(self, key: ContextKey, val: ContextData) -> None:
        """Store data under a key, in place of earlier data.

        Parameters
        ----------
        key : str
        val : object
        """
        self._storage[key] = val

    def Delete(self, key: ContextKey) -> None:
        """Delete the data of a key, if there is any.

        Parameters
        ----------
        key : str
        """
        self._storage.pop(key, None)


NewPluginContext = PluginContext


# ---- plugins -----------------------------------------------------------------------------------------------


@runtime_checkable
class Plugin(Protocol):
    """The parent of all plugins. As in Go, every object with the methods is a plugin."""

    def Name(self) -> str: ...


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Called at the reservation point, before the pod is assumed; to update the plugin's own state.

    It should return Success or Error; any other code than Success rejects the pod too.
    """

    def Reserve(self, pc: PluginContext, p: Pod, node_name: str, /) -> Status | None:
        """Update the plugin's state for a pod on a node.

        Parameters
        ----------
        pc : PluginContext
        p : Pod
        node_name : str
        """


@runtime_checkable
class PrebindPlugin(Plugin, Protocol):
    """Called before a pod is bound; any code but Success rejects the pod."""

    def Prebind(self, pc: PluginContext, p: Pod, node_name: str, /) -> Status | None:
        """Prepare the binding of a pod.

        Parameters
        ----------
        pc : PluginContext
        p : Pod
        node_name : str
        """


@runtime_checkable
class UnreservePlugin(Plugin, Protocol):
    """Called when a reserved pod was rejected in a later phase; to clean up the state of the pod."""

    def Unreserve(self, pc: PluginContext, p: Pod, node_name: str, /) -> None:
        """Remove the state of a rejected pod.

        Parameters
        ----------
        pc : PluginContext
        p : Pod
        node_name : str
        """


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """Called before prebind plugins; prevents or delays the binding.

    It returns Success, or Wait with the seconds to wait; otherwise the pod is rejected.
    """

    def Permit(self, pc: PluginContext, p: Pod, node_name: str, /) -> tuple[Status | None, float]:
        """Permit, delay or reject the binding of a pod.

        Parameters
        ----------
        pc : PluginContext
        p : Pod
        node_name : str

        Returns
        -------
        status : Status or None
        seconds : float
            Timeout of a Wait.
        """


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
        By node name, without nodes that were removed while their pods remain.
    """

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._snapshot = Snapshot() if snapshot is None else snapshot
        self.NodeInfoMap = NodeInfoMap(self._snapshot)

    @property
    def Generation(self) -> int:
        """Sequence number of the last change that the snapshot contains."""
        return self._snapshot.generation

    def Update(self, cache: SchedulerCache) -> None:
        """Update the snapshot in place; to be called at the begin of each scheduling cycle.

        Parameters
        ----------
        cache : SchedulerCache
            Always the same one.
        """
        cache.update_snapshot(self._snapshot)


class WaitingPod(Protocol):
    """A pod that waits in the permit phase. One signal at most is delivered, until it is decided."""

    def GetPod(self) -> Pod:
        """The pod itself."""

    def Allow(self) -> bool:
        """Allow the pod for all plugins that wait; True if the signal was delivered."""

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable; True if the signal was delivered.

        Parameters
        ----------
        msg : str
            The reason.
        """


class FrameworkHandle(Protocol):
    """The interface of the framework to plugins; an argument of plugin factories."""

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        """The latest snapshot: always the same object, updated at the begin of each scheduling cycle and
        unchanged until the pod has passed the reserve plugins."""

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call back for each waiting pod, under a read lock: meanwhile none joins and none leaves.

        Parameters
        ----------
        callback : callable
            Its argument is a WaitingPod.
        """

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this UID, or None.

        Parameters
        ----------
        uid : str
        """


@dataclass(frozen=True, slots=True)
class Unknown:
    """The unparsed arguments of a plugin (apimachinery, runtime.Unknown)."""

    Raw: bytes
    ContentType: str


PluginFactory = Callable[[Unknown | None, FrameworkHandle], Plugin]
"""Builds a plugin from its configuration and the framework's handle; an error is raised."""


class Registry(dict[str, PluginFactory]):
    """Factories of all available plugins by name; the framework builds each of them, in this order."""

    def Register(self, name: str, factory: PluginFactory) -> None:
        """Add a plugin.

        Parameters
        ----------
        name : str
        factory : PluginFactory

        Raises
        ------
        FrameworkError
            There is a plugin of this name.
        """
        if name in self:
            raise FrameworkError(f"a plugin named {name} already exists")
        self[name] = factory

    def Unregister(self, name: str) -> None:
        """Remove a plugin.

        Parameters
        ----------
        name : str

        Raises
        ------
        FrameworkError
            There is no plugin of this name.
        """
        if name not in self:
            raise FrameworkError(f"no plugin named {name} exists")
        del self[name]


NewRegistry = Registry
"""The registry of the default plugins, of which there were none yet."""
