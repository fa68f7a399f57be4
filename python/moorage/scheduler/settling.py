"""What follows from the decisions of a run: pods are bound, in bulk where the store can, or come again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moorage.objects.pod import Pod
from moorage.store import ApiError, ObjectStore

from .results import Eviction, Failure, Result

if TYPE_CHECKING:
    from .scheduler import Scheduler


def bind_placed(scheduler: Scheduler, keys: list[str], result: Result) -> None:
    """Bind the pods of these keys where `result` has placed them. One whose binding is refused is taken back;
    one that was deleted meanwhile is placed no more."""
    handler, client = scheduler.pods, scheduler.client
    for key in [key for key in keys if key not in handler.pending]:
        result.placements.pop(key, None)
    pods = [handler.pending[key] for key in keys if key in result.placements]
    handler.binding = {pod.metadata.uid for pod in pods}
    try:
        if isinstance(client, ObjectStore):
            client.bind_many(pods, [result.placements[pod.key] for pod in pods])
            pods = []
    except ApiError:
        pass  # nothing is bound: somebody else was faster with one of them
    for pod in pods:
        try:
            client.bind(pod, result.placements[pod.key])
        except ApiError as error:
            scheduler.cache.forget_pod(scheduler.cache.get_pod(pod))
            del result.placements[pod.key]
            result.unschedulable[pod.key] = Failure(error=str(error))
    scheduler.sync()
    handler.binding = set()


def take_nominated(scheduler: Scheduler, pods: Sequence[Pod], result: Result) -> list[Pod]:
    """Those of some pods that others have just been evicted for, as they are by now; they come again. Notes
    who was evicted."""
    scheduler.sync()
    evicted = {key: Eviction(*where) for key, where in scheduler.handle.evicted.items()}
    scheduler.handle.evicted.clear()
    for key in evicted:
        result.placements.pop(key, None)
    result.evicted |= evicted
    failed = {pod.key: result.unschedulable.get(pod.key) for pod in pods}
    keys = [key for key, failure in failed.items() if failure is not None and failure.nominated_node]
    for key in keys:
        del result.unschedulable[key]
    return [scheduler.pods.pending[key] for key in keys if key in scheduler.pods.pending]
