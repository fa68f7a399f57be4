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
from tests.doors.engine import ClusterState, CreationClock, KeyedHeap, PriorityLanes, unschedulable_pods
from tests.doors.kube import seconds
from tests.make import pod

from moorage.engine.queue import Place, QueuedPodInfo
from moorage.kube import Pod


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
    return pod("a", metadata={"creationTimestamp": text})


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
        found = self.lanes.pop(limit)
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
    assert (lanes.pop(3), lanes.next) == ([], None)


def test_a_heap_forgets_removed_pods() -> None:
    heap = KeyedHeap(lambda info: (-info.order,))
    infos = [entry(f"p{number}", order=number) for number in (3, 1, 4, 0, 2)]
    for info in infos:
        heap.add(info)
    heap.remove(infos[2])
    heap.remove(infos[1])
    assert names(heap) == ["p3", "p2", "p0"]
    assert (heap.next, heap.size) == (infos[0], 3)
    assert [names(heap.pop(limit)) for limit in (0, 2, 9, 9)] == [[], ["p3", "p2"], ["p0"], []]
    with pytest.raises(KeyError):
        heap.remove(infos[0])


# ---- unschedulable pods ------------------------------------------------------------------------------------


def test_rejected_pods_move_along_when_classes_get_new_numbers() -> None:
    state = ClusterState()
    state.classes.intern(pod("gone", labels={"app": "gone"}))
    waiting = unschedulable_pods.UnschedulablePods(state.classes)
    a, b = entry("a"), entry("b")
    waiting.add(a)
    assert state.number_classes_anew()
    waiting.add(b)
    (rejected,) = waiting.by_rejection.values()
    assert list(rejected.by_class.values()) == [{"a": a, "b": b}]
    waiting.remove(a)
    assert list(rejected.by_class.values()) == [{"b": b}]
