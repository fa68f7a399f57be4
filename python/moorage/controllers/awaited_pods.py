"""Which pods workloads lack until others are available or gone, and what those wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moorage.kube.model.meta import Object
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import Job, PodTemplateSpec, StatefulSet
from moorage.kube.workloads.job_state import (
    is_left_to_others,
    is_over,
    replaces_failed_only,
    state_of,
    wanted_pods,
)
from moorage.kube.workloads.missing_pods import new_pod
from moorage.kube.workloads.ownership import FINISHED
from moorage.kube.workloads.stateful_pods import by_ordinal, ordinals

WAITS = "waits until the pods before it are available"
_LOST = (
    "the pod before it is being deleted and stays, as node {} does not report: force-delete that pod, or "
    "taint the node node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
)
_KEPT = "the pod before it is being deleted and stays, as it has finalizers: {}"

AWAITING = ("Deployment", "StatefulSet", "Job")
"""The kinds of workloads that wait for pods."""


class AwaitedPod(NamedTuple):
    """A pod that a workload will create, or whose end it waits for; and kind and key of the workload."""

    kind: str
    workload: str
    pod: Pod


def awaited_pods(obj: Object, pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that a StatefulSet or a Job lacks until others are available or gone.

    Parameters
    ----------
    obj : Object
        Any workload.
    pods : sequence of Pod
        Those that it controls, in any state.

    Returns
    -------
    list of Pod
        For each either the pod that is being deleted and that it waits for, or a new one without its spec.
    """
    if obj.metadata.deletion_timestamp is not None:
        return []
    if isinstance(obj, StatefulSet):
        present = by_ordinal(obj, pods)
        wanted = [(at, present.get(at)) for at in ordinals(obj)]
        new = {at: new_pod(obj, PodTemplateSpec(), name=f"{obj.name}-{at}") for at, pod in wanted if not pod}
        return [pod or new[at] for at, pod in wanted if pod is None or pod.metadata.deletion_timestamp]
    if isinstance(obj, Job) and replaces_failed_only(obj) and not (is_left_to_others(obj) or is_over(obj)):
        state = state_of(obj, pods)
        return state.terminating[: max(0, wanted_pods(obj, state) - len(state.active))]
    return []


def why_awaited(pod: Pod) -> str:
    """Return what a pod of `awaited_pods` waits for."""
    if pod.metadata.deletion_timestamp is None:
        return WAITS
    if pod.status.phase in FINISHED:
        return _KEPT.format(", ".join(pod.metadata.finalizers))
    return _LOST.format(pod.spec.node_name)
