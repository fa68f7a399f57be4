"""Nominated pods count on their node for pods that go after them, and try it first themselves (kube-scheduler
v1.36, RunFilterPluginsWithNominatedPods and evaluateNominatedNode)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.inside import dump
from tests.core.make import ZONE, node, pinned, pod
from tests.core.make import port as host_port
from tests.doors.engine import Engine, Placing, place, schedule_one, schedule_pod
from tests.scheduler.groups.gang_kit import GATES, gang
from tests.scheduler.make import searched

from moorage import Scheduler
from moorage.objects import (
    Affinity,
    Cluster,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodGroup,
    PodSchedulingGroup,
    PodStatus,
    TopologySpreadConstraint,
)

HOST = "kubernetes.io/hostname"
NODES = [node(name, zone="z", labels={HOST: name}, cpu=4) for name in ("a", "b")]
APP = LabelSelector(match_labels={"app": "x"})
TERM = PodAffinityTerm(label_selector=APP, topology_key=HOST)


def nominated(name: str, to: str, **spec: Any) -> Pod:
    return replace(pod(name, **({"priority": 5} | spec)), status=PodStatus(nominated_node_name=to))


def scheduler(*pods: Pod, **settings: Any) -> Scheduler:
    return Scheduler(Cluster(nodes=NODES, pods=list(pods)), **settings)


def fits(one: Scheduler, **spec: Any) -> list[str]:
    return one.examine(pod("p", **({"priority": 5} | spec))).feasible


@pytest.mark.parametrize(("priority", "feasible"), [(4, ["b"]), (5, ["b"]), (6, ["a", "b"])])
def test_pods_of_at_least_the_priority_count(priority: int, feasible: list[str]) -> None:
    one = scheduler(nominated("n", "a", requests={"cpu": 3}))
    assert fits(one, priority=priority, requests={"cpu": 2}) == feasible


def test_a_pod_does_not_count_for_itself() -> None:
    waiting = nominated("n", "a", requests={"cpu": 3})
    assert scheduler(waiting).examine(waiting).feasible == ["a", "b"]


def test_a_nomination_ends_with_the_pod_or_its_binding() -> None:
    one = scheduler(nominated("n", "a", requests={"cpu": 3}), nominated("m", "b", requests={"cpu": 3}))
    assert fits(one, requests={"cpu": 2}) == []
    one.client.delete("Pod", "n", "default")
    one.client.bind(one.client.get(Pod, "m", "default"), "a")
    one.sync()
    assert fits(one, requests={"cpu": 2}) == ["b"]


def test_a_nomination_follows_the_status() -> None:
    waiting = nominated("n", "a", requests={"cpu": 3})
    one = scheduler(waiting)
    stored = one.client.get(Pod, "n", "default")
    one.client.update(replace(stored, status=PodStatus(nominated_node_name="b")))
    one.sync()
    assert fits(one, requests={"cpu": 2}) == ["a"]


def test_a_node_that_is_not_there_is_nobodys() -> None:
    assert fits(scheduler(nominated("n", "nowhere", requests={"cpu": 9}))) == ["a", "b"]


def test_a_pod_must_fit_without_the_nominated_ones_too() -> None:
    """What it needs of them must be there already, as they may go elsewhere."""
    near = {"affinity": Affinity(pod_affinity=PodAffinity(required=(TERM,)))}
    there = pod("t", on="b", labels={"app": "x"})
    one = scheduler(nominated("n", "a", labels={"app": "x"}), there)
    assert fits(one, **near) == ["b"]


def test_ports_spread_and_anti_affinity_of_nominated_pods() -> None:
    assert fits(scheduler(nominated("n", "a", ports=[host_port(80)])), ports=[host_port(80)]) == ["b"]
    spread = TopologySpreadConstraint(1, HOST, "DoNotSchedule", APP)
    one = scheduler(nominated("n", "a", labels={"app": "x"}))
    constrained = {"topology_spread_constraints": (spread,), "labels": {"app": "x"}}
    assert fits(one, **constrained) == ["b"]
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(TERM,)))
    assert fits(scheduler(nominated("n", "a", labels={"app": "x"})), affinity=apart) == ["b"]


def test_terms_of_nominated_pods_count_only_where_the_plugin_is_not_skipped() -> None:
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(TERM,)))
    waiting = nominated("n", "a", affinity=apart)
    assert fits(scheduler(waiting), labels={"app": "x"}) == ["a", "b"], "PreFilter saw no terms, and skipped"
    elsewhere = pod("t", on="b", affinity=apart)
    assert fits(scheduler(waiting, elsewhere), labels={"app": "x"}) == []


def test_an_empty_selector_counts_nominated_pods_alone() -> None:
    spread = TopologySpreadConstraint(1, HOST, "DoNotSchedule", LabelSelector())
    there = [pod(f"t{at}", on="a") for at in range(3)]
    assert fits(scheduler(*there), topology_spread_constraints=(spread,)) == ["a", "b"]
    one = scheduler(nominated("n", "a"))
    assert fits(one, topology_spread_constraints=(spread,)) == ["b"]
    assert fits(one, topology_spread_constraints=(spread,)) == ["b"], "nothing of it stays"


def test_looking_changes_nothing() -> None:
    one = scheduler(nominated("n", "a", ports=[host_port(80)], labels={"app": "x"}))
    one.examine(pod("p", ports=[host_port(80)], labels={"app": "x"}))
    state = one.cache.state
    before = dump(state)
    one.examine(pod("p", ports=[host_port(80)], labels={"app": "x"}))
    assert dump(state, before) == before


def test_the_message_counts_nodes_that_nominated_pods_fill() -> None:
    one = scheduler(nominated("n", "a", requests={"cpu": 4}), nominated("m", "b", requests={"cpu": 4}))
    decision = schedule_one(one.context, pod("p", priority=0, requests={"cpu": 1}))
    assert searched(decision.fit_error) == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_run_places_nominated_pods_where_they_are_nominated() -> None:
    pods = [
        nominated("n", "b", requests={"cpu": 3}),
        pod("p", requests={"cpu": 2}),
        pod("q", requests={"cpu": 2}),
    ]
    one = scheduler(*pods)
    assert one.run().placements == {"default/n": "b", "default/p": "a", "default/q": "a"}
    assert dict(zip(one.table.names, one.table.requested["cpu"].tolist(), strict=True)) == {
        "a": 4000,
        "b": 3000,
    }
    assert len(one.cache.state.pods()) == 3


def test_a_pod_that_is_in_the_cache_by_now_counts_once() -> None:
    one = scheduler()
    waiting = nominated("n", "a", requests={"cpu": 2})
    schedule_one(one.context, waiting)
    one.handle.nominator.is_current = lambda pod: True
    one.handle.nominator.add_nominated_pod(waiting)
    assert fits(one, requests={"cpu": 2}) == ["a", "b"]
    assert one.cache.is_assumed_pod(waiting)


def test_an_explanation_names_the_filter_that_nominated_pods_fail() -> None:
    one = scheduler(nominated("n", "a", requests={"cpu": 4}))
    explanation = one.explain(pod("p", priority=0, requests={"cpu": 1}))
    (group,) = explanation.groups
    assert ([status.reasons for status in group.verdicts], group.nodes) == ([("Insufficient cpu",)], ["a"])


# ---- a pod's own nominated node


def test_its_node_is_tried_first_and_the_rotation_stays() -> None:
    decision = schedule_one(scheduler().context, nominated("n", "b"))
    assert (decision.node, decision.start, decision.next, decision.evaluated) == ("b", 0, 0, 1)
    assert (decision.feasible.tolist(), decision.totals) == ([1], None)


def test_a_nominated_node_that_does_not_fit_counts_as_looked_at() -> None:
    """Here the search does not come to it by itself: it is out of the nodes that PreFilter names."""
    one = scheduler(pod("t", on="b", requests={"cpu": 4}), pod("u", on="a", requests={"cpu": 4}))
    waiting = nominated("n", "b", requests={"cpu": 2}, affinity=pinned("a"))
    decision = schedule_one(one.context, waiting)
    assert (decision.node, decision.start, decision.next, decision.evaluated) == (None, 0, 0, 2)
    affinity = "1 node(s) didn't match Pod's node affinity/selector"
    assert decision.fit_error == f"0/2 nodes are available: 1 Insufficient cpu, {affinity}."


def test_nodes_out_of_reach_name_the_plugin_that_rejected_the_nominated_node_too() -> None:
    """Upstream keeps one set of plugins for both."""
    full = pod("t", on="a", requests={"cpu": 4})
    one = scheduler(full, node("c", unschedulable=True), node("d"))
    waiting = nominated("n", "c", requests={"cpu": 2}, affinity=pinned("a"))
    left_out = "2 node(s) didn't satisfy plugin(s) [NodeAffinity NodeUnschedulable]"
    assert schedule_one(one.context, waiting).fit_error == (
        f"0/4 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, {left_out}."
    )


def test_a_nominated_node_that_does_not_fit_is_not_counted_twice() -> None:
    one = scheduler(pod("t", on="b", requests={"cpu": 4}))
    decision = schedule_one(one.context, nominated("n", "b", requests={"cpu": 2}))
    assert (decision.node, decision.next, decision.evaluated) == ("a", 0, 2)


def test_an_unknown_nominated_node_is_passed_over() -> None:
    decision = schedule_one(scheduler().context, nominated("n", "gone"))
    assert (decision.node, decision.evaluated) == ("a", 2)


# ---- nominated pods that are placed together


@pytest.fixture
def cycles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that have a scheduling cycle of their own."""
    names = list[str]()

    def note(engine: Engine, asked: Pod, target: Any, order: Any) -> Any:
        names.append(asked.name)
        return schedule_pod(engine, asked, target, order)

    monkeypatch.setattr(place, "schedule_pod", note)
    return names


