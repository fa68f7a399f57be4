"""The compiled parts of the scheduling queue against lists that are searched from end to end."""

from __future__ import annotations

from copy import copy
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace
from tests.core.make import pod

from moorage._core.queue.entrance import (
    CreationClock,
    Entrance,
    NewPods,
)
from moorage._core.queue.in_flight import InFlight
from moorage._core.queue.pod_queue import PodQueue
from moorage._core.queue.queued_pods import (
    KeyedHeap,
    Place,
    PriorityLanes,
    QueuedPodInfo,
)
from moorage._core.queue.unschedulable_pods import UnschedulablePods
from moorage._core.state.cluster_state import ClusterState
from moorage.framework import Code, Status
from moorage.framework.plugin.events import NODE_ADD
from moorage.objects import Pod, PodResourceClaim, PodSchedulingGate, PodSchedulingGroup, PodStatus
from moorage.objects.workloads.ages import seconds

GATE = ("scheduling_gates",), "Gates"


def entry(name: str, timestamp: float = 0.0, priority: int = 0, order: int = 0) -> QueuedPodInfo:
    return QueuedPodInfo(pod(name, priority=priority), timestamp, order=order)


def names(infos: Any) -> list[str]:
    return [info.pod.name for info in infos]


# ---- an entry ----------------------------------------------------------------------------------------------


def test_an_entry_and_its_copy() -> None:
    one = QueuedPodInfo(pod("a"), 1.5, attempts=2, place=Place.BACKOFF, unit=("n", "g"), until=7, size=3)
    assert (one.initial_attempt_timestamp, one.gating_plugin, one.rejectors) == (None, "", frozenset())
    one.pending_plugins = one.unschedulable_plugins = frozenset({"P"})
    one.unschedulable_plugins |= {"Q"}
    one.initial_attempt_timestamp, one.was_flushed = 3.0, True
    other = copy(one)
    fields = (
        "pod uid timestamp attempts unschedulable_count consecutive_errors_count initial_attempt_timestamp "
        "unschedulable_plugins pending_plugins gating_plugin was_flushed place order until unit "
        "group size rejectors"
    )
    assert [getattr(one, name) for name in fields.split()] == [
        getattr(other, name) for name in fields.split()
    ]
    assert one.rejectors == {"P", "Q"}
    assert one != other
    with pytest.raises(AttributeError):
        QueuedPodInfo(pod("a"), 1.0, colour="blue")


def test_the_clock_shows_the_newest_creation() -> None:
    def created(text: str | None) -> Any:
        one = pod("a")
        return replace(one, metadata=replace(one.metadata, creation_timestamp=text))

    clock = CreationClock(seconds)
    found = []
    for text in (None, "1970-01-01T00:00:05Z", "1970-01-01T00:00:03Z", None, "1970-01-01T00:00:09Z"):
        info = clock.entry(created(text))
        found.append((info.timestamp, clock.now, clock()))
    assert found == [(0, 0, 0), (5, 5, 5), (3, 5, 5), (5, 5, 5), (9, 9, 9)]


def created_at(text: str | None) -> Pod:
    one = pod("a")
    return replace(one, metadata=replace(one.metadata, creation_timestamp=text))


@pytest.mark.parametrize("year", ["0001", "1969", "1970", "2000", "2023", "2024", "2100", "9999"])
def test_timestamps_of_a_server_are_read_as_python_reads_them(year: str) -> None:
    for day in (
        "01-01",
        "02-28",
        "02-29",
        "03-01",
        "04-30",
        "07-31",
        "12-31",
        "04-31",
        "13-01",
        "00-01",
        "01-00",
    ):
        for time in ("00:00:00", "23:59:59", "12:34:56", "24:00:00", "10:60:00", "10:00:60", "1a:00:00"):
            text = f"{year}-{day}T{time}Z"
            try:
                expected = seconds(text)
            except ValueError:
                with pytest.raises(ValueError, match=r"must be|out of range|Invalid"):
                    CreationClock(seconds).entry(created_at(text))
            else:
                assert CreationClock(seconds).entry(created_at(text)).timestamp == expected
    for text in (f"{year}-01-02 03:04:05Z", f"{year}-01-02T03:04:05+01:00", f"{year}-01-02T03:04:05.25Z"):
        assert CreationClock(seconds).entry(created_at(text)).timestamp == seconds(text)


def test_a_pod_whose_timestamp_is_none_has_no_entry() -> None:
    clock, wrong = CreationClock(seconds), created_at("2026-02-30T00:00:00Z")
    for _ in range(2):
        with pytest.raises(ValueError, match="out of range"):
            clock.entry(wrong)
    assert (clock.entry(created_at("1970-01-01T00:00:05Z")).timestamp, clock.now) == (5, 5)


