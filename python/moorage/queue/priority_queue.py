"""The place of every waiting pod: the active queue, one of the backoff heaps, or the unschedulable pods.

kube-scheduler v1.36, backend/queue/scheduling_queue.go moveToActiveQ and moveToBackoffQ. An entry is a pod,
or a group whose pods are tried together, as in v1.37.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from copy import copy
from enum import Enum
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, cast

from msgspec import Struct

from moorage._core.queue.backoff_queue import BackoffQueue
from moorage._core.queue.entrance import Entrance
from moorage._core.queue.pod_queue import PodQueue
from moorage._core.queue.queued_pods import (
    Place,
    PriorityLanes,
    QueuedGroupInfo,
    QueuedPodInfo,
    assign_all,
    by_order,
    copies_of,
)
from moorage._core.queue.unschedulable_pods import UnschedulablePods, microseconds
from moorage._core.state.pod_class import PodClasses
from moorage.framework import PodNominator, PreEnqueuePlugin, Status
from moorage.framework.plugin.events import (
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_POD,
    UNSCHEDULED_POD,
)
from moorage.framework.plugin.interface import Code
from moorage.framework.runtime.call import ask_status
from moorage.objects import Pod, UnitKey, group_of

from .active_queue import Less, SortedHeap, by_priority

logger = logging.getLogger("moorage.queue")

ACTIVE, ORDER = Place.ACTIVE, attrgetter("order")
BACKOFFS = (Place.BACKOFF, Place.ERROR_BACKOFF)
"""Places of pods that back off."""
NEW = frozenset(
    f"{resource}{action}" for resource in (UNSCHEDULED_POD, UNSCHEDULABLE_POD) for action in ("Add", "Update")
)
"""Labels of the events with which pods are new to the queue, in all releases."""


class Strategy(Enum):
    """The way in which an event moves a pod: not at all, after its backoff, or at once (upstream
    queueingStrategy)."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class PendingPods(NamedTuple):
    """The waiting pods by place.

    Attributes
    ----------
    active, backoff, error_backoff : list of QueuedPodInfo
        In the order in which they would be popped. The last two are backing off after a rejection and after
        an error.
    unschedulable, gated : list of QueuedPodInfo
        In the order in which they entered. Gated pods are rejected by PreEnqueue.
    """

    active: list[QueuedPodInfo]
    backoff: list[QueuedPodInfo]
    error_backoff: list[QueuedPodInfo]
    unschedulable: list[QueuedPodInfo]
    gated: list[QueuedPodInfo]


TopOf = Callable[[UnitKey], UnitKey]


def alone(key: UnitKey) -> UnitKey:
    """Return the key of a group that belongs to no tree."""
    return key


Asked = list[Callable[[Pod], Status | None]]
"""PreEnqueue of several plugins."""


Gate = tuple[Sequence[str], str]
"""Fields of spec of which none has anything unless a plugin rejects the pod, and the name of the plugin."""


def gate_rule(
    plugins: Sequence[PreEnqueuePlugin],
) -> tuple[list[str], list[Sized], Asked, Asked, Gate | None] | None:
    """Return what PreEnqueue reads, for `Entrance`.

    Returns
    -------
    tuple of lists of str, of containers and twice of callables, and Gate or None; or None
        None if one of the plugins is not the library's, whose calls are observed.
    """
    gate: Gate | None = None
    fields: list[str] = []
    held: list[Sized] = []
    asked: Asked = []
    asked_by_group: Asked = []
    for plugin in plugins:
        gates = getattr(plugin.pre_enqueue, "gates_only_with", None)
        if gates is not None:
            fields += gates[0]
            if gates[2] and plugin is plugins[0]:
                gate = gates[0], plugin.name
            held += [getattr(plugin, attribute) for attribute in gates[1]]
        elif plugin.in_core:
            is_alike = getattr(plugin.pre_enqueue, "gates_by_group", False)
            (asked_by_group if is_alike else asked).append(plugin.pre_enqueue)
        else:
            return None
    return fields, held, asked, asked_by_group, gate


