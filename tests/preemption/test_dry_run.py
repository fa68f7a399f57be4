"""On which nodes a pod would fit without others, and without whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.inside import dump
from tests.core.make import ZONE, node, pod, port
from tests.doors.engine import PreemptionDryRuns
from tests.framework.make import UNSCHEDULABLE, make, status
from tests.preemption.twin import Twin
from tests.preemption.world import (
    HOST,
    budget,
    cycle,
    find,
    full,
    handle,
    preemptor,
    terminating,
    victim,
    victims,
)

import moorage as mo
from moorage import default_profile
from moorage.framework import Code, NominatingInfo
from moorage.objects import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from moorage.scheduler import Profile

LABELS = {"app": "x"}


def selected(asked: Pod, *pods: Pod, budgets: Any = (), **settings: Any) -> tuple[list[str], int, str]:
    """Victims on node a, violations, and why not."""
    one = full(*pods, **settings)
    its, state, _ = cycle(one, asked)
    info = one.cache.node_info("a")
    assert info is not None
    runs = PreemptionDryRuns(its, state, asked, budgets)
    there, violations, failed = runs.select_victims_on_node(info)
    return [each.name for each in there], violations, "" if failed is None else failed.message()


def test_as_few_as_are_needed_the_least_important_first() -> None:
    pods = [
        victim("a", priority=2),
        victim("b", priority=1),
        victim("c", priority=3),
        victim("d", priority=0),
    ]
    assert selected(preemptor(1), *pods)[0] == ["d"]
    assert selected(preemptor(2), *pods)[0] == ["b", "d"]
    assert selected(preemptor(4), *pods)[0] == ["c", "a", "b", "d"]


def test_only_pods_of_lower_priority_leave() -> None:
    pods = [victim("same", cpu=3, priority=10), victim("lower", cpu=1, priority=9)]
    assert selected(preemptor(1), *pods) == (["lower"], 0, "")
    assert selected(preemptor(2), *pods) == ([], 0, "Insufficient cpu")
    assert selected(preemptor(1), pods[0]) == ([], 0, "No preemption victims found for incoming pod")


def test_a_more_important_pod_stays_at_the_cost_of_several() -> None:
    pods = [victim("big", cpu=2, priority=5), victim("s1", priority=1), victim("s2", priority=1)]
    assert selected(preemptor(2), *pods)[0] == ["s1", "s2"]


def test_of_equal_priority_the_younger_goes_and_of_equal_age_the_later_on_the_row() -> None:
    old, young = victim("old", start="2026-03-11T09:00:00Z", cpu=2), victim("young", cpu=2)
    assert selected(preemptor(1), young, old)[0] == ["young"]
    assert selected(preemptor(1), victim("first", cpu=2), victim("second", cpu=2))[0] == ["second"]
    assert selected(preemptor(1), victim("unstarted", cpu=2, start=None), young)[0] == ["unstarted"]


def test_protected_pods_are_reprieved_first() -> None:
    safe, free = victim("safe", cpu=2, labels=LABELS), victim("free", cpu=2, priority=9)
    assert selected(preemptor(1), safe, free)[0] == ["safe"]
    assert selected(preemptor(1), safe, free, budgets=[budget(0, LABELS)])[:2] == (["free"], 0)
    both = selected(preemptor(3), safe, free, budgets=[budget(0, LABELS)])
    assert both == (["free", "safe"], 1, ""), "by importance again, and one violates"


def test_ports_are_free_when_their_pod_is_gone() -> None:
    pods = [victim("port", ports=[port(80)], priority=9), victim("other")]
    assert selected(preemptor(1, ports=[port(80)]), *pods)[0] == ["port"]


def test_two_claims_of_one_port_end_with_the_first_to_go() -> None:
    """As upstream's HostPortInfo: a set, from which the victim takes the port of the pod that stays."""
    pods = [victim("stays", ports=[port(80)], priority=20), victim("goes", ports=[port(80)])]
    assert selected(preemptor(1, ports=[port(80)]), *pods) == (["goes"], 0, "")
    both = [victim("v", ports=[port(80)], priority=2), victim("w", ports=[port(80)], priority=1)]
    assert selected(preemptor(1, ports=[port(80)]), *both)[0] == ["v", "w"]


