"""The pods that a question is about: pending pods of the cluster, or those of the caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from moorage.cluster import PodScheduler
from moorage.kube.model.pod import Pod
from moorage.kube.workloads.ownership import FINISHED

from .stored_pods import reason_not_scheduled


def pending_pods(scheduler: PodScheduler) -> tuple[list[Pod], dict[str, int]]:
    """Return the pods without a node that the scheduler schedules once their claims are made, in the order of
    a run.

    Returns
    -------
    pods : list of Pod
        Higher priority first, then older.
    skipped : dict of str to int
        Number of the other pods without a node, by reason.
    """
    pods, skipped = [], Counter[str]()
    for pod in scheduler.client.list(Pod)[0]:
        is_unbound = not pod.spec.node_name and pod.status.phase not in FINISHED
        if is_unbound and not scheduler.cache.state.has_pod(pod):
            why = reason_not_scheduled(scheduler, pod)
            if why:
                skipped[why] += 1
            else:
                pods.append(pod)
    pods.sort(key=queue_order)
    return pods, dict(skipped)


def queue_order(pod: Pod) -> tuple[int, str, int]:
    """Return the key of the order of PrioritySort; equal pods are queued in the order of their creation."""
    meta = pod.metadata
    return -(pod.spec.priority or 0), meta.creation_timestamp or "", int(meta.resource_version or 0)


def without_evictions(pods: Sequence[Pod]) -> list[Pod]:
    """Return pods for which no other pod is evicted."""
    return [replace(pod, spec=replace(pod.spec, preemption_policy="Never")) for pod in pods]
