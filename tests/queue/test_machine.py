"""The scheduling queue against its twin, whatever happens in whatever order."""

from __future__ import annotations

from itertools import groupby
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from moorage.engine.framework import ActionType, ClusterEvent, QueueingHint
from moorage.kube import Pod, PodSchedulingGate, PodSchedulingGroup, group_of
from tests.doors.engine import on, queue_if, unschedulable_pods
from tests.make import in_tree, node, pod
from tests.queue.make import ASSIGNED_POD_ADD, NODE_ADD, NODE_DELETE, Clock, make_queue, move, rejecting
from tests.queue.twin import GATE, Registered, Twin, assert_same_places
from tests.words import GROUP_ANNOTATION

NAMES = st.sampled_from([f"p{number}" for number in range(6)])
REJECTORS = ("Nodes", "Pods", "Labels", "Alike", "Wanted", "Named", "Never")
SETS = st.frozensets(st.sampled_from([*REJECTORS, "Unknown"]), max_size=2)
ADD, DELETE, LABEL = ActionType.ADD, ActionType.DELETE, ActionType.UPDATE_POD_LABEL


def said_of_a_pod(one: Pod, old: Any, new: Any) -> bool:
    """What a hint may look at: the two pods."""
    return bool(one.name[-1] in new.name)


def said_of_labels(one: Pod, old: Any, new: Any) -> bool:
    """What a hint may look at that answers for all pods of a class; one pod knows that the event is about
    it."""
    other = (new or old).metadata
    return bool(one.metadata.labels == other.labels or one.metadata.uid == other.uid)


def said_of_one(one: Pod, old: Any, new: Any) -> bool:
    """What a hint may look at that is indexed pod by pod."""
    is_alike = one.metadata.labels == new.metadata.labels and one.name[-1] <= new.name[-1]
    return bool(is_alike or one.metadata.uid == new.metadata.uid)


def wanted(one: Pod) -> frozenset[Any] | None:
    """The keys of a pod; those without labels may be moved by any event, as far as the index knows."""
    return frozenset(one.metadata.labels.items()) or None


def event_keys(old: Any, new: Any) -> set[Any] | None:
    return None if new.metadata.labels.get("n") == "2" else set(new.metadata.labels.items())