def test_a_pod_that_comes_back_brings_the_port_that_another_has_freed() -> None:
    """On the node the port is free by now, since one of two pods with it has gone."""
    one = full(
        *[victim(name, ports=[port(80)], priority=2) for name in ("gone", "stays")],
        victim("other", cpu=2, priority=1),
        victim("more", priority=0),
    )
    one.client.delete("Pod", "gone", "default")
    one.sync()
    asked = preemptor(1, ports=[port(80)])
    its, state, _ = cycle(one, asked)
    info = one.cache.node_info("a")
    assert info is not None
    there, *rest = PreemptionDryRuns(its, state, asked, ()).select_victims_on_node(info)
    assert ([each.name for each in there], rest) == (["stays"], [0, None])


TIED = [0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 1, 0, 1]
"""Priorities of pods that started in the same second."""


def test_of_many_equal_pods_those_go_that_upstreams_sort_puts_last() -> None:
    there = [victim(f"w-{at:02}", priority=priority) for at, priority in enumerate(TIED)]
    found = selected(preemptor(3), *there, nodes=[node("a", cpu=13, pods=99, labels={HOST: "a"})])
    assert sorted(found[0]) == ["w-00", "w-01", "w-11"]


def test_equal_victims_come_first_if_they_violate_a_budget() -> None:
    there = [victim("free", cpu=2), victim("safe", cpu=2, labels=LABELS)]
    assert selected(preemptor(4), *there, budgets=[budget(0, LABELS)]) == (["safe", "free"], 1, "")


def spread(selector: LabelSelector, key: str = HOST) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=1, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=selector
    )


TWO = [node("a", labels={HOST: "a"}), node("b", labels={HOST: "b"})]


def test_counts_follow_labels_alone_so_terminating_pods_are_taken_away_twice() -> None:
    """I.5: PreFilter does not count a terminating pod, but RemovePod takes it off the count."""
    constraint = spread(LabelSelector(match_labels=LABELS))
    asked = preemptor(1, labels=LABELS, topology_spread_constraints=(constraint,))
    there = [victim(f"v{at}", cpu="1m", labels=LABELS) for at in range(2)]
    assert selected(asked, *there, nodes=TWO)[0] == ["v0", "v1"], "one may stay only if there were one there"
    going = terminating(victim("going", cpu="1m", priority=9, labels=LABELS))
    assert selected(asked, *there, going, nodes=TWO)[0] == ["v0", "v1"], "it came back, and counts no more"
    elsewhere = victim("e", on="b", labels=LABELS, priority=20)
    assert selected(asked, *there, elsewhere, nodes=TWO)[0] == ["v1"]


def test_an_empty_selector_counts_pods_as_they_go_and_come_only() -> None:
    asked = preemptor(4, topology_spread_constraints=(spread(LabelSelector()),))
    there = [victim(f"v{at}", cpu=2) for at in range(2)]
    assert selected(asked, *there, nodes=TWO) == (["v0", "v1"], 0, "")


def test_terms_of_pods_that_are_gone_do_not_count() -> None:
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels=LABELS), topology_key=HOST)
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    shy, other = victim("shy", affinity=apart, priority=9), victim("other")
    assert selected(preemptor(1, labels=LABELS), shy, other)[0] == ["shy"]
    loud = victim("loud", labels=LABELS, priority=9)
    assert selected(preemptor(1, affinity=apart), loud, other)[0] == ["loud"]
    near = Affinity(pod_affinity=PodAffinity(required=(term,)))
    assert selected(preemptor(4, affinity=near), loud, other)[2] == "node(s) didn't match pod affinity rules"


def test_nominated_pods_count_on_the_node() -> None:
    one = full(victim("v", cpu=4), pod("n", requests={"cpu": 2}, priority=10))
    waiting = one.pods.pending["default/n"]
    one.handle.nominator.add_nominated_pod(waiting, NominatingInfo("a"))
    assert victims(find(one, preemptor(2))) == {"a": ["v"]}
    assert find(one, preemptor(3)).candidates == [], "the nominated one goes before"
    assert victims(find(one, preemptor(3, priority=11))) == {"a": ["v"]}


def test_nothing_of_it_stays() -> None:
    constraint = spread(LabelSelector(match_labels=LABELS))
    asked = preemptor(2, labels=LABELS, topology_spread_constraints=(constraint,), ports=[port(80)])
    one = full(victim("v", cpu=2, labels=LABELS), victim("w", cpu=2, ports=[port(80)]), nodes=TWO)
    find(one, asked)
    before = dump(one.cache.state)
    find(one, asked)
    assert dump(one.cache.state, before) == before


