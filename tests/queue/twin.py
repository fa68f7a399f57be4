"""The scheduling queue done the obvious way: lists that are searched from end to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moorage.framework import ClusterEvent
from moorage.framework.plugin.events import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    PodEvents,
)
from moorage.objects import Pod, group_of
from moorage.queue import SchedulingQueue
from moorage.releases import DEFAULT_GATES
from tests.queue.make import names

Said = Callable[[Pod, Any, Any], bool]
Registered = dict[str, list[tuple[ClusterEvent, Said]]]
SKIP, BACKOFF, AT_ONCE = range(3)
GATE, WITH_GROUP = "SchedulingGates", "PodGroup"
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
    together: int = 0  # pods of its group that it was last popped with
    end: int = 0  # of its backoff, in milliseconds

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def rank(self) -> tuple[int, int, int]:
        return -(self.pod.spec.priority or 0), self.at, self.number


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

    def find(self, uid: str) -> Entry | None:
        return next((one for one in self.entries if one.uid == uid), None)

    def is_flying(self, uid: str) -> bool:
        return any(one.uid == uid for one in self.flying)

    def events(self) -> list[Any]:
        return [what for kind, what in self.flight if kind == "event"]

    # ---- places

    def enter(self, entry: Entry, place: str, label: str) -> None:
        stays = place in REJECTED and entry.place in REJECTED and entry in self.entries
        if not stays:
            queue = "unschedulable" if place in REJECTED else place.removeprefix("error_")
            self.incoming[queue, label] += 1
        self.entries = [one for one in self.entries if one is not entry]
        self.numbers += 1
        entry.number, entry.place = self.numbers, place
        self.entries.append(entry)

    def gated(self, entry: Entry) -> bool:
        if entry.pod.spec.scheduling_gates:
            entry.rejectors |= {GATE}
            entry.gate = GATE
        else:
            entry.gate = ""
        return bool(entry.gate)

    def to_active(self, entry: Entry, label: str, from_backoff: bool = False) -> bool:
        if not (from_backoff and self.gate_is_on) and self.gated(entry):
            self.enter(entry, "gated", label)
            return False
        self.enter(entry, "active", label)
        mates = self.mates(entry)
        if all(one.gate in ("", WITH_GROUP) for one in mates):
            for one in mates:
                if one.gate:
                    self.to_active(one, label)
        return True

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
        end = entry.at + min(1000 * 2 ** (failures - 1), int(10_000 * max(1, entry.together) ** 0.5))
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
            strategy = self.strategy(entry, event, old, new)
            if strategy != SKIP:
                self.requeue(entry, strategy, event.label)
        if self.flying:
            self.flight.append(("event", (event, old, new)))

    def left_over(self) -> list[Entry]:
        found = [one for one in self.entries if one.place in ("unschedulable", "gated")]
        return sorted(found, key=lambda one: one.number)

    # ---- operations

    def add(self, pod: Pod) -> None:
        self.to_active(Entry(pod, self.now), POD_EVENTS.added.label)

    def update(self, old: Pod, new: Pod) -> None:
        if self.is_flying(new.metadata.uid):
            self.flight += [("event", (event, old, new)) for event in POD_EVENTS.of_update(old, new)]
            return
        entry = self.find(new.metadata.uid)
        if entry is None:
            self.to_active(Entry(new, self.now), POD_EVENTS.updated.label)
            return
        entry.pod = new
        if entry.place in ("unschedulable", "gated"):
            for event in POD_EVENTS.of_update(old, new):
                strategy = self.strategy(entry, event, old, new)
                if strategy != SKIP and self.requeue(entry, strategy, event.label):
                    break

    def delete(self, uid: str) -> None:
        self.entries = [one for one in self.entries if one.uid != uid]

    def activate(self, pods: list[Pod]) -> None:
        units = set()
        for pod in pods:
            entry = self.find(pod.metadata.uid)
            if entry is None and self.is_flying(pod.metadata.uid):
                self.flight.append(("event", (FORCE_ACTIVATE, None, pod)))
            if entry is None or self.unit(entry) in units:
                continue
            units |= {self.unit(entry)} - {None}
            for one in self.mates(entry) or [entry]:
                if one.place != "active":
                    self.to_active(one, FORCE_ACTIVATE.label, one.place in ("backoff", "error_backoff"))

    def pop(self) -> Entry | None:
        first = self.at("active") or (self.at("backoff") if self.gate_is_on else [])
        if not first:
            return None
        entry = first[0]
        if entry.place == "backoff":
            self.incoming["active", POP_FROM_BACKOFF] += 1
        self.delete(entry.uid)
        entry.attempts += 1
        self.flying.append(entry)
        self.flight.append(("pod", entry.uid))
        return entry

    def pop_unit(self) -> list[Entry]:
        """The next pod, and all of its group. A group with a gated pod is gated as a whole."""
        while (first := self.pop()) is not None:
            mates = self.mates(first)
            if any(one.gate for one in mates):
                self.put_back(first)
                for one in self.mates(first):
                    if not one.gate:
                        one.gate = WITH_GROUP
                        self.enter(one, "gated", POD_EVENTS.added.label)
                continue
            backing = [one for one in mates if one.place in ("backoff", "error_backoff")]
            if first.place != "active" or first.attempts > 1 or not backing:
                break
            if any(one.place == "active" and one.attempts for one in mates):
                break
            self.put_back(first)
            for one in self.mates(first):
                if one.place == "active":
                    one.place, one.end = backing[0].place, backing[0].end
        if first is None:
            return []
        for entry in mates:
            self.delete(entry.uid)
            entry.attempts += 1
            self.flying.append(entry)
            self.flight.append(("pod", entry.uid))
        if self.unit(first):
            unit = (first, *mates)
            for entry in unit:
                entry.together = len(unit)
                entry.rejections = max(one.rejections for one in unit)
                entry.errors = max(one.errors for one in unit)
                entry.end = max(one.end for one in unit)
        return sorted(
            [first, *mates],
            key=lambda one: (-(one.pod.spec.priority or 0), -one.attempts, one.at, one.pod.key),
        )

    def mates(self, entry: Entry) -> list[Entry]:
        """The entries of the group of an entry, in the order in which they came to it."""
        unit = self.unit(entry)
        found = [one for one in self.entries if unit and self.unit(one) == unit]
        return sorted(found, key=lambda one: one.number)

    def unit(self, entry: Entry) -> Any:
        return group_of(entry.pod) if self.groups else None

    def put_back(self, entry: Entry) -> None:
        entry.attempts -= 1
        self.done(entry.uid)
        self.entries.append(entry)

    def done(self, uid: str) -> None:
        self.flying = [one for one in self.flying if one.uid != uid]
        self.flight = [one for one in self.flight if one != ("pod", uid)]
        while self.flight and self.flight[0][0] == "event":
            self.flight.pop(0)

    def fail(self, entry: Entry, pod: Pod, rejectors: frozenset[str], pending: frozenset[str]) -> None:
        unit = self.unit(entry)
        entry.pod, entry.rejectors, entry.pending, entry.gate = pod, rejectors | pending, pending, ""
        if rejectors | pending:
            entry.rejections, entry.errors = entry.rejections + 1, 0
        else:
            entry.errors += 1
        entry.at = self.now
        entry.end = self.end_after_failure(entry)
        seen = [self.strategy(entry, *what) for what in self.seen(entry.uid)]
        strategy = max(seen, default=SKIP) if rejectors | pending and not unit else BACKOFF
        self.requeue(entry, strategy, SCHEDULE_ATTEMPT_FAILURE)
        self.done(entry.uid)

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
        entries = twin.at(place)
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
            assert (0 if until is None else round(until * 1000)) == twin.until(entry)
    # Pods of a unit are popped at one moment: their order in flight has no meaning.
    assert sorted(names(queue.in_flight())) == sorted(entry.pod.name for entry in twin.flying)
    kept, expected = queue.in_flight_events(), twin.events()
    assert kept == expected, f"{list(map(label, kept))} instead of {list(map(label, expected))}"
