"""Event handlers: informers' events update the cache and the scheduling queue.

kube-scheduler v1.36, eventhandlers.go. As upstream does, an event that the cache refuses is logged, and the
next one is processed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cache, partial
from itertools import chain, islice, takewhile
from operator import attrgetter, length_hint
from typing import TYPE_CHECKING, Any, TypeVar

from moorage import engine
from moorage._core.base.indexed_objects import new_states
from moorage._core.base.watch_events import Cause, Notice
from moorage._core.decide.bulk_operations import not_assumed
from moorage._core.decide.reported_pods import (
    enter_bindings,
    evictions,
    new_pods,
)
from moorage._core.queue.entrance import CreationClock
from moorage.errors import CacheError, ClockError
from moorage.kube import (
    AnyGroup,
    CompositePodGroup,
    CSINode,
    Namespace,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    StorageClass,
)
from moorage.kube.model.resource_claims import DeviceClass, ResourceClaim
from moorage.kube.model.resource_slices import DeviceTaintRule, ResourceSlice
from moorage.kube.model.storage import CSIDriver, CSIStorageCapacity, VolumeAttachment
from moorage.kube.model.workload import ReplicaSet, ReplicationController, Service, StatefulSet
from moorage.kube.releases import FeatureGates
from moorage.kube.workloads.ownership import FINISHED
from moorage.saved_fields import SavedFields
from moorage.store import DeletedFinalStateUnknown, Indexer, InformerFactory
from moorage.store.informer import HandlerFunctions, last_state

from .. import devices as dra
from .. import framework as fwk
from ..cache import ClusterCache, SchedulerCache
from ..devices.resource_classes import ResourceClasses
from ..framework import ActionType, ClusterEvent, FrameworkHandle
from ..framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    RESOURCE_SLICE,
    event_resource,
    node_update_events,
)
from ..queue import QueuedPodInfo, SchedulingQueue

if TYPE_CHECKING:
    from ..framework.group_index import PodGroups
    from ..volume.volumes_in_use import LostUses


# ---- kind handlers -----------------------------------------------------------------------------------------
# Event handlers of kinds other than nodes and pods, whose events go to the queue or the cache's state.

T = TypeVar("T", bound=Object)


@cache
def _events(resource: str, actions: ActionType) -> tuple[ClusterEvent | None, ...]:
    """Return the events of adding, updating and deleting an object of a resource; None for an action that no
    plugin registered."""
    reported = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
    return tuple([ClusterEvent(resource, action) if actions & action else None for action in reported])


def _count_leading(notices: Iterable[Notice[Any]], adds: bool) -> int:
    """Return the number of leading notices of additions, or of updates."""
    number = 0
    for notice in notices:
        if notice.is_deletion or notice.is_addition is not adds:
            break
        number += 1
    return number


class EventHandler:
    """Passes the events of one resource to the queue, as far as some plugin has registered them.

    Parameters
    ----------
    resource : str
        The resource in the form of cluster events.
    """

    def __init__(self, queue: SchedulingQueue, resource: str, actions: ActionType) -> None:
        self.queue = queue
        self._add, self._update, self._delete = _events(resource, actions)

    def on_run(self, notices: Iterable[Notice[Object]]) -> int:
        """Pass the leading additions, or updates (see `RunHandler`)."""
        adds = next(iter(notices)).is_addition
        event = self._add if adds else self._update
        number = _count_leading(notices, adds)
        if event is not None:
            self.queue.move_all(event, islice(notices, number))
        return number

    def on_delete(self, obj: Object | DeletedFinalStateUnknown[Object]) -> None:
        """Pass the deletion of an object."""
        if self._delete is not None:
            self.queue.move_all(self._delete, [Notice(last_state(obj), None)])


class StateHandler(HandlerFunctions[T]):
    """Passes objects of one kind to the cache's state.

    Parameters
    ----------
    put : callable
        Takes a new or changed object.
    remove : callable
        Takes the last state of a deleted object.
    """

    def __init__(self, lock: Any, put: Callable[[T], object], remove: Callable[[T], object]) -> None:
        def locked(change: Callable[[T], object], obj: T) -> None:
            with lock:
                change(obj)

        super().__init__(partial(locked, put), lambda old, new: locked(put, new), partial(locked, remove))


def watch_taint_rules(informers: InformerFactory, queue: SchedulingQueue, gates: FeatureGates) -> None:
    """Report to the queue, as updates of slices, that rules change taints of devices. Hints get each slice
    with the taints that its devices had, and have now.

    Parameters
    ----------
    gates : FeatureGates
        Rules of releases or with gates that do not apply them are not reported.
    """
    if not queue.hints.resources().get(RESOURCE_SLICE, 0) & ActionType.UPDATE:
        return
    rules, slices = informers.lister(DeviceTaintRule), informers.lister(ResourceSlice)
    event = ClusterEvent(RESOURCE_SLICE, ActionType.UPDATE)

    def change(old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        features = dra.claim_requests.Features.of(gates)
        if not features.taint_rules:
            return
        others = [
            listed_rule
            for listed_rule in rules.list()
            if listed_rule.name != (old or new or listed_rule).name
        ]
        published = slices.list()
        versions = [
            dra.device_state.tainted(published, [*others, rule] if rule else others, features)
            for rule in (old, new)
        ]
        for before, after in zip(*versions, strict=True):
            if before != after:
                queue.move_all(event, [Notice(before, after)])

    handler = HandlerFunctions[DeviceTaintRule](
        lambda new: change(None, new), change, lambda old: change(old, None)
    )
    informers.informer(DeviceTaintRule).add_event_handler(handler)


class TreeHandler:
    """Tells the queue which waiting pods belong to other trees of groups now."""

    def __init__(self, queue: SchedulingQueue, groups: PodGroups) -> None:
        self.queue, self.groups = queue, groups

    def on_run(self, notices: Iterable[Notice[AnyGroup]]) -> int:
        """Pass over the leading updates, as the parent of a group is immutable (see `RunHandler`)."""
        return _count_leading(notices, False)

    def on_add(self, obj: AnyGroup, is_in_initial_list: bool) -> None:
        """Follow the addition of a group.

        Parameters
        ----------
        is_in_initial_list : bool
            Whether the object existed when the handler was registered.
        """
        if self.groups.parent(obj) is not None or fwk.group_index.is_composite(obj.unit):
            self.queue.regroup(self.groups.affected(obj))

    def on_delete(self, obj: AnyGroup | DeletedFinalStateUnknown[AnyGroup]) -> None:
        """Follow the deletion of a group: its waiting pods wait for a new one."""
        group = last_state(obj)
        self.queue.regroup(self.groups.affected(group), group.unit)


class GroupHandler(StateHandler[AnyGroup]):
    """Passes pod groups to a function that depends on no single one of them."""

    def on_run(self, notices: Iterable[Notice[AnyGroup]]) -> int:
        """Pass the first of the leading groups that are new or changed (see `RunHandler`)."""
        present = list(takewhile(lambda notice: not notice.is_deletion, notices))
        self.on_add(present[0].identity, False)
        return len(present)


def namespace_handler(cache: ClusterCache) -> StateHandler[Namespace]:
    """Return a handler that records the labels of namespaces, for the namespace selectors of inter-pod
    affinity."""
    namespaces = cache.state.namespaces

    def put(namespace: Namespace) -> None:
        namespaces.set(namespace.name, namespace.metadata.labels)

    return StateHandler(cache.lock, put, lambda namespace: namespaces.remove(namespace.name))


# ---- event handlers ----------------------------------------------------------------------------------------

STORAGE: tuple[type[Object], ...] = (
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)
GROUPS: tuple[type[Any], ...] = (PodGroup, CompositePodGroup)
OTHERS: tuple[type[Object], ...] = (ResourceClaim, ResourceSlice, DeviceClass, *GROUPS)
EVENT_KINDS = {event_resource(kind): kind for kind in STORAGE + OTHERS}
DEVICES: tuple[type[Object], ...] = (ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
LISTED: tuple[type[Object], ...] = (*STORAGE, *DEVICES, PodDisruptionBudget)
"""Kinds that plugins list. They are watched even if no plugin registers their events."""
NODES_AT_ONCE = 64
"""New nodes that the cache adds as one change, whose journal is to stay small."""
WORKLOADS = (Service, ReplicationController, ReplicaSet, StatefulSet)

IDENTITY = attrgetter("identity")

logger = logging.getLogger("moorage.scheduler")


class NodeHandler:
    """Passes events of nodes to the cache and to the queue.

    Parameters
    ----------
    lost : LostUses, optional
        Is told of nodes that go, in releases that lose count of what their pods use.
    """

    def __init__(self, cache: SchedulerCache, queue: SchedulingQueue, lost: LostUses | None = None) -> None:
        self.cache = cache
        self.queue = queue
        self.lost = lost

    def on_run(self, notices: Iterable[Notice[Node]]) -> int:
        """Add leading new nodes, if no pod can react to them (see `RunHandler`).

        Returns
        -------
        int
            Their number, without those that were to be added together with one that needs `on_add`.
        """
        if self.queue.may_react(NODE_ADD):
            return 0
        nodes = new_states(notices, True)
        for first in range(0, len(nodes), NODES_AT_ONCE):
            if not self.cache.add_nodes(nodes[first : first + NODES_AT_ONCE]):
                return first
        return len(nodes)

    def on_add(self, obj: Node, is_in_initial_list: bool) -> None:
        """Add a node; it may make pods schedulable.

        Parameters
        ----------
        is_in_initial_list : bool
            Whether the object existed when the handler was registered.
        """
        self.cache.add_node(obj)
        self.queue.move_all(NODE_ADD, [Notice(None, obj)])

    def on_update(self, old: Node, new: Node) -> None:
        """Update a node; each kind of change is an event for the queue."""
        self.cache.update_node(old, new)
        if self.queue.is_listening():
            for event in node_update_events(old, new):
                self.queue.move_all(event, [Notice(old, new)])

    def on_delete(self, obj: Node | DeletedFinalStateUnknown[Node]) -> None:
        """Remove a node."""
        node = last_state(obj)
        self.queue.move_all(NODE_DELETE, [Notice(node, None)])
        if self.lost is not None:
            self.lost.node_goes(node.name)
        try:
            self.cache.remove_node(node)
        except CacheError as error:
            logger.error("%s", error)


class PodHandler(SavedFields):
    """Passes pods with a node to the cache, and pods without one to the queue. Finished pods are in neither.

    Parameters
    ----------
    handle : FrameworkHandle
        Has the cache, and the pods that wait on Permit.
    is_ours : callable
        False for pods of other schedulers.
    ages : CreationClock, optional
        Makes the queue entries of new pods; by default the queue does, at the time of its clock.

    Attributes
    ----------
    others : dict of str to Pod
        The pods of other schedulers without a node, by ``namespace/name``.
    finished : dict of str to Pod
        The finished pods on nodes, by ``namespace/name``.
    indexer : Indexer
        The informers' copy of the pods; empty before `watch`.
    """

    fields = ("others", "finished")

    def __init__(
        self,
        handle: FrameworkHandle,
        queue: SchedulingQueue,
        is_ours: Callable[[Pod], bool],
        ages: CreationClock | None = None,
    ) -> None:
        self.cache = handle.cache
        self.queue = queue
        self.is_ours = is_ours
        self.indexer: Indexer[Pod] = Indexer({})
        self.ages = ages
        self.others: dict[str, Pod] = {}
        self.finished: dict[str, Pod] = {}
        self.reject_waiting = handle.reject_waiting_pod
        self._release = handle.release
        self._counting = (
            handle.shared(fwk.group_index.PodGroups).counting if queue.groups_pods else nullcontext
        )
        self._of_cause = {
            Cause.BOUND: self._on_bound_pods,
            Cause.EVICTED: self._on_evicted_pods,
            Cause.NOMINATED: queue.follow_nominations,
        }

    def __repr__(self) -> str:
        return f"<PodHandler: {len(self.queue)} waiting, {len(self.finished)} finished>"

    @property
    def pending(self) -> dict[str, Pod]:
        """Pods without a node by ``namespace/name``, neither bound nor assumed on one.

        Waiting pods come first, in the order of the queue, then those in flight, then those of other
        schedulers.
        """
        with self.cache.lock:
            self.cache.check_whole()
            pods = [info.pod for info in chain(*self.queue.pending_pods())]
            in_flight = [self.unbound(info.pod) for info in self.queue.in_flight()]
            pods += [pod for pod in in_flight if pod is not None]
            pods += self.others.values()
            return {pods[at].key: pods[at] for at in not_assumed(self.cache.state, pods)}

    def release_assumed(self, pod: Pod) -> None:
        """Remove an assumed pod from its node. If the store has it, it is pending again."""
        self._remove(pod, False)
        latest = self.unbound(pod)
        if latest is not None and self.is_ours(latest) and self.queue.get(pod.metadata.uid) is None:
            self.queue.add(self._entries([latest]))

    def current(self, pod: Pod) -> Pod | None:
        """Return the latest state of a pod, by namespace and name; None for one that is deleted or finished.

        Upstream's informer does not see finished pods.
        """
        latest = self.indexer.get(pod.key)
        return None if latest is None or latest.status.phase in FINISHED else latest

    def unbound(self, pod: Pod) -> Pod | None:
        """Return the latest state of a pod, or None if it was deleted, replaced or bound."""
        latest = self.indexer.get(pod.key)
        if latest is None or latest.spec.node_name or latest.metadata.uid != pod.metadata.uid:
            return None
        return None if latest.status.phase in FINISHED else latest

    # ---- events --------------------------------------------------------------------------------------------

    def on_run(self, notices: Iterable[Notice[Pod]]) -> int:
        """Process the leading notices of one kind in one step (see `RunHandler`): new pods, or pods to which
        a store has done one thing, as the cause of the events says.

        Returns
        -------
        int
            Number of processed notices; 0 leaves the first one to the other methods.
        """
        first = next(iter(notices))
        if first.is_addition:
            return self._on_new_pods(notices) or self._on_new_bound_pods(notices)
        of_cause = self._of_cause.get(first.cause)
        return 0 if of_cause is None else of_cause(notices)

    def _on_new_pods(self, notices: Iterable[Notice[Pod]]) -> int:
        """Add the leading new pods without a node to the queue; return their number. Where groups are tried
        together, up to the first that is gated, and none while an addition may help other pods."""
        queue = self.queue
        if queue.groups_pods and queue.may_react(queue.pod_events.added):
            return 0
        pods = new_pods(notices, False, self.is_ours)
        left = iter(pods)
        try:  # of groups, the next pod may help one that is gated
            queue.add(self._entries(left), queue.groups_pods)
        except ClockError:
            return len(pods) - length_hint(left) - 1
        added = len(pods) - length_hint(left)
        if queue.groups_pods and added:  # the others are not gated, and wait for no event
            queue.move_all(queue.pod_events.added, [Notice(None, pods[added - 1])])
        return added

    def _entries(self, pods: Iterable[Pod]) -> Iterable[Pod | QueuedPodInfo]:
        """Return new pods as the queue takes them; each advances the clock of creations when it is taken."""
        return pods if self.ages is None else map(self.ages.entry, pods)

    def _on_new_bound_pods(self, notices: Iterable[Notice[Pod]]) -> int:
        """Add the leading new pods on nodes to the cache; return their number."""
        pods = new_pods(notices, True)
        if not pods:
            return 0
        try:
            if self.cache.state.has_pod(pods[0]):  # those of a replay, whose scheduler has placed them
                self.cache.confirm_pods(pods)
            else:
                self.cache.add_pods(pods)
        except (CacheError, ValueError):  # the cache refuses one of them
            for at, pod in enumerate(pods):
                try:
                    self.on_add(pod, False)
                except ValueError:
                    return at
        else:
            self.queue.move_all(ASSIGNED_POD_ADD, (Notice(None, pod) for pod in pods))
        return len(pods)

    def _on_bound_pods(self, notices: Iterable[Notice[Pod]]) -> int:
        """Enter the leading pods that got a node into the cache, and remove them from the queue; return their
        number. A pod that another scheduler has bound ends them while its event may move a pod, perhaps
        itself."""
        if self._release.bindings_end_nominations and self.queue.is_listening():
            notices = list(takewhile(lambda event: not event.old.status.nominated_node_name, notices))
        with self.cache.lock:
            number = enter_bindings(self.cache.state, notices, not self.queue.has_unschedulable)
        if number:
            self._leave(*map(IDENTITY, islice(notices, number)))
            bound = (Notice(None, notice.new) for notice in islice(notices, number))
            self.queue.move_all(ASSIGNED_POD_ADD, bound)
        return number

    def _on_evicted_pods(self, notices: Iterable[Notice[Pod]]) -> int:
        """Remove the leading pods on nodes that were evicted; return the number of notices. The change of
        their conditions is not applied to the cache."""
        events, queue = evictions(notices), self.queue
        if events:
            evicted = [deletion.identity for _, deletion in events]
            self._leave(*evicted)
            with self.cache.lock:
                others = self.cache.remove_added(evicted)  # those that are assumed, or not in the cache
                discarded = [(pod.metadata.uid, self._discard(pod)) for pod in others]
            assumed = {uid: pod for uid, pod in discarded if pod is not None}
            for pod, (change, deletion) in zip(evicted, events, strict=True):
                if not queue.is_listening():
                    break
                queue.move_all(ASSIGNED_POD_UPDATE, [change])
                cached = assumed.get(pod.metadata.uid)
                queue.move_all(ASSIGNED_POD_DELETE, [Notice(cached, None) if cached else deletion])
        return 2 * len(events)

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        """Add a pod to the cache or to the queue.

        Parameters
        ----------
        is_in_initial_list : bool
            Whether the object existed when the handler was registered.
        """
        if obj.status.phase in FINISHED:
            if obj.spec.node_name:
                self.finished[obj.key] = obj
            return
        if obj.spec.node_name:
            try:
                self.cache.add_pod(obj)
            except CacheError as error:
                logger.error("%s", error)
            self.queue.move_all(ASSIGNED_POD_ADD, [Notice(None, obj)])
        elif not self.is_ours(obj):
            self.others[obj.key] = obj
        else:
            self.queue.add(self._entries([obj]))
            if self.queue.groups_pods:  # without groups no plugin registers the event (gate GangScheduling)
                self.queue.move_all(self.queue.pod_events.added, [Notice(None, obj)])

    def on_update(self, old: Pod, new: Pod) -> None:
        """Update a pod; one that was bound moves from the queue to the cache."""
        finished = old.status.phase in FINISHED or new.status.phase in FINISHED
        was, now = bool(old.spec.node_name), bool(new.spec.node_name)
        if finished or old.metadata.uid != new.metadata.uid or (was and not now):
            self.on_delete(old)
            self.on_add(new, False)
        elif was:
            try:
                self.cache.update_pod(old, new)
            except CacheError as error:
                logger.error("%s", error)
            if self.queue.is_listening():
                for event in self.queue.pod_events.of_update(old, new):
                    self.queue.move_all(event, [Notice(old, new)])
        elif now:
            self.on_add(new, False)
            self._leave(old)
            if (
                self._release.bindings_end_nominations
                and old.status.nominated_node_name
                and self.is_ours(old)
            ):
                self._nomination_ended(old)
        elif self.is_ours(new):
            self._update_waiting(old, new)
        else:
            self.others[new.key] = new

    def _update_waiting(self, old: Pod, new: Pod) -> None:
        """Update a pod without a node in the queue."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return  # a resync repeats the same state
        if self.cache.is_assumed_pod(new):
            starts = new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp
            if starts and self._release.assumed_pods_end_with_termination:
                self._remove(new, False)
            return
        self.queue.update(old, new)
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            self._nomination_ended(old)

    def on_delete(self, obj: Pod | DeletedFinalStateUnknown[Pod]) -> None:
        """Remove a pod, in whatever state the cache has it: earlier events may have been lost."""
        pod = last_state(obj)
        with self._counting(pod):
            self._leave(pod)
        self.finished.pop(pod.key, None)
        had_ended = pod.status.phase in FINISHED  # a finished pod was removed, unless the cache still has it
        was_assigned = bool(pod.spec.node_name) or isinstance(obj, DeletedFinalStateUnknown)
        if self._remove(pod, was_assigned and not had_ended) or had_ended:
            return
        if pod.status.nominated_node_name and self.is_ours(pod):
            self._nomination_ended(pod)

    # ---- effects -------------------------------------------------------------------------------------------

    def _leave(self, *pods: Pod) -> None:
        """Remove pods from the queue, and end their nominations."""
        self.queue.delete(pods)
        if self.others:
            for pod in pods:
                self.others.pop(pod.key, None)

    def _remove(self, pod: Pod, was_assigned: bool) -> bool:
        """Remove a pod from its node; whether other pods may profit, because it was on a node."""
        with self.cache.lock:
            is_known = self.cache.state.has_pod(pod)
            assumed = self._discard(pod)
        if not (is_known or was_assigned):
            return False
        self.queue.move_all(ASSIGNED_POD_DELETE, [Notice(assumed or pod, None)])
        return True

    def _discard(self, pod: Pod) -> Pod | None:
        """Remove a pod from the cache; return the cache's object of an assumed pod."""
        state = self.cache.state
        if not state.has_pod(pod):
            return None
        cached, is_assumed = state.get_pod(pod), state.is_assumed_pod(pod)
        if not (is_assumed and self.reject_waiting(pod.metadata.uid)):
            # A pod that waits on Permit is forgotten by its binding cycle.
            self.cache.discard_pod(cached)
        return cached if is_assumed else None

    def _nomination_ended(self, pod: Pod) -> None:
        """Move the queued pods of at most a pod's priority, as they may use the node that was reserved for
        it."""
        priority = pod.spec.priority or 0
        self.queue.move_all(
            ASSIGNED_POD_DELETE, [Notice(pod, None)], lambda other: (other.spec.priority or 0) <= priority
        )

    def repair(self) -> None:
        """Make the queue consistent after an exception, and add the waiting pods again that it has lost."""
        self.queue.repair()
        infos = chain(*self.queue.pending_pods(), self.queue.in_flight())
        uids = {info.pod.metadata.uid for info in infos}
        for pod in self.indexer.values():
            is_known = pod.metadata.uid in uids or pod.key in self.others
            if not (pod.spec.node_name or is_known or self.cache.state.has_pod(pod)):
                self.on_add(pod, False)


