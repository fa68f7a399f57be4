"""Nominated pods count on their node for pods that go after them, and try it first themselves (kube-scheduler
v1.36, RunFilterPluginsWithNominatedPods and evaluateNominatedNode)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.inside import dump
from tests.core.make import pinned
from tests.doors.engine import Placing, cycle, schedule_one, schedule_pod
from tests.make import node, pod, scheduler
from tests.make import port as host_port
from tests.scheduler.groups.gang_kit import GATES, gang

from moorage import Scheduler
from moorage.kube import (
    Cluster,
    LabelSelector,
    Pod,
    PodGroup,
    PodSchedulingGroup,
    PodStatus,
    TopologySpreadConstraint,
)

HOST = "kubernetes.io/hostname"
NODES = [node(name, zone="z", labels={HOST: name}, cpu=4) for name in ("a", "b")]
APP = LabelSelector(match_labels={"app": "x"})


def nominated(name: str, to: str, **spec: Any) -> Pod:
    return pod(name, nominated=to, **({"priority": 5} | spec))


def fits(one: Scheduler, **spec: Any) -> list[str]:
    return one.examine(pod("p", **({"priority": 5} | spec))).feasible


def test_a_nomination_ends_with_the_pod_or_its_binding() -> None:
    one = scheduler(NODES, nominated("n", "a", requests={"cpu": 3}), nominated("m", "b", requests={"cpu": 3}))
    assert fits(one, requests={"cpu": 2}) == []
    one.client.delete("Pod", "n", "default")
    one.client.bind(one.client.get(Pod, "m", "default"), "a")
    one.sync()
    assert fits(one, requests={"cpu": 2}) == ["b"]


def test_a_nomination_follows_the_status() -> None:
    waiting = nominated("n", "a", requests={"cpu": 3})
    one = scheduler(NODES, waiting)
    stored = one.client.get(Pod, "n", "default")
    one.client.update(replace(stored, status=PodStatus(nominated_node_name="b")))
    one.sync()
    assert fits(one, requests={"cpu": 2}) == ["a"]


def test_an_empty_selector_counts_nominated_pods_alone() -> None:
    spread = TopologySpreadConstraint(1, HOST, "DoNotSchedule", LabelSelector())
    there = [pod(f"t{at}", on="a") for at in range(3)]
    assert fits(scheduler(NODES, *there), topology_spread_constraints=(spread,)) == ["a", "b"]
    one = scheduler(NODES, nominated("n", "a"))
    assert fits(one, topology_spread_constraints=(spread,)) == ["b"]
    assert fits(one, topology_spread_constraints=(spread,)) == ["b"], "nothing of it stays"


def test_looking_changes_nothing() -> None:
    one = scheduler(NODES, nominated("n", "a", ports=[host_port(80)], labels={"app": "x"}))
    one.examine(pod("p", ports=[host_port(80)], labels={"app": "x"}))
    state = one.cache.state
    before = dump(state)
    one.examine(pod("p", ports=[host_port(80)], labels={"app": "x"}))
    assert dump(state, before) == before


def test_a_pod_that_is_in_the_cache_by_now_counts_once() -> None:
    one = scheduler(NODES)
    waiting = nominated("n", "a", requests={"cpu": 2})
    schedule_one(one.context, waiting)
    one.handle.nominator.is_current = lambda pod: True
    one.handle.nominator.add_nominated_pod(waiting)
    assert fits(one, requests={"cpu": 2}) == ["a", "b"]
    assert one.cache.is_assumed_pod(waiting)


def test_an_explanation_names_the_filter_that_nominated_pods_fail() -> None:
    one = scheduler(NODES, nominated("n", "a", requests={"cpu": 4}))
    explanation = one.ask.explain(pod("p", priority=0, requests={"cpu": 1}))
    (group,) = explanation.groups
    assert ([status.reasons for status in group.verdicts], group.nodes) == ([("Insufficient cpu",)], ["a"])


# ---- a pod's own nominated node


def test_a_nominated_node_that_does_not_fit_counts_as_looked_at() -> None:
    """Here the search does not come to it by itself: it is out of the nodes that PreFilter names."""
    one = scheduler(NODES, pod("t", on="b", requests={"cpu": 4}), pod("u", on="a", requests={"cpu": 4}))
    waiting = nominated("n", "b", requests={"cpu": 2}, affinity=pinned("a"))
    decision = schedule_one(one.context, waiting)
    assert (decision.node, decision.start, decision.next, decision.evaluated) == (None, 0, 0, 2)
    affinity = "1 node(s) didn't match Pod's node affinity/selector"
    assert decision.fit_error == f"0/2 nodes are available: 1 Insufficient cpu, {affinity}."


def test_nodes_out_of_reach_name_the_plugin_that_rejected_the_nominated_node_too() -> None:
    """Upstream keeps one set of plugins for both."""
    full = pod("t", on="a", requests={"cpu": 4})
    one = scheduler(NODES, full, node("c", unschedulable=True), node("d"))
    waiting = nominated("n", "c", requests={"cpu": 2}, affinity=pinned("a"))
    left_out = "2 node(s) didn't satisfy plugin(s) [NodeAffinity NodeUnschedulable]"
    assert schedule_one(one.context, waiting).fit_error == (
        f"0/4 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, {left_out}."
    )


# ---- nominated pods that are placed together


@pytest.fixture
def cycles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that have a scheduling cycle of their own."""
    names = list[str]()

    def note(engine: Any, asked: Pod, target: Any) -> Any:
        names.append(asked.name)
        return schedule_pod(engine, asked, target)

    monkeypatch.setattr(cycle, "schedule_pod", note)
    return names


