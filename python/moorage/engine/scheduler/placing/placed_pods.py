"""What becomes of pods that a caller has had placed: they are bound, or leave their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from moorage.errors import CacheError
from moorage.kube.model.pod import Pod
from moorage.kube.read.python_values import Source
from moorage.store import ObjectClient, ObjectStore

from ..check_arguments import pods_of
from ..cycle.results import ScheduleResult
from ..event_handlers import PodHandler
from ..scheduling_context import SchedulingContext

Placed = ScheduleResult | Sequence[Source]
"""A result, of which the placed pods are meant, or pods."""


def bind_pods(context: SchedulingContext, client: ObjectClient, placed: Placed) -> list[Pod]:
    """Bind assumed pods; see `Scheduler.bind`."""
    cache, pods = context.cache, _known(context, client, placed)
    context.enlist()
    with client.all_or_nothing() if isinstance(client, ObjectStore) else nullcontext():
        for pod in pods:
            if not cache.is_assumed_pod(pod) or context.bindings.has(pod):
                continue
            if (stored := context.current(pod)) is not None and stored.metadata.uid == pod.metadata.uid:
                client.bind(stored, pod.spec.node_name)
            elif client.create(pod).metadata.uid != pod.metadata.uid:  # an API server gives its own
                cache.forget_pod(pod)
    context.sync()
    return [pod for pod in map(context.current, pods) if pod is not None and pod.spec.node_name]


def release_pods(
    context: SchedulingContext, client: ObjectClient, handler: PodHandler, placed: Placed
) -> None:
    """Have pods leave their nodes; see `Scheduler.release`."""
    cache, pods = context.cache, _known(context, client, placed)
    context.enlist()
    with client.all_or_nothing() if isinstance(client, ObjectStore) else nullcontext():
        for pod in pods:
            if cache.is_assumed_pod(pod):
                handler.release(pod)
            else:
                client.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid)
    context.sync()


def _known(context: SchedulingContext, client: ObjectClient, placed: Placed) -> list[Pod]:
    """Return pods as the cache has them, each with its node.

    Raises
    ------
    CacheError
        A pod is on no node.
    TypeError
        They are no pods, or the result is of a run.
    """
    if not isinstance(placed, ScheduleResult):
        pods = list(pods_of(client, placed))
    elif placed.batch is None:
        raise TypeError("a run has bound its pods: pass those that you mean")
    else:
        pods = [placed.batch.pod(at) for at in np.flatnonzero(placed.rows >= 0).tolist()]
    with context.cache.lock:
        state = context.cache.state
        for pod in pods:
            if not state.has_pod(pod):
                raise CacheError(f"pod {pod.key} is on no node: nothing has placed it, or it has left")
        return [state.get_pod(pod) for pod in pods]