def test_pods_that_fit_where_they_are_nominated_need_no_cycle(cycles: list[str]) -> None:
    pods = [nominated("n", "b", requests={"cpu": 3}), pod("p", requests={"cpu": 2})]
    pods += [nominated("m", "a", requests={"cpu": 1}), nominated("o", "gone", requests={"cpu": 1})]
    one = scheduler(*pods)
    assert one.run().placements == {"default/n": "b", "default/m": "a", "default/o": "a", "default/p": "a"}
    assert (cycles, one.handle.nominator.nodes) == (["o"], {})
    assert one.cache.state.get_pod(pods[0]).spec.node_name == "b"


@pytest.mark.parametrize("on", ["a", "b"])
def test_a_node_that_rejects_its_pod_is_left_to_a_cycle(on: str, cycles: list[str]) -> None:
    one = scheduler(pod("t", on=on, requests={"cpu": 3}), nominated("n", "b", requests={"cpu": 2}))
    assert one.run().placements == {"default/n": "a" if on == "b" else "b"}
    assert cycles == (["n"] if on == "b" else [])


def test_pods_that_share_a_nominated_node_have_a_cycle(cycles: list[str]) -> None:
    one = scheduler(*(nominated(name, "b", requests={"cpu": 2}) for name in "nm"))
    assert one.run().placements == {"default/n": "b", "default/m": "b"}
    assert cycles == ["n"]


def test_a_transaction_takes_nominations_back(cycles: list[str]) -> None:
    waiting = nominated("n", "b")
    one = scheduler(waiting)
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
        one = scheduler(*pods)
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


def test_zone_is_a_label_like_any_other() -> None:
    """The node that is full by nomination is in the zone that a term asks for."""
    term = PodAffinityTerm(label_selector=APP, topology_key=ZONE)
    near = Affinity(pod_affinity=PodAffinity(required=(term,)))
    there = pod("t", on="b", labels={"app": "x"})
    one = scheduler(there, nominated("n", "a", requests={"cpu": 3}))
    assert fits(one, affinity=near, requests={"cpu": 2}) == ["b"]


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