# Who has registered what, and what the hints say.
REGISTERED: Registered = {
    "Nodes": [(ClusterEvent("Node", ADD), lambda one, old, new: True)],
    "Pods": [
        (ClusterEvent("Pod", ADD), said_of_a_pod),
        (ClusterEvent("Node", DELETE), lambda one, old, new: False),
    ],
    "Labels": [
        (ClusterEvent("Pod", LABEL), lambda one, old, new: bool(one.metadata.uid == new.metadata.uid)),
        (ClusterEvent("Node", ADD), lambda one, old, new: one.name > "p2"),
    ],
    "Alike": [(ClusterEvent("Pod", ADD), said_of_labels), (ClusterEvent("Node", ADD), said_of_labels)],
    "Wanted": [(ClusterEvent("Pod", ADD), said_of_labels)],
    "Named": [(ClusterEvent("Pod", ADD), said_of_one)],
    "Never": [],
    GATE: [
        (
            ClusterEvent("Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            lambda one, old, new: bool(one.metadata.uid == new.metadata.uid),
        )
    ],
}


def plugins() -> list[Any]:
    class Said:
        """The hint of one registration."""

        def __init__(self, name: str, said: Any) -> None:
            self.said = said
            if name in ("Alike", "Wanted"):
                self.of_class = True
            if name in ("Wanted", "Named"):
                self.index = (lambda said, one: wanted(one)), (lambda said, old, new: event_keys(old, new))
                self.__self__ = self

        def __call__(self, one: Pod, old: Any, new: Any) -> QueueingHint:
            return queue_if(self.said(one, old, new))

    made = [
        rejecting(
            name, *(on(event.resource, event.action, Said(name, said)) for event, said in REGISTERED[name])
        )
        for name in REJECTORS
    ]
    # Extra rule: who waits for new nodes hears of taints. Here nothing is tainted.
    return [in_tree("SchedulingGates")(), *made]


class QueueMachine(RuleBasedStateMachine):
    @initialize(
        gate=st.booleans(),
        start=st.sampled_from([0, 999, 1_767_225_600_123]),
        there=st.integers(0, 6),
        rejectors=st.lists(SETS, max_size=3),
        groups=st.booleans(),
    )
    def begin(
        self, gate: bool, start: int, there: int, rejectors: list[frozenset[str]], groups: bool
    ) -> None:
        self.few = patch.object(unschedulable_pods, "FEW", 1)  # so that so few pods are indexed
        self.few.start()
        self.clock = Clock(start)
        self.queue = make_queue(*plugins(), clock=self.clock, pop_from_backoff=gate, groups_pods=groups)
        self.twin = Twin(REGISTERED, gate, start, start, groups)
        self.queue.count_incoming()
        self.ran = start
        self.known: dict[str, Pod] = {}
        self.infos: dict[str, Any] = {}
        self.units: list[Any] = []  # groups whose attempt has not ended, and their pods
        for number in range(there):
            self.add(f"p{number}", number // 4, False)
        if rejectors:
            self.fail_all(rejectors)

    def teardown(self) -> None:
        self.few.stop()

    @rule(rejectors=st.lists(SETS, min_size=1, max_size=3))
    def fail_all(self, rejectors: list[frozenset[str]]) -> None:
        """All active pods are tried, and rejected in turn by some sets of plugins."""
        for number in range(len(self.twin.at("active"))):
            infos, entries = self.queue.pop(), self.twin.pop_unit()
            for info, entry in zip(infos, entries, strict=True):
                self.infos[info.pod.name] = info, entry
                self.come_back(info.pod.name, rejectors[number % len(rejectors)], frozenset())
            if entries[0].group is not None:
                self.queue.end_attempts(infos, False)
                self.twin.end_attempt(entries[0].group, entries, False, False)

    @rule(name=NAMES, priority=st.sampled_from([0, 0, 1]), gated=st.booleans())
    def add(self, name: str, priority: int, gated: bool) -> None:
        if name in self.known or self.twin.is_flying(name):
            return
        one = self.known[name] = pod(
            name,
            priority=priority,
            scheduling_gates=(PodSchedulingGate(name="g"),) if gated else (),
            scheduling_group=PodSchedulingGroup("ab"[name > "p2"]) if name < "p5" else None,
        )
        self.queue.add([one])
        self.twin.add(one)

    @rule(name=NAMES, change=st.sampled_from(["label", "ungate", "gate", "priority", "join", "nothing"]))
    def update(self, name: str, change: str) -> None:
        if name not in self.known:
            return
        old = self.known[name]
        new = replace(old)
        if change == "label":
            labels = {"n": str(int(old.metadata.labels.get("n", "0")) + 1)}
            new = replace(old, metadata=replace(old.metadata, labels=labels))
        elif change == "priority":
            new = replace(old, spec=replace(old.spec, priority=(old.spec.priority or 0) + 1))
        elif change == "join":  # only a group that an annotation names can change
            annotations = {} if old.metadata.annotations else {GROUP_ANNOTATION: "a"}
            new = replace(old, metadata=replace(old.metadata, annotations=annotations))
        elif change != "nothing":
            gates = () if change == "ungate" else (PodSchedulingGate(name="g"),)
            new = replace(old, spec=replace(old.spec, scheduling_gates=gates))
        self.known[name] = new
        self.queue.update(old, new)
        self.twin.update(old, new)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        one = self.known.pop(name, None)
        if one is not None:
            self.queue.delete([one])
            self.twin.delete(one.metadata.uid)

    @rule(listed=st.lists(NAMES, min_size=1, max_size=3, unique=True))
    def activate(self, listed: list[str]) -> None:
        pods = [self.known.get(name, pod(name)) for name in listed]
        self.queue.activate(pods)
        self.twin.activate(pods)

    @rule(count=st.integers(1, 3))
    def pop_some(self, count: int) -> None:
        for _ in range(count):
            self.pop()

    def pop(self) -> None:
        self.popped(self.queue.pop(), self.twin.pop_unit())

    def popped(self, infos: list[Any], entries: list[Any]) -> None:
        assert [info.pod for info in infos] == [entry.pod for entry in entries]
        for info, entry in zip(infos, entries, strict=True):
            assert info.attempts == entry.attempts
            if entry.group is None:
                self.infos[info.pod.name] = info, entry
        for group, pairs in groupby(zip(infos, entries, strict=True), lambda pair: pair[1].group):
            if group is not None:
                self.units.append((group, list(pairs)))

    @rule(limit=st.integers(1, 4))
    def pop_batch(self, limit: int) -> None:
        infos, entries = self.queue.pop(limit), list[Any]()
        while len(entries) < len(infos) or not infos:
            assert len(entries) < limit
            popped = self.twin.pop_unit()
            if not popped:
                break
            entries += popped
        assert len({info.unit is None for info in infos}) < 2
        self.popped(infos, entries)

    @precondition(lambda self: self.units)
    @rule(data=st.data(), end=st.sampled_from(["succeeded", "failed", "failed", "error", "back"]))
    def end_unit(self, data: Any, end: str) -> None:
        """The attempt of a group ends: some of its pods fail, some are done, some are being bound."""
        at = data.draw(st.integers(0, len(self.units) - 1))
        group, pairs = self.units[at]
        if end == "back" and all(info.pod is self.known.get(info.pod.name) for info, _ in pairs):
            del self.units[at]
            self.queue.put_back([info for info, _ in pairs])
            self.twin.put_back([entry for _, entry in pairs])
            return
        failed = []
        for info, entry in pairs:
            name = info.pod.name
            fate = data.draw(st.sampled_from(["fails", "fails", "is bound", "is done"]))
            self.infos[name] = info, entry
            if name not in self.known or fate == "is done":
                self.done(name)
            elif fate == "fails":
                self.come_back(name, data.draw(SETS), frozenset())
                failed.append(entry)
        del self.units[at]
        self.queue.end_attempts([info for info, _ in pairs], end == "succeeded", end == "error")
        self.twin.end_attempt(group, failed, end == "succeeded", end == "error")
        for _, entry in pairs:
            entry.group = None

    @precondition(lambda self: self.infos)
    @rule(data=st.data(), rejectors=SETS, pending=SETS, end=st.sampled_from(["fail", "fail", "done", "back"]))
    def end(self, data: Any, rejectors: frozenset[str], pending: frozenset[str], end: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.infos)))
        if name not in self.known or end == "done":
            self.done(name)
        elif end == "back" and self.infos[name][0].pod is self.known[name]:
            info, entry = self.infos.pop(name)
            self.queue.put_back([info])
            self.twin.put_back([entry])
        else:
            self.come_back(name, rejectors, pending)

    def done(self, name: str) -> None:
        self.queue.done([self.infos.pop(name)[0]])
        self.known.pop(name, None)
        self.twin.done(name)

    def come_back(self, name: str, rejectors: frozenset[str], pending: frozenset[str]) -> None:
        info, entry = self.infos.pop(name)
        plugins = rejectors | pending, pending
        self.queue.give_back([info], [self.known[name]], [plugins])
        self.twin.fail(entry, self.known[name], rejectors, pending)

    @rule(
        name=NAMES,
        limit=st.one_of(st.none(), st.integers(0, 2)),
        label=st.sampled_from(["", "1", "2"]),
        is_waiting=st.booleans(),
    )
    def pod_came(self, name: str, limit: int | None, label: str, is_waiting: bool) -> None:
        labels = {"n": label} if label else {}
        self.move(ASSIGNED_POD_ADD, None, pod("q" * (not is_waiting) + name, on="n", labels=labels), limit)

    @rule(event=st.sampled_from([NODE_ADD, NODE_DELETE]))
    def node_changed(self, event: ClusterEvent) -> None:
        self.move(event, node("n"), None, None)

    def move(self, event: ClusterEvent, old: Any, new: Any, limit: int | None) -> None:
        def check(one: Pod) -> bool:
            return limit is None or (one.spec.priority or 0) <= limit

        given = None if limit is None else check
        move(self.queue, event, old, new, given)
        self.twin.move(event, old, new, given)

    @rule(milliseconds=st.sampled_from([1, 400, 1000, 3000, 299_999, 300_001]))
    def time_passes(self, milliseconds: int) -> None:
        self.clock.milliseconds += milliseconds
        self.twin.now += milliseconds

    @rule()
    def time_is_up(self) -> None:
        self.time_passes(300_001)
        self.flush_left_over()

    @rule(milliseconds=st.sampled_from([0, 1, 2000, 31_000]))
    def timers_run(self, milliseconds: int) -> None:
        self.time_passes(milliseconds)
        self.queue.run_periodic(self.clock())
        self.twin.run_periodic(self.ran, self.clock.milliseconds)
        self.ran = self.clock.milliseconds
        event = self.queue.next_event()
        assert event is None or event > self.clock()

    @rule()
    def flush_backoff(self) -> None:
        self.queue.flush_backoff_completed()
        self.twin.flush_backoff()

    @rule()
    def flush_left_over(self) -> None:
        self.queue.flush_unschedulable_left_over()
        self.twin.flush_left_over()

    # ---- what holds after each -----------------------------------------------------------------------------

    @invariant()
    def places_equal_the_twins(self) -> None:
        assert_same_places(self.queue, self.twin)
        assert self.queue.count_incoming() == self.twin.incoming

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        listed = [info for infos in self.queue.pending_pods() for info in infos]
        uids = [info.pod.metadata.uid for info in listed]
        assert len(uids) == len(set(uids)) == len(self.queue)
        assert all(self.queue.get(uid) is info for uid, info in zip(uids, listed, strict=True))
        flying = {info.pod.metadata.uid for info in self.queue.in_flight()}
        assert not flying & set(uids)
        assert flying | set(uids) == self.known.keys() | flying

    @invariant()
    def units_are_those_of_their_pods(self) -> None:
        listed = [info for infos in self.queue.pending_pods() for info in infos]
        expected: dict[Any, set[str]] = {}
        for info in listed:
            if self.twin.groups and (unit := group_of(info.pod)):
                expected.setdefault(unit, set()).add(info.pod.metadata.uid)
        groups = self.queue.groups
        assert {unit: set(group.members) for unit, group in groups.items()} == expected
        for group in groups.values():
            twin = self.twin.group_at(group.unit)
            assert twin is not None
            assert (group.attempts, group.unschedulable_count, group.consecutive_errors_count) == (
                twin.attempts,
                twin.rejections,
                twin.errors,
            )
            assert {(one.place, one.order) for one in group.members.values()} == {(group.place, group.order)}

    @invariant()
    def rejected_pods_are_grouped_by_rejection_and_class(self) -> None:
        unschedulable = self.queue.unschedulable
        intern = self.queue.hints.classes.intern
        seen = [info for rejected in unschedulable.by_rejection.values() for info in rejected.pods.values()]
        assert len(seen) == unschedulable.size
        for rejection, rejected in unschedulable.by_rejection.items():
            assert rejected.pods
            assert all(rejected.by_class.values())
            for info in rejected.pods.values():
                assert rejection[1:] == (info.unschedulable_plugins, info.pending_plugins, info.gating_plugin)
            alike = {uid: key for key, infos in rejected.by_class.items() for uid in infos}
            expected = {uid: (intern(info.pod), 0) for uid, info in rejected.pods.items()}
            assert alike == expected


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    deadline=None, max_examples=300, stateful_step_count=50, suppress_health_check=[HealthCheck.too_slow]
)


def test_an_active_pod_joins_a_group() -> None:
    state = QueueMachine()
    state.begin(gate=False, start=0, there=2, rejectors=[], groups=True)
    state.update(change="join", name="p1")
    state.units_are_those_of_their_pods()


def test_a_group_that_returns_has_the_priority_of_the_pod_that_came_first() -> None:
    state = QueueMachine()
    state.begin(gate=False, start=0, there=6, rejectors=[], groups=True)
    state.pop()
    state.pop()
    state.queue.put_back([info for info, _ in state.units[0][1]])
    assert [info.pod.name for info in state.queue.pending_pods().active] == ["p0", "p1", "p2", "p4", "p3"]
