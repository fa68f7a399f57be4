"""The first API of the scheduling framework, v1alpha1, as between Kubernetes v1.14 and v1.15.

Names are those of v1alpha1. `adapt` and `adapt_factory` adapt plugins and factories to the current framework,
whose scheduler then runs them; `Framework` runs plugins of v1alpha1 for other schedulers. Durations are in
seconds. A nil ``*Status`` is None; methods that Go calls on nil are called through the class:
``Status.IsSuccess(None)``, ``Status.Code(plugin.Reserve(...))``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from threading import Condition
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from moorage.engine.cache import NodeInfo, SchedulerCache, Snapshot
from moorage.engine.framework import interface as today
from moorage.engine.framework.handle import FrameworkHandle as TodaysHandle
from moorage.engine.framework.status import CycleState
from moorage.engine.framework.waiting_pods import WaitingPod as TodaysWaitingPod
from moorage.errors import CacheError, MoorageError
from moorage.kube import Pod
from moorage.kube.go_texts import format_duration

__all__ = [
    "Clock",
    "Code",
    "ContextData",
    "ContextKey",
    "Error",
    "Framework",
    "FrameworkError",
    "FrameworkHandle",
    "MonotonicClock",
    "NewFramework",
    "NewPluginContext",
    "NewRegistry",
    "NewStatus",
    "NodeInfoSnapshot",
    "NotFound",
    "PermitPlugin",
    "Plugin",
    "PluginContext",
    "PluginFactory",
    "PrebindPlugin",
    "ProfileHandle",
    "Registry",
    "ReservePlugin",
    "Status",
    "Success",
    "Unknown",
    "UnreservePlugin",
    "Unschedulable",
    "Wait",
    "WaitingPod",
    "adapt",
    "adapt_factory",
]


# ---- plugin interface --------------------------------------------------------------------------------------
#
# The plugin interface of v1alpha1: statuses, PluginContext, plugins and their registry, the handle.

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


# ---- framework ---------------------------------------------------------------------------------------------
#
# Framework: builds plugins of v1alpha1 and runs them at their extension points.
#
# The rules are those of pkg/scheduler/framework/v1alpha1 before Kubernetes v1.15.

MAX_TIMEOUT = 15 * 60.0

logger = logging.getLogger("moorage.compat.v1alpha1")


class Clock(Protocol):
    """A monotonic clock for waiting pods, in seconds from an arbitrary start."""

    def now(self) -> float:
        """Return the time in seconds."""

    def wait(self, condition: Condition, until: float) -> None:
        """Block until the condition is notified or the time is `until`; may return earlier.

        Parameters
        ----------
        condition : threading.Condition
            Held by the caller.
        until : float
            Seconds on this clock.
        """


class MonotonicClock:
    """The monotonic clock of the machine, `time.monotonic`."""

    def now(self) -> float:
        """Return the monotonic time of the machine, in seconds."""
        return time.monotonic()

    def wait(self, condition: Condition, until: float) -> None:
        """Block until the condition is notified or the time is `until`.

        Parameters
        ----------
        until : float
            Seconds on this clock.
        """
        condition.wait(max(0.0, until - time.monotonic()))


class PodInPermit:
    """A `WaitingPod` of a `Framework`.

    One signal at most is delivered, before the deadline. (Upstream also loses a signal that is sent before
    its goroutine receives from the channel.)

    Parameters
    ----------
    timeout : float
        Seconds from the creation of this object to the deadline.
    """

    def __init__(self, pod: Pod, timeout: float, clock: Clock) -> None:
        self._pod = pod
        self._timeout = timeout
        self._clock = clock
        self._deadline = clock.now() + timeout
        self._changed = Condition()
        self._decided = False
        self._status: Status | None = None

    def GetPod(self) -> Pod:
        """Return the pod."""
        return self._pod

    def Allow(self) -> bool:
        """Allow the pod for all plugins that wait; return whether the signal was delivered."""
        return self._signal(None)

    def Reject(self, msg: str) -> bool:
        """Declare the pod unschedulable; return whether the signal was delivered."""
        return self._signal(Status(Unschedulable, f"rejected while waiting at permit: {msg}"))

    def _signal(self, status: Status | None) -> bool:
        """Set the result, if there is none yet and the deadline has not passed."""
        with self._changed:
            if self._decided or self._clock.now() >= self._deadline:
                return False
            self._decided, self._status = True, status
            self._changed.notify_all()
            return True

    def wait(self) -> Status | None:
        """Block until a signal or the deadline.

        Returns
        -------
        Status or None
            The result of the permit point; None if the pod was allowed.
        """
        with self._changed:
            while not self._decided:
                if self._clock.now() >= self._deadline:
                    after = format_duration(self._timeout)
                    text = f"pod {self._pod.name} rejected due to timeout after waiting {after} at permit"
                    return Status(Unschedulable, text)
                self._clock.wait(self._changed, self._deadline)
            return self._status


class WaitingPods:
    """The waiting pods by UID; a later pod with the same UID replaces an earlier one."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPermit] = {}
        self._lock = RWMutex()

    def add(self, waiting: PodInPermit) -> None:
        """Add a pod that begins to wait."""
        uid = waiting.GetPod().metadata.uid
        self._lock.Lock()
        try:
            self._pods[uid] = waiting
        finally:
            self._lock.Unlock()

    def remove(self, uid: str) -> None:
        """Remove a pod that no longer waits.

        Parameters
        ----------
        uid : str
            Ignored if it is unknown.
        """
        self._lock.Lock()
        try:
            self._pods.pop(uid, None)
        finally:
            self._lock.Unlock()

    def get(self, uid: str) -> PodInPermit | None:
        """Return the waiting pod with a UID.

        This acquires no lock, since the callback of an iteration may call it while a writer waits.
        """
        return self._pods.get(uid)

    def iterate(self, callback: Callable[[PodInPermit], object]) -> None:
        """Call a function for each waiting pod, under the read lock.

        Parameters
        ----------
        callback : callable
            Its argument is a PodInPermit.
        """
        self._lock.RLock()
        try:
            for waiting in self._pods.values():
                callback(waiting)
        finally:
            self._lock.RUnlock()


