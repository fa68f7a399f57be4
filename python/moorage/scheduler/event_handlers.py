"""From what informers report to the cache and the scheduling queue (kube-scheduler v1.36, eventhandlers.go).

An event that the cache refuses is logged, and the next one is taken, as upstream does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import chain
from typing import Any, Generic, TypeVar

from moorage.cache import ClusterCache, SchedulerCache
from moorage.errors import CacheError
from moorage.framework.plugin.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_POD_ADD,
    ActionType,
    ClusterEvent,
    event_resource,
    node_update_events,
    pod_update_events,
)
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.objects.model.meta import Object
from moorage.objects.model.node import Namespace, Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup
from moorage.objects.model.policy import PodDisruptionBudget
from moorage.objects.model.resource_claims import DeviceClass, ResourceClaim, ResourceSlice
from moorage.objects.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from moorage.objects.model.workload import (
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from moorage.objects.workloads.ownership import FINISHED
from moorage.queue import QueuedPodInfo, SchedulingQueue
from moorage.store import DeletedFinalStateUnknown, Indexer, InformerFactory
from moorage.store.informers.informer import Notice

from .queueing import Ages

STORAGE: tuple[type[Object], ...] = (
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)
OTHERS: tuple[type[Object], ...] = (ResourceClaim, ResourceSlice, DeviceClass, PodGroup)
EVENT_KINDS = {event_resource(kind): kind for kind in STORAGE + OTHERS}
LISTED: tuple[type[Object], ...] = (*STORAGE, PodDisruptionBudget)
"""The kinds that plugins list, whether or not they register events of them."""
WORKLOADS = (Service, ReplicationController, ReplicaSet, StatefulSet)

logger = logging.getLogger("moorage.scheduler")

T = TypeVar("T", bound=Object)


def last_state(gone: T | DeletedFinalStateUnknown[T]) -> T:
    """The object of a deletion, or what was last seen of it."""
    return gone.obj if isinstance(gone, DeletedFinalStateUnknown) else gone


class NodeHandler:
    """Nodes go to the cache, and their events to the queue."""

    def __init__(self, cache: SchedulerCache, queue: SchedulingQueue) -> None:
        self.cache = cache
        self.queue = queue

    def on_add(self, obj: Node, is_in_initial_list: bool) -> None:
        self.cache.add_node(obj)
        self.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, obj)

    def on_update(self, old: Node, new: Node) -> None:
        self.cache.update_node(old, new)
        if self.queue.is_listening():
            for event in node_update_events(old, new):
                self.queue.move_all_to_active_or_backoff_queue(event, old, new)

    def on_delete(self, obj: Node | DeletedFinalStateUnknown[Node]) -> None:
        node = last_state(obj)
        self.queue.move_all_to_active_or_backoff_queue(NODE_DELETE, node, None)
        try:
            self.cache.remove_node(node)
        except CacheError as error:
            logger.error("%s", error)


class PodHandler:
    """Pods with a node go to the cache, those without one to the queue; finished pods are neither.

    Parameters
    ----------
    handle : FrameworkHandle
        Has the cache, and the pods that wait on Permit.
    is_ours : callable
        False for pods that ask for another scheduler.
    ages : Ages, optional
        When pods come to the queue; by default when they do.

    Attributes
    ----------
    others : dict of str to Pod
        Pods without a node that ask for another scheduler, by ``namespace/name``.
    indexer : Indexer
        The informers' copy of the pods; empty before `watch`.
    """

    def __init__(
        self,
        handle: FrameworkHandle,
        queue: SchedulingQueue,
        is_ours: Callable[[Pod], bool],
        ages: Ages | None = None,
    ) -> None:
        self.cache = handle.cache
        self.queue = queue
        self.is_ours = is_ours
        self.indexer: Indexer[Pod] = Indexer({})
        self.ages = ages
        self.others: dict[str, Pod] = {}
        self.reject_waiting = handle.reject_waiting_pod

    def save(self) -> object:
        """What it keeps, for `undo`."""
        return self.others.copy(), None if self.ages is None else self.ages.now

    def undo(self, saved: Any) -> None:
        """Be as at `save`."""
        others, now = saved
        self.others = others.copy()
        if self.ages is not None:
            self.ages.now = now

    @property
    def pending(self) -> dict[str, Pod]:
        """Pods without a node by ``namespace/name``: those that wait in the order of the queue, those in
        flight, and those of other schedulers."""
        found = {info.pod.key: info.pod for info in chain(*self.queue.pending_pods())}
        for info in self.queue.in_flight():
            pod = self.current(info.pod)
            if pod is not None and not pod.spec.node_name and pod.metadata.uid == info.pod.metadata.uid:
                found[pod.key] = pod
        return found | self.others

    def current(self, pod: Pod) -> Pod | None:
        """What informers have of a pod, by namespace and name."""
        return self.indexer.get(pod.key)

    def gone(self, infos: Mapping[str, QueuedPodInfo]) -> dict[str, QueuedPodInfo]:
        """Those of some pods, by ``namespace/name``, that are deleted or have a node, as far as informers
        know."""
        found = {}
        for (key, info), held in zip(infos.items(), self.indexer.get_many(infos), strict=True):
            if held is None or held.spec.node_name or held.metadata.uid != info.pod.metadata.uid:
                found[key] = info
        return found

    # ---- what is reported ----------------------------------------------------------------------------------

    def on_run(self, notices: Iterable[Notice[Pod]]) -> int:
        """Take the first of some notices together: new pods without a node, or assumed pods of which the
        binding is reported. How many were taken."""
        is_assumed, ages = self.cache.state.is_assumed_pod, self.ages
        came, bound = list[Pod](), list[Pod]()
        for old, new, _ in notices:
            if new is None or new.status.phase in FINISHED:
                break
            if old is None:
                alone = ages is None or self.queue.groups_pods
                if bound or alone or new.spec.node_name or not self.is_ours(new):
                    break
                came.append(new)
            else:
                if came or old.spec.node_name or not new.spec.node_name or not is_assumed(new):
                    break
                if old.metadata.uid != new.metadata.uid:
                    break
                bound.append(new)
        if ages is not None and came:
            self.queue.add_infos(map(ages.came, came))  # one by one: time passes with each pod
        if bound:
            self._leave(*bound)
            self.cache.confirm_pods(bound)
            self.queue.move_all_for_each(ASSIGNED_POD_ADD, bound)
        return len(came) or len(bound)

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        if obj.status.phase in FINISHED:
            return
        if obj.spec.node_name:
            try:
                self.cache.add_pod(obj)
            except CacheError as error:
                logger.error("%s", error)
            self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD, None, obj)
        elif not self.is_ours(obj):
            self.others[obj.key] = obj
        else:
            if self.ages is None:
                self.queue.add(obj)
            else:
                self.queue.add_infos([self.ages.came(obj)])
            if self.queue.groups_pods:  # only then does that concern other pods (gate GangScheduling)
                self.queue.move_all_to_active_or_backoff_queue(UNSCHEDULABLE_POD_ADD, None, obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        finished = old.status.phase in FINISHED or new.status.phase in FINISHED
        was, now = bool(old.spec.node_name), bool(new.spec.node_name)
        if finished or old.metadata.uid != new.metadata.uid or (was and not now):
            self.on_delete(old)
            self.on_add(new, False)
        elif was:
            self._update_assigned(old, new)
        elif now:
            self.on_add(new, False)
            self._leave(old)
        elif self.is_ours(new):
            self._update_waiting(old, new)
        else:
            self.others[new.key] = new

    def _update_assigned(self, old: Pod, new: Pod) -> None:
        try:
            self.cache.update_pod(old, new)
        except CacheError as error:
            logger.error("%s", error)
        if self.queue.is_listening():
            for event in pod_update_events(old, new):
                self.queue.move_all_to_active_or_backoff_queue(event, old, new)

    def _update_waiting(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return  # shown again
        if self.cache.is_assumed_pod(new):
            if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
                self._remove(new, False)
            return
        self.queue.update(old, new)
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            self._nomination_ended(old)

    def on_delete(self, obj: Pod | DeletedFinalStateUnknown[Pod]) -> None:
        """A pod went, in whatever state the cache has it: events before this one may have been lost."""
        pod = last_state(obj)
        self._leave(pod)
        had_ended = pod.status.phase in FINISHED  # and was reported gone then, unless the cache still has it
        was_assigned = bool(pod.spec.node_name) or isinstance(obj, DeletedFinalStateUnknown)
        if self._remove(pod, was_assigned and not had_ended) or had_ended:
            return
        if pod.status.nominated_node_name and self.is_ours(pod):
            self._nomination_ended(pod)

    # ---- what follows --------------------------------------------------------------------------------------

    def _leave(self, *pods: Pod) -> None:
        """Pods wait no longer, and are nominated no longer."""
        self.queue.delete(*pods)
        if self.others:
            for pod in pods:
                self.others.pop(pod.key, None)

    def _remove(self, pod: Pod, was_assigned: bool) -> bool:
        """A pod that was or may have been on a node is so no more; whether that concerns others."""
        with self.cache.lock:
            held, is_assumed = None, False
            if self.cache.state.has_pod(pod):
                held, is_assumed = self.cache.get_pod(pod), self.cache.is_assumed_pod(pod)
                if not (is_assumed and self.reject_waiting(pod.metadata.uid)):
                    # That of a pod which waits is forgotten by its binding cycle.
                    self.cache.discard_pod(held)
        if held is None and not was_assigned:
            return False
        gone = held if held is not None and is_assumed else pod
        self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, gone, None)
        return True

    def _nomination_ended(self, pod: Pod) -> None:
        """A node that was kept for a pod may serve others of at most its priority."""
        priority = pod.spec.priority or 0

        def goes_behind(other: Pod) -> bool:
            return (other.spec.priority or 0) <= priority

        self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pod, None, goes_behind)

    def repair(self) -> None:
        """An exception may have ended an operation halfway: add the pods to the queue again that wait."""
        self.queue.repair()
        there = {info.pod.metadata.uid for info in chain(*self.queue.pending_pods(), self.queue.in_flight())}
        for pod in self.indexer.values():
            is_known = pod.metadata.uid in there or pod.key in self.others
            if not (pod.spec.node_name or is_known or self.cache.state.has_pod(pod)):
                self.on_add(pod, False)


@cache
def _events(resource: str, actions: ActionType) -> tuple[ClusterEvent | None, ...]:
    """The events of adding, updating and deleting an object; None for an action that nobody registered."""
    reported = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
    return tuple([ClusterEvent(resource, action) if actions & action else None for action in reported])


class EventHandler:
    """Passes to the queue the events of one kind that some plugin has registered."""

    def __init__(self, queue: SchedulingQueue, resource: str, actions: ActionType) -> None:
        self.queue = queue
        self._add, self._update, self._delete = _events(resource, actions)

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        if self._add is not None:
            self.queue.move_all_to_active_or_backoff_queue(self._add, None, obj)

    def on_update(self, old: Object, new: Object) -> None:
        if self._update is not None:
            self.queue.move_all_to_active_or_backoff_queue(self._update, old, new)

    def on_delete(self, obj: Object | DeletedFinalStateUnknown[Object]) -> None:
        if self._delete is not None:
            self.queue.move_all_to_active_or_backoff_queue(self._delete, last_state(obj), None)


class StateHandler(Generic[T]):
    """Objects that the cache's state keeps whole, each by its own function.

    Parameters
    ----------
    lock : lock
        Of the cache.
    put : callable
        Takes a new or changed object.
    remove : callable
        Takes the last state of a deleted one.
    """

    def __init__(self, lock: Any, put: Callable[[T], object], remove: Callable[[T], object]) -> None:
        self.lock = lock
        self.put = put
        self.remove = remove

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        with self.lock:
            self.put(obj)

    def on_update(self, old: T, new: T) -> None:
        self.on_add(new, False)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        with self.lock:
            self.remove(last_state(obj))


def namespace_handler(cache: ClusterCache) -> StateHandler[Namespace]:
    """Namespaces: inter-pod affinity selects them by their labels."""
    namespaces = cache.state.namespaces

    def put(one: Namespace) -> None:
        namespaces.set(one.name, one.metadata.labels)

    return StateHandler(cache.lock, put, lambda one: namespaces.remove(one.name))


def workload_handler(cache: ClusterCache) -> StateHandler[Any]:
    """Services and controllers: what selects the pods that default constraints spread."""
    return StateHandler(cache.lock, cache.state.workloads.set, cache.state.workloads.remove)


def watch(
    informers: InformerFactory,
    cache: SchedulerCache,
    queue: SchedulingQueue,
    pods: PodHandler,
    forget_failures: Callable[[PodGroup], None],
) -> None:
    """Have informers report to the cache and the queue; pods come last.

    Parameters
    ----------
    forget_failures : callable
        Called when a pod group is added, changes or is deleted: other pods may be evicted then, or together
        with others, so that what is known of pods that fit nowhere is void.
    """
    informers.informer(Namespace).add_event_handler(namespace_handler(cache))
    informers.informer(Node).add_event_handler(NodeHandler(cache, queue))
    for kind in WORKLOADS:
        informers.informer(kind).add_event_handler(workload_handler(cache))
    for resource, actions in queue.hints.resources().items():
        if resource in EVENT_KINDS:
            handler = EventHandler(queue, resource, actions)
            informers.informer(EVENT_KINDS[resource]).add_event_handler(handler)
    for of_object in LISTED:
        informers.informer(of_object)
    group_handler = StateHandler[PodGroup](cache.lock, forget_failures, forget_failures)
    informers.informer(PodGroup).add_event_handler(group_handler)
    informer = informers.informer(Pod)
    informer.add_event_handler(pods)
    pods.indexer = informer.indexer
