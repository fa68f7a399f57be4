"""From what informers report to the cache and the waiting pods (kube-scheduler v1.36, eventhandlers.go)."""

from __future__ import annotations

from typing import TypeVar

from moorage.cache import SchedulerCache
from moorage.objects.meta import Object
from moorage.objects.node import Node
from moorage.objects.pod import Pod
from moorage.store import DeletedFinalStateUnknown

from .unbuilt import UnbuiltUses

T = TypeVar("T", bound=Object)

FINISHED = ("Succeeded", "Failed")


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
        self.cache.remove_node(last_state(obj))


class PodHandler:
    """Pods with a node go to the cache, pods without one wait; finished pods are neither.

    Attributes
    ----------
    pending : dict of str to Pod
        Pods without a node by ``namespace/name``, in the order in which they came.
    """

    def __init__(self, cache: SchedulerCache) -> None:
        self.cache = cache
        self.pending: dict[str, Pod] = {}

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        if obj.status.phase in FINISHED:
            return
        if obj.spec.node_name:
            self.cache.add_pod(obj)
        else:
            self.pending[obj.key] = obj

    def on_update(self, old: Pod, new: Pod) -> None:
        was, now = _is_bound(old), _is_bound(new)
        if was and now and old.metadata.uid == new.metadata.uid:
            self.cache.update_pod(old, new)
            return
        if was or old.status.phase in FINISHED or new.status.phase in FINISHED:
            self.on_delete(old)
            self.on_add(new, False)
        elif now:
            self.pending.pop(old.key, None)
            self.cache.add_pod(new)
        else:
            self.pending[new.key] = new

    def on_delete(self, obj: Pod | DeletedFinalStateUnknown[Pod]) -> None:
        pod = last_state(obj)
        if _is_bound(pod):
            self.cache.remove_pod(pod)
        elif self.pending.pop(pod.key, None) is not None and self.cache.is_assumed_pod(pod):
            self.cache.forget_pod(self.cache.get_pod(pod))


class WorkloadHandler:
    """Services and controllers: what selects pods."""

    def __init__(self, uses: UnbuiltUses) -> None:
        self.uses = uses

    def on_add(self, obj: Object, is_in_initial_list: bool) -> None:
        self.uses.set_workload(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self.uses.set_workload(new)

    def on_delete(self, obj: Object | DeletedFinalStateUnknown[Object]) -> None:
        self.uses.drop_workload(last_state(obj))


def _is_bound(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED
