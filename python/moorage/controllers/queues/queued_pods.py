"""Pods that go through queues of Kueue by themselves, or in groups: they wait with a scheduling gate; and the
domains of pods that have a topology (v0.17, pkg/controller/jobs/pod, pkg/controller/tas)."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from moorage.kube.model.cluster import PodAdditions
from moorage.kube.model.kueue import ResourceFlavor, Topology, Workload
from moorage.kube.model.meta import Object, ObjectMeta
from moorage.kube.model.node import HOSTNAME
from moorage.kube.model.pod import POD_GATED, POD_PENDING, Pod, PodSchedulingGate
from moorage.kube.model.workload import (
    KUEUE,
    QUEUE,
    Deployment,
    Job,
    LeaderWorkerSet,
    ReplicaSet,
    StatefulSet,
)
from moorage.kube.workloads.deployment_rollout import group_of
from moorage.kube.workloads.ownership import controller_reference, is_active
from moorage.queues import AdmittedPods
from moorage.queues.jobs.job_workloads import INDEX, POD_GROUP
from moorage.store import ObjectStore, find_object

GATE = PodSchedulingGate(f"{KUEUE}/admission")
OWNERS: dict[str, type[Object]] = {
    kind.__name__: kind for kind in (ReplicaSet, Deployment, StatefulSet, LeaderWorkerSet, Job, Pod)
}


def owner_of_pod(client: ObjectStore, obj: Object) -> Object | None:
    """Return the stored workload that controls an object; None for others."""
    owner = obj.metadata.controller()
    kind = None if owner is None else OWNERS.get(owner.kind)
    return find_object(client, kind, owner.name, obj.namespace) if owner is not None and kind else None


def queued_unit(client: ObjectStore, pod: Pod) -> Object | None:
    """Return what goes through a queue for a pod: itself, with the label that its Deployment has, its
    StatefulSet, or its group of a LeaderWorkerSet; None for pods that are no business of Kueue, or are those
    of jobs."""
    owner = owner_of_pod(client, pod)
    if isinstance(owner, StatefulSet):
        unit: Object = owner
        if (group := group_of(pod)) is not None:
            unit = find_object(client, LeaderWorkerSet, group[0], pod.namespace) or owner
            marks = {**unit.metadata.annotations, INDEX: group[1]}
            unit = replace(unit, metadata=replace(unit.metadata, annotations=marks))
        return unit if QUEUE in unit.metadata.labels else None
    if isinstance(owner, Job):
        return None
    top = None if owner is None else owner_of_pod(client, owner)
    labels = {} if top is None else top.metadata.labels
    name = pod.metadata.labels.get(QUEUE) or labels.get(QUEUE)
    if not name or (owner is None and pod.metadata.controller() is not None):
        return None
    return replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, QUEUE: name}))


def with_top_owner(client: ObjectStore, pod: Pod, workload: Workload) -> Workload:
    """Return the workload of a pod with its Deployment as a further owner, by which it is named."""
    owner = owner_of_pod(client, pod)
    top = owner_of_pod(client, owner) if isinstance(owner, ReplicaSet) else None
    if top is None:
        return workload
    (reference,) = controller_reference(top)
    references = (*workload.metadata.owner_references, replace(reference, controller=False))
    return replace(workload, metadata=replace(workload.metadata, owner_references=references))


def unit_id(meta: ObjectMeta, uid: str = "") -> str:
    """Return by what a workload is found: the UID of its job, with the number of a LeaderWorkerSet's group.

    Parameters
    ----------
    meta : ObjectMeta
        Of what goes through a queue, or of a workload.
    uid : str, optional
        That of an owner of the workload.
    """
    index = meta.annotations.get(INDEX)
    return (uid or meta.uid) if index is None else f"{uid or meta.uid}/{index}"


def is_gated(pod: Pod) -> bool:
    """Whether a pod waits for Kueue."""
    return GATE in pod.spec.scheduling_gates


def may_be_gated(pod: Pod) -> bool:
    """Whether a pod has no node yet."""
    return not pod.spec.node_name and is_active(pod)


def gated(pod: Pod) -> Pod:
    """Return a new pod that waits for Kueue."""
    gates = (*pod.spec.scheduling_gates, GATE)
    return replace(pod, spec=replace(pod.spec, scheduling_gates=gates), status=POD_GATED)


def let_go(pod: Pod, additions: PodAdditions) -> Pod:
    """Return an admitted pod, which may be free already."""
    gates = tuple([gate for gate in pod.spec.scheduling_gates if gate != GATE])
    spec = replace(additions.to(pod.spec), scheduling_gates=gates)
    status = pod.status if not is_gated(pod) else POD_GATED if gates else POD_PENDING
    return replace(pod, spec=spec, status=status)


def members(client: ObjectStore, pod: Pod) -> list[Pod]:
    """Return the pods of the group of a pod; itself without one."""
    name = pod.metadata.labels.get(POD_GROUP)
    if not name:
        return [pod]
    pods: list[Pod] = client.list(Pod, pod.namespace)[0]
    return [each for each in pods if each.metadata.labels.get(POD_GROUP) == name and is_active(each)]


def in_domain(
    client: ObjectStore, pod: Pod, standing: Counter[tuple[str, ...]], held: AdmittedPods
) -> Pod | None:
    """Return a pod with the domain that it gets in its topology; None if it has one, or none has room.

    Parameters
    ----------
    standing : Counter of tuple of str
        How many pods of its set stand in each domain; it follows.
    held : AdmittedPods
        What the set holds.
    """
    labels, own = topology_labels(client, held), domain_of(client, pod, held)
    room = {each.values[-len(labels) :]: each.pods for each in held.domains or ()}
    if not labels or (own in room and standing[own] <= room[own]):
        return None
    values = next((each for each, pods in room.items() if standing[each] < pods), None)
    if values is None:
        return None
    standing[own] -= 1
    standing[values] += 1
    selector = {**(pod.spec.node_selector or {}), **dict(zip(labels, values, strict=True))}
    return replace(pod, spec=replace(pod.spec, node_selector=selector))


def domain_of(client: ObjectStore, pod: Pod, held: AdmittedPods) -> tuple[str, ...]:
    """Return the domain in which a pod of a set stands; names are empty until it has one."""
    selector = pod.spec.node_selector or {}
    return tuple([selector.get(label, "") for label in topology_labels(client, held)])


def topology_labels(client: ObjectStore, pods: AdmittedPods) -> tuple[str, ...]:
    """Return the labels that name a domain in the topology of a set of pods: those of its levels, or of the
    host name alone where that is the lowest; none without a topology."""
    for name in pods.flavors.values():
        flavor = find_object(client, ResourceFlavor, name)
        if flavor is not None and flavor.spec.topology_name:
            topology = find_object(client, Topology, flavor.spec.topology_name)
            levels = () if topology is None else tuple([level.node_label for level in topology.spec.levels])
            return levels[-1:] if levels[-1:] == (HOSTNAME,) else levels
    return ()