# ---- plugins in Python -------------------------------------------------------------------------------------


class Counts(mo.PreFilterPlugin, mo.FilterPlugin):
    """At most so many pods, counted in PreFilter and kept up to date by its extensions."""

    name = "Counts"

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> None:
        state.write("counts", Counted({info.name: len(info.pods) for info in nodes}))

    def pre_filter_extensions(self) -> Any:
        return self

    def add_pod(self, state: Any, pod: Pod, other: Pod, info: Any) -> None:
        state.read("counts").by_node[info.name] += 1

    def remove_pod(self, state: Any, pod: Pod, other: Pod, info: Any) -> Any:
        if other.name == "stuck":
            return status(UNSCHEDULABLE, "stuck")
        state.read("counts").by_node[info.name] -= 1
        return None

    def filter(self, state: Any, pod: Pod, info: Any) -> Any:
        there = state.read("counts").by_node[info.name]
        return None if there == len(info.pods) and there < 2 else status(UNSCHEDULABLE, f"{there} pods")


class Counted:
    def __init__(self, by_node: dict[str, int]) -> None:
        self.by_node = by_node

    def clone(self) -> Counted:
        return Counted(dict(self.by_node))


def counting() -> Any:
    return {"profile": Profile((*default_profile().plugins, Counts()))}


def test_extensions_of_plugins_follow() -> None:
    pods = [victim("v", priority=2), victim("w", priority=1)]
    assert selected(preemptor(1), *pods, **counting()) == (["w"], 0, "")
    one = full(*pods, **counting())
    assert victims(find(one, preemptor(1))) == {"a": ["w"]}
    assert victims(find(one, preemptor(1))) == {"a": ["w"]}, "each node has a copy of the state"


def test_a_plugin_that_cannot_follow_is_an_error_of_the_node() -> None:
    text = 'running RemovePod on PreFilter plugin "Counts": stuck'
    assert selected(preemptor(1), victim("stuck"), victim("w"), **counting()) == ([], 0, text)
    found = find(full(victim("stuck"), victim("w"), **counting()), preemptor(1))
    assert (found.rejected["a"].code, found.error) == (Code.ERROR, text)


def test_victims_that_are_all_reprieved_are_an_error() -> None:
    """A filter that changes its mind."""
    answers = iter([status(UNSCHEDULABLE, "no")])
    fickle = make(mo.FilterPlugin, "Fickle", filter=lambda *rest: next(answers, None))
    one = full(victim("v"), profile=Profile((*default_profile().plugins, fickle)))
    found = find_after_rejection(one)
    assert found == 'expected at least one victim pod on node "a"'


def find_after_rejection(one: Any) -> str:
    its, state, statuses = cycle(one, preemptor(1))
    candidates, rejected = PreemptionDryRuns(its, state, preemptor(1), ()).run(list(statuses), 0, 9)
    assert candidates == []
    return str(rejected["a"].message())


# ---- several nodes -----------------------------------------------------------------------------------------

NAMES = "abcde"


def five(**settings: Any) -> Any:
    pods = [victim(f"v{name}", on=name, cpu=4, labels=LABELS if name in "bd" else {}) for name in NAMES]
    return full(*pods, nodes=[node(name) for name in NAMES], **settings)


def test_budgets_that_share_pods_are_whole_again_for_the_next_node() -> None:
    nodes = [node(name) for name in "abc"]
    pods = [victim(f"{name}{at}", on=name, cpu=2, labels=LABELS) for name in "abc" for at in (0, 1)]
    budgets = [budget(1, LABELS), budget(5, LABELS, name="c")]
    found = find(full(*pods, nodes=nodes, others=budgets), preemptor(4))
    assert [each.victims.num_pdb_violations for each in found.candidates] == [1, 1, 1]


@pytest.mark.parametrize(
    ("offset", "wanted", "names"),
    [(0, 5, "abcde"), (0, 2, "ab"), (3, 2, "de"), (3, 4, "deab"), (4, 1, "e"), (0, 1, "a")],
)
def test_it_ends_with_enough_candidates(offset: int, wanted: int, names: str) -> None:
    one = five()
    handle(one).preemption_offset = lambda pod, nodes: offset
    found = find(one, preemptor(), limits=(0, wanted))
    assert [one.name for one in found.candidates] == list(names)
    assert found.potential == list(NAMES)