class Framework(FrameworkHandle):
    """The plugins of a registry, in its order; see `NewFramework`.

    An exception of a plugin becomes a status with the code Error, ``plugin "X" raised ValueError: …``.

    Parameters
    ----------
    clock : Clock
        The clock of waiting pods.

    Raises
    ------
    FrameworkError
        A factory raises, or its result has no Name.
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
        """Build one plugin."""
        try:
            plugin = registry[name](None, self)
        except Exception as error:
            raise FrameworkError(f"error initializing plugin {name}: {error}") from error
        if not isinstance(plugin, Plugin):
            raise FrameworkError(f"error initializing plugin {name}: {plugin!r} has no Name")
        return plugin

    def NodeInfoSnapshot(self) -> NodeInfoSnapshot:
        """Return the snapshot of the nodes."""
        return self._snapshot

    def IterateOverWaitingPods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call a function for each waiting pod, under the read lock."""
        self._waiting.iterate(callback)

    def GetWaitingPod(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with a UID, or None."""
        return self._waiting.get(uid)

    def RunReservePlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the reserve plugins up to the first that does not return Success.

        No plugin is unreserved here.

        Returns
        -------
        Status or None
            None for a success; else a status with the code Error, whatever the code of the plugin.
        """
        for plugin in self._reserve:
            status = _status(plugin, plugin.Reserve, pc, pod, node_name)
            if not Status.IsSuccess(status):
                return _failure(plugin, "reserve", pod, status)
        return None

    def RunPrebindPlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the prebind plugins up to the first that does not return Success.

        Returns
        -------
        Status or None
            None for a success; Unschedulable if the plugin returned it; else Error.
        """
        for plugin in self._prebind:
            status = _status(plugin, plugin.Prebind, pc, pod, node_name)
            if not Status.IsSuccess(status):
                return _rejection(plugin, "prebind", pod, status)
        return None

    def RunUnreservePlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> None:
        """Run all unreserve plugins, in the order of reserve plugins. Exceptions are logged."""
        for plugin in self._unreserve:
            try:
                plugin.Unreserve(pc, pod, node_name)
            except Exception as error:
                logger.exception(_raised(plugin, error))

    def RunPermitPlugins(self, pc: PluginContext, pod: Pod, node_name: str) -> Status | None:
        """Run the permit plugins.

        If a plugin returns Wait and none rejects the pod, block until the pod is allowed or rejected, for at
        most the shortest timeout of the plugins and 15 minutes.

        Returns
        -------
        Status or None
            None for a success. Unschedulable if a plugin returned it, the pod was rejected while it waited,
            or the timeout has passed; Error for any other code than Success and Wait.
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
        """Block until a pod is allowed or rejected, or the timeout (seconds) has passed."""
        waiting = PodInPermit(pod, timeout, self._clock)
        self._waiting.add(waiting)
        try:
            return waiting.wait()
        finally:
            self._waiting.remove(pod.metadata.uid)


def NewFramework(
    registry: Registry, configuration: object = None, *, clock: Clock | None = None
) -> Framework:
    """Build every plugin of a registry; each runs at the extension points whose methods it has.

    Parameters
    ----------
    registry : Registry
        Read once, in order.
    configuration : object
        Ignored, as in v1alpha1: the argument of each factory is None.
    clock : Clock, optional
        The clock of waiting pods; by default `MonotonicClock`.

    Raises
    ------
    FrameworkError
        ``error initializing plugin X: …`` for the first factory that raises.
    """
    return Framework(registry, MonotonicClock() if clock is None else clock)


def _raised(plugin: Plugin, error: Exception) -> str:
    """Return the message for an exception of a plugin."""
    return f'plugin "{plugin.Name()}" raised {type(error).__name__}: {error}'


def _checked(plugin: Plugin, result: object) -> Status | None:
    """Return the result of a plugin; a status with the code Error if it is not a Status."""
    if result is None or isinstance(result, Status):
        return result
    return Status(Error, f'plugin "{plugin.Name()}" answered {result!r}, which is no Status')


def _status(plugin: Plugin, method: Callable[..., Status | None], *arguments: object) -> Status | None:
    """Call a method of a plugin; return its status, Error if it raises."""
    try:
        return _checked(plugin, method(*arguments))
    except Exception as error:
        return Status(Error, _raised(plugin, error))


def _permit(plugin: PermitPlugin, pc: PluginContext, pod: Pod, node_name: str) -> tuple[Status | None, float]:
    """Call Permit; return its status and, for Wait, the timeout in seconds."""
    try:
        status, seconds = plugin.Permit(pc, pod, node_name)
        status = _checked(plugin, status)
        return status, min(MAX_TIMEOUT, seconds) if Status.Code(status) == Wait else 0.0
    except Exception as error:
        return Status(Error, _raised(plugin, error)), 0.0


def _failure(plugin: Plugin, point: str, pod: Pod, status: Status | None) -> Status:
    """Return the Error of an extension point for the status of a plugin."""
    message = Status.Message(status)
    return Status(Error, f"error while running {plugin.Name()} {point} plugin for pod {pod.name}: {message}")


def _rejection(plugin: Plugin, point: str, pod: Pod, status: Status | None) -> Status:
    """Return the status of an extension point for the status of a plugin: Unschedulable or Error."""
    if Status.Code(status) == Unschedulable:
        return Status(Unschedulable, f"rejected by {plugin.Name()} at {point}: {Status.Message(status)}")
    return _failure(plugin, point, pod, status)


# ---- adapter -----------------------------------------------------------------------------------------------
#
# Adapters that run plugins of v1alpha1 in profiles of the current framework.

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
        """Declare the pod unschedulable; return whether the signal was delivered."""
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
    adapted: type[_Adapted] = type(type(plugin).__name__, bases, {"name": plugin.Name()})
    return adapted(plugin, ProfileHandle() if handle is None else handle)


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
