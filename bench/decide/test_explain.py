"""Whether a pod fits, and why not, on 5,000 nodes that are in use."""

from __future__ import annotations

from typing import Any

import pytest
from bench.cluster import NODES
from bench.decide.test_bound_volumes import bound
from msgspec.structs import replace

from moorage import Scheduler, synthetic
from moorage.kube import Cluster, LabelSelector, Pod, Taint, TopologySpreadConstraint

SPREAD = TopologySpreadConstraint(
    max_skew=1,
    topology_key="topology.kubernetes.io/zone",
    when_unsatisfiable="DoNotSchedule",
    label_selector=LabelSelector(match_labels={"app": "web"}),
)
SELECTOR = {"disk": "ssd"}


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    """A third of the nodes is tainted, with one of 30 taints."""
    made = synthetic(nodes=NODES, pods=20_000, seed=1)
    nodes = [
        replace(node, spec=replace(node.spec, taints=(Taint(key=f"team-{at % 90}", effect="NoSchedule"),)))
        if at % 90 < 30
        else node
        for at, node in enumerate(made.nodes)
    ]
    one = Scheduler(Cluster(nodes=nodes, pods=made.pods))
    one.run()
    return one


@pytest.mark.parametrize(
    ("why", "cpu", "spec"),
    [
        ("too large", "70", {}),
        ("conflicts", "70", {"node_selector": SELECTOR}),
        ("spread", "1", {"node_selector": SELECTOR, "topology_spread_constraints": (SPREAD,)}),
    ],
)
def test_explain(
    benchmark: Any, report: Any, scheduler: Scheduler, why: str, cpu: str, spec: dict[str, Any]
) -> None:
    template: Pod = synthetic(nodes=0, pods=1).pods[0]
    (container,) = template.spec.containers
    requests = container.resources.requests | {"cpu": cpu}
    container = replace(container, resources=replace(container.resources, requests=requests))
    pod = replace(
        template,
        metadata=replace(template.metadata, name="p", uid="p"),
        spec=replace(template.spec, containers=(container,), **spec),
    )
    report(f"explaining a pod, 5,000 nodes, {why}")
    explanation = benchmark(scheduler.explain, pod)
    assert explanation.changes or explanation.conflicts


def test_can_schedule_pod(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    report("`Scheduler.can_schedule_pod(pod)`, 5,000 nodes")
    pod: Pod = synthetic(nodes=0, pods=1).pods[0]
    pod = replace(pod, metadata=replace(pod.metadata, name="p", uid="p"))
    assert benchmark.pedantic(scheduler.can_schedule_pod, (pod,), rounds=20, warmup_rounds=1)


def test_explain_beside_bound_claims(benchmark: Any, report: Any) -> None:
    report("explaining a pod, 5,000 nodes, beside 10,000 bound claims")
    made = synthetic(nodes=NODES, pods=0)
    volumes = [one for at in range(10_000) for one in bound(f"c{at}", "default", "")]
    others: list[Any] = sorted(volumes, key=lambda one: one.kind)
    one, pod = Scheduler(Cluster(nodes=made.nodes, others=others)), synthetic(nodes=0, pods=1).pods[0]
    one.run()
    benchmark.pedantic(one.explain, (pod,), rounds=5, warmup_rounds=1)
