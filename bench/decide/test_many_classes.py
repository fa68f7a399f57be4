"""1,000 classes whose pods come in random order, beside numpy that keeps every class's scores."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest
from bench.batch import Batch
from bench.cluster import NODES, PERCENTAGES, fill, placer_of
from bench.plugin_pods import copies, pod
from bench.twins.many_twin import ManyTwin
from msgspec.structs import replace

from moorage import Cluster, Scheduler, synthetic
from moorage._core.decide.decider import num_feasible_nodes_to_find
from moorage.kube import Node, Pod, Taint, Toleration

CLASSES, EACH = 1000, 5
LINE = "1,000 classes at random, 5,000 nodes"


def pooled(at: int, node: Node) -> Node:
    """Every tenth node is for batch work only; every third has an SSD."""
    labels = node.metadata.labels | ({"disk": "ssd"} if at % 3 == 0 else {})
    taints = (Taint("dedicated", "batch", "NoSchedule"),) if at % 10 == 0 else ()
    return replace(
        node, metadata=replace(node.metadata, labels=labels), spec=replace(node.spec, taints=taints)
    )


def templates() -> list[Pod]:
    """A pod of each class: all of them ask for other resources, some tolerate the taint, some want an SSD."""
    random, found = Random(3), []
    for number in range(CLASSES):
        spec: dict[str, Any] = {}
        if random.random() < 0.1:
            spec["tolerations"] = (Toleration("dedicated", "Equal", "batch"),)
        if random.random() < 0.2:
            spec["node_selector"] = {"disk": "ssd"}
        requests: dict[str, Any] = {"cpu": f"{50 + number}m", "memory": f"{random.randint(64, 2048)}Mi"}
        found.append(pod(f"class-{number}", {"app": f"app-{number}"}, requests=requests, **spec))
    return found


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    nodes = [pooled(at, node) for at, node in enumerate(synthetic(nodes=NODES, seed=1).nodes)]
    return fill(Cluster(nodes=nodes))


@pytest.fixture(scope="module")
def order() -> list[tuple[int, Pod]]:
    """Pods, each with the number of its template."""
    found = [(number, one) for number, template in enumerate(templates()) for one in copies(template, EACH)]
    Random(4).shuffle(found)
    return found


def twin_of(scheduler: Scheduler) -> ManyTwin:
    names, rows = scheduler.context.view_order(), scheduler.context.view_rows()
    nodes = {node.name: node for node in scheduler.client.list(Node)[0]}
    tainted = np.array([bool(nodes[name].spec.taints) for name in names])
    fast = np.array(["disk" in nodes[name].metadata.labels for name in names])
    allowed, requests = [], []
    for template in templates():
        shape = scheduler.cache.state.classes.shape_of(scheduler.context.target_of(template)[0])
        requests.append(shape.requests)
        allowed.append(
            (~tainted | bool(template.spec.tolerations)) & (fast | (not template.spec.node_selector))
        )
    return ManyTwin(scheduler.table.raw()[0][rows], requests, np.array(allowed))


@pytest.mark.parametrize("percentage", PERCENTAGES, ids=PERCENTAGES.values())
def test_many_classes(
    benchmark: Any, report: Any, scheduler: Scheduler, order: list[tuple[int, Pod]], percentage: int
) -> None:
    """From the second round on, what is kept of a class stays true but for the rows that changed since."""
    batch = Batch(scheduler, placer_of(scheduler, percentage), [one for _, one in order])
    wanted = num_feasible_nodes_to_find(percentage, NODES)
    expected = twin_of(scheduler).place_many([number for number, _ in order], wanted)
    batch.place()
    assert np.array_equal(batch.rows, scheduler.context.view_rows()[expected])
    report(f"{LINE}, {PERCENTAGES[percentage]}", len(order))
    benchmark.pedantic(batch.place, setup=batch.again, rounds=8)
    batch.again()


@pytest.mark.parametrize("percentage", PERCENTAGES, ids=PERCENTAGES.values())
def test_many_classes_numpy(
    benchmark: Any, report: Any, scheduler: Scheduler, order: list[tuple[int, Pod]], percentage: int
) -> None:
    """The first scores of every class are made before the clock starts."""
    setting = [number for number, _ in order], num_feasible_nodes_to_find(percentage, NODES)
    report(f"{LINE}, {PERCENTAGES[percentage]}", len(order), twin=True)

    def fresh() -> tuple[tuple[ManyTwin], dict[str, Any]]:
        return (twin_of(scheduler),), {}

    benchmark.pedantic(lambda twin: twin.place_many(*setting), setup=fresh, rounds=8)


def test_own_classes(benchmark: Any, report: Any, scheduler: Scheduler) -> None:
    """Specs that nobody has seen: reading them into classes and preparing each search is part of the time."""
    numbers, placed = count(), list[Pod]()

    def fresh() -> tuple[tuple[list[Pod]], dict[str, Any]]:
        names = [f"own-{next(numbers)}" for _ in range(CLASSES)]
        bytes_of = {name: str((1 << 20) + int(name[4:])) for name in names}
        pods = [pod(name, {}, requests={"cpu": "10m", "memory": bytes_of[name]}) for name in names]
        placed.extend(pods)
        return (pods,), {}

    report("1,000 pods of a class each, 5,000 nodes, read and placed", CLASSES)
    result = benchmark.pedantic(scheduler.schedule_pods, setup=fresh, rounds=8)
    assert not result.failures
    scheduler.context.take_back(placed)
