"""No bound is below what some order of pods places, and nothing that some order places is impossible."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage import Scheduler
from moorage.kube import (
    Affinity,
    Cluster,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodStatus,
    Taint,
    load,
)
from tests.conftest import NIGHTLY, SHARE
from tests.core.make import pinned
from tests.make import ZONE, node, pod, port

ORDERS = 3
EXAMPLES = settings(max_examples=2000 if NIGHTLY else 20 * SHARE)


def what_pods_ask(draw: st.DrawFn) -> dict[str, Any]:
    """What pods of one kind ask for besides resources."""
    labels = {"app": draw(st.sampled_from("ab"))}
    spec: dict[str, Any] = {"labels": labels, "priority": draw(st.integers(0, 1))}
    near = PodAffinityTerm(label_selector=LabelSelector(match_labels=labels), topology_key=ZONE)
    match draw(st.sampled_from(["plain", "selecting", "apart", "port", "near"])):
        case "selecting":
            return spec | {"node_selector": {"disk": "ssd"}}
        case "apart":
            host = (replace(near, topology_key="host"),)
            return spec | {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=host))}
        case "near":
            return spec | {"affinity": Affinity(pod_affinity=PodAffinity(required=(near,)))}
        case "port":
            return spec | {"ports": [port(80)]}
    return spec


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Some nodes, each with a pod or none, and pending pods."""
    names = [f"n{at}" for at in range(draw(st.integers(1, 4)))]
    nodes, pods = list[Node](), list[Pod]()
    for name in names:
        taints = [Taint(key="k", effect="NoSchedule")] if draw(st.integers(0, 4)) == 0 else []
        labels = {"disk": draw(st.sampled_from(["ssd", "hdd"])), "host": name}
        size = {"cpu": f"{draw(st.integers(1, 8)) * 500}m", "pods": str(draw(st.integers(1, 5)))}
        nodes.append(node(name, draw(st.sampled_from("yz")), labels, taints, **size))
        if draw(st.booleans()):
            pods.append(pod(f"on-{name}", on=name, requests={"cpu": "500m"}, ports=[port(80)]))
    pending = list[Pod]()
    for at in range(draw(st.integers(1, 3))):
        spec, requests = what_pods_ask(draw), {"cpu": f"{draw(st.integers(0, 5)) * 500}m"}
        pending += [
            pod(f"p{at}-{replica}", requests=requests, **spec) for replica in range(draw(st.integers(1, 3)))
        ]
    if draw(st.booleans()):
        requests = {"cpu": f"{draw(st.integers(1, 5)) * 500}m"}
        pending += [pod(f"d-{name}", requests=requests, affinity=pinned(name)) for name in names]
    for at in draw(st.sets(st.integers(0, len(pending) - 1), max_size=2)):
        status = PodStatus(nominated_node_name=draw(st.sampled_from(names)))
        pending[at] = replace(pending[at], status=status)
    return Cluster(nodes=nodes, pods=pods + pending)


AGENT = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, resources: {requests: {cpu: %dm}}}]}
"""


def most_placed(scheduler: Scheduler, pods: list[Pod], seed: int) -> int:
    """The most pods that some orders place, without evictions."""
    never = [replace(one, spec=replace(one.spec, preemption_policy="Never")) for one in pods]
    orders = [never, *(Random(f"{seed} {at}").sample(never, len(never)) for at in range(ORDERS))]
    results = [scheduler.schedule_pods(order, dry_run=True) for order in orders]
    return max(len(pods) - len(result.failures) for result in results)


@EXAMPLES
@given(clusters(), st.integers(0, 9))
def test_proofs_hold_in_every_order(cluster: Cluster, seed: int) -> None:
    """The bound of a cluster, and what it says of new nodes, against some orders."""
    pending = [one for one in cluster.pods if not one.spec.node_name]
    template = replace(cluster.nodes[0], metadata=replace(cluster.nodes[0].metadata, name="new"))
    scheduler = Scheduler(cluster)
    bound = scheduler.ask.bound()
    assert bound.placed <= bound.bound <= len(pending)
    assert most_placed(scheduler, pending, seed) <= bound.bound
    plan = scheduler.ask.nodes_needed(like=template, max=2 * len(pending))
    if plan.status == "impossible":
        with scheduler.transaction():
            scheduler.change.add_nodes(len(pending), template)
            assert most_placed(scheduler, pending, seed) < len(pending)
    else:
        assert plan.lower_bound is not None
        for fewer in range(plan.lower_bound):
            with scheduler.transaction():
                scheduler.change.add_nodes(fewer, template)
                assert most_placed(scheduler, pending, seed) < len(pending)


@EXAMPLES
@given(clusters(), st.integers(0, 4).map(lambda at: at * 400))
def test_a_run_places_all_pods_on_the_nodes_of_a_plan(cluster: Cluster, agent: int) -> None:
    """On as many nodes as a plan says, a run places all pods, and no fewer than the bound are packed."""
    changed = load(AGENT % agent) if agent else Cluster()
    large = node("large", "z", {"disk": "ssd", "host": "large"}, cpu="3", pods="4")
    changed.nodes, changed.pods = [*cluster.nodes, large], cluster.pods
    plan = Scheduler(changed).ask.nodes_needed(like="large", max=12)
    with pytest.MonkeyPatch.context() as patch:  # the engine looks at each packing
        patch.setattr("moorage.answers.new_nodes.ASSUMPTIONS", ())
        assert Scheduler(changed).ask.nodes_needed(like="large", max=12).packed == plan.packed
    if plan:
        assert plan.packed is not None
        assert plan.lower_bound is not None
        assert plan.lower_bound <= plan.packed["large"] <= plan.nodes
        scheduler = Scheduler(changed)
        scheduler.change.add_nodes(plan.nodes, "large")
        result = scheduler.run()
        assert (result.unschedulable, result.evicted, result.waiting) == ({}, {}, {})
    elif plan.status == "not found":
        assert plan.unplaced
