"""FrameworkHandle: the interface of the framework and the scheduler for plugins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from moorage.engine.cache import SchedulerCache, Snapshot
from moorage.errors import MoorageError
from moorage.kube import AnyGroup, Object, Pod
from moorage.kube.releases import DEFAULT_GATES, FeatureGates, Release

from .extender import Extender
from .nominator import PodNominator
from .plugin_errors import PluginErrors
from .waiting_pods import PodInPreBind, WaitingPod, WaitingPods
from .writes import AT_ONCE, Writes

S = TypeVar("S")
T = TypeVar("T", bound=Object)
MAX_NOTE = 1024  # bytes


class Client(Protocol):
    """The methods of `moorage.store.ObjectClient` that binding and preemption use."""

    def bind(self, pod: Pod, node: str) -> None: ...

    def get(self, kind: type[T], name: str, namespace: str = "") -> T: ...

    def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str,
        patch: Any,
        *,
        type: Literal["merge", "strategic", "json"] = "merge",
        subresource: str = "",
    ) -> T: ...

    def delete(self, kind: type[T], name: str, namespace: str = "") -> T: ...


class PluginObserver(Protocol):
    """Is told of the runs of extension points and the calls of plugins (`runtime.observer.Observer`)."""

    def follow(self, framework: Any) -> None:
        """Note the runs of the extension points of a framework from now on."""

    def call(self, plugin: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a method of a plugin.

        Parameters
        ----------
        function : callable
            The bound method.

        Returns
        -------
        object
            The result of the method.
        """

    def algorithm(self, seconds: float) -> None:
        """Note the search for a node for one pod, with PostFilter."""

    def waited(self, status: str, seconds: float) -> None:
        """Note the end of a pod's wait on Permit.

        Parameters
        ----------
        status : str
            Name of the code with which it ended.
        """


class Event(Struct, frozen=True):
    """An event about an object (events.k8s.io); `type` is Normal or Warning."""

    regarding: Object
    type: str
    reason: str
    action: str
    note: str


class AlikeEvents(NamedTuple):
    """Events that differ in their object alone; see `Event`."""

    regarding: Sequence[Object]
    type: str
    reason: str
    action: str
    note: str


class EventRecorder:
    """Records events in order."""

    def __init__(self) -> None:
        self._recorded: list[Event | AlikeEvents] = []

    @property
    def events(self) -> list[Event]:
        """The events: a new list."""
        events = list[Event]()
        for recorded in self._recorded:
            if isinstance(recorded, Event):
                events.append(recorded)
            else:
                events += (Event(regarding, *recorded[1:]) for regarding in recorded.regarding)
        return events

    def save(self) -> int:
        """Return a mark of what is recorded, for `undo`."""
        return len(self._recorded)

    def undo(self, saved: int) -> None:
        """Drop the events recorded since `save`."""
        del self._recorded[saved:]

    def copy_from(self, other: EventRecorder) -> None:
        """Take the events of another recorder."""
        self._recorded = other._recorded.copy()

    def event(self, regarding: Object, type: str, reason: str, action: str, note: str) -> None:
        """Record an event.

        Parameters
        ----------
        regarding : Object
            The object of the event.
        type : str
            Normal or Warning.
        reason, action : str
            Identifiers of the cause and of the action taken.
        note : str
            Description, truncated to 1024 bytes of UTF-8 (kube-scheduler v1.36, truncateMessage).
        """
        self._recorded.append(Event(regarding, type, reason, action, truncated(note)))

    def event_of_each(
        self, regarding: Sequence[Object], type: str, reason: str, action: str, note: str
    ) -> None:
        """Record an event of each of some objects, which are not read before the events are; see `event`."""
        self._recorded.append(AlikeEvents(regarding, type, reason, action, truncated(note)))


def truncated(note: str) -> str:
    """Return a note of at most 1024 bytes of UTF-8 (kube-scheduler v1.36, truncateMessage)."""
    if 4 * len(note) > MAX_NOTE and len(encoded := note.encode()) > MAX_NOTE:
        suffix = " ..."
        return encoded[: MAX_NOTE - len(suffix)].decode(errors="ignore") + suffix
    return note


@dataclass(frozen=True, slots=True)
class Parallelizer:
    """Runs pieces of work in threads, or one after the other if it has one worker (the default)."""

    parallelism: int = 1

    def until(self, pieces: int, work: Callable[[int], object]) -> None:
        """Run all pieces of work and wait for them.

        Parameters
        ----------
        pieces : int
            Number of pieces.
        work : callable
            Called with the index of each piece.
        """
        if self.parallelism == 1 or pieces <= 1:
            for piece in range(pieces):
                work(piece)
            return
        with ThreadPoolExecutor(self.parallelism) as workers:
            for done in [workers.submit(work, piece) for piece in range(pieces)]:
                done.result()


