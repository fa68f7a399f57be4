"""What Kueue has decided about workloads, as their objects say it (v0.17, pkg/workload/workload.go)."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.kube.go_texts import timestamp
from moorage.kube.model.kueue import (
    Admission,
    AdmissionCheckState,
    IndividualValues,
    LevelValues,
    PodCounts,
    PodSetAssignment,
    QueuedWorkloadStatus,
    ReclaimablePod,
    RequeueState,
    TopologyAssignment,
    TopologySlice,
    Workload,
)
from moorage.kube.model.meta import Condition
from moorage.queues import AdmittedPods, QueuedWorkload
from moorage.queues.whole_amounts import text
from moorage.store import ObjectStore, find_object

from .queued_pods import topology_labels


def record(client: ObjectStore, key: str, workload: QueuedWorkload | None) -> None:
    """Write what was decided about a workload, or delete it.

    Parameters
    ----------
    workload : QueuedWorkload, or None
        None for one that is gone.
    """
    namespace, _, name = key.partition("/")
    stored = find_object(client, Workload, name, namespace)
    if workload is None:
        if stored is not None:
            client.delete(Workload, name, namespace)
        return
    new = recorded(client, workload)
    if stored is None:
        client.create(new)
    elif not says(stored, new):
        client.update(replace(stored, spec=new.spec, status=new.status))


def says(workload: Workload, other: Workload) -> bool:
    """Whether a workload says of itself what another one does."""
    return (workload.spec, workload.status) == (other.spec, other.status)


def recorded(client: ObjectStore, workload: QueuedWorkload) -> Workload:
    """Return the object of a workload, with what was decided."""
    obj, holds = workload.obj, workload.holds
    updates = {each.name: each.pod_set_updates for each in obj.status.admission_checks}
    status = QueuedWorkloadStatus(
        conditions=tuple(
            [
                Condition(
                    kind, "True" if each.is_true else "False", each.reason, each.message, _time(each.at)
                )
                for kind, each in workload.conditions.items()
            ]
        ),
        admission=None
        if holds is None
        else Admission(workload.cluster_queue, tuple([_assignment(client, pods) for pods in holds])),
        requeue_state=None if workload.requeue_at is None else RequeueState(_time(workload.requeue_at)),
        reclaimable_pods=tuple([ReclaimablePod(*each) for each in workload.reclaimable.items()]),
        admission_checks=tuple(
            [
                AdmissionCheckState(
                    name, each.state, each.message, _time(each.at), each.retry_after, updates.get(name, ())
                )
                for name, each in workload.checks.items()
            ]
        ),
    )
    spec = replace(obj.spec, active=workload.active, priority=workload.priority)
    return replace(obj, spec=spec, status=status)


def _time(milliseconds: int) -> str:
    return timestamp(milliseconds // 1000)


def _assignment(client: ObjectStore, pods: AdmittedPods) -> PodSetAssignment:
    topology = None
    if pods.domains is not None:
        levels = topology_labels(client, pods)
        values = zip(*[each.values[-len(levels) :] for each in pods.domains], strict=True)
        part = TopologySlice(
            len(pods.domains),
            tuple([LevelValues(individual=IndividualValues(roots=each)) for each in values]),
            PodCounts(individual=tuple([each.pods for each in pods.domains])),
        )
        topology = TopologyAssignment(levels, (part,))
    return PodSetAssignment(
        name=pods.name,
        flavors=dict(pods.flavors),
        resource_usage={key: text(key, value) for key, value in pods.requests.items()},
        count=pods.pods,
        topology_assignment=topology,
        delayed_topology_request="Pending" if pods.is_delayed else None,
    )
