"""Which pods a workload lacks whose next pod the API server refuses."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.objects.model.meta import Object
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import (
    DaemonSet,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from moorage.objects.workloads.daemon_pods import should_run
from moorage.objects.workloads.jobs.job_state import missing_pods, state_of
from moorage.objects.workloads.missing_pods import daemon_spec, new_pod
from moorage.objects.workloads.stateful_pods import by_ordinal, ordinals

from .store_control import StoreControl


def lacking_pods(control: StoreControl, obj: Object, nodes: Sequence[Node]) -> list[Pod]:
    """Return the pods that a workload would create now if they were not refused.

    Parameters
    ----------
    control : StoreControl
    obj : Object
        The workload.
    nodes : sequence of Node
        All nodes.

    Returns
    -------
    list of Pod
        Without their specs, and at least one: the refused one. Pods that wait for the refused one are not
        among them.
    """
    if isinstance(obj, StatefulSet):
        present = by_ordinal(obj, control.owned(obj))
        missing = [ordinal for ordinal in ordinals(obj) if ordinal not in present]
        is_ordered = obj.spec.pod_management_policy != "Parallel"
        names = [f"{obj.name}-{ordinal}" for ordinal in (missing[:1] if is_ordered else missing)]
        return [_pod(obj, name) for name in names] or [_pod(obj, obj.name)]
    return [_pod(obj, obj.name)] * max(1, _number(control, obj, nodes))


def _number(control: StoreControl, obj: Object, nodes: Sequence[Node]) -> int:
    if isinstance(obj, ReplicaSet | ReplicationController):
        return (obj.spec.replicas or 0) - control.active(obj)
    if isinstance(obj, DaemonSet):
        occupied, spec = control.daemon_nodes(obj), daemon_spec(obj)
        return sum(node.name not in occupied and should_run(spec, node) for node in nodes)
    if isinstance(obj, Job):
        return missing_pods(obj, state_of(obj, control.owned(obj)))
    return 0


def _pod(obj: Object, name: str) -> Pod:
    return new_pod(obj, PodTemplateSpec(), name=name)