def test_entries_of_new_pods_are_made_when_they_are_taken() -> None:
    pods = [created_at("1970-01-01T00:00:05Z"), created_at("1970-01-01T00:00:09Z")]
    clock = CreationClock(seconds)
    new = NewPods(pods, clock)
    assert (next(new).timestamp, new.taken, clock.now) == (5, 1, 5)
    assert (next(new).timestamp, new.taken, clock.now) == (9, 2, 9)
    assert (list(new), new.taken) == ([], 2)
    times = iter((3.0, 4.0))
    new = NewPods(pods, lambda: next(times))
    assert [(info.pod, info.timestamp) for info in new] == [(pods[0], 3), (pods[1], 4)]
    failing = NewPods(pods, dict[str, float]().popitem)
    with pytest.raises(KeyError):
        next(failing)
    assert failing.taken == 1


# ---- lanes -------------------------------------------------------------------------------------------------


class LanesMachine(RuleBasedStateMachine):
    """Pods come, leave and are popped."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes = PriorityLanes()
        self.infos: list[QueuedPodInfo] = []
        self.popped: list[QueuedPodInfo] = []
        self.numbers = count(1)

    @rule(times=st.lists(st.integers(0, 3), min_size=1, max_size=8), priority=st.integers(-1, 1))
    def add(self, times: list[int], priority: int) -> None:
        for time in times:
            number = next(self.numbers)
            info = entry(f"p{number}", time, priority, number)
            self.lanes.add(info)
            self.infos.append(info)

    @rule(back=st.booleans())
    def put_back(self, back: bool) -> None:
        """With the numbers that they had, or at the end."""
        for info in self.popped:
            info.order = info.order if back else next(self.numbers)
            self.lanes.add(info)
        self.infos += self.popped
        self.popped = []

    @rule(at=st.lists(st.integers(0, 100), min_size=1, max_size=40))
    def remove(self, at: list[int]) -> None:
        for index in at:
            if self.infos:
                self.lanes.remove(self.infos.pop(index % len(self.infos)))

    @rule(limit=st.integers(0, 12))
    def pop(self, limit: int) -> None:
        expected = self.expected()
        first = [info for info in expected if info.pod.spec.priority == expected[0].pod.spec.priority][:limit]
        found = self.lanes.pop_many(limit)
        assert found == first
        self.infos = [info for info in self.infos if info not in found]
        self.popped += found

    def expected(self) -> list[QueuedPodInfo]:
        return sorted(self.infos, key=lambda info: (-info.pod.spec.priority, info.timestamp, info.order))

    @invariant()
    def the_pods_are_in_order(self) -> None:
        expected = self.expected()
        assert list(self.lanes) == expected == sorted(self.infos, key=self.lanes.rank)
        assert self.lanes.size == len(expected)
        assert self.lanes.next is (expected[0] if expected else None)
        # A list or a heap is at most twice as long as it has to be, but for a few entries a lane.
        assert self.lanes.stored <= 2 * len(expected) + 3 * 2 * 33


TestLanesMachine = LanesMachine.TestCase
TestLanesMachine.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)


def test_empty_lanes_have_no_pods() -> None:
    lanes = PriorityLanes()
    assert (lanes.pop_many(3), lanes.pop_alike(3)) == ([], [])


def test_a_heap_forgets_removed_pods() -> None:
    heap = KeyedHeap()
    for number in range(5):
        heap.add(-number, entry(f"p{number}"))
    heap.remove("p4")
    heap.remove("p1")
    assert names(heap) == ["p3", "p2", "p0"]
    assert (heap.peek()[0], heap.peek()[1].pod.name, len(heap)) == (-3, "p3", 3)
    assert names([heap.pop(), heap.pop(), heap.pop()]) == ["p3", "p2", "p0"]
    with pytest.raises(IndexError):
        heap.pop()
    with pytest.raises(KeyError):
        heap.remove("p0")


def test_a_heap_pops_many_at_once() -> None:
    heap = KeyedHeap()
    for number in (3, 1, 4, 0, 2):
        heap.add(number, entry(f"p{number}"))
    assert names(heap.pop_many(2)) == ["p0", "p1"]
    assert names(heap.pop_many(0)) == []
    assert names(heap.pop_many(9)) == ["p2", "p3", "p4"]
    assert names(heap.pop_many(9)) == []


# ---- the entrance ------------------------------------------------------------------------------------------


def unschedulable() -> UnschedulablePods:
    return UnschedulablePods(ClusterState().classes)


def pod_queue(entrance: Entrance, groups_pods: bool) -> PodQueue:
    """Empty; the next number is 7."""
    top_of = (lambda key: (key[0], f"top of {key[1]}")) if groups_pods else None
    queue = PodQueue(entrance, lambda: 2.5, True, top_of)
    queue.active, queue.unschedulable = PriorityLanes(), unschedulable()
    queue.numbers.last = 6
    return queue


def admit(
    entrance: Entrance, *infos: QueuedPodInfo, waiting: dict[str, QueuedPodInfo] | None = None
) -> tuple[bool, str | None, list[str]]:
    """Whether pods were added, the name of the first that was not, and the names of the pods in the queue."""
    queue = pod_queue(entrance, groups_pods=True)
    queue.infos = {} if waiting is None else waiting
    added, gated, info = queue.admit(iter(infos))
    lanes, there = queue.active, queue.infos
    assert gated == 0
    assert set(queue.groups.values()) == {one for one in lanes if one.unit is not None}
    listed = [one for entry in lanes for one in (entry.ordered() if entry.unit else [entry])]
    assert added == sum(entry.size * (entry.size + 1) // 2 for entry in lanes)
    for number, entry in enumerate(lanes, min((other.order for other in lanes), default=7)):
        assert (entry.place, entry.order) == (Place.ACTIVE, number)
    for other in listed:
        assert (other.place, other.initial_attempt_timestamp) == (Place.ACTIVE, 2.5)
        assert there[other.pod.metadata.uid] is other
    return added > 0, None if info is None else info.pod.name, names(listed)


def test_pods_enter_up_to_the_first_that_may_not() -> None:
    held: set[str] = set()
    asked: dict[str, Status] = {}
    ask = (lambda pod: asked.get(pod.name),)
    rules = {"": (("scheduling_gates",), (held,), ask, (), GATE), "other": None}
    nominated: dict[str, str] = {}
    entrance = Entrance(rules, nominated)
    a, b = entry("a"), entry("b")
    assert admit(entrance, a, b) == (True, None, ["a", "b"])
    gated = gated_entry("g")
    other = QueuedPodInfo(pod("o", scheduler_name="other"))
    unknown = QueuedPodInfo(pod("u", scheduler_name="unknown"))
    wants = QueuedPodInfo(replace(pod("n"), status=PodStatus(nominated_node_name="m")))
    for refused in (gated, other, wants):
        assert admit(entrance, a, refused, b) == (True, refused.pod.name, ["a"])
    assert admit(entrance, unknown, a) == (True, None, ["u", "a"])
    assert admit(entrance, a, b, waiting={"b": b}) == (True, "b", ["a"])
    held.add("any")
    assert admit(entrance, a) == (False, "a", [])
    assert admit(entrance, unknown) == (True, None, ["u"])
    held.clear()
    asked["b"] = Status(Code.UNSCHEDULABLE)
    assert admit(entrance, a, b) == (True, "b", ["a"])
    asked.clear()
    nominated["x"] = "m"
    assert admit(entrance, a) == (False, "a", [])


def gated_entry(name: str, **fields: Any) -> QueuedPodInfo:
    return QueuedPodInfo(pod(name, scheduling_gates=(PodSchedulingGate(name="x"),)), **fields)


def test_gated_pods_wait_among_the_unschedulable_ones_where_groups_are_ignored() -> None:
    rules = {"": (("scheduling_gates", "resource_claims"), (), (), (), GATE)}
    queue = pod_queue(Entrance(rules, {}), groups_pods=False)
    g, b, h = gated_entry("g"), entry("b"), gated_entry("h")
    assert queue.admit(iter((g, b, h))) == (1, 2, None)
    assert names(queue.active) == ["b"]
    assert list(queue.infos.values()) == [g, b, h]
    for number, info in ((7, g), (9, h)):
        assert (info.place, info.order, info.initial_attempt_timestamp) == (Place.UNSCHEDULABLE, number, None)
        assert (info.gating_plugin, info.unschedulable_plugins) == ("Gates", {"Gates"})
    assert [list(one.pods.values()) for one in queue.unschedulable.by_rejection.values()] == [[g, h]]
    claims = QueuedPodInfo(pod("c", resource_claims=(PodResourceClaim(name="x"),)))
    for unsure in (claims, gated_entry("o", gating_plugin="other"), h):
        assert queue.admit(iter((unsure, b))) == (0, 0, unsure)


def test_rejected_pods_move_along_when_classes_get_new_numbers() -> None:
    state = ClusterState()
    state.classes.intern(pod("gone", labels={"app": "gone"}))
    waiting = UnschedulablePods(state.classes)
    a, b = entry("a"), entry("b")
    waiting.add(a)
    assert state.number_classes_anew()
    waiting.add(b)
    (rejected,) = waiting.by_rejection.values()
    assert list(rejected.by_class.values()) == [{"a": a, "b": b}]
    waiting.remove(a)
    assert list(rejected.by_class.values()) == [{"b": b}]


def test_the_pods_of_a_group_are_asked_about_once() -> None:
    refused: set[str] = set()
    asked: list[str] = []

    def ask(pod: Pod) -> Status | None:
        asked.append(pod.name)
        return Status(Code.UNSCHEDULABLE) if pod.name in refused else None

    entrance = Entrance(dict.fromkeys(("", "other"), ((), (), (), (ask,), None)), {})
    a, b, c, d = (
        QueuedPodInfo(pod(name, scheduling_group=PodSchedulingGroup(group), scheduler_name=scheduler))
        for name, group, scheduler in (("a", "g", ""), ("b", "g", ""), ("c", "h", ""), ("d", "g", "other"))
    )
    assert admit(entrance, a, b, entry("e"), c, d) == (True, None, ["a", "b", "d", "e", "c"])
    assert asked == ["a", "c", "d"]  # no pod without a group, and each name and group once
    refused.add("b")
    assert admit(entrance, b, a) == (False, "b", [])
    assert a.unit == ("default", "top of g")


# ---- in flight ---------------------------------------------------------------------------------------------


class InFlightMachine(RuleBasedStateMachine):
    """Pods are popped and done while events happen."""

    def __init__(self) -> None:
        super().__init__()
        self.flying = InFlight()
        self.twin: list[Any] = []  # pods and events in their order
        self.saved: Any = None
        self.numbers = count()
        self.looks_up = False  # pods are looked up by UID now and then

    @rule()
    def look_up(self) -> None:
        self.looks_up = not self.looks_up

    def pods(self) -> list[QueuedPodInfo]:
        return [one for one in self.twin if isinstance(one, QueuedPodInfo)]

    @rule(number=st.integers(1, 3))
    def take(self, number: int) -> None:
        infos = [entry(f"p{next(self.numbers)}") for _ in range(number)]
        waiting = {info.pod.metadata.uid: info for info in infos}
        again = [entry(info.pod.name) for info in self.pods()[:1]] if number < 3 else []
        if again:
            self.flying.note_addition()
        assert self.flying.take([*infos, *again], Place.BACKOFF, waiting) == again
        assert not waiting
        assert all(info.attempts == 1 and info.place is None for info in infos + again)
        self.twin += infos

    @rule()
    def observe(self) -> None:
        number = next(self.numbers)
        self.flying.observe(NODE_ADD, None, number)
        if self.pods():  # nobody else waits for events
            self.twin.append(number)

    @rule(at=st.lists(st.integers(0, 9), max_size=3), by_entry=st.booleans(), all_pods=st.booleans())
    def done(self, at: list[int], by_entry: bool, all_pods: bool) -> None:
        at = list(range(len(self.pods()))) if all_pods else at
        pods = self.pods()
        ended = {pods[index].pod.metadata.uid for index in at if index < len(pods)}
        if by_entry:
            gone = entry("gone")
            self.flying.finish([pods[index] for index in at if index < len(pods)] + [gone])
            assert not self.flying.has(gone)
        else:
            self.flying.done(*ended, "unknown")
        self.twin = [
            one
            for one in self.twin
            if not isinstance(one, QueuedPodInfo) or one.pod.metadata.uid not in ended
        ]
        while self.twin and isinstance(self.twin[0], int):
            self.twin.pop(0)

    @rule()
    def save(self) -> None:
        self.saved = self.flying.save(), list(self.twin)

    @rule()
    def undo(self) -> None:
        if self.saved is not None:
            for info in self.pods():
                info.attempts = 5
            self.flying.undo(self.saved[0])
            self.twin = list(self.saved[1])
            assert all(info.attempts == 1 for info in self.pods())

    @rule(left=st.integers(0, 3))
    def rebuild(self, left: int) -> None:
        """All pods see all events again."""
        pods = self.pods()
        self.flying.rebuild({info.pod.metadata.uid for info in pods[:left]})
        self.twin = pods[left:] + [one for one in self.twin if isinstance(one, int)]

    @invariant()
    def all_is_equal(self) -> None:
        pods = self.pods()
        assert list(self.flying) == pods
        assert len(self.flying) == len(pods)
        assert [new for _, _, new in self.flying.events] == [one for one in self.twin if isinstance(one, int)]
        for info in pods:
            uid = info.pod.metadata.uid
            assert self.flying.has(info)
            if self.looks_up:
                assert uid in self.flying
                assert self.flying.get(uid) is info
            assert self.flying.place(info) is Place.BACKOFF
            since = [one for one in self.twin[self.twin.index(info) :] if isinstance(one, int)]
            if self.looks_up:
                assert [new for _, _, new in self.flying.since_pop(uid)] == since
        if self.looks_up:
            assert self.flying.get("unknown") is self.flying.place(entry("unknown")) is None


TestInFlightMachine = InFlightMachine.TestCase
TestInFlightMachine.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)
