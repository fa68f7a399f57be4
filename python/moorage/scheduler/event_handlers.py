"""From what informers report to the cache and the waiting pods (kube-scheduler v1.36, eventhandlers.go).

An event that the cache refuses is logged, and the next one is taken, as upstream does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from moorage.cache import SchedulerCache
from moorage.errors import CacheError
from moorage.framework.nominator import PodNominator
from moorage.objects.meta import Object
from moorage.objects.node import Namespace, Node
from moorage.objects.ownership import FINISHED
from moorage.objects.pod import Pod
from moorage.store import DeletedFinalStateUnknown

logger = logging.getLogger("moorage.scheduler")

T = TypeVar("T", bound=Object)


def last_state(gone: T | DeletedFinalStateUnknown[T]) -> T:
    """The object of a deletion, or what was last seen of it."""
    return gone.obj if isinstance(gone, DeletedFinalStateUnknown) else gone


class NodeHandler:
    """Nodes go to the cache."""

    def __init__(self, cache: SchedulerCache) -> None:
        self.cache = cache

    def on_add(self, obj: Node, is_in_initial_list: bool) -> None:
        self.cache.add_node(obj)

    def on_update(self, old: Node, new: Node) -> None:
        self.cache.update_node(old, new)

    def on_delete(self, obj: Node | DeletedFinalStateUnknown[Node]) -> None:
        try:
            self.cache.remove_node(last_state(obj))
        except CacheError as error:
            logger.error("%s", error)


class PodHandler:
    """Pods with a node go to the cache, pods without one wait; finished pods are neither.

    Attributes
    ----------
    pending : dict of str to Pod
        Pods without a node by ``namespace/name``, in the order in which they came.
    binding : set of str
        UIDs of the pods that this scheduler is binding: their reports are gathered and confirmed in bulk.
    reject_waiting : callable
        Rejects the pod of a UID that waits on Permit; false where it does not wait.
    """

    def __init__(self, cache: SchedulerCache, nominator: PodNominator) -> None:
        self.cache = cache
        self.nominator = nominator
        self.pending: dict[str, Pod] = {}
        self.binding: set[str] = set()
        self.reject_waiting: Callable[[str], bool] = lambda uid: False
        self._bound: list[Pod] = []

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        if obj.status.phase in FINISHED:
            return
        if not obj.spec.node_name:
            self.pending[obj.key] = obj
            self.nominator.add_nominated_pod(obj)
            return
        try:
            self.cache.add_pod(obj)
        except CacheError as error:
            logger.error("%s", error)

    def on_update(self, old: Pod, new: Pod) -> None:
        finished = old.status.phase in FINISHED or new.status.phase in FINISHED
        was, now = bool(old.spec.node_name), bool(new.spec.node_name)
        if finished or old.metadata.uid != new.metadata.uid or (was and not now):
            self.on_delete(old)
            self.on_add(new, False)
        elif was:
            self.confirm()
            try:
                self.cache.update_pod(old, new)
            except CacheError as error:
                logger.error("%s", error)
        elif now and new.metadata.uid in self.binding:
            self._leave(old)
            self.binding.discard(new.metadata.uid)
            self._bound.append(new)
        elif now:
            self._leave(old)
            self.on_add(new, False)
        else:
            self.pending[new.key] = new
            self.nominator.update_nominated_pod(old, new)

    def _leave(self, pod: Pod) -> None:
        """A pod waits no longer, and is nominated no longer."""
        self.pending.pop(pod.key, None)
        self.nominator.delete_nominated_pod_if_exists(pod)

    def confirm(self) -> None:
        """Confirm the pods whose own binding was reported."""
        if self._bound:
            bound, self._bound = self._bound, []
            self.cache.confirm_pods(bound)

    def on_delete(self, obj: Pod | DeletedFinalStateUnknown[Pod]) -> None:
        """A pod went, in whatever state the cache has it: events before this one may have been lost."""
        pod = last_state(obj)
        self._leave(pod)
        self.confirm()
        with self.cache.lock:
            if self.cache.is_assumed_pod(pod) and self.reject_waiting(pod.metadata.uid):
                return  # its binding cycle forgets it
            if self.cache.state.has_pod(pod):
                remove = self.cache.forget_pod if self.cache.is_assumed_pod(pod) else self.cache.remove_pod
                remove(self.cache.get_pod(pod))


class NamespaceHandler:
    """Namespaces: inter-pod affinity selects them by their labels."""

    def __init__(self, cache: SchedulerCache) -> None:
        self.cache = cache

    def on_add(self, obj: Namespace, is_in_initial_list: bool) -> None:
        with self.cache.lock:
            self.cache.state.namespaces.set(obj.name, obj.metadata.labels)

    def on_update(self, old: Namespace, new: Namespace) -> None:
        self.on_add(new, False)

    def on_delete(self, obj: Namespace | DeletedFinalStateUnknown[Namespace]) -> None:
        with self.cache.lock:
            self.cache.state.namespaces.remove(last_state(obj).name)


class WorkloadHandler:
    """Services and controllers: what selects the pods that default constraints spread."""

    def __init__(self, cache: SchedulerCache) -> None:
        self.cache = cache

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        with self.cache.lock:
            self.cache.state.workloads.set(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self.on_add(new, False)

    def on_delete(self, obj: Object | DeletedFinalStateUnknown[Object]) -> None:
        with self.cache.lock:
            self.cache.state.workloads.remove(last_state(obj))
