"""From what informers report to the binder's cache. An event that the cache refuses is logged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from moorage.cache import BinderCache
from moorage.errors import CacheError
from moorage.objects.model.meta import Object
from moorage.objects.model.node import Namespace, Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup
from moorage.objects.model.policy import PodDisruptionBudget
from moorage.objects.workloads.ownership import FINISHED
from moorage.scheduler.event_handlers import (
    STORAGE,
    WORKLOADS,
    last_state,
    namespace_handler,
    workload_handler,
)
from moorage.store import DeletedFinalStateUnknown, InformerFactory

logger = logging.getLogger("moorage.multi")

T = TypeVar("T", bound=Object)


class Handler(Generic[T]):
    """Hands the events of a kind to the methods of the cache that are named after it."""

    def __init__(self, cache: BinderCache, kind: str) -> None:
        self._add, self._update, self._delete = (
            getattr(cache, f"{action}_{kind}") for action in ("add", "update", "delete")
        )

    def on_add(self, obj: T, is_in_initial_list: bool) -> None:
        _tell(self._add, obj)

    def on_update(self, old: T, new: T) -> None:
        _tell(self._update, old, new)

    def on_delete(self, obj: T | DeletedFinalStateUnknown[T]) -> None:
        _tell(self._delete, last_state(obj))


class PodHandler(Handler[Pod]):
    """Pods that have finished hold nothing; a pod of the same name with another UID is another pod."""

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        if obj.status.phase not in FINISHED:
            super().on_add(obj, is_in_initial_list)

    def on_update(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid or new.status.phase in FINISHED:
            self.on_delete(old)
            self.on_add(new, False)
        else:
            super().on_update(old, new)


def _tell(method: Callable[..., Any], *objects: Object) -> None:
    try:
        method(*objects)
    except CacheError as error:
        logger.error("%s", error)


def watch(informers: InformerFactory, cache: BinderCache) -> None:
    """Have informers report to the cache; pods come last."""
    informers.informer(Namespace).add_event_handler(namespace_handler(cache))
    informers.informer(Node).add_event_handler(Handler[Node](cache, "node"))
    informers.informer(PodGroup).add_event_handler(Handler[PodGroup](cache, "pod_group"))
    informers.informer(PodDisruptionBudget).add_event_handler(Handler[PodDisruptionBudget](cache, "pdb"))
    for workload in WORKLOADS:
        informers.informer(workload).add_event_handler(workload_handler(cache))
    for storage in STORAGE:
        informers.informer(storage)  # plugins ask for what there is
    informers.informer(Pod).add_event_handler(PodHandler(cache, "pod"))
