"""What is kept of pod classes between decisions: failures and where they count, and how much is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.core.make import pod_of
from tests.core.placing import place_run
from tests.doors.engine import ClassState, ClassStates, ClusterState, Placements, Placer, PodBatch, TieBreak
from tests.make import node, pod

from moorage import default_profile

MOST = 6
"""States for which there is room, in the test that fills it."""
Target = tuple[int, int, int]


def over(nodes: int, **allocatable: Any) -> tuple[ClusterState, Placer]:
    state = ClusterState()
    for at in range(nodes):
        state.set_node(node(f"n{at}", **allocatable))
    return state, Placer(state, default_profile().compile(state), TieBreak.FIRST)


# ---- failures


class Failures(RuleBasedStateMachine):
    """Failures by target, with the head and the scope at which they were noted."""

    @initialize()
    def begin(self) -> None:
        self.state, self.placer = over(1)
        self.states = self.placer.search.states
        classes = [self.state.classes.intern(pod("p", requests={"cpu": at})) for at in range(3)]
        self.targets: list[Target] = [(one, name, 0) for one in classes for name in (0, 1)]
        self.noted = dict[Target, tuple[object, int, int]]()
        self.scopes = [self.states.scope]
        self.numbers = 0

    @rule(at=st.integers(0, 5))
    def set_failure(self, at: int) -> None:
        self.numbers += 1
        failure, head = f"why {self.numbers}", self.state.log.head
        self.states.set_failure(self.targets[at], failure, head)
        self.noted[self.targets[at]] = failure, head, self.scopes[-1]
        self.agree()

    @rule()
    def change(self) -> None:
        self.numbers += 1
        self.state.set_node(node(f"n{self.numbers}"))
        self.agree()

    @rule()
    def open_scope(self) -> None:
        before = self.states.open_scope()
        assert before == self.scopes[-1]
        assert self.states.scope not in self.scopes, "one that nothing counts in yet"
        self.scopes.append(self.states.scope)
        self.agree()

    @rule()
    def close_scope(self) -> None:
        if len(self.scopes) > 1:
            self.scopes.pop()
            self.states.scope = self.scopes[-1]
        self.agree()

    @rule(at=st.integers(0, 5))
    def look(self, at: int) -> None:
        """To use a state changes nothing."""
        held = self.states.state_of(*self.targets[at])
        assert held.failure == self.noted.get(self.targets[at], (None,))[0]
        self.agree()

    def agree(self) -> None:
        head = self.state.log.head
        for target in self.targets:
            failure, at, scope = self.noted.get(target, (None, -1, -1))
            counts = at == head and scope == self.scopes[-1]
            assert self.states.failure_of(target, head) == (failure if counts else None)
            assert self.states.failure_of(target, head + 1) is None


Failures.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestFailures = Failures.TestCase


def test_a_failure_of_a_class_that_is_not_there() -> None:
    state, placer = over(1)
    for target in ((5, 0, 0), (-1, 0, 0)):
        with pytest.raises(IndexError, match=f"there is no class {target[0]}"):
            placer.search.states.set_failure(target, "why", state.log.head)
        with pytest.raises(IndexError, match=f"there is no class {target[0]}"):
            placer.search.states.state_of(*target)
        assert placer.search.states.failure_of(target, state.log.head) is None


def test_pods_of_a_class_that_failed_are_not_searched_for_until_something_changes() -> None:
    """A failure that others noted counts as one of a search."""
    state, placer = over(3)
    pod_class = state.classes.intern(pod("p", requests={"cpu": 1}))
    told: list[int] = []

    def place(n: int) -> list[int]:
        out = Placements(state, n)
        batch = PodBatch(state, [pod_of(state, pod_class)] * n)
        placer.place(batch, out, on_unschedulable=lambda at: told.append(at) or "full")
        return [int(row >= 0) for row in out.rows]

    placer.search.states.set_failure((pod_class, 0, 0), "why", state.log.head)
    assert (place(2), told, placer.decider.from_scans) == ([0, 0], [], 0)
    outer = placer.search.states.open_scope()
    assert (place(2), told) == ([1, 1], [])
    placer.search.states.scope = outer
    assert (place(2), told) == ([1, 1], []), "two were placed since"
    assert (place(9), told) == ([1] * 8 + [0], [8])
    assert (place(2), told) == ([0, 0], [8])
    state.set_node(node("more"))
    assert (place(2), told) == ([1, 1], [8])


@pytest.mark.parametrize("calls_back", [True, False])
def test_what_is_noted_of_a_failure(calls_back: bool) -> None:
    """Without anybody to ask, the reason of an earlier failure does not stand for this one."""
    state, placer = over(1, cpu=1)
    pod_class = state.classes.intern(pod("p", requests={"cpu": 1}))
    target, states = (pod_class, 0, 0), placer.search.states
    states.set_failure(target, "of another time", state.log.head)
    state.set_node(node("n0", cpu=1, labels={"a": "b"}))
    out, batch = Placements(state, 2), PodBatch.of_template(state, pod("p", requests={"cpu": 1}), 2)

    def ask(at: int) -> str:
        assert states.failure_of(target, state.log.head) is None
        return f"pod {at}"

    placer.place(batch, out, on_unschedulable=ask if calls_back else None)
    assert out.rows.tolist() == [0, -1]
    assert states.failure_of(target, state.log.head) == ("pod 1" if calls_back else None)
    assert out.failures == ({1: "pod 1"} if calls_back else {})


# ---- how much is kept


def test_the_states_used_least_recently_go_first() -> None:
    classes = ClusterState().classes
    pod_class = classes.intern(pod("p"))
    states = ClassStates(classes)
    oldest, first, second = (states.state_of(pod_class, name) for name in (0, 1, 2))
    of_one = states.used_bytes // 2  # the latest is counted when the next comes
    states.most_bytes = MOST * of_one
    for one, name in ((oldest, 0), (first, 1), (second, 2)):
        one.failure = name
    for name in range(3, MOST):
        states.state_of(pod_class, name)
    assert states.state_of(pod_class, 0) is oldest, "all of them are there, and it is the newest now"
    states.state_of(pod_class, MOST)
    assert states.state_of(pod_class, 2) is second
    assert states.state_of(pod_class, 0) is oldest
    again = states.state_of(pod_class, 1)
    assert (again is first, again.failure, first.failure) == (False, None, 1)


def test_what_a_run_holds_stays_though_it_is_too_much() -> None:
    """Then a class goes without candidates; the states of the run stay."""
    rows = []
    for bounded in (False, True):
        state, placer = over(100, pods=500)
        classes = [state.classes.intern(pod("p", requests={"cpu": f"{at}m"})) for at in range(1, 4)]
        place_run(placer, classes[0], 30)
        used = placer.search.states.used_bytes
        states = [placer.search.states.state_of(one) for one in classes]
        placer.search.states.most_bytes = used * (2 if bounded else 9)
        out, each = Placements(state, 90), [pod_of(state, one) for one in classes for _ in range(30)]
        placer.place(PodBatch(state, each), out)
        rows.append(out.rows)
        assert (placer.search.states.used_bytes < used * 3) == bounded
        assert [placer.search.states.state_of(one) for one in classes] == states
    assert rows[0].tolist() == rows[1].tolist()


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_a_run_of_very_many_classes_ends(most: int) -> None:
    """Pods of a StatefulSet have labels of their own. If each state that is too much were looked for among
    all states of the run, this would take minutes."""
    number = 20_000
    state, placer = over(1, cpu=1, pods=number)
    states = placer.search.states
    states.most_bytes = most
    asks = [pod(f"p-{at}", labels={"at": str(at)}, requests={"cpu": "1m"}) for at in range(number)]
    out = Placements(state, number)
    placer.place(PodBatch(state, asks), out)
    assert out.rows.tolist() == [0] * 1000 + [-1] * (number - 1000)
    held = states.used_bytes
    states.state_of(state.classes.intern(pod("p", requests={"cpu": 2})))
    place_run(placer, state.classes.intern(pod("p", requests={"cpu": 3})), 2)
    assert states.used_bytes <= max(most, 1 << 14) < held, "the states of the run go when it is over"


def test_a_state_is_of_a_shape() -> None:
    with pytest.raises(TypeError):
        ClassState(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ClassStates(None)  # type: ignore[arg-type]