def watch(handle: FrameworkHandle, pods: PodHandler, forget_failures: Callable[[AnyGroup], None]) -> None:
    """Register the event handlers of the cache and the queue. Events of pods are processed last.

    Parameters
    ----------
    handle : FrameworkHandle
        Has the cache and the informers.
    forget_failures : callable
        Called with one of the pod groups that are added, changed or deleted. Other pods may be evicted after
        it, so that remembered failures of pods are void.
    """
    cache, informers, queue = handle.cache, handle.informers, pods.queue
    if queue.groups_pods:  # before the queue learns of their events
        for kind in GROUPS:
            informers.informer(kind).add_event_handler(
                TreeHandler(queue, handle.shared(fwk.group_index.PodGroups))
            )
    informers.informer(Namespace).add_event_handler(namespace_handler(cache))
    lost = (
        handle.shared(engine.volume.volumes_in_use.LostUses)
        if handle.release.replaced_nodes_lose_claims
        else None
    )
    informers.informer(Node).add_event_handler(NodeHandler(cache, queue, lost))
    if handle.feature_gates["DRAExtendedResource"]:
        handle.shared(ResourceClasses.of)  # before the queue learns of classes
    workloads = cache.state.workloads
    for kind in WORKLOADS:  # services and controllers, whose selectors default spread constraints use
        handlers = StateHandler[Any](cache.lock, workloads.set, workloads.remove)
        informers.informer(kind).add_event_handler(handlers)
    for resource, actions in queue.hints.resources().items():
        if resource in EVENT_KINDS:
            handler = EventHandler(queue, resource, actions)
            informers.informer(EVENT_KINDS[resource]).add_event_handler(handler)
    for listed in LISTED:
        informers.informer(listed)
    group_handler = GroupHandler(cache.lock, forget_failures, forget_failures)
    for kind in GROUPS:
        informers.informer(kind).add_event_handler(group_handler)
    informer = informers.informer(Pod)
    informer.add_event_handler(pods)
    pods.indexer = informer.indexer
    watch_taint_rules(informers, queue, handle.feature_gates)
