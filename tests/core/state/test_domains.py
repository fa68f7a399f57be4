"""Counters over domains, where no vector comes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import ClusterState, Placer, TieBreak
from tests.doors.engine import terms as core_terms
from tests.make import node, pod

from moorage import Scheduler, default_profile
from moorage.kube import (
    Affinity,
    Cluster,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Service,
    ServiceSpec,
    TopologySpreadConstraint,
)

HOST = "kubernetes.io/hostname"
APP = LabelSelector(match_labels={"app": "x"})


def spread_over(key: str, name: str = "p") -> Pod:
    constraint = TopologySpreadConstraint(1, key, "DoNotSchedule", APP)
    return pod(name, labels={"app": "x"}, topology_spread_constraints=(constraint,))


def make(nodes: int) -> tuple[ClusterState, Placer]:
    state = ClusterState()
    for at in range(nodes):
        state.set_node(node(f"n{at}", zone=f"z{at % 2}", labels={HOST: f"n{at}"}))
    return state, Placer(state, default_profile().compile(state), TieBreak.FIRST, 100)


def rejected(state: ClusterState, placer: Placer, one: Pod) -> set[str]:
    rows, bits = placer.search.filter_verdicts("PodTopologySpread", state.classes.intern(one))
    return {state.table.row_name(row) for row, bit in zip(rows.tolist(), bits.tolist(), strict=True) if bit}


def test_a_consumer_that_fell_behind_the_ring_looks_at_every_row() -> None:
    state, placer = make(4)
    assert rejected(state, placer, spread_over(HOST)) == set()
    state.set_node(node("n3", zone="z1"))
    for _ in range(state.log.capacity):
        state.set_node(node("n0", zone="z0", labels={HOST: "n0"}))
    assert rejected(state, placer, spread_over(HOST)) == {"n3"}
    state.add_pod(pod("q", on="n1", labels={"app": "x"}))
    assert rejected(state, placer, spread_over(HOST)) == {"n1", "n3"}


def test_rows_that_come_after_the_counters() -> None:
    state, placer = make(2)
    assert rejected(state, placer, spread_over(HOST)) == set()
    for at in range(2, 200):
        state.add_pod(pod(f"q{at}", on=f"n{at}", labels={"app": "x"}))  # before its node
        state.set_node(node(f"n{at}", labels={HOST: f"n{at}"}))
    assert rejected(state, placer, spread_over(HOST)) == {f"n{at}" for at in range(2, 200)}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a selector was asked about a class."""
    count, selects = [0], core_terms._matches_all  # type: ignore[attr-defined]

    def counted(*arguments: Any) -> Any:
        count[0] += 1
        return selects(*arguments)

    monkeypatch.setattr(core_terms, "_matches_all", counted)
    return count


def pods_with_selectors(apps: int, each: int) -> list[Pod]:
    """Pods that are spread over hosts, some of each app, whose selector only they match."""
    pods = []
    for at in range(apps):
        value = LabelSelector(
            match_labels={"team": "t", "app": f"a{at}"},
            match_expressions=(LabelSelectorRequirement("tier", "NotIn", ("x",)),),
        )
        constraint = TopologySpreadConstraint(1, HOST, "DoNotSchedule", value)
        labels = {"team": "t", "app": f"a{at}"}
        pods += [
            pod(f"p{at}-{n}", labels=labels, topology_spread_constraints=(constraint,)) for n in range(each)
        ]
    return pods


def scheduler_with_hosts(nodes: int) -> Scheduler:
    return Scheduler(Cluster(nodes=[node(f"n{at}", labels={HOST: f"n{at}"}) for at in range(nodes)]))


def test_selectors_are_asked_about_the_classes_that_they_may_name(asked: list[int]) -> None:
    """Not each about each: the questions grow with the number of selectors."""
    rows = scheduler_with_hosts(60).schedule_pods(pods_with_selectors(100, 3)).rows.tolist()
    assert 100 <= asked[0] <= 400
    for at in range(100):
        assert len({*rows[3 * at : 3 * at + 3]} - {-1}) == 3


def test_counters_of_a_batch_that_exceed_the_limit_are_made_few_times(asked: list[int]) -> None:
    """Not again for all pods that are left after each one: a batch of thousands would never end."""
    pods = pods_with_selectors(100, 1)
    expected = scheduler_with_hosts(60).schedule_pods(pods).rows.tolist()
    scheduler, before = scheduler_with_hosts(60), asked[0]
    scheduler.cache.state.domains.limit = 10_000
    assert scheduler.schedule_pods(pods).rows.tolist() == expected
    assert asked[0] - before <= 500


