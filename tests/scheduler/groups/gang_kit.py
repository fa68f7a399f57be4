"""Clusters with pod groups."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.make import pod

from moorage import Scheduler
from moorage.engine.scheduler import ScheduleResult
from moorage.kube import (
    BasicSchedulingPolicy,
    CompositePodGroup,
    CompositePodGroupSchedulingPolicy,
    CompositePodGroupSpec,
    GangGroupSchedulingPolicy,
    GangSchedulingPolicy,
    Node,
    Object,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodSchedulingGroup,
    TopologyConstraint,
    WorkloadReference,
)
from moorage.kube.releases import FeatureGates, feature_gates, release_named
from moorage.store import ObjectStore

REF = WorkloadReference("w", "t")


def gates(*more: str) -> FeatureGates:
    """Gates of v1.37 with pod groups."""
    return feature_gates(dict.fromkeys(("GenericWorkload", *more), True), release_named("1.37"))


GATES = gates()
TOPOLOGY = gates("TopologyAwareWorkloadScheduling")
TREES = gates("TopologyAwareWorkloadScheduling", "CompositePodGroup")


def gang(name: str, minimum: int, parent: str = "", **spec: Any) -> PodGroup:
    """A group of namespace default, of a composite one if given; with a minimum of 0, of the basic policy."""
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=minimum))
    if not minimum:
        policy = PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
    meta = ObjectMeta(name=name, namespace="default", uid=f"group-{name}")
    up: dict[str, Any] = {"parent_composite_pod_group_name": parent, "workload_ref": REF} if parent else {}
    return PodGroup(metadata=meta, spec=PodGroupSpec(scheduling_policy=policy, **up, **spec))


def composite(name: str, minimum: int, parent: str = "", **spec: Any) -> CompositePodGroup:
    """A composite group of namespace default; with a minimum of 0, of the basic policy."""
    policy = CompositePodGroupSchedulingPolicy(gang=GangGroupSchedulingPolicy(min_group_count=minimum))
    if not minimum:
        policy = CompositePodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
    meta = ObjectMeta(name=name, namespace="default", uid=f"composite-{name}")
    up = parent or None
    return CompositePodGroup(
        metadata=meta,
        spec=CompositePodGroupSpec(
            scheduling_policy=policy, workload_ref=REF, parent_composite_pod_group_name=up, **spec
        ),
    )


def topology(key: str) -> dict[str, Any]:
    """The field of a spec that binds a group to one value of a label."""
    return {"scheduling_constraints": PodGroupSchedulingConstraints(topology=(TopologyConstraint(key),))}


def member(name: str, group: str, cpu: int = 1, **rest: Any) -> Pod:
    """A pod of a group; of none, where that is ""."""
    mine = PodSchedulingGroup(group) if group else None
    return pod(name, requests={"cpu": cpu}, scheduling_group=mine, **rest)


def members(group: str, count: int, cpu: int = 1, **rest: Any) -> list[Pod]:
    """Pods g-0, g-1 and so on."""
    return [member(f"{group}-{number}", group, cpu, **rest) for number in range(count)]


def world(*objects: Object | list[Any], **settings: Any) -> Scheduler:
    """A scheduler that knows groups, over a store of these objects."""
    store = ObjectStore()
    for one in objects:
        store.create_many(one if isinstance(one, list) else [one])
    return Scheduler(store, **{"feature_gates": GATES} | settings)


def store_of(scheduler: Scheduler) -> ObjectStore:
    assert isinstance(scheduler.client, ObjectStore)
    return scheduler.client


def placed(result: ScheduleResult) -> list[str]:
    return [key.removeprefix("default/") for key in result.placements]


def on_nodes(scheduler: Scheduler) -> dict[str, str]:
    """Name and node of every bound pod in the store."""
    pods = store_of(scheduler).list(Pod)[0]
    return {one.name: one.spec.node_name for one in pods if one.spec.node_name}


def ungated(one: Pod) -> Pod:
    return replace(one, spec=replace(one.spec, scheduling_gates=()))


def nodes(*cpus: int) -> list[Node]:
    """Nodes a, b and so on."""
    from tests.make import node

    return [node(name, cpu=cpu, pods=100) for name, cpu in zip("abcdef", cpus, strict=False)]
