"""The plugin interface of v1alpha1: statuses, PluginContext, plugins and their registry, the handle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from threading import Condition
from typing import Any, Protocol, runtime_checkable

from moorage.engine.cache import NodeInfo, SchedulerCache, Snapshot
from moorage.errors import CacheError, MoorageError
from moorage.kube import Pod

NotFound = "not found"

ContextKey = str
ContextData = Any

# ---- statuses ----------------------------------------------------------------------------------------------


class FrameworkError(MoorageError):
    """An error of the framework v1alpha1, with upstream's text."""


class Code(IntEnum):
    """Status codes. The numbers are as in v1alpha1: Wait is 3, where it is 4 today."""

    Success = 0
    Error = 1
    Unschedulable = 2
    Wait = 3


Success = Code.Success
Error = Code.Error
Unschedulable = Code.Unschedulable
Wait = Code.Wait

# In the body of Status, the name Code refers to the method.
_Code = Code


@dataclass(frozen=True, slots=True)
class Status:
    """The result of a plugin.

    None means Success. Called through the class, the methods accept None: ``Status.Code(None)``.

    Attributes
    ----------
    code : Code
    message : str
        The reason for a code other than Success.
    """

    code: _Code = Success
    message: str = ""

    def Code(self: Status | None) -> _Code:
        """Return the code, for None Success."""
        return Success if self is None else self.code

    def Message(self: Status | None) -> str:
        """Return the message, for None "" (where upstream panics)."""
        return "" if self is None else self.message

    def IsSuccess(self: Status | None) -> bool:
        """Whether the code is Success."""
        return Status.Code(self) == Success

    def AsError(self: Status | None) -> FrameworkError | None:
        """Return an error with the message as its text; None for a success."""
        return None if Status.IsSuccess(self) else FrameworkError(Status.Message(self))


NewStatus = Status


# ---- the data of a cycle -----------------------------------------------------------------------------------


class RWMutex:
    """A readers-writer lock, not re-entrant; it may be released by another thread than acquired it.

    The order is that of Go's sync.RWMutex, which prevents starvation: a reader that arrives while a writer
    waits or holds the lock acquires it after this writer, and before the next one.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._readers = 0  # number of readers that hold the lock
        self._writing = False  # a writer holds the lock, or waits for the readers
        self._turn = 0  # number of finished writers
        self._next_readers = 0  # number of readers that wait for this writer

    def Lock(self) -> None:
        """Acquire the write lock."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing)
            try:
                self._writing = True
                self._changed.wait_for(lambda: self._readers == 0)
            except BaseException:  # an interrupt: the others must not wait for this writer
                self._end_writing()
                raise

    def Unlock(self) -> None:
        """Release the write lock.

        Raises
        ------
        RuntimeError
            It is not held.
        """
        with self._changed:
            if not self._writing:
                raise RuntimeError("sync: Unlock of unlocked RWMutex")
            self._end_writing()

    def _end_writing(self) -> None:
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
            self._next_readers += 1  # Unlock counts this reader as one that holds the lock
            try:
                self._changed.wait_for(lambda: self._turn != turn)
            except BaseException:
                if self._turn == turn:
                    self._next_readers -= 1
                else:
                    self._readers -= 1
                    self._changed.notify_all()
                raise

    def RUnlock(self) -> None:
        """Release the read lock.

        Raises
        ------
        RuntimeError
            It is not held.
        """
        with self._changed:
            if self._readers == 0:
                raise RuntimeError("sync: RUnlock of unlocked RWMutex")
            self._readers -= 1
            self._changed.notify_all()


class PluginContext(RWMutex):
    """Arbitrary data by key, shared by the plugins of one scheduling cycle.

    Each plugin can read, change or delete the data of others. Read, Write and Delete do not acquire the lock:
    if there are several threads, the caller must hold it (Lock and Unlock; to read, RLock and RUnlock).
    """

    def __init__(self) -> None:
        super().__init__()
        self._storage: dict[ContextKey, ContextData] = {}

    def Read(self, key: ContextKey) -> ContextData:
        """Return the data of a key.

        Raises
        ------
        FrameworkError
            ``not found``: there is no such key.
        """
        try:
            return self._storage[key]
        except KeyError:
            raise FrameworkError(NotFound) from None

    def Write(self, key: ContextKey, val: ContextData) -> None:
        """Store data under a key, replacing earlier data."""
        self._storage[key] = val

    def Delete(self, key: ContextKey) -> None:
        """Delete the data of a key, if there is any."""
        self._storage.pop(key, None)


