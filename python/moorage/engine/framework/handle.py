"""FrameworkHandle: the interface of the framework and the scheduler for plugins, with extenders, writes that
no decision waits for, and the log of what plugins raise.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from moorage.errors import MoorageError, place_of
from moorage.kube import AnyGroup, Node, Object, Pod
from moorage.kube.releases import DEFAULT_GATES, FeatureGates, Release
from moorage.lazy import NamedTuple
from moorage.saved_fields import SavedFields

from ..cache import SchedulerCache, Snapshot
from .waiting_pods import PodInPreBind, PodNominator, WaitingPod, WaitingPods

# ---- writes ------------------------------------------------------------------------------------------------
# Writes that no decision waits for.

scheduler_logger = logging.getLogger("moorage.scheduler")


Then = Callable[[Exception | None], object]
"""Takes the error of a write that has ended; None without one."""


class Writes:
    """Carries out writes at once. A live scheduler has threads for them (`moorage.live.writer.Writer`).

    Attributes
    ----------
    is_beside : bool
        Whether they may end after `submit`.
    """

    is_beside = False

    def submit(
        self, what: str, about: Object, action: Callable[[], object], then: Then | None = None
    ) -> None:
        """Carry out a write after the earlier ones of the same object.

        Parameters
        ----------
        what : str
            The kind of write: as upstream names its asynchronous calls, where it has one.
        action : callable
            Writes. If it has a method `after`, and an earlier write of the same kind and object still waits,
            ``action.after(earlier)`` takes the place of both.
        then : callable, optional
            Is called at the end, by the thread that schedules. Without it a refusal is only logged.
        """
        error = None
        try:
            action()
        except MoorageError as refusal:
            error = refusal
        if then is not None:
            then(error)
        elif error is not None:
            log_failure(what, about, error)


def log_failure(what: str, about: Object, error: MoorageError) -> None:
    """Log that a write was refused."""
    scheduler_logger.error("write has failed: what=%s object=%s error=%s", what, about.key, error)


AT_ONCE = Writes()


# ---- extender ----------------------------------------------------------------------------------------------


class Victims(Struct, frozen=True):
    """The victims of a preemption on one node.

    Attributes
    ----------
    pods : sequence of Pod
        Pods to evict, in the order of their deletion.
    num_pdb_violations : int
        Number of victims that a PodDisruptionBudget protects.
    """

    pods: Sequence[Pod]
    num_pdb_violations: int = 0


class Extender(Protocol):
    """An external program that takes part in scheduling (kube-scheduler v1.36, framework/extender.go).

    Its methods may raise ExtenderError.
    """

    @property
    def name(self) -> str:
        """The URL prefix of the extender."""

    @property
    def weight(self) -> int:
        """The factor of the extender's scores."""

    @property
    def is_ignorable(self) -> bool:
        """Whether failures of the extender are ignored; failures of `prioritize` always are."""

    @property
    def is_filter(self) -> bool:
        """Whether the extender filters nodes."""

    @property
    def returns_bare_nodes(self) -> bool:
        """Whether the extender exchanges whole nodes instead of names.

        Such nodes are then scored as if they had neither pods nor images (v1.34 to v1.36; kubernetes issue
        141781).
        """

    @property
    def is_prioritizer(self) -> bool:
        """Whether the extender scores nodes."""

    @property
    def is_binder(self) -> bool:
        """Whether the extender binds pods."""

    @property
    def supports_preemption(self) -> bool:
        """Whether the extender takes part in preemption."""

    def is_interested(self, pod: Pod) -> bool:
        """Whether the extender is called for a pod.

        It is called for all pods, or for those that request a managed resource.
        """

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Filter nodes.

        Returns
        -------
        list of str
            Names of the nodes that pass, in the extender's order; all of them if it does not filter.
        dict of str to str
            Reason by rejected node.
        dict of str to str
            Reason by node rejected as unresolvable.
        """

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Return the scores of nodes before the weight is applied.

        Returns
        -------
        dict of str to int
            Score by node, 0 to 10 by the protocol; 0 if the extender does not score.
        """

    def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod."""

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Filter the candidate nodes of a preemption.

        Returns
        -------
        dict of str to Victims
            The remaining candidates, sorted by name, with the extender's victims: pods of the node, which may
            differ from `victims`, or none.
        """


# ---- plugin errors -----------------------------------------------------------------------------------------
# The exceptions of plugins, and answers that were refused: logged once per plugin and type, and counted.

logger = logging.getLogger("moorage.framework")

Kind = tuple[str, str]
"""Name of the plugin, and name of the exception type."""