@dataclass
class FrameworkHandle:
    """The interface between plugins and scheduler (kube-scheduler v1.36, framework/interface.go, Handle).

    Attributes
    ----------
    cache : SchedulerCache
        The scheduler's cache of nodes and pods.
    client : ObjectClient
        Client of the object store or API server.
    informers : InformerFactory
        Known states of the objects, for example ``informers.informer(Node).lister``.
    nominator : PodNominator
        Nominated pods.
    recorder : EventRecorder
        Receives the events of plugins.
    writes : Writes
        Carries out writes that no decision waits for.
    plugin_errors : PluginErrors
        Counts the exceptions of plugins.
    extenders : sequence of Extender
        Extenders in configured order.
    pods_in_pre_bind : dict of str to PodInPreBind
        By UID, from the start of PreBind to the end of the binding cycle.
    framework : moorage.engine.framework.Framework or None
        None while the plugins are being created. The interface of plugins does not import what runs them, so
        its type is not declared.
    preemption_offset : callable
        Returns the index of the node with which dry runs start, from a pod and the number of candidate nodes.
    make_preempt_handle : callable, optional
        Makes the result of `preempt_handle`.
    on_eviction : list of callable
        Each is called with evicted pods, the node of those that do not name theirs, and the preemptor.
    groups_pods : bool
        Whether pods of a pod group are scheduled together (gate GenericWorkload).
    feature_gates : FeatureGates
        Value by gate, and the release that they are of.
    places_groups : bool
        Whether a group is tried in placements (gate TopologyAwareWorkloadScheduling).
    has_trees : bool
        Whether pod groups form composite groups (gate CompositePodGroup).
    group_cycle : object
        What tells the current pod group cycle apart from others; None outside of them.
    observer : PluginObserver or None
        Is told of the runs of extension points and the calls of plugins.
    clock, wait : callable
        Return the time in seconds, and wait a number of seconds, for plugins that wait in PreBind.
    now : callable
        Returns the time in seconds since 1970, for fields of objects.
    """

    cache: SchedulerCache
    client: Client
    informers: Any = None
    nominator: PodNominator = field(default_factory=PodNominator)
    recorder: EventRecorder = field(default_factory=EventRecorder)
    writes: Writes = AT_ONCE
    plugin_errors: PluginErrors = field(default_factory=PluginErrors)
    extenders: Sequence[Extender] = ()
    parallelizer: Parallelizer = field(default_factory=Parallelizer)
    waiting_pods: WaitingPods = field(default_factory=WaitingPods)
    pods_in_pre_bind: dict[str, PodInPreBind] = field(default_factory=dict)
    framework: Any = None
    preemption_offset: Callable[[Pod, int], int] = lambda pod, nodes: 0
    make_preempt_handle: Callable[[FrameworkHandle], Any] | None = None
    on_eviction: list[Callable[[Sequence[Pod], str, Pod | AnyGroup], object]] = field(default_factory=list)
    groups_pods: bool = False
    feature_gates: FeatureGates = field(default_factory=lambda: DEFAULT_GATES)
    places_groups: bool = False
    has_trees: bool = False
    group_cycle: object = None
    observer: PluginObserver | None = None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.time
    _snapshot: Snapshot = field(default_factory=Snapshot)
    _shared: dict[object, Any] = field(default_factory=dict)  # shared by the copies of all profiles
    _derived: dict[object, Any] = field(default_factory=dict)  # those that are derived from the cache

    @property
    def release(self) -> Release:
        """The release of kube-scheduler that decides."""
        return self.feature_gates.release

    def shared(self, make: Callable[[FrameworkHandle], S]) -> S:
        """Return an object that all plugins of a scheduler share.

        Parameters
        ----------
        make : callable
            Makes the object from a handle, at the first call with this callable.

        Returns
        -------
        object
            The shared object.
        """
        if make not in self._shared:
            self._shared[make] = make(self)
        made: S = self._shared[make]
        return made

    def derived(self, make: Callable[[FrameworkHandle], S]) -> S:
        """Return an object that all plugins of a scheduler share, and that is derived from the cache.

        Parameters
        ----------
        make : callable
            Makes the object from a handle, at the first call with this callable.

        Returns
        -------
        object
            The shared object. A handle over a fork of the cache has one of its own.
        """
        if make not in self._derived:
            self._derived[make] = make(self)
        made: S = self._derived[make]
        return made

    def made(self) -> tuple[dict[object, Any], dict[object, Any]]:
        """Return the objects of `shared` and of `derived` by the callables that made them."""
        return self._shared, self._derived

    def over(self, cache: SchedulerCache) -> FrameworkHandle:
        """Return a handle over a fork of the cache, without a framework.

        Returns
        -------
        FrameworkHandle
            It shares what is not derived from the cache.
        """
        return replace(self, cache=cache, framework=None, observer=None, _snapshot=Snapshot(), _derived={})

    def snapshot(self) -> Snapshot:
        """Return the nodes and pods at the start of this cycle."""
        return self._snapshot

    def preempt_handle(self) -> Any:
        """Return the preemption interface of v1.19 and v1.20.

        Raises
        ------
        MoorageError
            The scheduler does not support it.
        """
        if self.make_preempt_handle is None:
            raise MoorageError("there is no preemption in this handle")
        return self.make_preempt_handle(self)

    def begin_cycle(self) -> None:
        """Update the snapshot at the start of a cycle."""
        self.cache.update_snapshot(self._snapshot)

    def get_pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        """Return the state of a pod in PreBind.

        Parameters
        ----------
        uid : str
            UID of the pod.

        Returns
        -------
        PodInPreBind or None
            None if the pod is not in PreBind.
        """
        return self.pods_in_pre_bind.get(uid)

    def iterate_over_waiting_pods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call a function for every pod that waits at Permit.

        Parameters
        ----------
        callback : callable
            Called with each `WaitingPod`.
        """
        self.waiting_pods.iterate(callback)

    def get_waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return the state of a pod that waits at Permit.

        Parameters
        ----------
        uid : str
            UID of the pod.

        Returns
        -------
        WaitingPod or None
            None if the pod does not wait.
        """
        return self.waiting_pods.get(uid)

    def reject_waiting_pod(self, uid: str) -> bool:
        """Reject a pod that waits at Permit.

        Parameters
        ----------
        uid : str
            UID of the pod.

        Returns
        -------
        bool
            False if the pod does not wait.
        """
        waiting = self.waiting_pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")
