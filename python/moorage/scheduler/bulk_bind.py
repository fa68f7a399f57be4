"""Binding what a run has placed, in bulk where the store can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.store import ApiError, ObjectStore

from .results import Failure, Result

if TYPE_CHECKING:
    from .scheduler import Scheduler


def bind_placed(scheduler: Scheduler, keys: list[str], result: Result) -> None:
    """Bind the pods of these keys where `result` has placed them. A pod whose binding is refused is taken back;
    one that has been evicted since, or deleted by others, is placed no more."""
    handler, client = scheduler.pods, scheduler.client
    for key in [key for key in keys if key not in handler.pending]:
        del result.placements[key]
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
