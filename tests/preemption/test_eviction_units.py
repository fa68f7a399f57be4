"""Pod groups that are evicted whole, or not at all."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.inside import dump
from tests.doors.engine import PodGroups, PreemptionDryRuns
from tests.make import node
from tests.preemption.test_dry_run import clusters, counting
from tests.preemption.twin import Twin, priority
from tests.preemption.world import LEAVING, find, full, nominated, preemptor, terminating, victim, victims
from tests.scheduler.groups.gang_kit import GATES, gang

from moorage import Scheduler
from moorage.engine.framework import CycleState
from moorage.engine.preemption import EvictionUnits
from moorage.kube import (
    AllDisruptionMode,
    DisruptionMode,
    Pod,
    PodGroup,
    PodSchedulingGroup,
    SingleDisruptionMode,
)

ALL, SINGLE = DisruptionMode(all=AllDisruptionMode()), DisruptionMode(single=SingleDisruptionMode())
NODES = [node("a"), node("b"), node("c")]


def group(name: str = "g", priority: int | None = 0, mode: DisruptionMode | None = ALL) -> PodGroup:
    """A group without a minimum, which is evicted whole unless `mode` says otherwise."""
    one = gang(name, 0)
    return replace(one, spec=replace(one.spec, priority=priority, disruption_mode=mode))


def of(name: str, pod: Pod) -> Pod:
    """The same pod, of a group."""
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(name)))


def member(name: str, on: str = "a", cpu: Any = 1, to: str = "g", **rest: Any) -> Pod:
    """A pod of a group on a node."""
    return of(to, victim(name, on, cpu, **rest))


def world(*pods: Pod, groups: Any = None, others: Any = (), **rest: Any) -> Scheduler:
    groups = [group()] if groups is None else groups
    return full(*pods, **{"nodes": NODES, "others": [*groups, *others], "feature_gates": GATES} | rest)


def said(one: Scheduler, asked: Pod) -> dict[str, list[str]]:
    return victims(find(one, asked))


# ---- one node ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"groups": [group(mode=SINGLE)]}, ["m2"]),
        ({"groups": [group(mode=None)]}, ["m2"]),
        ({"groups": [group("other")]}, ["m2"]),
        ({"groups": []}, ["m2"]),
        ({"feature_gates": {}}, ["m2"]),
    ],
)
def test_only_a_group_that_asks_for_it(settings: Any, expected: list[str]) -> None:
    pods = [member("m0", cpu=2), member("m1", "b", cpu=4), member("m2", cpu=2)]
    assert said(world(*pods, nodes=NODES[:2], **settings), preemptor(2))["a"] == expected


def test_priorities_follow_the_groups() -> None:
    one = world(member("m"), groups=[group(priority=7, mode=SINGLE), group("h", 8, mode=SINGLE)])
    pods = [member(to, to=to, priority=1) for to in ("g", "h", "none")]

    def seen() -> list[int]:
        return [EvictionUnits(one.handle).priority_of(pod) for pod in pods]

    assert seen() == seen() == [7, 8, 1]
    held = one.client.get(PodGroup, "g", "default")
    one.client.update(replace(held, spec=replace(held.spec, priority=5)))
    one.client.delete(PodGroup, "h", "default")
    one.client.create(group("none", 3, mode=SINGLE))
    one.sync()
    assert seen() == [5, 1, 3]
    one.handle.shared(PodGroups)._followed[0].log.forget()
    assert seen() == [5, 1, 3]


def test_pods_that_share_the_node_s_group_name_in_another_namespace_stay() -> None:
    far = victim("far", "b")
    far = replace(far, metadata=replace(far.metadata, namespace="other", uid="far"))
    assert said(world(member("m0", cpu=4), of("g", far)), preemptor(4))["a"] == ["m0"]


def test_pods_that_only_the_cache_knows_go_too() -> None:
    one = world(member("m0", cpu=2), nodes=NODES[:1])
    for name in ("n0", "n1"):
        one.cache.assume_pod(member(name))
    assert said(one, preemptor(4)) == {"a": ["m0", "n0", "n1"]}


def test_pods_of_the_group_without_a_node_do_not_count() -> None:
    waiting = member("w")
    waiting = replace(waiting, spec=replace(waiting.spec, node_name=""))
    one = world(member("m0", cpu=4), waiting, nodes=NODES[:1])
    assert said(one, preemptor(4)) == {"a": ["m0"]}


# ---- what other nodes say ----------------------------------------------------------------------------------


def test_extensions_of_plugins_hear_of_pods_elsewhere() -> None:
    """Counts has its numbers by node: what it says of the other node shows in the next dry run."""
    heard: list[tuple[str, str, int]] = []
    profile = counting()["profile"]
    counts = profile.plugins[-1]
    pods = [member("m0"), member("m1", "b"), victim("v")]
    one = world(*pods, nodes=NODES[:2], profile=profile)

    def remove(state: CycleState, pod: Pod, other: Pod, info: Any) -> None:
        state.read("counts").by_node[info.name] -= 1
        heard.append((other.name, info.name, len(info.pods)))

    counts.remove_pod = remove
    assert victims(find(one, preemptor(1)))["a"] == ["v"]
    assert heard == [("m0", "a", 1), ("m1", "b", 1), ("v", "a", 0), ("v", "a", 1), *heard[4:]]


# ---- importance and choice ---------------------------------------------------------------------------------


def test_a_pod_waits_for_victims_by_their_group_s_priority() -> None:
    going = terminating(member("m0", cpu=4, priority=50), LEAVING)
    asked = preemptor(2, nominated="a")
    assert find(world(going), asked).message == "not eligible due to a terminating pod on the nominated node."
    assert find(world(going, groups=[group(priority=10)]), asked).message == ""


def test_it_is_known_cheaply_whether_somebody_could_be_evicted() -> None:
    one = world(member("m0", cpu=4, priority=50), nodes=NODES[:1])
    engine = one.engines["default-scheduler"]
    shape = one.cache.state.classes.shape_of(one.context.target_of(preemptor(2))[0])
    assert engine.may_preempt(shape)
    one.client.delete(PodGroup, "g", "default")
    one.sync()
    assert not engine.may_preempt(shape)


# ---- the twin ----------------------------------------------------------------------------------------------


class UnitTwin(Twin):
    """The same with groups; `priorities` are theirs, and `whole` those that go whole."""

    whole: str
    priorities: dict[str, int]

    def unit(self, one: Pod) -> list[tuple[str, Pod]]:
        """The pods that go with one, with their nodes."""
        mine = one.spec.scheduling_group
        everywhere = [(name, other) for name, pods in self.pods.items() for other in pods]
        if mine is None or mine.pod_group_name not in self.whole:
            return [(name, other) for name, other in everywhere if other is one]
        there = [(name, other) for name, other in everywhere if other.spec.scheduling_group == mine]
        return sorted(there, key=lambda each: (-priority(each[1]), each[1].status.start_time or "9"))

    def select(self, name: str, budgets: Any) -> tuple[list[str], int] | None:
        self.begin(name)
        units: list[list[tuple[str, Pod]]] = []
        for one in self.pods[name]:
            if not any(one is other for _, other in chain(*units)):
                units.append(self.unit(one))
        units = [unit for unit in units if self.weight(unit)[0] > -priority(self.asked)]
        for unit in units:
            self.move(unit, -1)
        if not units or not self.fits():
            return None
        units.sort(key=self.weight)
        protected = self.protected([one for unit in units for _, one in unit], list(budgets))
        costs = [sum(one in protected for _, one in unit) for unit in units]
        gone = list[int]()
        for violates in (True, False):
            for at, unit in enumerate(units):
                if bool(costs[at]) == violates:
                    self.move(unit, 1)
                    if not self.fits():
                        self.move(unit, -1)
                        gone.append(at)
        evicted = sorted((units[at] for at in gone), key=self.weight)
        names = [one.name for unit in evicted for _, one in unit]
        return names, sum(costs[at] for at in gone)

    def move(self, unit: list[tuple[str, Pod]], sign: int) -> None:
        for node_name, one in unit:
            self.change(one, sign, node_name)

    def weight(self, unit: list[tuple[str, Pod]]) -> tuple[Any, ...]:
        """The smaller, the more important; its beginning is the priority, negated."""
        mine = unit[0][1].spec.scheduling_group
        oldest = min(one.status.start_time or "9" for _, one in unit)
        value = priority(unit[0][1]) if mine is None else self.priorities[mine.pod_group_name]
        return -value, mine is None, -len(unit), oldest


@st.composite
def grouped(draw: Any) -> tuple[UnitTwin, list[Any], list[PodGroup]]:
    plain, budgets = draw(clusters())
    names = st.sampled_from(["", "g", "h", "i"])
    pods = {
        on: [of(to, one) if (to := draw(names)) else one for one in there] for on, there in plain.pods.items()
    }
    twin = UnitTwin(plain.nodes, pods, plain.asked, plain.spread, plain.apart, plain.nominated)
    twin.whole, twin.priorities = "gh", {name: draw(st.integers(-1, 3)) for name in "ghi"}
    groups = [group(name, priority) for name, priority in twin.priorities.items()]
    single = group("i", twin.priorities["i"], SINGLE)
    return twin, budgets, [*groups[:2], single]


@settings(deadline=None, max_examples=200)
@given(grouped())
def test_the_twin_selects_the_same(made: tuple[UnitTwin, list[Any], list[PodGroup]]) -> None:
    twin, budgets, groups = made
    there = [one for pods in twin.pods.values() for one in pods]
    waiting = [nominated(one, name) for name, pods in twin.nominated.items() for one in pods]
    one = world(*there, *waiting, nodes=twin.nodes, groups=groups, others=budgets)
    engine = one.engines["default-scheduler"]
    state = engine.framework.new_state(twin.asked)
    engine.framework.run_pre_filter_plugins(state, twin.asked)
    twin.pods = {name: one.cache.node_info(name).pods for name in twin.pods}  # type: ignore[union-attr]
    find(one, twin.asked)
    before = dump(one.cache.state)
    expected = {}
    for name in twin.pods:
        info = one.cache.node_info(name)
        assert info is not None
        runs = PreemptionDryRuns(engine.handle, state, twin.asked, budgets)
        got, cost, failed = runs.select_victims_on_node(info)
        seen = None if failed is not None else ([each.name for each in got], cost)
        assert seen == twin.select(name, budgets)
        expected[name] = seen
    assert not state.removed_pods
    found = find(one, twin.asked)
    candidates = {
        each.name: ([pod.name for pod in each.victims.pods], each.victims.num_pdb_violations)
        for each in found.candidates
    }
    potential = {name: expected[name] for name in found.potential}
    assert candidates == {name: seen for name, seen in potential.items() if seen and seen[0]}
    assert dump(one.cache.state, before) == before
