"""Expanders choose by the rules of cluster-autoscaler."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

import moorage as mo
from moorage import Timeline
from moorage.kube import Node
from tests.doors.autoscalers import Flags, NodeTemplate, Option, ScaledGroup, _price_score, flags_of, narrow
from tests.doors.sim import AutoscalerSpec
from tests.sim.autoscaling.made import group, pod, spec, steps, timeline

GROUPS = [
    group("small", "4", "16Gi", price=0.2),
    group("tall", "4", "64Gi", price=0.3),
    group("large", "16", "64Gi", price=0.7),
]


def resolved(**fields: Any) -> AutoscalerSpec:
    made = Timeline()
    made.autoscale(spec(*GROUPS, **fields))
    assert made.autoscaler is not None
    return made.autoscaler


def option(given: AutoscalerSpec, name: str, nodes: int, pods: int) -> Option:
    """New nodes of a group, with pods of 1 cpu and 4Gi."""
    one = next(one for one in given.node_groups if one.name == name)
    template: Node = one.template
    asked = [pod(f"p{at}", "1", "4Gi") for at in range(pods)]
    return Option(ScaledGroup(name, template, price=one.price), NodeTemplate(template), nodes, [asked])


def chosen(given: AutoscalerSpec, options: list[tuple[str, int, int]], cluster: int = 3) -> str:
    """The only one that is left of (group, nodes, pods)."""
    made = [option(given, *one) for one in options]
    (one,) = narrow(flags_of(given), made, cluster)[-1]
    return one.group.name


ALL = [("small", 2, 6), ("tall", 2, 6), ("large", 1, 8)]


TALL_AND_LARGE = [*ALL[1:], ("small", 2, 1)]
PRIORITIES = {"expander": "priority", "priorities": {5: ["small", "^nothing$"], 10: ["tal"], 20: ["^all$"]}}


@pytest.mark.parametrize(
    ("fields", "options", "cluster", "name"),
    [
        ({"expander": "most-pods"}, ALL, 3, "large"),
        ({"expander": "least-nodes"}, ALL, 3, "large"),
        # Free parts: small 2/8 + 8/32, tall 2/8 + 104/128, large 8/16 + 32/64.
        ({"expander": "least-waste"}, ALL, 3, "small"),
        ({"expander": "least-waste"}, TALL_AND_LARGE, 3, "large"),
        ({"expander": "price"}, ALL, 3, "small"),
        ({"expander": "price"}, ALL, 500, "large"),
        (PRIORITIES, ALL, 3, "tall"),
        (PRIORITIES, [ALL[0], ALL[2]], 3, "small"),
        (PRIORITIES, [ALL[2]], 3, "large"),  # it has no priority, and no other can grow
        ({"expander": ["priority", "least-waste"], "priorities": {1: ["tall", "large"]}}, ALL, 3, "large"),
    ],
)
def test_an_expander_takes_its_group(fields: Any, options: Any, cluster: int, name: str) -> None:
    assert chosen(resolved(**fields), options, cluster) == name


def price_score(price: float, nodes: int, cpu: int, pods: int, preferred: int) -> float:
    """The formula of the price expander in its own words."""
    pod_price = 0.033174 * 1 + 0.004446 * 4
    stable = 0.033174 * 0.5 + 0.004446 * 500 / 1024
    unfitness = max(cpu / preferred, preferred / cpu)
    suppressed = (unfitness - 1) * (1 - math.tanh((nodes - 1) / 15)) + 1
    return suppressed * (price * nodes + stable) / (pod_price * pods + stable)


@pytest.mark.parametrize(
    ("cluster", "preferred"), [(1, 1), (2, 1), (3, 2), (7, 4), (21, 8), (61, 16), (201, 32)]
)
def test_price_takes_the_group_with_the_lowest_score(cluster: int, preferred: int) -> None:
    shapes = {"small": (0.2, 4), "tall": (0.3, 4), "large": (0.7, 16)}
    scores = {
        name: price_score(shapes[name][0], nodes, shapes[name][1], pods, preferred)
        for name, nodes, pods in ALL
    }
    assert chosen(resolved(expander="price"), ALL, cluster) == min(scores, key=lambda name: scores[name])


def test_gpus_count_where_a_template_has_only_what_can_be_allocated() -> None:
    amounts, given = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}, Timeline()
    bare, full = group("bare", price=1.0), group("full", price=1.0)
    bare["template"]["status"] = {"allocatable": amounts}
    full["template"]["status"] = {"allocatable": amounts, "capacity": amounts}
    given.autoscale(spec(bare, full))
    assert given.autoscaler is not None
    options = [option(given.autoscaler, name, 1, 1) for name in ("bare", "full")]
    assert len({_price_score(Flags(), one, 3) for one in options}) == 1


def test_draws_depend_on_the_seed_and_the_scan() -> None:
    def drawn(seed: int) -> list[str]:
        made = timeline(group("a", maxSize=20), group("b", maxSize=20), expander="random", seed=seed)
        for at in range(20):
            made.create(10 * at, pod(f"p{at}", "4", "16Gi"))
        return [step[2] for step in steps(mo.replay(made))]

    first = drawn(0)
    assert first == drawn(0) != drawn(1)
    assert all(3 < count < 17 for count in Counter(first).values())


def test_the_chosen_group_grows() -> None:
    for name, expected in (("least-waste", "small"), ("most-pods", "large")):
        groups = [group("small", "4", maxSize=1), group("large", "16", "256Gi")]
        made = timeline(*groups, expander=name)
        for at in range(8):
            made.create(0, pod(f"p{at}", "1", "4Gi"))
        assert steps(mo.replay(made))[0][2] == expected


@pytest.mark.parametrize("nodes", [1, 2, 10, 40])
def test_the_score_of_a_price(nodes: int) -> None:
    made = option(resolved(expander="price"), "large", nodes, 5)
    assert _price_score(Flags(), made, 3) == pytest.approx(price_score(0.7, nodes, 16, 5, 2))
    node = made.template.node
    status = replace(node.status, capacity=node.status.capacity | {"nvidia.com/gpu": "1"})
    with_gpu = replace(made, template=NodeTemplate(replace(node, status=status)))
    assert _price_score(Flags(), with_gpu, 3) == pytest.approx(1000 * price_score(0.7, nodes, 2, 5, 2))