class QueueSettings(Struct, frozen=True):
    """Settings of the queue.

    Attributes
    ----------
    initial_backoff, max_backoff : float
        The backoff after the first failure and the longest one, in seconds; it doubles with each failure. A
        maximum of 0 turns backoff off.
    pop_from_backoff : bool
        An empty active queue takes pods from the backoff queue (gate SchedulerPopFromBackoffQ).
    groups_pods : bool
        Pods of a group are tried together (gate GenericWorkload).
    top_of : callable
        Returns the group at the top of a group's tree, whose pods are tried together; default: the group.
    nominates_gated : bool
        Pods that PreEnqueue gates are nominated to the node of their status.
    """

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    pop_from_backoff: bool = True
    groups_pods: bool = False
    top_of: TopOf = alone
    nominates_gated: bool = False


class PriorityQueue(PodQueue):
    """Every waiting pod, in exactly one place, and the pods in flight.

    Parameters
    ----------
    less : callable
        Of the QueueSort plugin.
    pre_enqueues : mapping of str to sequence of PreEnqueuePlugin
        By scheduler name.
    nominator : PodNominator
        Receives the nominations of pods that enter the queue.
    now : callable
        Returns seconds.
    classes : PodClasses
        The classes of the pods.

    Attributes
    ----------
    changes : int
        The number of changes so far; equal numbers mean equal pods in equal places.
    incoming : Counter or None
        Counts the pods that enter a queue, by queue (active, backoff or unschedulable) and label of the
        event; None, the default, for no counts.
    active : SortedHeap or PriorityLanes
    """

    def __init__(
        self,
        less: Less,
        pre_enqueues: Mapping[str, Sequence[PreEnqueuePlugin]],
        nominator: PodNominator,
        now: Callable[[], float],
        classes: PodClasses,
        settings: QueueSettings,
    ) -> None:
        rules = {name: gate_rule(plugins) for name, plugins in pre_enqueues.items()}
        entrance = Entrance(rules, nominator.nodes)
        top_of = settings.top_of if settings.groups_pods else None
        super().__init__(entrance, now, settings.pop_from_backoff, top_of)
        self.nominates_gated = settings.nominates_gated
        self.changes = 0
        self.incoming: Counter[tuple[str, str]] | None = None
        self._saved: tuple[int, Any, Any, int, Any] | None = None  # the last result of `save`
        self.nominator = nominator
        self._pre_enqueues = pre_enqueues
        self._less = less
        self._classes = classes
        self._settings = settings
        self._clear()

    def _clear(self) -> None:
        """Replace all places by empty ones."""
        self.changes += 1
        self.groups: dict[UnitKey, QueuedGroupInfo] = {}
        self._is_by_priority = getattr(self._less, "__func__", None) is by_priority
        self.active = PriorityLanes() if self._is_by_priority else SortedHeap(self._less)
        times = self._settings.initial_backoff, self._settings.max_backoff
        self.backoff = BackoffQueue(*times, self.pop_from_backoff, self.active.rank)
        self.unschedulable = UnschedulablePods(self._classes)
        self._by_place: dict[Place, Any] = {
            Place.ACTIVE: self.active,
            Place.BACKOFF: self.backoff,
            Place.ERROR_BACKOFF: self.backoff,
            Place.UNSCHEDULABLE: self.unschedulable,
        }

    def pending(self) -> PendingPods:
        """Return all waiting pods by place."""
        return PendingPods(self._pods_of(self.active), *self.inactive())

    def inactive(self) -> tuple[list[QueuedPodInfo], ...]:
        """Return the lists of `PendingPods` after the first one."""
        if len(self.infos) == self.active.size and not self.groups:
            return [], [], [], []
        unschedulable = self.unschedulable.select()
        if self.groups:
            waiting = [one for one in self.groups.values() if one.place is Place.UNSCHEDULABLE]
            alone = [info for info in unschedulable if info.unit is None]
            unschedulable = self._pods_of(sorted([*alone, *waiting], key=ORDER))
        return (
            self._pods_of(self.backoff.rejected),
            self._pods_of(self.backoff.failed),
            [info for info in unschedulable if not info.gating_plugin],
            [info for info in unschedulable if info.gating_plugin],
        )

    def _pods_of(self, entries: Iterable[QueuedPodInfo]) -> list[QueuedPodInfo]:
        """Return pods, and the pods of groups, in order."""
        if not self.groups:
            return list(entries)
        pods: list[QueuedPodInfo] = []
        for entry in entries:
            pods += entry.ordered() if isinstance(entry, QueuedGroupInfo) else (entry,)
        return pods

    def entry_of(self, info: QueuedPodInfo) -> QueuedPodInfo:
        """Return the entry that a waiting pod belongs to: its group, or itself. A group has no place from its
        pop to the end of its attempt, nor have the pods that were given back to it.
        """
        if info.group is not None:
            return info.group
        return info if info.unit is None else self.groups.get(info.unit, info)

    def has_next(self) -> bool:
        """Whether a pod can be popped."""
        return self.active.size > 0 or bool(self.pop_from_backoff and self.backoff.rejected.entries)

    def pop_many(self, limit: int) -> tuple[list[QueuedPodInfo], Place]:
        """Remove the next pods of one place; of the active queue those of one priority, under PrioritySort.
        Where groups are tried together, all of them or none are of groups.

        They stay in `infos`.

        Parameters
        ----------
        limit : int
            The number of pods at most; the last group may exceed it.

        Returns
        -------
        infos : list of QueuedPodInfo
            Empty where no pod can be popped.
        place : Place
            The place they were in.
        """
        if self.active.size:
            self.changes += 1
            if not self.groups:
                return self.active.pop_many(limit), ACTIVE
            infos = self.active.pop_alike(limit)
            return (infos if infos[0].unit is None else self.release(infos)), ACTIVE
        if not (self.pop_from_backoff and self.backoff.rejected.entries):
            return [], ACTIVE
        self.changes += 1
        infos = self.backoff.rejected.pop_many(limit)
        if self.incoming is not None:
            self.incoming["active", POP_FROM_BACKOFF] += len(infos)
        return infos, Place.BACKOFF

    def add_new(self, infos: Iterator[QueuedPodInfo], label: str, until_gated: bool = False) -> bool:
        """Add new pods, one after the other.

        Parameters
        ----------
        infos : iterator of QueuedPodInfo
            Each replaces the entry of its UID, if there is one.
        label : str
            Label of the event.
        until_gated : bool, optional
            Whether to end after the first pod that PreEnqueue gates, before the next one is taken.

        Returns
        -------
        bool
            Whether a pod is now in the active queue that was not.
        """
        self.changes += 1
        moved = False
        while True:
            added, gated, info = self.admit(infos)
            moved |= added > 0
            if self.incoming is not None:
                for place, number in (("active", added), ("unschedulable", gated)):
                    if number:
                        self.incoming[place, label] += number
            if info is None:
                return moved
            known = self.infos.get(info.uid)
            if known is not None:
                self.remove(known, label)
            entered = self.enter(info, label)
            moved |= entered
            if until_gated and not entered:
                return moved

    def enter(self, info: QueuedPodInfo, label: str) -> bool:
        """Add a new pod, to its group if it has one.

        Parameters
        ----------
        label : str
            Label of the event.

        Returns
        -------
        bool
            Whether the pod is now in the active queue.
        """
        key = group_of(info.pod) if self.groups_pods else None
        if key is None:
            return self.to_active(info, label)
        self._nominate_new(info, label)
        return self.join(info, key, label)

    def join(self, info: QueuedPodInfo, key: UnitKey, label: str) -> bool:
        """Add a pod to the waiting pods of its group (kube-scheduler v1.37, addPodGroupMember).

        While the group backs off or is gated, the pod waits with it. The first pod takes the group to the
        active queue. Upstream it does so even if its binding has failed several times in a row.

        Parameters
        ----------
        key : UnitKey
            The group that the pod names.
        label : str
            Label of the event.

        Returns
        -------
        bool
            Whether the pod is now in the active queue.
        """
        unit = self._settings.top_of(key)
        group = self.groups.get(unit)
        self.changes += 1
        if group is None:
            group = QueuedGroupInfo(unit, info.timestamp)
            group.join(info)
            if info.consecutive_errors_count <= 1:
                return self.to_active(group, label)
            group.consecutive_errors_count = info.consecutive_errors_count
            return self.requeue(group, Strategy.AFTER_BACKOFF, label) and group.place is ACTIVE
        if group.place is Place.UNSCHEDULABLE:
            self.add_member(group, info)
            self._count("unschedulable", label, group)
            return False
        if group.place is ACTIVE and not self._is_gated(info):
            info.note_ready(self.now())
            self.add_member(group, info)
            self._count("active", label, group)
            return True
        strategy = Strategy.IMMEDIATELY if group.place is ACTIVE else Strategy.AFTER_BACKOFF
        self.leave(group)
        group.join(info)
        return self.requeue(group, strategy, label) and group.place is ACTIVE

    def add_member(self, group: QueuedGroupInfo, info: QueuedPodInfo) -> None:
        """Add a pod to a group that stays where it is, or whose attempt has not ended."""
        self.changes += 1
        group.join(info)
        self.infos[info.uid] = info
        if group.place is Place.UNSCHEDULABLE:
            info.gating_plugin = group.gating_plugin
            self.unschedulable.add(info)

    def remove(self, info: QueuedPodInfo, label: str) -> None:
        """Remove a waiting pod. What is left of its group stays where it is, unless its backoff is over or
        PreEnqueue gates it.

        Parameters
        ----------
        label : str
            Label of the event that moves the group.
        """
        entry = self.entry_of(info)
        if not isinstance(entry, QueuedGroupInfo):
            if info.place is not None:
                self.leave(info)
            return
        place = entry.place
        if place is None:  # its attempt has not ended
            self._forget(info)
            entry.part(info)
            info.group = None
            return
        self.leave(entry)
        entry.part(info)
        if not entry.size:
            return
        if place in BACKOFFS:
            self.requeue(entry, Strategy.AFTER_BACKOFF, label)
        else:
            self._put_anew(entry, place, label)

    def _put_anew(self, group: QueuedGroupInfo, place: Place, label: str) -> None:
        """Add a group whose pods have changed to its former place, unless PreEnqueue keeps it out of the
        active queue."""
        if place is ACTIVE and self._is_gated(group):
            self._enter(group, Place.UNSCHEDULABLE, label)
        else:
            self.put(group, place)

    def _take_newer(self, group: QueuedGroupInfo) -> bool:
        """Add the pods to a popped group that have come since its pop; return whether there are any."""
        newer = self.groups.get(cast(UnitKey, group.unit))
        if newer is None:
            return False
        self.leave(newer)
        for info in newer.members.values():
            group.join(info)
        return True

    def regroup(self, keys: Iterable[UnitKey], deleted: UnitKey | None, label: str) -> None:
        """Find the groups of waiting pods anew, after a change of the groups. Pods that belong to another one
        now, and those of a group that was deleted, enter as new ones.

        Parameters
        ----------
        keys : iterable of UnitKey
            The groups whose pods may belong to others now.
        deleted : UnitKey or None
            The group that was deleted, if one was.
        label : str
            Label of the event.
        """
        top_of = self._settings.top_of
        for group in [self.groups[key] for key in keys if key in self.groups]:
            named = [(info, cast(UnitKey, group_of(info.pod))) for info in group.members.values()]
            moving = [(info, key) for info, key in named if key == deleted or top_of(key) != group.unit]
            for info, _ in moving:
                self.remove(info, label)
            for info, key in moving:
                self.join(info, key, label)

    def return_group(self, group: QueuedGroupInfo, succeeded: bool, is_error: bool) -> None:
        """Return the pods of a group that its attempt has left, with those that came meanwhile
        (kube-scheduler v1.37, AddAttemptedPodGroupIfNeeded).

        Parameters
        ----------
        succeeded : bool
            Then the group is tried again at once, and keeps its age.
        is_error : bool
            Whether it failed with an error.
        """
        self._take_newer(group)
        if succeeded and any(info.consecutive_errors_count > 1 for info in group.members.values()):
            succeeded, is_error = False, True  # bindings that fail again and again: the attempts have to end
        if succeeded:
            group.unschedulable_count = group.consecutive_errors_count = 0
        else:
            group.timestamp = self.now()
            group.unschedulable_count += not is_error
            group.consecutive_errors_count = group.consecutive_errors_count + 1 if is_error else 0
        group.until, group.was_flushed, group.flushed_at = 0, False, -math.inf
        strategy = Strategy.IMMEDIATELY if succeeded else Strategy.AFTER_BACKOFF
        self.requeue(group, strategy, SCHEDULE_ATTEMPT_FAILURE)
        self.regroup([cast(UnitKey, group.unit)], None, SCHEDULE_ATTEMPT_FAILURE)  # as trees may have changed

    def put_back(self, info: QueuedPodInfo, place: Place, label: str) -> None:
        """Return a popped pod to its place, with its group if that was popped with it.

        Parameters
        ----------
        label : str
            Label of the event, for a pod whose group has ended its attempt.
        """
        group, info.group = info.group, None
        if info.unit is None:
            self.put(info, place)
        elif group is None:
            self.join(info, cast(UnitKey, group_of(info.pod)), label)
        elif group.place is not None:
            self.add_member(group, info)
        else:
            group.attempts -= 1
            group.join(info)
            for one in group.members.values():
                one.group = None
            if self._take_newer(group):
                self._put_anew(group, place, label)
            else:
                self.put(group, place)

    def older_than(self, end: int) -> list[QueuedPodInfo]:
        """Return the entries that have been unschedulable since before a time, and were not flushed since.

        Parameters
        ----------
        end : int
            Microseconds.

        Returns
        -------
        list of QueuedPodInfo
            In the order in which they entered.
        """
        older = self.unschedulable.older_than(end)
        groups = [group for since, group in self._gated_groups() if microseconds(since) < end]
        return sorted([*older, *groups], key=ORDER) if groups else older

    def oldest(self, gated: bool) -> float | None:
        """Return the earliest time since which an entry has been unschedulable, in seconds; None without any.

        Parameters
        ----------
        gated : bool
            Whether gated pods and groups count.
        """
        times = [since for since, _ in self._gated_groups()] if gated else []
        oldest = self.unschedulable.oldest(gated)
        return min(times if oldest is None else [oldest, *times], default=None)

    def _gated_groups(self) -> Iterator[tuple[float, QueuedGroupInfo]]:
        """Yield the gated groups, and since when each waits for its timeout."""
        for group in self.groups.values():
            if group.place is Place.UNSCHEDULABLE:
                yield max(group.timestamp, group.flushed_at), group

    def pop_completed(self) -> list[QueuedPodInfo]:
        """Remove and return the entries whose backoff has ended."""
        completed = self.backoff.pop_completed(self.now())
        for info in completed:
            self._forget(info)
        return completed

    def replace(self, info: QueuedPodInfo, pod: Pod, label: str) -> None:
        """Replace the state of a waiting pod, and move the pod where its rank has changed.

        Parameters
        ----------
        info : QueuedPodInfo
            The pod in its place, or in none, while the attempt of its group has not ended.
        pod : Pod
            Its new state.
        label : str
            Label of the event, for a pod that changes its group.
        """
        self.changes += 1
        entry, place = self.entry_of(info), info.place
        if self.groups_pods and group_of(pod) != group_of(info.pod):  # as an annotation says
            self.remove(info, label)
            info.pod, info.unit = pod, None
            self.enter(info, label)
            return
        keeps_rank = self._is_by_priority and pod.spec is info.pod.spec
        moves = place is not None and place is not Place.UNSCHEDULABLE and not keeps_rank
        if moves:
            self.leave(entry)
        if place is Place.UNSCHEDULABLE:  # ordered by entry, not by rank
            self.unschedulable.replace(info, pod)
        info.pod = pod
        if isinstance(entry, QueuedGroupInfo):
            entry.pod = next(iter(entry.members.values())).pod
        if moves:
            self.put(entry, cast(Place, place))

    def reject(
        self,
        infos: list[QueuedPodInfo],
        latest: list[Pod | None],
        rejectors: Sequence[tuple[frozenset[str], frozenset[str]]],
        first: int,
    ) -> int:
        self.changes += 1
        end = super().reject(infos, latest, rejectors, first)
        if self.incoming is not None and (alone := sum(info.unit is None for info in infos[first:end])):
            self.incoming["unschedulable", SCHEDULE_ATTEMPT_FAILURE] += alone
        return end

    def requeue(self, info: QueuedPodInfo, strategy: Strategy, label: str) -> bool:
        """Move a pod to the place that a strategy selects.

        Parameters
        ----------
        label : str
            Label of the event that moves the pod.

        Returns
        -------
        bool
            Whether the pod is now in the active queue or the backoff queue.
        """
        if strategy is Strategy.SKIP:
            self._enter(info, Place.UNSCHEDULABLE, label)
            return False
        if strategy is Strategy.IMMEDIATELY or not self.backoff.is_backing_off(info, self.now()):
            return self.to_active(info, label)
        known = info.place
        if known is not None:
            self.leave(info)
        if self.pop_from_backoff and self._is_gated(info):
            self._enter(info, Place.UNSCHEDULABLE, label, known)
            return False
        self._enter(info, Place.BACKOFF if info.rejectors else Place.ERROR_BACKOFF, label)
        return True

    def requeue_all(self, infos: list[QueuedPodInfo], strategy: Strategy, label: str) -> bool:
        """Move pods, one after the other, as `requeue` does.

        Parameters
        ----------
        strategy : Strategy
            AFTER_BACKOFF or IMMEDIATELY.
        label : str
            Label of the event that moves the pods.

        Returns
        -------
        bool
            Whether one of them is now in the active queue or the backoff queue.
        """
        at, moved, is_over = 0, False, strategy is Strategy.IMMEDIATELY
        while at < len(infos):
            if strategy is Strategy.AFTER_BACKOFF:
                first = at
                self.changes += 1
                at, is_over = self.move_unschedulable(infos, first)
                moved |= at > first
                if self.incoming is not None and at > first:
                    self.incoming["backoff", label] += at - first
            if at < len(infos):
                one = infos[at]
                moved |= self.to_active(one, label) if is_over else self.requeue(one, strategy, label)
                at += 1
        return moved

    def to_active(self, info: QueuedPodInfo, label: str, from_backoff: bool = False) -> bool:
        """Move a pod to the active queue, unless PreEnqueue rejects it.

        Parameters
        ----------
        label : str
            Label of the event that moves the pod.
        from_backoff : bool, optional
            Whether the pod comes from the backoff queue. If pods may be popped from there, PreEnqueue has run
            before the backoff and is not repeated.

        Returns
        -------
        bool
            False if PreEnqueue rejected the pod.
        """
        known = info.place
        if isinstance(info, QueuedGroupInfo) and known is Place.UNSCHEDULABLE and self._stays_gated(info):
            return False
        if known is not None:
            self.leave(info)
        if not (from_backoff and self.pop_from_backoff) and self._is_gated(info):
            if self.nominates_gated and info.unit is None:
                self._nominate_new(info, label)
            self._enter(info, Place.UNSCHEDULABLE, label, known)
            return False
        info.note_ready(self.now())
        info.order = next(self.numbers)
        self.put(info, ACTIVE)
        self._count("active", label, info)
        if info.unit is None:
            self._nominate_new(info, label)
        return True

    def _count(self, queue: str, label: str, entry: QueuedPodInfo) -> None:
        """Count the pods of an entry that enters a queue, or that one more pod has joined there."""
        if self.incoming is not None:
            self.incoming[queue, label] += entry.size

    def _nominate_new(self, info: QueuedPodInfo, label: str) -> None:
        """Nominate a pod that has come to the queue."""
        if label in NEW and (self.nominator or info.pod.status.nominated_node_name):
            self.nominator.add_nominated_pod(info.pod)

    def _is_gated(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue; the first failure gates the pod. The plugin that gated it before runs first."""
        if isinstance(info, QueuedGroupInfo):
            return self._is_group_gated(info)
        pod = info.pod
        if self.entrance.passes(pod):
            info.gating_plugin = ""
            return False
        plugins = self._pre_enqueues.get(pod.spec.scheduler_name, ())
        if info.gating_plugin:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin)
        for plugin in plugins:
            ask = plugin.pre_enqueue
            status = ask(pod) if plugin.in_core else ask_status(plugin, pod, ask, pod)
            if status is None or status.is_success:
                continue
            if plugin.name not in info.unschedulable_plugins:
                info.unschedulable_plugins |= {plugin.name}
            info.gating_plugin = plugin.name
            if status.code == Code.ERROR:
                logger.error("pod %s: PreEnqueue of %s: %s", pod.key, plugin.name, status.message())
            return True
        info.gating_plugin = ""
        return False

    def _is_group_gated(self, group: QueuedGroupInfo) -> bool:
        """Run PreEnqueue for the pods of a group: while one of them is gated, all are (kube-scheduler v1.37,
        runPreEnqueuePlugins)."""
        members = group.members.values()
        passes = self.entrance.all_pass(members)
        gates = [] if passes else [info.gating_plugin for info in members if self._is_gated(info)]
        group.gating_plugin = gates[-1] if gates else ""
        for info in members:
            if not gates or not info.gating_plugin:
                info.gating_plugin = group.gating_plugin
        return bool(gates)

    def _stays_gated(self, group: QueuedGroupInfo) -> bool:
        """Whether the plugin that gates a group certainly does so again: it gates the pod that came last."""
        newest = next(reversed(group.members.values()))
        self.changes += 1
        self.unschedulable.remove(newest)
        is_gated = self._is_gated(newest)
        newest.gating_plugin = newest.gating_plugin or group.gating_plugin
        self.unschedulable.add(newest)
        return is_gated and newest.gating_plugin == group.gating_plugin

    def _enter(self, info: QueuedPodInfo, place: Place, label: str, known: Place | None = None) -> None:
        """Move a pod to a place, behind the pods there that are equal to it. `known` is the place that it has
        just left: a pod that stays unschedulable does not count."""
        if info.place is not None:
            self.leave(info)
        info.order = next(self.numbers)
        self.put(info, place)
        if known is not place:
            self._count("unschedulable" if place is Place.UNSCHEDULABLE else "backoff", label, info)

    def put(self, info: QueuedPodInfo, place: Place) -> None:
        """Add a pod or a group to a place.

        Parameters
        ----------
        info : QueuedPodInfo
            Its `order` is set.
        """
        self.changes += 1
        if not isinstance(info, QueuedGroupInfo):
            self.infos[info.uid] = info
            info.place = place
            self._by_place[place].add(info)
            return
        self.groups[cast(UnitKey, info.unit)] = info
        self.infos.update(info.members)
        info.move_to(place)
        if place is not Place.UNSCHEDULABLE:
            self._by_place[place].add(info)
        else:
            for member in info.members.values():
                self.unschedulable.add(member)

    def save(self) -> object:
        """Return the state of every pod, for `undo`: the last result, if no pod has changed since."""
        if self._saved is None or self._saved[0] != self.changes:
            groups = [(group, copy(group)) for group in self.groups.values()]
            self._saved = self.changes, self.infos.copy(), copies_of(self.infos), self.numbers.last, groups
        return self._saved

    def undo(self, saved: object) -> None:
        """Restore the state of `save`.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        changes, infos, copies, number, groups = cast(
            "tuple[int, dict[str, QueuedPodInfo], dict[str, QueuedPodInfo], int, Any]", saved
        )
        self.numbers.last = number
        if changes == self.changes:
            return
        assign_all(infos, copies)
        for group, then in groups:
            group.assign(then)
        self.infos, self.groups = infos.copy(), {group.unit: group for group, _ in groups}
        self.rebuild()
        self._saved = self.changes, infos, copies, number, groups

    def copy_from(self, other: PriorityQueue) -> None:
        """Take copies of the pods of another queue."""
        self.numbers.last = other.numbers.last
        self.infos = copies_of(other.infos)
        self.groups = {unit: copy(group) for unit, group in other.groups.items()}
        for info in chain(self.infos.values(), self.in_flight) if self.groups_pods else ():
            info.group = None  # that of the other queue
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuild every place from `infos`. Each pod keeps its place and its position there."""
        infos, known = by_order(self.infos), self.groups
        self._clear()
        if isinstance(self.active, PriorityLanes) and not self.groups_pods:
            infos = self.active.fill(infos)
        groups: dict[UnitKey, QueuedGroupInfo] = {}
        for info in infos:
            if info.unit is None:
                self.put(info, info.place or ACTIVE)
                continue
            attempted, info.group = info.group, None
            if attempted is not None and info.uid in attempted.members:
                attempted.part(info)
            group = groups.get(info.unit)
            if group is None:
                group = known.get(info.unit) or QueuedGroupInfo(info.unit, info.timestamp)
                group.clear()
                groups[info.unit] = group
            group.join(info)
        for group in groups.values():
            self.put(group, group.place or ACTIVE)

    def leave(self, info: QueuedPodInfo) -> None:
        """Remove a waiting pod or group from its place."""
        place = info.place
        assert place is not None
        if isinstance(info, QueuedGroupInfo) and place is Place.UNSCHEDULABLE:
            for member in info.members.values():
                self.unschedulable.remove(member)
        else:
            self._by_place[place].remove(info)
        self._forget(info)

    def _forget(self, info: QueuedPodInfo) -> None:
        """Remove a pod from `infos`, or the pods of a group; the entry has no place then."""
        self.changes += 1
        if not isinstance(info, QueuedGroupInfo):
            del self.infos[info.uid]
            info.place = None
            return
        del self.groups[cast(UnitKey, info.unit)]
        for uid in info.members:
            del self.infos[uid]
        info.move_to(None)