@pytest.mark.parametrize(
    ("offset", "wanted", "names"), [(0, 5, "acebd"), (1, 1, "cb"), (1, 2, "cb"), (3, 1, "ed"), (0, 1, "a")]
)
def test_those_that_violate_come_last_and_are_not_enough(offset: int, wanted: int, names: str) -> None:
    one = five(others=[budget(0, LABELS)])
    handle(one).preemption_offset = lambda pod, nodes: offset
    found = find(one, preemptor(), limits=(0, wanted))
    assert [each.name for each in found.candidates] == list(names)
    assert [each.victims.num_pdb_violations for each in found.candidates] == [int(n in "bd") for n in names]


# ---- the twin ----------------------------------------------------------------------------------------------


@st.composite
def clusters(draw: Any) -> tuple[Twin, list[Any]]:
    names = "abc"
    nodes = [node(name, zone=draw(st.sampled_from(["y", "z"])), pods=5) for name in names]
    pods: dict[str, list[Pod]] = {name: [] for name in names}
    starts = st.sampled_from(["2026-03-11T10:00:00Z", "2026-03-11T10:00:01Z", None])
    labels = st.sampled_from([{}, {"app": "x"}, {"app": "y"}, {"app": "x", "tier": "1"}])
    claims = st.sampled_from([(), (), (), (port(80),)])
    for at in range(draw(st.integers(1, 12))):
        on = draw(st.sampled_from(names))
        one = victim(
            f"v{at}",
            on=on,
            cpu=draw(st.integers(0, 3)),
            priority=draw(st.integers(-1, 3)),
            start=draw(starts),
            labels=draw(labels),
            ports=draw(claims),
        )
        pods[on].append(terminating(one) if draw(st.booleans()) and draw(st.booleans()) else one)
    spreading = draw(st.sampled_from([None, None, {}, {"app": "x"}]))
    apart = draw(st.sampled_from([None, None, {"app": "y"}]))
    spec: dict[str, Any] = {"labels": draw(labels), "ports": draw(claims)}
    if spreading is not None:
        spec["topology_spread_constraints"] = (spread(LabelSelector(match_labels=spreading), ZONE),)
    if apart is not None:
        term = PodAffinityTerm(label_selector=LabelSelector(match_labels=apart), topology_key=ZONE)
        spec["affinity"] = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    asked = preemptor(draw(st.integers(0, 4)), draw(st.integers(0, 4)), **spec)
    waiting: dict[str, list[Pod]] = {}
    for at in range(draw(st.integers(0, 2))):
        to = draw(st.sampled_from(names))
        other = pod(f"n{at}", requests={"cpu": 1}, priority=draw(st.integers(0, 4)), labels=draw(labels))
        waiting.setdefault(to, []).append(other)
    budgets = [budget(draw(st.integers(0, 2)), draw(labels), name=f"b{at}") for at in range(2)]
    kept = [one for one in budgets if one.spec.selector.match_labels]
    return Twin(nodes, pods, asked, spreading, apart, waiting), kept[: draw(st.integers(0, 2))]


@settings(deadline=None, max_examples=150)
@given(clusters())
def test_the_twin_selects_the_same(made: tuple[Twin, list[Any]]) -> None:
    twin, budgets = made
    there = [one for pods in twin.pods.values() for one in pods]
    waiting = [
        replace(one, status=replace(one.status, nominated_node_name=name))
        for name, pods in twin.nominated.items()
        for one in pods
    ]
    one = full(*there, *waiting, nodes=twin.nodes)
    engine = one.engines["default-scheduler"]
    state = engine.framework.new_state(twin.asked)
    engine.framework.run_pre_filter_plugins(state, twin.asked)
    twin.pods = {name: one.cache.node_info(name).pods for name in twin.pods}  # type: ignore[union-attr]
    for name in twin.pods:
        info = one.cache.node_info(name)
        assert info is not None
        runs = PreemptionDryRuns(engine.handle.preempt_handle(), state, twin.asked, budgets)
        got, violations, failed = runs.select_victims_on_node(info)
        names = None if failed is not None else ([each.name for each in got], violations)
        assert names == twin.select(name, budgets)
