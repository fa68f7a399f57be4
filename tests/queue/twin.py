"""The scheduling queue done the obvious way: lists that are searched from end to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moorage.engine.framework import ActionType, ClusterEvent
from moorage.engine.queue import SchedulingQueue
from moorage.kube import Pod, group_of
from moorage.kube.releases import DEFAULT_GATES
from tests.doors.engine import PodEvents
from tests.queue.make import FORCE_ACTIVATE, names

Said = Callable[[Pod, Any, Any], bool]
Registered = dict[str, list[tuple[ClusterEvent, Said]]]
SKIP, BACKOFF, AT_ONCE = range(3)
SCHEDULE_ATTEMPT_FAILURE, BACKOFF_COMPLETE = "ScheduleAttemptFailure", "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
GATE = "SchedulingGates"
UNSCHEDULABLE_TIMEOUT = ClusterEvent("*", ActionType.ALL, "UnschedulableTimeout")
REJECTED = ("unschedulable", "gated")
PLACES = ("active", "backoff", "error_backoff", "unschedulable", "gated")

POD_EVENTS = PodEvents(DEFAULT_GATES)


@dataclass
class Entry:
    pod: Pod
    at: int  # milliseconds
    place: str = ""
    number: int = 0
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    gate: str = ""
    end: int = 0  # of its backoff, in milliseconds
    group: Group | None = None  # while the attempt of its group lasts

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def pods(self) -> list[Entry]:
        return [self]

    @property
    def rank(self) -> tuple[int, int, int]:
        return -(self.pods[0].pod.spec.priority or 0), self.at, self.number


@dataclass
class Group(Entry):
    """The pods of a group, which wait as one."""

    unit: Any = None
    members: list[Entry] = field(default_factory=list)

    @property
    def uid(self) -> str:
        return repr(self.unit)

    @property
    def pods(self) -> list[Entry]:
        return self.members

    def in_order(self) -> list[Entry]:
        return sorted(
            self.members, key=lambda one: (-(one.pod.spec.priority or 0), -one.attempts, one.at, one.pod.key)
        )


@dataclass
class Twin:
    """One list of all entries; one list of pods in flight and of events, in the order in which they came."""

    registered: Registered
    gate_is_on: bool
    began: int
    now: int
    groups: bool = False
    numbers: int = 0
    entries: list[Entry] = field(default_factory=list)
    flight: list[tuple[str, Any]] = field(default_factory=list)
    flying: list[Entry] = field(default_factory=list)
    incoming: Counter[tuple[str, str]] = field(default_factory=Counter)

    # ---- what is there

    def at(self, place: str) -> list[Entry]:
        found = [one for one in self.entries if one.place == place]
        if place == "active":
            return sorted(found, key=lambda one: one.rank)
        if place in ("backoff", "error_backoff"):
            return sorted(found, key=lambda one: (self.until(one), one.rank))
        return sorted(found, key=lambda one: one.number)

    def pods_at(self, place: str) -> list[Entry]:
        found = self.at(place)
        return [one for entry in found for one in (entry.in_order() if isinstance(entry, Group) else [entry])]

    def find(self, uid: str) -> Entry | None:
        return next((one for entry in self.entries for one in entry.pods if one.uid == uid), None)

    def entry_of(self, one: Entry) -> Entry:
        """Its group, or itself."""
        return next((entry for entry in self.entries if one in entry.pods), one)

    def group_at(self, unit: Any) -> Group | None:
        return next((one for one in self.entries if isinstance(one, Group) and one.unit == unit), None)

    def is_flying(self, uid: str) -> bool:
        return any(one.uid == uid for one in self.flying)

    def events(self) -> list[Any]:
        return [what for kind, what in self.flight if kind == "event"]

    # ---- places

    def enter(self, entry: Entry, place: str, label: str) -> None:
        stays = place in REJECTED and entry.place in REJECTED and entry in self.entries
        if not stays:
            queue = "unschedulable" if place in REJECTED else place.removeprefix("error_")
            self.incoming[queue, label] += len(entry.pods)
        self.entries = [one for one in self.entries if one is not entry]
        self.numbers += 1
        entry.number, entry.place = self.numbers, place
        self.entries.append(entry)

    def gated(self, entry: Entry) -> bool:
        if isinstance(entry, Group):
            gates = [one.gate for one in entry.members if self.gated(one)]
            entry.gate = gates[-1] if gates else ""
            for one in entry.members:
                one.gate = one.gate or entry.gate
            return bool(gates)
        if entry.pod.spec.scheduling_gates:
            entry.rejectors |= {GATE}
            entry.gate = GATE
        else:
            entry.gate = ""
        return bool(entry.gate)

    def to_active(self, entry: Entry, label: str, from_backoff: bool = False) -> bool:
        if isinstance(entry, Group) and entry.place == "gated" and entry in self.entries:
            newest = entry.members[-1]
            if self.gated(newest):  # the others are not asked
                return False
            newest.gate = entry.gate
        if not (from_backoff and self.gate_is_on) and self.gated(entry):
            self.enter(entry, "gated", label)
            return False
        self.enter(entry, "active", label)
        return True

    def enter_new(self, entry: Entry, label: str) -> bool:
        return self.join(entry, label) if self.unit(entry) else self.to_active(entry, label)

    def join(self, entry: Entry, label: str) -> bool:
        unit = self.unit(entry)
        group = self.group_at(unit)
        if group is None:
            group = Group(entry.pod, entry.at, unit=unit, members=[entry])
            if entry.errors <= 1:
                return self.to_active(group, label)
            group.errors = entry.errors
            group.end = self.end_after_failure(group)
            return self.requeue(group, BACKOFF, label)
        if group.place == "gated" or (group.place == "active" and not self.gated(entry)):
            entry.gate = group.gate
            group.members.append(entry)
            self.incoming["active" if group.place == "active" else "unschedulable", label] += len(
                group.members
            )
            return group.place == "active"
        strategy = AT_ONCE if group.place == "active" else BACKOFF
        self.entries = [one for one in self.entries if one is not group]
        group.members.append(entry)
        return self.requeue(group, strategy, label)

    def requeue(self, entry: Entry, strategy: int, label: str) -> bool:
        if strategy == SKIP:
            self.enter(entry, "unschedulable", label)
            return False
        if strategy == AT_ONCE or not self.backs_off(entry):
            return self.to_active(entry, label)
        if self.gate_is_on and self.gated(entry):
            self.enter(entry, "gated", label)
            return False
        self.enter(entry, "backoff" if entry.rejectors | entry.pending else "error_backoff", label)
        return True

    # ---- backoff

    def until(self, entry: Entry) -> int:
        return entry.end

    def end_after_failure(self, entry: Entry) -> int:
        failures = entry.errors or entry.rejections
        end = entry.at + min(1000 * 2 ** (failures - 1), int(10_000 * len(entry.pods) ** 0.5))
        return end // 1000 * 1000 if self.gate_is_on else end

    def backs_off(self, entry: Entry) -> bool:
        now = self.now // 1000 * 1000 if self.gate_is_on else self.now
        return self.until(entry) > 0 and self.until(entry) >= now

    # ---- what an event means

    def strategy(self, entry: Entry, event: ClusterEvent, old: Any, new: Any) -> int:
        if not entry.rejectors | entry.pending:
            return BACKOFF
        if event.is_wildcard:
            return BACKOFF if new is None or new.metadata.uid == entry.uid else SKIP
        says = {
            name
            for name, events in self.registered.items()
            for one, said in events
            if name in entry.rejectors | entry.pending and one.matches(event) and said(entry.pod, old, new)
        }
        if says & entry.pending:
            return AT_ONCE
        return BACKOFF if says else SKIP

    def wanted(self, name: str, event: ClusterEvent) -> bool:
        return any(one.matches(event) for one, _ in self.registered.get(name, []))

    def sweep(self, entries: list[Entry], event: ClusterEvent, old: Any, new: Any) -> None:
        for entry in entries:
            if entry.gate and not self.wanted(entry.gate, event):
                continue
            strategy = max(self.strategy(one, event, old, new) for one in entry.pods)
            if strategy != SKIP:
                self.requeue(entry, strategy, event.label)
        if self.flying:
            self.flight.append(("event", (event, old, new)))

    def left_over(self) -> list[Entry]:
        found = [one for one in self.entries if one.place in ("unschedulable", "gated")]
        return sorted(found, key=lambda one: one.number)

    # ---- operations

    def add(self, pod: Pod) -> None:
        self.enter_new(Entry(pod, self.now), POD_EVENTS.added.label)

    def update(self, old: Pod, new: Pod) -> None:
        if self.is_flying(new.metadata.uid):
            self.flight += [("event", (event, old, new)) for event in POD_EVENTS.of_update(old, new)]
            return
        entry = self.find(new.metadata.uid)
        if entry is None:
            self.enter_new(Entry(new, self.now), POD_EVENTS.updated.label)
            return
        if self.groups and group_of(old) != group_of(new):
            self.delete(entry.uid)
            entry.pod = new
            self.enter_new(entry, POD_EVENTS.updated.label)
        entry.pod = new
        whole = self.entry_of(entry)
        if whole.place in ("unschedulable", "gated"):
            for event in POD_EVENTS.of_update(old, new):
                strategy = max(self.strategy(one, event, old, new) for one in whole.pods)
                if strategy != SKIP and self.requeue(whole, strategy, event.label):
                    break

    def delete(self, uid: str) -> None:
        entry = self.find(uid)
        if entry is None:
            return
        group = self.entry_of(entry)
        if not isinstance(group, Group) or group.members == [entry]:
            self.entries = [one for one in self.entries if one is not group]
            return
        group.members.remove(entry)
        if group.place.endswith("backoff"):
            self.entries = [one for one in self.entries if one is not group]
            self.requeue(group, BACKOFF, POD_EVENTS.added.label)
        elif group.place == "active" and self.gated(group):
            self.enter(group, "gated", POD_EVENTS.added.label)

    def activate(self, pods: list[Pod]) -> None:
        for pod in pods:
            entry = self.find(pod.metadata.uid)
            if entry is None and self.is_flying(pod.metadata.uid):
                self.flight.append(("event", (FORCE_ACTIVATE, None, pod)))
            if entry is None:
                continue
            whole = self.entry_of(entry)
            if whole.place != "active":
                self.to_active(whole, FORCE_ACTIVATE.label, whole.place in ("backoff", "error_backoff"))

    def next(self) -> Entry | None:
        first = self.at("active") or (self.at("backoff") if self.gate_is_on else [])
        return first[0] if first else None

    def pop_unit(self) -> list[Entry]:
        """The next pod, or all pods of the next group."""
        if (entry := self.next()) is None:
            return []
        if entry.place == "backoff":
            self.incoming["active", POP_FROM_BACKOFF] += 1
        self.entries = [one for one in self.entries if one is not entry]
        popped = entry.in_order() if isinstance(entry, Group) else [entry]
        if isinstance(entry, Group):
            for number, one in enumerate(entry.members):
                one.number = number
            entry.members, entry.attempts = [], entry.attempts + 1
        for one in popped:
            one.attempts += 1
            one.group = entry if isinstance(entry, Group) else None
            self.flying.append(one)
            self.flight.append(("pod", one.uid))
        return popped

    def unit(self, entry: Entry) -> Any:
        return group_of(entry.pod) if self.groups else None

    def put_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            entry.attempts -= 1
            self.done(entry.uid)
        group = entries[0].group
        if group is None:
            for entry in entries:
                if self.unit(entry):  # the attempt of the group has ended
                    self.join(entry, POD_EVENTS.added.label)
                else:
                    self.entries.append(entry)
            return
        self.reunite(group, sorted(entries, key=lambda one: one.number))
        group.attempts -= 1
        self.entries.append(group)

    def reunite(self, group: Group, entries: list[Entry]) -> None:
        """The pods of an attempt, and those that have come meanwhile."""
        group.members += entries
        newer = self.group_at(group.unit)
        if newer is not None:
            group.members += newer.members
            self.entries = [one for one in self.entries if one is not newer]
        for entry in group.members:
            entry.group = None

    def done(self, uid: str) -> None:
        self.flying = [one for one in self.flying if one.uid != uid]
        self.flight = [one for one in self.flight if one != ("pod", uid)]
        while self.flight and self.flight[0][0] == "event":
            self.flight.pop(0)

    def fail(self, entry: Entry, pod: Pod, rejectors: frozenset[str], pending: frozenset[str]) -> None:
        entry.pod, entry.rejectors, entry.pending, entry.gate = pod, rejectors | pending, pending, ""
        if rejectors | pending:
            entry.rejections, entry.errors = entry.rejections + 1, 0
        else:
            entry.errors += 1
        entry.at = self.now
        if entry.group is None and self.unit(entry):
            self.done(entry.uid)
            self.join(entry, POD_EVENTS.added.label)
            return
        if entry.group is None:
            entry.end = self.end_after_failure(entry)
            seen = [self.strategy(entry, *what) for what in self.seen(entry.uid)]
            strategy = max(seen, default=SKIP) if rejectors | pending else BACKOFF
            self.requeue(entry, strategy, SCHEDULE_ATTEMPT_FAILURE)
        self.done(entry.uid)

    def end_attempt(self, group: Group, failed: list[Entry], succeeded: bool, is_error: bool) -> None:
        if not failed:
            return
        self.reunite(group, failed)
        if succeeded and any(one.errors > 1 for one in group.members):
            succeeded, is_error = False, True
        if succeeded:
            group.rejections = group.errors = group.end = 0
        else:
            group.rejections += not is_error
            group.errors = group.errors + 1 if is_error else 0
            group.at = self.now
            group.end = self.end_after_failure(group)
        self.requeue(group, AT_ONCE if succeeded else BACKOFF, SCHEDULE_ATTEMPT_FAILURE)

    def seen(self, uid: str) -> list[Any]:
        since = self.flight.index(("pod", uid))
        return [what for kind, what in self.flight[since:] if kind == "event"]

    def move(self, event: ClusterEvent, old: Any, new: Any, check: Callable[[Pod], bool] | None) -> None:
        if any(self.wanted(name, event) for name in self.registered):
            passing = [one for one in self.left_over() if check is None or check(one.pod)]
            self.sweep(passing, event, old, new)

    def flush_backoff(self) -> None:
        for place in ("backoff", "error_backoff"):
            for entry in [one for one in self.at(place) if not self.backs_off(one)]:
                self.to_active(entry, BACKOFF_COMPLETE, True)

    def flush_left_over(self) -> None:
        old = [one for one in self.left_over() if self.now - one.at > 300_000]
        if old:
            self.sweep(old, UNSCHEDULABLE_TIMEOUT, None, None)

    def run_periodic(self, since: int, until: int) -> None:
        """Tick by tick, those at which something is due; `since` is where the last one ended."""
        backoffs = range(since - since % 1000 + 1000, until + 1, 1000)
        left_over = range(since - (since - self.began) % 30_000 + 30_000, until + 1, 30_000)
        for tick in sorted({*backoffs, *left_over}):
            self.now = tick
            if tick in backoffs:
                self.flush_backoff()
            if tick in left_over:
                self.flush_left_over()
        self.now = until


def label(observed: Any) -> tuple[str, str, str]:
    """An event in short."""
    event, old, new = observed
    return event.label, "" if old is None else old.name, "" if new is None else new.name


def assert_same_places(queue: SchedulingQueue, twin: Twin) -> None:
    """The queue and its twin have the same pods in the same places, orders and states."""
    pending = queue.pending_pods()._asdict()
    for place in PLACES:
        entries = twin.pods_at(place)
        assert names(pending[place]) == [entry.pod.name for entry in entries], place
        for info, entry in zip(pending[place], entries, strict=True):
            assert info.pod == entry.pod
            assert (info.rejectors, info.gating_plugin) == (entry.rejectors | entry.pending, entry.gate)
            assert (info.attempts, info.unschedulable_count, info.consecutive_errors_count) == (
                entry.attempts,
                entry.rejections,
                entry.errors,
            )
            until = queue.backoff_until(info)
            assert (0 if until is None else round(until * 1000)) == twin.until(twin.entry_of(entry))
    # Pods of a unit are popped at one moment: their order in flight has no meaning.
    assert sorted(names(queue.in_flight())) == sorted(entry.pod.name for entry in twin.flying)
    kept, expected = queue.in_flight_events(), twin.events()
    assert kept == expected, f"{list(map(label, kept))} instead of {list(map(label, expected))}"
