"""FrameworkHandle: the interface of framework and scheduler for plugins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from msgspec import Struct

from moorage.cache import SchedulerCache, Snapshot
from moorage.errors import MoorageError
from moorage.framework.runtime.call import PluginErrors
from moorage.objects import Object, Pod, PodGroup

from .extender import Extender
from .nominator import PodNominator
from .waiting_pods import PodInPreBind, WaitingPod, WaitingPods

if TYPE_CHECKING:
    from moorage.framework.runtime.preempt_handle import PreemptHandle
    from moorage.framework.runtime.runtime import Framework

S = TypeVar("S")
T = TypeVar("T", bound=Object)
MAX_NOTE = 1024  # bytes


class Client(Protocol):
    """The part of `moorage.store.ObjectClient` that binding and preemption need."""

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


class Event(Struct, frozen=True):
    """One event about an object, as events.k8s.io has it; `type` is Normal or Warning."""

    regarding: Object
    type: str
    reason: str
    action: str
    note: str


@dataclass(slots=True)
class EventRecorder:
    """Records events in their order."""

    events: list[Event] = field(default_factory=list)

    def save(self) -> int:
        """The number of events, for `undo`."""
        return len(self.events)

    def undo(self, saved: int) -> None:
        """Drop the events since `save`.

        Parameters
        ----------
        saved : int
        """
        del self.events[saved:]

    def event(self, regarding: Object, type: str, reason: str, action: str, note: str) -> None:
        """Record an event.

        Parameters
        ----------
        regarding : Object
        type : str
            Normal or Warning.
        reason, action : str
        note : str
            Cut to 1024 bytes of UTF-8 (kube-scheduler v1.36, truncateMessage).
        """
        if 4 * len(note) > MAX_NOTE and len(encoded := note.encode()) > MAX_NOTE:
            suffix = " ..."
            note = encoded[: MAX_NOTE - len(suffix)].decode(errors="ignore") + suffix
        self.events.append(Event(regarding, type, reason, action, note))


@dataclass(frozen=True, slots=True)
class Parallelizer:
    """Runs pieces of work one after the other with one worker, which is the default, else in threads."""

    parallelism: int = 1

    def until(self, pieces: int, work: Callable[[int], object]) -> None:
        """Run all pieces and wait for them.

        Parameters
        ----------
        pieces : int
        work : callable
            Called with 0 to `pieces` - 1.
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
    """The interface between plugins and scheduler (kube-scheduler v1.36, framework/interface.go Handle).

    Attributes
    ----------
    cache : SchedulerCache
    client : ObjectClient
        The store, or an API server.
    informers : InformerFactory
        ``informers.informer(Node).lister``: what is known of the objects.
    nominator : PodNominator
    recorder : EventRecorder
    plugin_errors : PluginErrors
        Counts the exceptions of plugins.
    extenders : sequence
        In configured order.
    pods_in_pre_bind : dict of str to PodInPreBind
        By UID, from the begin of PreBind to the end of the binding cycle.
    framework : Framework
        None while its plugins are being made.
    preemption_offset : callable
        Called with a pod and a number of candidate nodes; the index of the node that dry runs begin with.
    make_preempt_handle : callable, optional
        Makes the return value of `preempt_handle`.
    on_eviction : list of callable
        Called with each pod that is deleted for another one or for a group, its node, and the preemptor.
    groups_pods : bool
        Pods of a group belong together (gates GenericWorkload, GangScheduling).
    scales_volume_limits : bool
        A CSIDriver decides whether nodes without it are rejected (gate VolumeLimitScaling).
    places_groups : bool
        A group is tried in placements (gate TopologyAwareWorkloadScheduling).
    preempts_for_groups : bool
        Pods are evicted for a group as a whole, and for no pod of it alone (gate WorkloadAwarePreemption).
    postponed : list of callable, optional
        Inside the transaction of a pod group cycle: the evictions and changes of nominations to do after it.
    clock, wait : callable
        The time in seconds, and a wait for some seconds, for plugins that wait in PreBind.
    """

    cache: SchedulerCache
    client: Client
    informers: Any = None
    nominator: PodNominator = field(default_factory=PodNominator)
    recorder: EventRecorder = field(default_factory=EventRecorder)
    plugin_errors: PluginErrors = field(default_factory=PluginErrors)
    extenders: Sequence[Extender] = ()
    parallelizer: Parallelizer = field(default_factory=Parallelizer)
    waiting_pods: WaitingPods = field(default_factory=WaitingPods)
    pods_in_pre_bind: dict[str, PodInPreBind] = field(default_factory=dict)
    framework: Framework | None = None
    preemption_offset: Callable[[Pod, int], int] = lambda pod, nodes: 0
    make_preempt_handle: Callable[[FrameworkHandle], PreemptHandle] | None = None
    on_eviction: list[Callable[[Pod, str, Pod | PodGroup], object]] = field(default_factory=list)
    groups_pods: bool = False
    scales_volume_limits: bool = False
    places_groups: bool = False
    preempts_for_groups: bool = False
    postponed: list[Callable[[], object]] | None = None
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], object] = time.sleep
    _snapshot: Snapshot = field(default_factory=Snapshot)
    _shared: dict[object, Any] = field(default_factory=dict)  # one for all profiles: copies refer to it

    def shared(self, make: Callable[[FrameworkHandle], S]) -> S:
        """An object that all plugins of a scheduler share.

        Parameters
        ----------
        make : callable
            Makes the object from a handle, at the first call with this callable.

        Returns
        -------
        object
        """
        if make not in self._shared:
            self._shared[make] = make(self)
        made: S = self._shared[make]
        return made

    def made(self) -> dict[object, Any]:
        """The shared objects by the callables that made them."""
        return self._shared

    def snapshot(self) -> Snapshot:
        """The nodes and pods at the start of this cycle."""
        return self._snapshot

    def preempt_handle(self) -> PreemptHandle:
        """The interface that preemption had in v1.19 and v1.20.

        Returns
        -------
        PreemptHandle

        Raises
        ------
        MoorageError
            The scheduler has no preemption.
        """
        if self.make_preempt_handle is None:
            raise MoorageError("there is no preemption in this handle")
        return self.make_preempt_handle(self)

    def begin_cycle(self) -> None:
        """Update the snapshot, at the start of a cycle."""
        self.cache.update_snapshot(self._snapshot)

    def get_pod_in_pre_bind(self, uid: str) -> PodInPreBind | None:
        """Parameters
        ----------
        uid : str

        Returns
        -------
        PodInPreBind or None
            None for a pod that is not in PreBind.
        """
        return self.pods_in_pre_bind.get(uid)

    def iterate_over_waiting_pods(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call back for every pod that waits on Permit.

        Parameters
        ----------
        callback : callable
            Called with each `WaitingPod`.
        """
        self.waiting_pods.iterate(callback)

    def get_waiting_pod(self, uid: str) -> WaitingPod | None:
        """Parameters
        ----------
        uid : str

        Returns
        -------
        WaitingPod or None
            None for a pod that does not wait on Permit.
        """
        return self.waiting_pods.get(uid)

    def reject_waiting_pod(self, uid: str) -> bool:
        """Reject a pod that waits on Permit.

        Parameters
        ----------
        uid : str

        Returns
        -------
        bool
            False for a pod that does not wait.
        """
        waiting = self.waiting_pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")