def test_pods_that_fit_where_they_are_nominated_need_no_cycle(cycles: list[str]) -> None:
    pods = [nominated("n", "b", requests={"cpu": 3}), pod("p", requests={"cpu": 2})]
    pods += [nominated("m", "a", requests={"cpu": 1}), nominated("o", "gone", requests={"cpu": 1})]
    one = scheduler(NODES, *pods)
    assert one.run().placements == {"default/n": "b", "default/m": "a", "default/o": "a", "default/p": "a"}
    assert (cycles, one.handle.nominator.nodes) == (["o"], {})
    assert one.cache.state.get_pod(pods[0]).spec.node_name == "b"


@pytest.mark.parametrize("on", ["a", "b"])
def test_a_node_that_rejects_its_pod_is_left_to_a_cycle(on: str, cycles: list[str]) -> None:
    one = scheduler(NODES, pod("t", on=on, requests={"cpu": 3}), nominated("n", "b", requests={"cpu": 2}))
    assert one.run().placements == {"default/n": "a" if on == "b" else "b"}
    assert cycles == (["n"] if on == "b" else [])


def test_pods_that_share_a_nominated_node_have_a_cycle(cycles: list[str]) -> None:
    one = scheduler(NODES, *(nominated(name, "b", requests={"cpu": 2}) for name in "nm"))
    assert one.run().placements == {"default/n": "b", "default/m": "b"}
    assert cycles == ["n"]


def test_a_transaction_takes_nominations_back(cycles: list[str]) -> None:
    waiting = nominated("n", "b")
    one = scheduler(NODES, waiting)
    with one.transaction():
        assert one.run().placements == {"default/n": "b"}
    assert (cycles, one.handle.nominator.nodes) == ([], {waiting.metadata.uid: "b"})


cpu = st.integers(1, 4)
asked_pods = st.lists(st.tuples(cpu, st.sampled_from(["", "a", "b", "gone"]), st.integers(4, 6)), max_size=6)


@settings(max_examples=60)
@given(asked_pods, st.lists(st.tuples(cpu, st.sampled_from(["a", "b"])), max_size=2))
def test_together_is_one_by_one(asked: list[tuple[int, str, int]], bound: list[tuple[int, str]]) -> None:
    results = []
    for together in (True, False):
        pods = [pod(f"b{at}", on=to, requests={"cpu": n}, priority=9) for at, (n, to) in enumerate(bound)]
        pods += [
            nominated(f"n{at}", to, requests={"cpu": n}, priority=priority)
            for at, (n, to, priority) in enumerate(asked)
        ]
        one = scheduler(NODES, *pods)
        with pytest.MonkeyPatch.context() as patch:
            if not together:
                patch.setattr(Placing, "_place_nominated", lambda self, first, end: first)
            result = one.run()
        failures = {key: failure.message for key, failure in result.unschedulable.items()}
        engine = next(iter(one.engines.values()))
        used = dict(zip(one.table.names, one.table.requested["cpu"].tolist(), strict=True))
        where = {each.key: each.spec.node_name for each in one.cache.state.pods()}
        rest = one.handle.nominator.nodes, engine.decider.start, used, where
        results.append((result.placements, failures, result.evicted, rest))
    assert results[0] == results[1]


@pytest.mark.parametrize(("cpu", "placed"), [(2, 2), (3, 0)])
def test_a_nominated_member_is_placed_with_its_group_or_not_at_all(cpu: int, placed: int) -> None:
    cluster = Cluster(nodes=NODES[:1], others=[gang("g", 2, priority=5)])
    one = Scheduler(cluster, feature_gates=GATES)
    members = PodSchedulingGroup("g")
    one.client.create(nominated("m0", "a", requests={"cpu": cpu}, scheduling_group=members))
    one.client.create(pod("m1", requests={"cpu": cpu}, scheduling_group=members, priority=5))
    one.sync()
    result = one.schedule_workload(one.client.get(PodGroup, "g", "default"))
    assert sum(row >= 0 for row in result.rows) == placed
    assert len(one.cache.state.pods()) == placed
