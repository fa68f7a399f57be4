"""No scheduler places more than the bound says."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.errors import InputError, MoorageError
from moorage.kube import (
    Affinity,
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from tests.core.make import pinned
from tests.make import ZONE, node, pod, port, scheduler


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    nodes = []
    for at in range(draw(st.integers(0, 4))):
        taints = [Taint(key="k", effect="NoSchedule")] if draw(st.integers(0, 3)) == 0 else []
        cpu = f"{draw(st.integers(0, 6)) * 500}m"
        labels = {"disk": draw(st.sampled_from(["ssd", "hdd"]))}
        nodes.append(node(f"n{at}", "z", labels, taints, cpu=cpu, pods=str(draw(st.integers(0, 4)))))
    pods = []
    for at in range(draw(st.integers(0, 8))):
        spec: dict[str, Any] = {"node_selector": {"disk": "ssd"}} if draw(st.booleans()) else {}
        if draw(st.integers(0, 4)) == 0:
            term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"a": "b"}), topology_key=ZONE)
            spec["affinity"] = Affinity(pod_affinity=PodAffinity(required=(term,)))
        labels = {"a": "b"} if draw(st.booleans()) else {}
        ports = [port(80)] if draw(st.integers(0, 4)) == 0 else []
        requests = {"cpu": f"{draw(st.integers(0, 4)) * 400}m"}
        pods.append(pod(f"p{at}", requests=requests, labels=labels, ports=ports, **spec))
    return nodes, pods


@settings(deadline=None)
@given(problems())
def test_the_engine_places_no_more(problem: tuple[list[Node], list[Pod]]) -> None:
    nodes, pods = problem
    one = scheduler(nodes, pods)
    before = one.fork()
    found = one.ask.bound()
    assert found.placed <= found.bound <= len(pods)
    assert not before.ask.diff(one)
    assert len(one.run().placements) <= found.bound


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), max_size=5),
)
def test_no_placement_has_more_weight(sizes: list[int], pods: list[tuple[int, int]]) -> None:
    nodes = [node(f"n{at}", cpu=str(size)) for at, size in enumerate(sizes)]
    asked = [pod(f"p{at}", requests={"cpu": need}) for at, (need, _) in enumerate(pods)]
    found = scheduler(nodes).ask.bound(asked, [weight for _, weight in pods])
    best = 0
    for places in product(range(-1, len(nodes)), repeat=len(pods)):
        used = [
            sum(need for (need, _), at in zip(pods, places, strict=True) if at == n)
            for n in range(len(sizes))
        ]
        if all(one <= size for one, size in zip(used, sizes, strict=True)):
            best = max(best, sum(weight for (_, weight), at in zip(pods, places, strict=True) if at >= 0))
    assert best <= found.bound <= sum(weight for _, weight in pods)
    if len({need for need, _ in pods}) <= 1 and len(set(sizes)) <= 1 and len({w for _, w in pods}) <= 1:
        assert best == found.bound  # pods and nodes of one kind: the relaxation is exact


def test_prices_name_what_binds() -> None:
    one = scheduler([node("a", cpu="3"), node("b", cpu="100", pods="1"), node("c", labels={"disk": "x"})])
    found = one.ask.bound([pod(f"p{at}", requests={"cpu": 2}) for at in range(5)])
    assert (found.bound, found.placed) == (4.0, 4.0)
    few = scheduler([node("a", cpu="3")]).ask.bound([pod(f"p{at}", requests={"cpu": 1}) for at in range(5)])
    assert [(each.resource, each.nodes) for each in few.prices] == [("cpu", ("a",))]
    assert few.bound == 3.0


def test_a_resource_binds_where_no_whole_pod_is_left() -> None:
    nodes = [node(name, cpu="5", pods="99") for name in ("a", "b")]
    found = scheduler(nodes).ask.bound([pod(f"p{at}", requests={"cpu": 3}) for at in range(4)])
    assert (found.bound, found.placed) == (2.0, 2.0)  # two thirds of a pod are left on each
    (price,) = found.prices
    assert (price.resource, price.nodes, price.price) == ("cpu", ("a", "b"), pytest.approx(1 / 3000))
    enough = scheduler(nodes).ask.bound([pod(f"p{at}", requests={"cpu": 3}) for at in range(2)])
    assert (enough.bound, enough.prices) == (2.0, ())
    port_of = [pod(f"p{at}", requests={"cpu": 3}, ports=[port(80)]) for at in range(4)]
    assert scheduler([node("a", cpu="64")]).ask.bound(port_of).prices == ()  # no resource binds


def test_a_price_is_of_one_unit() -> None:
    pods = [pod(f"p{at}", requests={"cpu": "800m"}) for at in range(9)]
    pods += [pod(f"q{at}", requests={"cpu": "300m"}) for at in range(9)]
    found = scheduler([node("a", cpu="4", pods="99")]).ask.bound(pods)
    (price,) = found.prices
    assert (price.resource, price.nodes) == ("cpu", ("a",))
    assert price.price == pytest.approx(1 / 800)
    assert found.table().to_dict()["example"] == ["a"]


def test_what_is_relaxed_is_said() -> None:
    assert scheduler([node("a")]).ask.bound([pod("p")]).relaxed == (
        "nodes of a pool share their free resources",
        "parts of pods are placed",
    )
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"a": "b"}), topology_key=ZONE)
    alone = pod("p", affinity=Affinity(pod_affinity=PodAffinity(required=(term,))))
    found = scheduler([node("a", "z")]).ask.bound([alone])
    assert found.relaxed[2:] == ("InterPodAffinity: its rejections are not counted",)
    assert (found.bound, found.placed, found.gap) == (1.0, 0.0, 1.0)
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"a": "b"}),
    )
    limited = [pod(f"p{at}", labels={"a": "b"}, topology_spread_constraints=(spread,)) for at in range(3)]
    found = scheduler([node("a", "z"), node("b", "y", pods="0")]).ask.bound(limited)
    assert found.relaxed[2:] == ("PodTopologySpread: its rejections are not counted",)  # none rejects yet
    assert (found.bound, found.placed) == (3.0, 1.0)


def test_pinned_pods_count_on_their_node_alone() -> None:
    one = scheduler([node("a", cpu="1"), node("b")])
    found = one.ask.bound([pod(f"p{at}", requests={"cpu": 1}, affinity=pinned("a")) for at in range(3)])
    assert (found.bound, len(found.relaxed)) == (1.0, 2)


def test_pods_of_a_daemon_set_count_on_a_node_each() -> None:
    nodes = [node(f"n{at}") for at in range(3)]
    agents = [pod(f"agent-{one.name}", requests={"cpu": "2500m"}, affinity=pinned(one.name)) for one in nodes]
    found = scheduler(nodes).ask.bound(agents)
    assert (found.bound, found.placed, found.prices) == (3.0, 3.0, ())
    halves = [pod(f"half{at}", requests={"cpu": "1400m"}) for at in range(15)]
    both = scheduler(nodes).ask.bound([*agents, *halves])
    assert (both.bound, both.placed) == (7.0, 6.0)  # 12 of 12 cpu by 6 halves and 1.44 agents
    assert [(one.nodes, one.price) for one in both.prices] == [(("n0", "n1", "n2"), pytest.approx(1 / 2500))]


def test_nominations_may_end() -> None:
    taint = Taint(key="k", effect="NoSchedule")
    held = pod("held", requests={"cpu": 3}, priority=1, nominated="a")
    tolerant = pod("p", requests={"cpu": 3}, tolerations=(Toleration(key="k", operator="Exists"),))
    found = scheduler([node("a", taints=[taint]), node("b")], [held, tolerant]).ask.bound()
    assert (found.bound, found.placed) == (2.0, 2.0)


def test_nothing_is_evicted() -> None:
    low = pod("low", on="a", requests={"cpu": 4}, priority=0)
    found = scheduler([node("a")], [low]).ask.bound([pod("high", requests={"cpu": 4}, priority=9)])
    assert (found.bound, found.placed) == (0.0, 0.0)


def test_pods_that_are_not_scheduled_now_are_left_out() -> None:
    gated = pod("gated", scheduling_gates=(PodSchedulingGate(name="hold"),))
    found = scheduler([node("a")], [gated, pod("other", scheduler_name="x"), pod("p")]).ask.bound()
    assert (found.pods, found.bound, found.skipped) == (1, 1.0, {"gated": 1, "other scheduler": 1})


def test_ignored_resources_do_not_bind() -> None:
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/a"]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [fit]}],
    }
    pods = [pod("p", requests={"example.com/a": 1})]
    assert scheduler([node("a")], config=config).ask.bound(pods).bound == 1.0
    assert scheduler([node("a")]).ask.bound(pods).bound == 0.0


def test_weights_count_in_the_bound() -> None:
    pods = [pod("p", requests={"cpu": 3}), pod("q", requests={"cpu": 3})]
    found = scheduler([node("a")]).ask.bound(pods, [1.0, 5.5])
    assert found.placed == 1.0
    assert 5.5 <= found.bound <= 6.5
    assert found.to_dict()["gap"] == found.gap


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, float("nan")], [1.0, float("inf")]])
def test_weights_are_numbers_one_for_each_pod(weights: list[float]) -> None:
    with pytest.raises(InputError, match="a number of at least 0 for each pod"):
        scheduler([node("a")]).ask.bound([pod("p"), pod("q")], weights)


def test_without_highs_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(MoorageError, match=r"^highspy is missing \(extra lp\): pip install highspy$"):
        scheduler([node("a")]).ask.bound([pod("p")])


def test_pending_pods_are_placed_in_the_order_of_a_run() -> None:
    pods = [
        pod("z", requests={"cpu": 3}),
        pod("a", requests={"cpu": 1}),
        pod("b", requests={"cpu": 1}, priority=1),
    ]
    pods += [pod(f"c{at}", requests={"cpu": 1}) for at in range(3)]
    one = scheduler([node("n")], pods)
    assert one.ask.bound().placed == len(one.run().placements) == 2


def test_pods_with_one_host_port_count_once_a_node() -> None:
    pods = [pod(f"p{at}", ports=[port(80)]) for at in range(3)]
    assert scheduler([node("a"), node("b")]).ask.bound(pods).bound == 2.0


def test_what_an_eviction_would_free_is_not_used() -> None:
    low = [pod(f"low{at}", on="a", requests={"cpu": 2}, priority=0) for at in range(2)]
    asked = [pod("high", requests={"cpu": 1}, priority=9), pod("small", requests={"cpu": 1}, priority=0)]
    found = scheduler([node("a")], low).ask.bound(asked)
    assert (found.bound, found.placed) == (0.0, 0.0)