NewPluginContext = PluginContext


# ---- plugins -----------------------------------------------------------------------------------------------


@runtime_checkable
class Plugin(Protocol):
    """The base interface of all plugins. As in Go, every object with the methods of an interface has it."""

    def Name(self) -> str:
        """Return the name of the plugin."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """A plugin that is called before a pod is assumed, to update its own state."""

    def Reserve(self, pc: PluginContext, p: Pod, node_name: str, /) -> Status | None:
        """Update the state of the plugin for a pod on a node.

        Returns
        -------
        Status or None
            Success or Error. Any other code rejects the pod too.
        """


@runtime_checkable
class PrebindPlugin(Plugin, Protocol):
    """A plugin that is called before a pod is bound."""

    def Prebind(self, pc: PluginContext, p: Pod, node_name: str, /) -> Status | None:
        """Prepare the binding of a pod.

        Returns
        -------
        Status or None
            Any code other than Success rejects the pod.
        """


@runtime_checkable
class UnreservePlugin(Plugin, Protocol):
    """A plugin that is called when a reserved pod is rejected in a later phase, to clean up its state."""

    def Unreserve(self, pc: PluginContext, p: Pod, node_name: str, /) -> None:
        """Remove the state of the plugin for a rejected pod."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """A plugin that is called before prebind plugins and can prevent or delay the binding."""

    def Permit(self, pc: PluginContext, p: Pod, node_name: str, /) -> tuple[Status | None, float]:
        """Permit, delay or reject the binding of a pod.

        Returns
        -------
        status : Status or None
            Success or Wait. Any other code rejects the pod.
        seconds : float
            The timeout of Wait.
        """


class NodeInfoMap(Mapping[str, NodeInfo]):
    """A view of a snapshot as a mapping from node name to NodeInfo."""

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
    """The NodeInfos as of the beginning of a scheduling cycle.

    Parameters
    ----------
    snapshot : Snapshot, optional
        By default a new one.

    Attributes
    ----------
    NodeInfoMap : mapping of str to NodeInfo
        By node name, without removed nodes that still have pods.
    """

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._snapshot = Snapshot() if snapshot is None else snapshot
        self.NodeInfoMap = NodeInfoMap(self._snapshot)

    @property
    def Generation(self) -> int:
        """Return the sequence number of the last change that the snapshot contains."""
        return self._snapshot.generation

    def Update(self, cache: SchedulerCache) -> None:
        """Update the snapshot in place; call this at the beginning of each scheduling cycle.

        Parameters
        ----------
        cache : SchedulerCache
            Always the same one.
        """
        cache.update_snapshot(self._snapshot)


class WaitingPod(Protocol):
    """A pod that waits in the permit phase. One signal at most, Allow or Reject, is delivered."""

    def GetPod(self) -> Pod:
        """Return the pod."""

    def Allow(self) -> bool:
        """Allow the pod for all plugins that wait; return whether the signal was delivered."""

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable.

        Returns
        -------
        bool
            Whether the signal was delivered.
        """


class FrameworkHandle(Protocol):
    """The interface of the framework to plugins; an argument of plugin factories."""

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        """Return the snapshot of the nodes.

        It is always the same object, updated at the beginning of each scheduling cycle and unchanged until
        the pod has passed the reserve plugins.
        """

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call a function for each waiting pod, under a read lock: no pod is added or removed meanwhile.

        Parameters
        ----------
        callback : callable
            Its argument is a WaitingPod.
        """

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with a UID."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The unparsed arguments of a plugin (apimachinery, runtime.Unknown).

    Attributes
    ----------
    Raw : bytes
    ContentType : str
        The media type of `Raw`, such as application/json.
    """

    Raw: bytes
    ContentType: str


PluginFactory = Callable[[Unknown | None, FrameworkHandle], Plugin]
"""A function that builds a plugin from its configuration and the handle of the framework, or raises."""


class Registry(dict[str, PluginFactory]):
    """The factories of all available plugins, by name; the framework builds each plugin, in this order."""

    def Register(self, name: str, factory: PluginFactory) -> None:
        """Add a plugin.

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

        Raises
        ------
        FrameworkError
            There is no plugin of this name.
        """
        if name not in self:
            raise FrameworkError(f"no plugin named {name} exists")
        del self[name]


NewRegistry = Registry
"""The registry of the default plugins; v1alpha1 has none."""
