"""Clusters in which pods have to leave for others."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.make import node, pod

from moorage import Scheduler
from moorage.engine.framework import CycleState, FrameworkHandle, Status
from moorage.engine.preemption import Evaluator
from moorage.kube import (
    Cluster,
    Condition,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)

HOST = "kubernetes.io/hostname"
NOW = "2026-03-11T10:00:00Z"
LEAVING = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")


def victim(
    name: str, on: str = "a", cpu: Any = 1, priority: int = 0, start: str | None = NOW, **spec: Any
) -> Pod:
    """A pod that is there."""
    return pod(name, on, {"cpu": cpu}, priority=priority, status={"startTime": start}, **spec)


def terminating(one: Pod, *conditions: Condition) -> Pod:
    """The same on its way out."""
    meta = replace(one.metadata, deletion_timestamp=NOW)
    return replace(one, metadata=meta, status=replace(one.status, conditions=conditions))


def nominated(one: Pod, to: str) -> Pod:
    """The same, nominated to a node."""
    return replace(one, status=replace(one.status, nominated_node_name=to))


def preemptor(cpu: Any = 2, priority: int = 10, **spec: Any) -> Pod:
    """A pod that wants a place."""
    return pod("p", requests={"cpu": cpu}, priority=priority, **spec)


def budget(
    allowed: int, labels: dict[str, str], disrupted: tuple[str, ...] = (), **rest: Any
) -> PodDisruptionBudget:
    """A budget of namespace default."""
    meta = ObjectMeta(**({"name": "b", "namespace": "default"} | rest))
    status = PodDisruptionBudgetStatus(
        disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, NOW)
    )
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels))
    return PodDisruptionBudget(metadata=meta, spec=spec, status=status)


def full(*pods: Pod, nodes: Any = None, others: Any = (), **settings: Any) -> Scheduler:
    """A scheduler over nodes of 4 cpu."""
    nodes = nodes or [node("a", labels={HOST: "a"})]
    return Scheduler(Cluster(nodes=nodes, pods=list(pods), others=list(others)), **settings)


def cycle(one: Scheduler, asked: Pod) -> tuple[FrameworkHandle, CycleState, dict[str, Status]]:
    """The cycle of a pod up to PostFilter: handle, state and what was said of each node."""
    engine = one.engines["default-scheduler"]
    state = engine.framework.new_state(asked)
    ran = engine.framework.run_pre_filter_plugins(state, asked)
    engine.begin_search(state, asked, ran)
    return engine.handle, state, dict(engine.diagnose(state.target, state.shape, ran)[1])


def find(one: Scheduler, asked: Pod, **how: Any) -> Any:
    """The candidates for a pod."""
    handle, state, statuses = cycle(one, asked)
    return Evaluator(handle, **how).find_candidates(state, asked, statuses)


def victims(found: Any) -> dict[str, list[str]]:
    """Node to the names of the victims there, by candidate in order."""
    return {one.name: [victim.name for victim in one.victims.pods] for one in found.candidates}


def handle(one: Scheduler) -> FrameworkHandle:
    """What the plugins of the default profile are handed."""
    return one.engines["default-scheduler"].handle
