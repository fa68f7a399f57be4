"""Which pods of a workload are deleted if it has too many (kubernetes v1.36, ActivePodsWithRanks)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import Job, ReplicaSet, ReplicationController
from moorage.objects.workloads.missing_pods import exceeds_backoff_limit, is_left_to_others
from moorage.objects.workloads.ownership import is_active, is_healthy

from .store_control import StoreControl

_COST = "controller.kubernetes.io/pod-deletion-cost"


def surplus_pods(control: StoreControl, obj: Object, related: Callable[[Object], Sequence[Pod]]) -> list[Pod]:
    """Return the pods that the controller of a workload deletes, in order.

    Pods without a node go first, then those that are not ready, those of lower deletion cost, those on nodes
    with more pods of the same Deployment, and newer ones.

    Parameters
    ----------
    control : StoreControl
    obj : Object
        With defaults; a workload whose number of replicas is not set keeps its pods.
    related : callable
        Returns the active pods of the same Deployment.

    Returns
    -------
    list of Pod
    """
    wanted: int | None = None
    if isinstance(obj, ReplicaSet | ReplicationController):
        wanted = obj.spec.replicas
    elif isinstance(obj, Job) and not is_left_to_others(obj):
        is_failed = exceeds_backoff_limit(obj, control.owned(obj))
        wanted = 0 if obj.spec.suspend or is_failed else obj.spec.parallelism
    if wanted is None or control.active(obj) <= wanted:
        return []
    pods = [pod for pod in control.owned(obj) if is_active(pod)]
    on = Counter(pod.spec.node_name for pod in related(obj))
    pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name), reverse=True)
    pods.sort(key=lambda pod: _rank(pod, on[pod.spec.node_name]))
    return pods[: len(pods) - wanted]


def _rank(pod: Pod, near: int) -> tuple[bool, bool, int, int]:
    cost = pod.metadata.annotations.get(_COST, "")
    digits = cost.removeprefix("-")
    value = int(cost) if digits.isdecimal() and len(digits) < 11 else 0
    return bool(pod.spec.node_name), is_healthy(pod), value, -near