def rejected_apps(state: ClusterState, placer: Placer, apps: int) -> list[set[str]]:
    """The nodes that have a pod of each app, told by anti-affinity to it: one selector each."""
    out = []
    for app in range(apps):
        selector = LabelSelector(match_labels={"app": f"a{app}"})
        term = PodAffinityTerm(label_selector=selector, topology_key=HOST)
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
        seeker = state.classes.intern(pod("p", affinity=affinity))
        rows, bits = placer.search.filter_verdicts("InterPodAffinity", seeker)
        out.append(
            {state.table.row_name(row) for row, bit in zip(rows.tolist(), bits.tolist(), strict=True) if bit}
        )
    return out


def test_many_selectors_at_one_moment() -> None:
    """From the fourth on pods are looked up by class; those count that are there, after pods have left, taken
    the number of another, or come back in a rollback."""
    apps = 8
    state, placer = make(4)
    there: dict[str, tuple[int, int, Pod]] = {}

    def enter(name: str, app: int, at: int) -> None:
        there[name] = app, at, pod(name, on=f"n{at}", labels={"app": f"a{app}"})
        state.add_pod(there[name][2])

    def leave(name: str) -> None:
        state.remove_pod(there.pop(name)[2])

    def check() -> None:
        state.domains.limit = 0
        state.domains.enforce_limit()  # so that all selectors count anew
        assert rejected_apps(state, placer, apps) == [
            {f"n{at}" for app, at, _ in there.values() if app == one} for one in range(apps)
        ]

    for at in range(12):
        enter(f"q{at}", at % apps, at % 4)
    check()
    leave("q3")
    check()
    enter("q12", 5, 3)  # with the number of q3
    check()
    before = dict(there)
    mark = state.begin()
    leave("q12")
    leave("q7")
    enter("q13", 6, 0)
    assert rejected_apps(state, placer, apps)[5:] == [{"n1"}, {"n0", "n2"}, set()]
    state.rollback(mark)
    there = before
    check()


def move_nodes(state: ClusterState) -> None:
    """Of zones z0 (n0, n2) and z1 (n1, n3) the first loses its nodes, and z2 gets n0 and n4."""
    state.set_node(node("n4", zone="z2", labels={HOST: "n4"}))
    state.set_node(node("n0", zone="z2", labels={HOST: "n0"}))
    state.remove_node("n2")
    for name, host in (("q1", "n1"), ("q2", "n3"), ("q3", "n4")):
        state.add_pod(pod(name, on=host, labels={"app": "y"}))


@pytest.mark.parametrize("is_undone", [False, True])
def test_a_counter_that_takes_the_nodes_of_another(is_undone: bool) -> None:
    """The nodes of a domain are those that are there now: the other counter has followed all changes, or was
    dropped by a rollback. A zone without nodes has no part in the minimum, which is that of z2."""
    state, placer = make(4)
    seekers = [replace_selector(spread_over("topology.kubernetes.io/zone"), app) for app in "xyzw"]
    assert rejected(state, placer, seekers[0]) == set()
    mark = state.begin()
    assert rejected(state, placer, seekers[3]) == set()
    if is_undone:
        state.rollback(mark)
    else:
        state.commit(mark)
    move_nodes(state)
    assert rejected(state, placer, seekers[1]) == {"n1", "n3"}
    assert rejected(state, placer, seekers[2]) == set()


def replace_selector(one: Pod, app: str) -> Pod:
    """The pod with another selector, and labels that it matches."""
    (constraint,) = one.spec.topology_spread_constraints
    constraint = replace(constraint, label_selector=LabelSelector(match_labels={"app": app}))
    return replace(
        one,
        metadata=replace(one.metadata, labels={"app": app}),
        spec=replace(one.spec, topology_spread_constraints=(constraint,)),
    )


def test_a_fork_spreads_pods_of_a_service_as_the_original() -> None:
    service = Service(metadata=ObjectMeta(name="s", namespace="default"), spec=ServiceSpec({"app": "x"}))
    asked, there = (pod(name, on, labels={"app": "x"}) for name, on in (("p", ""), ("q", "a")))
    nodes = [node(name, zone=f"z{name}", labels={HOST: name}) for name in "ab"]
    one = Scheduler(Cluster(nodes=nodes, pods=[there], others=[service]))
    seen = [each.examine(asked).raw["PodTopologySpread"].tolist() for each in (one, one.fork())]
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 2
