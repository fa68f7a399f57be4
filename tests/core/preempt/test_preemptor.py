"""Runs of equal pods that evict others: against a twin without memory, while the cluster changes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace
from tests.core.placing import place_run
from tests.core.twins.preemption_world import (
    GPU,
    HOSTNAME,
    LABELS_OF_NAMESPACES,
    TAINT,
    Groups,
    World,
    budgets,
    group_names,
    members,
    of_group,
    on,
    pods,
    priorities_of_groups,
    worlds_of_groups,
)
from tests.core.twins.preemptor_twin import Placed, evict, place_each
from tests.doors.engine import ClusterState, Placer, Preemptor, TieBreak
from tests.make import node as make_node
from tests.make import pod as make_pod

from moorage import default_profile
from moorage.kube import (
    Affinity,
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodStatus,
    TopologySpreadConstraint,
)

STARTS = (None, "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z")


def some_node(random: Random, number: int) -> Node:
    labels = {HOSTNAME: f"n{number}", "zone": random.choice("xy"), "disk": random.choice("xy")}
    return make_node(
        f"n{number}",
        labels=labels,
        taints=(TAINT,) if random.random() < 0.05 else (),
        unschedulable=random.random() < 0.05,
        cpu=random.choice(["2", "4"]),
        memory=random.choice(["4", "8"]),
        pods=random.choice(["3", "9"]),
        **{GPU: random.choice(["0", "4"])},
    )


def some_pod(random: Random, name: str, node: str) -> Pod:
    pod = make_pod(
        name,
        node,
        requests={"cpu": random.choice("12"), "memory": random.choice("12")},
        labels={"app": random.choice("ab")},
        priority=random.choice([0, 0, 1, 3, 7]),
    )
    pod = of_group(pod, random.choice(["", "", "", "g", "h", "i"]))
    return replace(pod, status=PodStatus(start_time=random.choice(STARTS)))


def placed(state: ClusterState, out: Any) -> Placed:
    """The node of each placed pod, and the names of its victims."""
    return [
        (state.table.row_name(row), [pod.name for pod in out.victims(at)])
        for at, row in enumerate(out.rows.tolist())
    ]


class PreemptorMachine(RuleBasedStateMachine):
    """A preemptor that lives through all of it, and for each run a fork for the twin."""

    @initialize(seed=st.integers(0, 999), nodes=st.sampled_from([3, 65, 130]), full=st.booleans())
    def begin(self, seed: int, nodes: int, full: bool) -> None:
        self.random = Random(seed)
        self.state = ClusterState()
        for name, said in LABELS_OF_NAMESPACES.items():
            self.state.namespaces.set(name, said)
        self.nodes = [f"n{number}" for number in range(nodes)]
        for number in range(nodes):
            self.state.set_node(some_node(self.random, number))
        self.numbers = 0
        for name in self.nodes:
            for _ in range(self.random.choice([2, 3, 4]) if full else self.random.choice([0, 1, 4])):
                self.state.add_pod(some_pod(self.random, self.new_name(), name))
        plan = default_profile().compile(self.state)
        self.placer = Placer(self.state, plan, TieBreak.FIRST)
        self.preemptor = Preemptor(self.placer.decider)
        self.preemptor.classes = 2
        self.budgets: list[PodDisruptionBudget] = []
        self.nominated: list[tuple[int, list[Pod]]] = []
        self.groups = Groups({}, [])
        self.kinds = [make_pod("kind", requests={"cpu": "2"}, labels={"app": "a"}, priority=5)]
        self.marks: list[Any] = []

    def new_name(self) -> str:
        self.numbers += 1
        return f"p{self.numbers}"

    @rule(kind=pods("kind", constrained=True), priority=st.sampled_from([3, 5, 9]))
    def think_of(self, kind: Pod, priority: int) -> None:
        meta = replace(kind.metadata, deletion_timestamp=None)
        spec = replace(kind.spec, priority=priority)
        self.kinds.append(replace(kind, metadata=meta, spec=spec, status=PodStatus()))

    @rule(cpu=st.sampled_from("1234"), priority=st.sampled_from([2, 5]))
    def think_of_a_plain_one(self, cpu: str, priority: int) -> None:
        self.kinds.append(make_pod("kind", requests={"cpu": cpu}, labels={"app": "a"}, priority=priority))

    @rule(data=st.data(), n=st.integers(1, 6), setting=st.sampled_from([(10, 1), (50, 2), (0, 0)]))
    def run_few(self, data: st.DataObject, n: int, setting: tuple[int, int]) -> None:
        self.place(data, n, setting)

    @rule(data=st.data())
    def run_many(self, data: st.DataObject) -> None:
        self.place(data, 20, (10, 100))

    def place(self, data: st.DataObject, n: int, setting: tuple[int, int]) -> None:
        kind = data.draw(st.sampled_from(self.kinds))
        offsets = data.draw(st.lists(st.integers(0, 2**40), min_size=n, max_size=n))
        run = []
        for _ in range(n):
            name = self.new_name()
            run.append(replace(kind, metadata=replace(kind.metadata, name=name, uid=name)))
        pod_class = self.state.classes.intern(run[0])
        target = pod_class, 0, self.state.classes.pinned_symbol(pod_class, run[0])
        priority = kind.spec.priority or 0
        before = [
            (row, [pod for pod in pods if (pod.spec.priority or 0) >= priority])
            for row, pods in self.nominated
            if self.state.table.is_present(row)
        ]
        fork = self.state.fork()
        twin = self.placer.clone(fork)
        for placer in (self.placer, twin):
            placer.search.nominate([(row, pods) for row, pods in before if pods])
        groups = self.groups.over(self.state.pods())
        expected = place_each(twin, target, run, self.budgets, offsets, *setting, groups)
        indices = np.array(offsets, dtype=np.int64)
        homes = {pod.name: pod.spec.node_name for pod in self.state.pods()}
        out = self.preemptor.place_run(target, run, self.budgets, indices, setting, groups)
        assert placed(self.state, out) == expected
        for at, row in enumerate(out.rows.tolist()):
            assert all(homes[pod.name] == pod.spec.node_name for pod in out.victims(at))
            assert groups.whole or {pod.spec.node_name for pod in out.victims(at)} <= {
                self.state.table.row_name(row)
            }
        assert self.placer.decider.start == twin.decider.start
        assert self.state.pods() == fork.pods()

    @rule(data=st.data())
    def add_pod(self, data: st.DataObject) -> None:
        name, group = data.draw(st.sampled_from(self.nodes)), data.draw(group_names)
        self.state.add_pod(on(of_group(data.draw(pods(self.new_name())), group), name))

    @rule(at=st.integers(0, 10**6))
    def remove_pod(self, at: int) -> None:
        there = self.state.pods()
        if there:
            evict(self.state, there[at % len(there)])

    @rule(seed=st.integers(0, 9), number=st.integers(0, 140))
    def set_node(self, seed: int, number: int) -> None:
        """One that is there changes, or a new one comes."""
        self.state.set_node(some_node(Random(seed), number))
        if f"n{number}" not in self.nodes:
            self.nodes.append(f"n{number}")

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(at=st.integers(0, 10**6))
    def remove_node(self, at: int) -> None:
        name = self.nodes.pop(at % len(self.nodes))
        for pod in self.state.pods():
            if pod.spec.node_name == name:
                evict(self.state, pod)
        self.state.remove_node(name)
        self.nominated = []

    @rule(data=st.data(), count=st.integers(0, 2))
    def set_budgets(self, data: st.DataObject, count: int) -> None:
        self.budgets = [data.draw(budgets(number)) for number in range(count)]

    @rule(
        whole=st.dictionaries(st.sampled_from("ghij"), priorities_of_groups),
        single=st.dictionaries(st.sampled_from("gh"), priorities_of_groups),
    )
    def set_groups(self, whole: dict[str, int], single: dict[str, int]) -> None:
        new = Groups(whole, [], single)
        self.groups.whole, self.groups.single = new.whole, new.single

    @rule(data=st.data(), nobody=st.booleans())
    def nominate(self, data: st.DataObject, nobody: bool) -> None:
        row = self.state.table.find_row(data.draw(st.sampled_from(self.nodes)))
        assert row is not None
        self.nominated = [] if nobody else [(row, [data.draw(pods("q"))])]

    @precondition(lambda self: not self.marks)
    @rule()
    def begin_transaction(self) -> None:
        self.marks.append((self.state.begin(), list(self.nodes), list(self.nominated)))

    @precondition(lambda self: self.marks)
    @rule(undo=st.booleans())
    def end_transaction(self, undo: bool) -> None:
        mark, nodes, nominated = self.marks.pop()
        if undo:
            self.state.rollback(mark)
            self.nodes, self.nominated = nodes, nominated
        else:
            self.state.commit(mark)


PreemptorMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestPreemptor = PreemptorMachine.TestCase


# ---- terms


AMONG_A = LabelSelector(match_labels={"app": "a"})
OF_A = {
    key: PodAffinity(required=(PodAffinityTerm(AMONG_A, topology_key=key),)) for key in (HOSTNAME, "zone")
}
LOW = st.tuples(
    st.sampled_from("12"), st.sampled_from("aab"), st.integers(0, 3), st.sampled_from([False, False, True])
)


@st.composite
def with_terms(draw: st.DrawFn) -> dict[str, Any]:
    """What a pod asks for that counts pods: cpu and memory are all there is else."""
    key = st.sampled_from([HOSTNAME, "zone", "zone"])
    spreads = st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 2),
        topology_key=key,
        when_unsatisfiable=st.just("DoNotSchedule"),
        label_selector=st.just(AMONG_A),
        min_domains=st.sampled_from([None, 3]),
    )
    sides = st.sampled_from([None, *OF_A.values()])
    near, far = draw(sides), draw(st.sampled_from([None, None, *OF_A.values()]))
    return {
        "affinity": Affinity(None, near, far) if near or far else None,
        "topology_spread_constraints": tuple(draw(st.lists(spreads, max_size=2))),
        "labels": {"app": draw(st.sampled_from("ab"))},
        "requests": {"cpu": draw(st.sampled_from("123"))},
    }


@given(
    st.lists(st.lists(LOW, max_size=4), min_size=2, max_size=4),
    with_terms(),
    st.integers(2, 9),
    st.booleans(),
)
@settings(max_examples=400)
def test_runs_of_pods_whose_terms_count_those_who_may_leave(
    nodes: list[list[tuple[str, str, int, bool]]], terms: dict[str, Any], priority: int, budgeted: bool
) -> None:
    state = ClusterState()
    for number, there in enumerate(nodes):
        state.set_node(make_node(f"n{number}", labels={HOSTNAME: f"n{number}", "zone": "xy"[number % 2]}))
        for at, (cpu, app, importance, ends) in enumerate(there):
            pod = make_pod(f"p{number}-{at}", f"n{number}", requests={"cpu": cpu}, labels={"app": app})
            end = "2026-01-01T00:00:00Z" if ends else None
            meta = replace(pod.metadata, deletion_timestamp=end)
            state.add_pod(replace(pod, metadata=meta, spec=replace(pod.spec, priority=importance)))
    limit = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=AMONG_A),
        status=PodDisruptionBudgetStatus(disruptions_allowed=1),
    )
    limits = [limit] * budgeted
    placer = Placer(state, default_profile().compile(state), TieBreak.FIRST)
    run = [make_pod(f"new{number}", priority=priority, **terms) for number in range(4)]
    pod_class = state.classes.intern(run[0])
    expected = place_each(placer.clone(state.fork()), (pod_class, 0, 0), run, limits, [0, 1, 2, 3], 10, 100)
    out = place(Preemptor(placer.decider), run, budgets=limits, offsets=np.arange(4))
    assert placed(state, out) == expected


# ---- groups


@given(worlds_of_groups(), st.data())
@settings(max_examples=300)
def test_runs_between_which_groups_change(world: World, data: st.DataObject) -> None:
    """The outcomes of a run serve the next one, where no pod of any unit has changed."""
    state, groups, priority = world.state, world.groups(), world.preemptor.spec.priority or 0
    preemptor, target, number = Preemptor(world.placer.decider), world.target(), 0
    for _ in range(4):
        run = []
        for _ in range(data.draw(st.integers(1, 2))):
            number += 1
            meta = replace(world.preemptor.metadata, name=f"new{number}", uid=f"new{number}")
            run.append(replace(world.preemptor, metadata=meta))
        twin = world.placer.clone(state.fork())
        nominations = [(world.row(name), pods) for name, pods in world.before().items()]
        for placer in (world.placer, twin):
            placer.search.nominate(nominations)
        groups.over(state.pods())
        expected = place_each(twin, target, run, world.budgets, [0] * len(run), 10, 100, groups)
        out = preemptor.place_run(target, run, world.budgets, groups=groups)
        assert placed(state, out) == expected
        there = [pod for pod in state.pods() if (pod.spec.priority or 0) < priority]
        change = data.draw(st.sampled_from(["remove", "add", "move", "group", "single", "nothing"]))
        if change in ("remove", "move") and there:
            gone = data.draw(st.sampled_from(there))
            evict(state, gone)
            if change == "move":
                state.add_pod(on(gone, data.draw(st.sampled_from(list(world.nodes)))))
        elif change == "add":
            state.add_pod(data.draw(members(f"r{number}", data.draw(st.sampled_from(list(world.nodes))))))
        elif change == "group":
            groups.whole = {**groups.whole, ("default", "h"): data.draw(st.integers(-1, 8))}
        elif change == "single":
            groups.single = {**groups.single, ("default", "h"): data.draw(st.integers(-1, 8))}


# ---- single rules


def full(nodes: int, **low: Any) -> Placer:
    """Nodes of 4 cpu with four pods of 1 cpu each, the last the least important."""
    state = ClusterState()
    for number in range(nodes):
        state.set_node(make_node(f"n{number}"))
        for each in range(4):
            spec = {"requests": {"cpu": "1"}, "priority": 4 - each} | low
            state.add_pod(make_pod(f"p{number}-{each}", f"n{number}", **spec))
    return Placer(state, default_profile().compile(state), TieBreak.FIRST)


def high(count: int, first: int = 0, **rest: Any) -> list[Pod]:
    spec = {"requests": {"cpu": "1"}, "priority": 10} | rest
    return [make_pod(f"new{number}", **spec) for number in range(first, first + count)]


def place(preemptor: Preemptor, pods: list[Pod], **rest: Any) -> Any:
    return preemptor.place_run((preemptor.state.classes.intern(pods[0]), 0, 0), pods, **rest)


def test_one_dry_run_per_pod_once_the_nodes_are_known() -> None:
    placer = full(100)
    preemptor = Preemptor(placer.decider)
    first = place(preemptor, high(1))
    assert (first.rows.tolist(), preemptor.dry_runs) == ([0], 100)
    place(preemptor, high(1, 1))
    assert preemptor.dry_runs == 101
    place(preemptor, high(20, 2))
    assert preemptor.dry_runs == 121


@pytest.mark.parametrize("is_assumed", [False, True])
def test_the_latest_state_of_a_pod_tells_its_group(is_assumed: bool) -> None:
    """Its class stays the same, so that the cache only gets another object."""
    state = ClusterState()
    state.set_node(make_node("n0"))
    state.set_node(make_node("n1", cpu="1"))
    state.add_pod(of_group(make_pod("g0", "n0", requests={"cpu": "4"}), "g"))
    before = make_pod("p", "n1", requests={"cpu": "1m"})
    (state.assume_pod if is_assumed else state.add_pod)(before)
    preemptor = Preemptor(Placer(state, default_profile().compile(state), TieBreak.FIRST).decider)
    (pod,) = high(1, requests={"cpu": "4"})

    def victims() -> list[str]:
        preemptor.begin(state.classes.intern(pod), groups=Groups({"g": 0}, state.pods()))
        choice = preemptor.choose()
        assert choice is not None
        return sorted(victim.name for victim in choice[2])

    assert victims() == ["g0"]
    after = of_group(before, "g")
    state.add_pod(after) if is_assumed else state.update_pod(before, after)
    assert victims() == ["g0", "p"]
    if not is_assumed:
        state.update_pod(after, before)
        assert victims() == ["g0"]


def test_replicas_belong_to_the_group_of_their_template() -> None:
    state = ClusterState()
    state.set_node(make_node("n0", cpu="3"))
    state.set_node(make_node("n1", cpu="1"))
    placer = Placer(state, default_profile().compile(state), TieBreak.FIRST)
    template = of_group(make_pod("low", requests={"cpu": "1"}), "g")
    pod_class = state.classes.intern(template)
    state.assume_template(pod_class, template, 0, place_run(placer, pod_class, 4))
    preemptor = Preemptor(placer.decider)
    (pod,) = high(1, requests={"cpu": "3"})
    preemptor.begin(state.classes.intern(pod), groups=Groups({"g": 0}, state.pods()))
    choice = preemptor.choose()
    assert choice is not None
    assert sorted(victim.name for victim in choice[2]) == ["low-0", "low-1", "low-2", "low-3"]


def test_an_offset_for_each_pod() -> None:
    placer = full(2)
    with pytest.raises(ValueError, match="an offset for each pod"):
        place(Preemptor(placer.decider), high(3), offsets=np.zeros(2, dtype=np.int64))


def test_whoever_asks_for_less_than_nothing_makes_room_by_staying() -> None:
    state = ClusterState()
    state.set_node(make_node("n0", cpu="3"))
    for name, cpu, priority in (("high", "2", 3), ("lends", "-2", 2), ("low", "2", 1)):
        state.add_pod(make_pod(name, "n0", requests={"cpu": cpu}, priority=priority))
    placer = Placer(state, default_profile().compile(state), TieBreak.FIRST)
    out = place(Preemptor(placer.decider), high(1, requests={"cpu": "2"}))
    assert [pod.name for pod in out.victims(0)] == ["high"]


@pytest.mark.parametrize(("asked", "victims"), [("1", 10), ("7", 70), ("8", 80), ("13", 0)])
def test_rows_with_more_pods_than_a_word_has_bits(asked: str, victims: int) -> None:
    state = ClusterState()
    state.set_node(make_node("n0", cpu="13", pods="200"))
    for number in range(130):
        low = number < 80
        state.add_pod(make_pod(f"p{number}", "n0", requests={"cpu": "100m"}, priority=1 if low else 20))
    placer = Placer(state, default_profile().compile(state), TieBreak.FIRST)
    out = place(Preemptor(placer.decider), high(1, requests={"cpu": asked}))
    gone = [pod.name for at in range(len(out.rows)) for pod in out.victims(at)]
    assert gone == [f"p{number}" for number in range(80 - victims, 80)]
