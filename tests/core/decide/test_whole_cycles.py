"""Whole cycles against their twin: made-up clusters, pods placed and removed in between, batches."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.made_up import decoded, make_node, make_pod, make_spec
from tests.core.twins.cycle_twin import CycleTwin, Manifest, Outcome
from tests.doors.engine import schedule_one

from moorage import Scheduler
from moorage.objects import Cluster, Object, Pod, decode_object
from moorage.scheduler import Decision

CHECKED = settings(deadline=None, max_examples=100)
SIZES = st.sampled_from([1, 2, 3, 10, 30, 99, 100, 101, 130, 200, 250])

seeds = st.integers(0, 2**64)
percentages = st.sampled_from([0, 10, 60, 100])
tie_breaks = st.sampled_from(["first", "go-heap", "random"])


# ---- a made-up world


def make_world(
    random: Random, nodes: int, **setting: Any
) -> tuple[list[Manifest], list[Manifest], CycleTwin]:
    """Nodes, pod templates and a twin; some nodes already have pods, which may overcommit them."""
    manifests = [make_node(random, index) for index in range(nodes)]
    if random.random() < 0.5:  # no taint scores, so that runs keep totals
        for manifest in manifests:
            taints = manifest["spec"]["taints"]
            manifest["spec"]["taints"] = [one for one in taints if one["effect"] != "PreferNoSchedule"]
    specs = [make_spec(random, nodes) for _ in range(4)]
    twin = CycleTwin(manifests, **setting)
    for index in range(random.randrange(nodes + 1)):
        spec = random.choice(specs)
        node = f"n{random.randrange(nodes):03}"
        twin.place(make_pod(f"bound-{index}", spec | {"nodeName": node}), node)
    return manifests, specs, twin


def bound(twin: CycleTwin) -> list[Manifest]:
    return [pod for pods in twin.pods.values() for pod in pods]


def check(decision: Decision, expected: Outcome, tie_break: str) -> None:
    assert (decision.start, decision.next, decision.evaluated) == (
        expected.start,
        expected.next,
        expected.evaluated,
    )
    assert decision.feasible.tolist() == expected.positions
    assert (None if decision.totals is None else decision.totals.tolist()) == expected.totals
    if tie_break == "random" and expected.totals:
        assert decision.node in expected.best
    else:
        assert decision.node == expected.node


# ---- tests


@CHECKED
@given(seeds, SIZES, percentages, tie_breaks)
def test_pods_scheduled_one_by_one_go_where_the_twin_puts_them(
    seed: int, nodes: int, percentage: int, tie_break: str
) -> None:
    random = Random(seed)
    manifests, specs, twin = make_world(random, nodes, percentage=percentage, tie_break=tie_break)
    cluster = Cluster(nodes=decoded(manifests), pods=decoded(bound(twin)))
    scheduler = Scheduler(cluster, percentage_of_nodes_to_score=percentage, tie_break=tie_break, seed=seed)
    assert scheduler.context.view_order() == twin.order
    placed: list[tuple[Manifest, Object]] = []
    for index in range(15):
        pod = make_pod(f"p{index}", random.choice(specs))
        decision = schedule_one(scheduler.context, decode_object(pod))
        check(decision, twin.cycle(pod), tie_break)
        if decision.node is not None:
            twin.place(pod, decision.node)
            placed.append((pod, decode_object(pod)))
        if placed and random.random() < 0.3:
            gone, gone_object = placed.pop(random.randrange(len(placed)))
            twin.remove(gone)
            scheduler.cache.forget_pod(scheduler.cache.get_pod(gone_object))


def make_pending(random: Random, specs: list[Manifest], count: int) -> list[Manifest]:
    """Runs of equal pods, of a few priorities and ages."""
    pods: list[Manifest] = []
    while len(pods) < count:
        spec = random.choice(specs) | {"priority": random.choice([0, 0, 10])}
        for _ in range(random.choice([1, 3, 12])):
            created = f"2026-01-01T00:0{random.randrange(3)}:00Z"
            pods.append(make_pod(f"p{len(pods):03}", spec, creationTimestamp=created))
    return pods


def queue_order(pod: Manifest) -> tuple[int, str]:
    return -pod["spec"]["priority"], pod["metadata"]["creationTimestamp"]


def evicts_nobody(scheduler: Scheduler) -> Scheduler:
    """The search is what is compared here."""
    for engine in scheduler.engines.values():
        engine.runs_post_filter = False
    return scheduler


@CHECKED
@given(seeds, SIZES, percentages, st.sampled_from(["first", "go-heap"]))
def test_a_run_places_all_pods_where_the_twin_puts_them(
    seed: int, nodes: int, percentage: int, tie_break: str
) -> None:
    random = Random(seed)
    manifests, specs, twin = make_world(random, nodes, percentage=percentage, tie_break=tie_break)
    pending = make_pending(random, specs, 40)
    cluster = Cluster(nodes=decoded(manifests), pods=decoded(bound(twin) + pending))
    scheduler = Scheduler(cluster, percentage_of_nodes_to_score=percentage, tie_break=tie_break)
    evicts_nobody(scheduler)
    result = scheduler.run()
    expected: dict[str, str | None] = {}
    for pod in sorted(pending, key=queue_order):
        node = twin.cycle(pod).node
        expected[f"default/{pod['metadata']['name']}"] = node
        if node is not None:
            twin.place(pod, node)
    assert result.placements == {name: node for name, node in expected.items() if node}
    assert list(result.placements) == [name for name, node in expected.items() if node]
    assert result.unschedulable.keys() == {name for name, node in expected.items() if node is None}
    assert scheduler.placer.decider.start == twin.start


@CHECKED
@given(seeds, SIZES, percentages, tie_breaks)
def test_batches_equal_single_cycles(seed: int, nodes: int, percentage: int, tie_break: str) -> None:
    random = Random(seed)
    manifests, specs, twin = make_world(random, nodes)
    pending = sorted(make_pending(random, specs, 60), key=queue_order)

    def scheduler(pods: list[Manifest]) -> Scheduler:
        cluster = Cluster(nodes=decoded(manifests), pods=decoded(bound(twin) + pods))
        one = Scheduler(cluster, percentage_of_nodes_to_score=percentage, tie_break=tie_break, seed=seed)
        return evicts_nobody(one)

    batch, scanned, single = scheduler(pending), scheduler(pending), scheduler([])
    scanned.placer.decider.keeps_candidates = False
    decisions = {pod.key: schedule_one(single.context, pod).node for pod in decoded(pending)}
    result = batch.run()
    assert result.placements == {key: node for key, node in decisions.items() if node}
    assert scanned.run().placements == result.placements
    assert batch.placer.decider.start == scanned.placer.decider.start == single.placer.decider.start


@pytest.mark.parametrize("difference", [True, False])
def test_both_balanced_formulas(difference: bool) -> None:
    random = Random(7)
    manifests, specs, twin = make_world(random, 40, difference=difference, tie_break="go-heap")
    cluster = Cluster(nodes=decoded(manifests), pods=decoded(bound(twin)))
    scheduler = Scheduler(cluster, kubernetes_version="1.36" if difference else "1.35")
    for index, spec in enumerate(specs * 3):
        pod = make_pod(f"p{index}", spec)
        decision = schedule_one(scheduler.context, decode_object(pod))
        check(decision, twin.cycle(pod), "go-heap")
        if decision.node is not None:
            twin.place(pod, decision.node)


# ---- found by the tests above


def plain_node(name: str, **spec: Any) -> Manifest:
    allocatable = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    return {"kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}


def plain_spec(**rest: Any) -> Manifest:
    return {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}],
        **rest,
    }


def test_a_tolerated_unschedulable_node_scores_as_its_equal() -> None:
    nodes = decoded([plain_node("a"), plain_node("b", unschedulable=True)])
    pod = make_pod("p", plain_spec(tolerations=[{"operator": "Exists"}]))
    decision = schedule_one(Scheduler(Cluster(nodes=nodes)).context, decode_object(pod))
    assert decision.totals is not None
    assert decision.totals.tolist() == [452, 452]


def test_each_failing_pod_among_named_nodes_moves_the_rotation() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["full"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = plain_spec(affinity={"nodeAffinity": required})
    for runs in ([3], [1, 1, 1]):
        nodes = [plain_node(name) for name in ("a", "b", "c", "d", "full")]
        nodes[-1]["status"]["allocatable"]["cpu"] = "0"
        scheduler = Scheduler(Cluster(nodes=decoded(nodes)))
        for at, pods in enumerate(runs):
            names = [f"p{at}-{index}" for index in range(pods)]
            scheduler.client.create_many(decoded([make_pod(name, spec) for name in names]))
            assert len(scheduler.run().unschedulable) == pods
            for name in names:
                scheduler.client.delete(Pod, name, "default")
        assert scheduler.placer.decider.start == 3


def test_positions_among_named_nodes_are_those_of_the_whole_list() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in "db"]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = decode_object(make_pod("p", plain_spec(affinity={"nodeAffinity": required})))
    nodes = [plain_node(name) for name in ("a", "b", "c", "d")]
    decision = schedule_one(Scheduler(Cluster(nodes=decoded(nodes))).context, pod)
    assert decision.feasible.tolist() == [1, 3]
    assert (decision.start, decision.next, decision.evaluated) == (0, 2, 2)
