"""What follows a nominator step by step, held against what reads all of it anew."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.make import node, pod, port
from tests.doors.engine import (
    ClusterState,
    LedgerSink,
    Placements,
    Placer,
    PodBatch,
    Preemptor,
    TieBreak,
    bound,
)

from moorage import default_profile
from moorage.framework import NominatingInfo, PodNominator
from moorage.objects import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm

NODES = "abcdef"
PODS = 2
TERM = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "x"}), topology_key="zone")
SHAPES: tuple[dict[str, Any], ...] = (
    {"requests": {"cpu": 2}},
    {"requests": {"cpu": 1}, "labels": {"app": "x"}},
    {"requests": {"cpu": 1}, "ports": [port(80)]},
    {"requests": {"cpu": 3, "memory": "1"}},
)
TERMS = Affinity(pod_anti_affinity=PodAffinity(required=(TERM,)))


def nominee(number: int) -> Pod:
    return pod(f"n{number}", priority=number % 3, **SHAPES[number % len(SHAPES)])


def asking(number: int) -> Pod:
    if number == 4:
        return pod("terms", priority=1, requests={"cpu": 1}, affinity=TERMS)
    return nominee(number)


def renamed(one: Pod, name: str) -> Pod:
    return replace(one, metadata=replace(one.metadata, name=name, uid=name))


class Followed:
    """A cluster, a nominator and a placer that follows it."""

    def __init__(self) -> None:
        self.state = ClusterState()
        for name in NODES:
            self.add_node(name)
        self.nominator = PodNominator()
        self.plan = default_profile().compile(self.state)
        self.placer = self.fresh()
        self.preemptor = Preemptor(self.placer.decider)
        self.saved: Any = None

    def fresh(self) -> Placer:
        return Placer(self.state, self.plan, TieBreak.FIRST, 100)

    def add_node(self, name: str) -> None:
        self.state.set_node(node(name, cpu=3, labels={"zone": name}))

    # ---- what happens --------------------------------------------------------------------------------------

    def nominate(self, number: int, name: str) -> None:
        self.nominator.add_nominated_pod(nominee(number), NominatingInfo(name))

    def end(self, number: int, name: str) -> None:
        self.nominator.delete_nominated_pod_if_exists(nominee(number))

    def move(self, number: int, name: str) -> None:
        """A nominated pod comes to the cache, wherever, or leaves it."""
        one = nominee(number)
        if self.state.has_pod(one):
            self.state.remove_pod(self.state.get_pod(one))
        elif self.state.has_node(name):
            self.state.add_pod(replace(one, spec=replace(one.spec, node_name=name)))

    def try_to_move(self, number: int, name: str) -> None:
        mark = self.state.begin()
        self.move(number, name)
        self.ask(number)
        self.state.rollback(mark)

    def fill(self, number: int, name: str) -> None:
        one = pod(f"f{number}", on=name, requests={"cpu": 1}, priority=-1)
        if self.state.has_pod(one):
            self.state.remove_pod(self.state.get_pod(one))
        elif self.state.has_node(name):
            self.state.add_pod(one)

    def toggle_node(self, number: int, name: str) -> None:
        if self.state.has_node(name):
            self.state.remove_node(name)
        else:
            self.add_node(name)

    def save(self, number: int, name: str) -> None:
        if self.saved is None:
            self.saved = self.nominator.save()
        else:
            self.nominator.undo(self.saved)
            self.saved = None

    # ---- what is asked -------------------------------------------------------------------------------------

    def ask(self, number: int) -> tuple[Any, Any]:
        """What both say to a pod."""
        one = asking(number)
        target = self.state.classes.intern(one), 0, 0
        self.placer.search.follow_nominator(self.nominator, one)
        other = self.fresh()
        other.search.nominate(self.given(one))
        return self.said(self.placer, self.preemptor, target), self.said(
            other, Preemptor(other.decider), target
        )

    def place(self, number: int) -> tuple[Any, Any]:
        """The rows of equal pods: placed together, with candidates, and one by one, without them."""
        state, start = self.state, (self.placer.decider.start + number) % len(NODES)
        self.placer.decider.start = start
        pods = [renamed(asking(number), f"p{at}") for at in range(PODS)]
        batch, out = PodBatch(state, pods), Placements(state, PODS)
        self.placer.search.nominator = self.nominator
        assert self.placer.place(batch, out, sink=LedgerSink()) == PODS
        ours = out.rows.tolist(), self.placer.decider.start
        self.forget(pods)
        other = self.fresh()
        other.decider.keeps_candidates, other.decider.start = False, start
        theirs = []
        for one in pods:
            other.search.nominate(self.given(one))
            theirs.append(other.decider.decide(state.classes.intern(one))[0])
            if theirs[-1] >= 0:
                state.assume_pod(bound(one, state.table.row_name(theirs[-1])))
        self.forget(pods)
        return ours, (theirs, other.decider.start)

    def forget(self, pods: list[Pod]) -> None:
        for one in pods:
            if self.state.has_pod(one):
                self.state.forget_pod(self.state.get_pod(one))

    def given(self, one: Pod) -> list[tuple[int, list[Pod]]]:
        """The nominated pods that go before a pod, by row."""
        before = self.nominator.nominated_before(one).items()
        rows = [(self.state.table.find_row(name), pods) for name, pods in before if self.state.has_node(name)]
        return [(row, pods) for row, pods in rows if row is not None]

    def said(self, placer: Placer, preemptor: Preemptor, target: tuple[int, int, int]) -> list[Any]:
        rows, verdicts = placer.search.verdicts(*target)
        potential = preemptor.begin(*target[:1], (), *target[1:])
        choice = preemptor.choose() if potential else None
        single = [placer.search.verdict(row, *target) for row in rows.tolist()]
        found = dict(sorted(placer.decider.rejections(*target).items())), potential, choice
        return [verdicts.tolist(), single, *found, preemptor.rejections() if choice is None else None]


WHAT = ("nominate", "nominate", "end", "move", "try_to_move", "fill", "fill", "toggle_node", "save")
steps = st.tuples(st.sampled_from(WHAT), st.integers(0, 7), st.sampled_from(NODES), st.integers(0, 8))


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=25))
def test_following_is_reading_anew(taken: list[tuple[str, int, str, int]]) -> None:
    one = Followed()
    for what, number, name, asked in taken:
        getattr(one, what)(number, name)
        ours, theirs = one.ask(asked)
        assert ours == theirs


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=25))
def test_pods_are_placed_beside_nominated_ones(taken: list[tuple[str, int, str, int]]) -> None:
    one = Followed()
    for what, number, name, asked in taken:
        getattr(one, what)(number, name)
        ours, theirs = one.place(asked)
        assert ours == theirs