class PluginErrors(SavedFields):
    """Logs and counts the exceptions that plugins of a scheduler raise, and their answers that are refused,
    as `PluginError`.

    Attributes
    ----------
    fail_fast : bool
        Raise an exception instead of failing the pod in question; by default not.
    counts : Counter
        Number of exceptions by plugin and exception type.
    first : dict of str to str
        By plugin, its first exception and what it was about.
    scores : dict of str to bool
        By plugin in Python, whether any of its scores were accepted; False where all calls have failed.
    """

    fields = ("counts", "first", "scores")

    def __init__(self) -> None:
        self.fail_fast = False
        self.counts: Counter[Kind] = Counter()
        self.first: dict[str, str] = {}
        self.scores: dict[str, bool] = {}
        self._silent: Counter[Kind] = Counter()
        self.untold: list[tuple[str, str, Exception]] = []

    def note(self, plugin: str, about: str, text: str, error: Exception) -> None:
        """Log the first exception of each plugin and type with its traceback, and count the others.

        Parameters
        ----------
        about : str
            The object of the call, for example ``pod default/p``; "" for a pod that only the core knows: the
            exception is kept until `tell` names it.
        """
        if not about:
            self.untold.append((plugin, text, error))
            return
        kind = plugin, type(error).__name__
        self.counts[kind] += 1
        self.first.setdefault(plugin, f"{about}: {text}{place_of(error)}")
        if self.fail_fast:
            raise error
        if self.counts[kind] == 1:
            logger.error("%s: %s", about, text, exc_info=error if place_of(error) else None)
        else:
            self._silent[kind] += 1

    def tell(self, about: str) -> None:
        """Note the exceptions that were kept, now that their pod is known."""
        while self.untold:
            plugin, text, error = self.untold.pop(0)
            self.note(plugin, about, text, error)

    def summarize(self) -> None:
        """Log the number of exceptions since the last summary that were only counted."""
        if not self._silent:
            return
        for (plugin, error), more in self._silent.items():
            logger.error('plugin "%s" raised %s %d more times', plugin, error, more)
        self._silent.clear()


# ---- handle ------------------------------------------------------------------------------------------------

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
    """Is told of the runs of extension points and the calls of plugins (`SchedulerMetrics`)."""

    def follow(self, framework: Any) -> None:
        """Note the runs of the extension points of a framework from now on."""

    def call(self, plugin: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a method of a plugin.

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


MOST_EVENTS = 1 << 14
"""Recorded events, or runs of alike ones, that are kept; twice as many before the older half goes."""


class EventRecorder(SavedFields):
    """Records the last events in order."""

    fields = ("_recorded",)

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

    def _record(self, recorded: Event | AlikeEvents) -> None:
        if len(self._recorded) >= 2 * MOST_EVENTS:
            self._recorded = self._recorded[-MOST_EVENTS:]
        self._recorded.append(recorded)

    def event(self, regarding: Object, type: str, reason: str, action: str, note: str) -> None:
        """Record an event.

        Parameters
        ----------
        regarding : Object
            The object of the event.
        reason, action : str
            Identifiers of the cause and of the action taken.
        note : str
            Description, truncated to 1024 bytes of UTF-8 (kube-scheduler v1.36, truncateMessage).
        """
        self._record(Event(regarding, type, reason, action, truncated(note)))

    def event_of_each(
        self, regarding: Sequence[Object], type: str, reason: str, action: str, note: str
    ) -> None:
        """Record an event of each of some objects, which are not read before the events are; see `event`."""
        self._record(AlikeEvents(regarding, type, reason, action, truncated(note)))


def truncated(note: str) -> str:
    """Return a note of at most 1024 bytes of UTF-8 (kube-scheduler v1.36, truncateMessage)."""
    if 4 * len(note) > MAX_NOTE and len(encoded := note.encode()) > MAX_NOTE:
        suffix = " ..."
        return encoded[: MAX_NOTE - len(suffix)].decode(errors="ignore") + suffix
    return note


class Parallelizer(Struct, frozen=True):
    """Runs pieces of work in threads, or one after the other if it has one worker (the default)."""

    parallelism: int = 1

    def until(self, pieces: int, work: Callable[[int], object]) -> None:
        """Run all pieces of work and wait for them.

        Parameters
        ----------
        work : callable
            Called with the index of each piece.
        """
        if self.parallelism == 1 or pieces <= 1:
            for piece in range(pieces):
                work(piece)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self.parallelism) as workers:
            for done in [workers.submit(work, piece) for piece in range(pieces)]:
                done.result()


@dataclass(repr=False)
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

    def __repr__(self) -> str:
        return f"<FrameworkHandle: {self.cache!r}>"

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
        return self._kept(self._shared, make)

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
        return self._kept(self._derived, make)

    def _kept(self, kept: dict[object, Any], make: Callable[[FrameworkHandle], S]) -> S:
        """Make an object once, and not within the transaction of another thread, which would undo it."""
        if make not in kept:
            with self.cache.lock:
                if make not in kept:
                    kept[make] = make(self)
        data: S = kept[make]
        return data

    def plugin_data(self) -> tuple[dict[object, Any], dict[object, Any]]:
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
