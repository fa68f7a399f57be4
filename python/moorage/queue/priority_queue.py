"""The place of every waiting pod: the active queue, one of the backoff heaps, or the unschedulable pods.

kube-scheduler v1.36, backend/queue/scheduling_queue.go moveToActiveQ and moveToBackoffQ.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from enum import Enum
from typing import Any, NamedTuple, cast

from msgspec import Struct

from moorage._core.queue.backoff_queue import BackoffQueue
from moorage._core.queue.entrance import Entrance, GroupedPods
from moorage._core.queue.pod_queue import PodQueue
from moorage._core.queue.queued_pods import (
    Place,
    PriorityLanes,
    QueuedPodInfo,
    assign_all,
    by_order,
    copies_of,
)
from moorage._core.queue.unschedulable_pods import UnschedulablePods
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
from moorage.objects import AnyGroup, Pod, UnitKey, group_of

from .active_queue import Less, SortedHeap, by_priority

logger = logging.getLogger("moorage.queue")

ACTIVE = Place.ACTIVE
BACKOFFS = (Place.BACKOFF, Place.ERROR_BACKOFF)
"""Places of pods that back off."""
WITH_GROUP = "PodGroup"
"""Stands for the plugin that gates a pod where it gates another pod of the group."""
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
    """Return the key of a group that belongs to no tree.

    Parameters
    ----------
    key : UnitKey
    """
    return key


class WaitingGroups(GroupedPods):
    """The waiting pods of each group whose pods are tried together, wherever they are in the queue.

    Parameters
    ----------
    top_of : callable
        Returns the group at the top of the tree that a group belongs to.
    """

    def regroup(self, keys: Iterable[UnitKey]) -> None:
        """Find the groups of waiting pods anew, after a change of the trees of groups.

        Parameters
        ----------
        keys : iterable of UnitKey
            The groups whose pods may belong to others now.
        """
        for key in keys:
            for info in self.members.pop(key, {}).values():
                self.enter(info)

    def beside(self, obj: object) -> list[QueuedPodInfo]:
        """Return the waiting pods that are tried together with a pod, or with those of a group.

        Parameters
        ----------
        obj : object
            Objects that are neither pods nor groups have none.

        Returns
        -------
        list of QueuedPodInfo
            In the order in which they entered.
        """
        key = group_of(obj) if isinstance(obj, Pod) else obj.unit if isinstance(obj, AnyGroup) else None
        return self.waiting(None if key is None else self.top_of(key))

    def waiting(self, unit: UnitKey | None) -> list[QueuedPodInfo]:
        """Return the waiting pods of a group, in the order in which they entered.

        Parameters
        ----------
        unit : tuple of str, or None
            Namespace and name of the group; None has no pods.

        Returns
        -------
        list of QueuedPodInfo
        """
        members = {} if unit is None else self.members.get(unit, {})
        return by_order(members)


Asked = list[Callable[[Pod], Status | None]]
"""PreEnqueue of several plugins."""


Gate = tuple[Sequence[str], str]
"""Fields of spec of which none has anything unless a plugin rejects the pod, and the name of the plugin."""


def gate_rule(
    plugins: Sequence[PreEnqueuePlugin],
) -> tuple[list[str], list[Sized], Asked, Asked, Gate | None] | None:
    """Return what PreEnqueue reads, for `Entrance`.

    Parameters
    ----------
    plugins : sequence of PreEnqueuePlugin

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
    settings : QueueSettings

    Attributes
    ----------
    changes : int
        The number of changes so far; equal numbers mean equal pods in equal places.
    incoming : Counter or None
        Counts the pods that enter a queue, by queue (active, backoff or unschedulable) and label of the
        event; None, the default, for no counts.
    units : WaitingGroups
    active : SortedHeap or PriorityLanes
    """

    units: WaitingGroups

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
        super().__init__(entrance, now, settings.pop_from_backoff, settings.groups_pods)
        self.nominates_gated = settings.nominates_gated
        self.changes = 0
        self.incoming: Counter[tuple[str, str]] | None = None
        self._saved: tuple[int, Any, Any, int] | None = None  # the last result of `save`
        self.nominator = nominator
        self._pre_enqueues = pre_enqueues
        self._less = less
        self._classes = classes
        self._settings = settings
        self._clear()

    def _clear(self) -> None:
        """Replace all places by empty ones."""
        self.changes += 1
        self.units = WaitingGroups(self._settings.top_of)
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
        return PendingPods(list(self.active), *self.inactive())

    def inactive(self) -> tuple[list[QueuedPodInfo], ...]:
        """Return the lists of `PendingPods` after the first one."""
        if len(self.infos) == self.active.size:
            return [], [], [], []
        unschedulable = self.unschedulable.select()
        return (
            list(self.backoff.rejected),
            list(self.backoff.failed),
            [info for info in unschedulable if not info.gating_plugin],
            [info for info in unschedulable if info.gating_plugin],
        )

    def has_next(self) -> bool:
        """Whether a pod can be popped."""
        return self.active.size > 0 or bool(self.pop_from_backoff and self.backoff.rejected.entries)

    def pop_many(self, limit: int) -> tuple[list[QueuedPodInfo], Place]:
        """Remove the next pods of one place; of the active queue those of one priority, under PrioritySort.

        They stay in `infos`.

        Parameters
        ----------
        limit : int
            The number of pods at most.

        Returns
        -------
        infos : list of QueuedPodInfo
            Empty where no pod can be popped.
        place : Place
            The place they were in.
        """
        rejected = self.backoff.rejected
        if self.active.size:
            infos, place = self.active.pop_many(limit), ACTIVE
        elif self.pop_from_backoff and rejected.entries:
            infos, place = rejected.pop_many(limit), Place.BACKOFF
            if self.incoming is not None:
                self.incoming["active", POP_FROM_BACKOFF] += len(infos)
        else:
            return [], ACTIVE
        self.changes += 1
        if self.groups_pods:
            for info in infos:
                if info.unit is not None:
                    self.units.leave(info)
        return infos, place

    def pop_alike(self, limit: int) -> tuple[list[QueuedPodInfo], Place]:
        """Remove the next pods of one place, all without a group or all of groups, where groups are tried
        together.

        They stay in `infos`.

        Parameters
        ----------
        limit : int
            The number of pods without a group at most; no group is added to as many pods.

        Returns
        -------
        infos : list of QueuedPodInfo
            Empty where there are none, or where the pods of the next group are in several places.
        place : Place
            The place they were in.
        """
        self.changes += 1
        if self.active.size:
            return self.active.pop_alike(limit, self.units.members), ACTIVE
        infos: list[QueuedPodInfo] = []
        rejected = self.backoff.rejected
        while self.pop_from_backoff and rejected.entries and len(infos) < limit:
            if rejected.peek()[1].unit is not None:
                break
            infos.append(rejected.pop())
        if self.incoming is not None and infos:
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
                self.leave(known)
            entered = self.to_active(info, label)
            moved |= entered
            if until_gated and not entered:
                return moved

    def rejected_beside(self, obj: Any) -> list[QueuedPodInfo]:
        """Return the unschedulable pods that are tried together with a new pod, or with those of a group.

        Parameters
        ----------
        obj : object
            If the pod is gated, the pods that the same plugin gates are left out, as it would again.

        Returns
        -------
        list of QueuedPodInfo
        """
        added = None if obj is None else self.infos.get(obj.metadata.uid)
        gate = added.gating_plugin if added is not None else ""
        return [
            info
            for info in self.units.beside(obj)
            if info.place is Place.UNSCHEDULABLE and not (gate and info.gating_plugin == gate)
        ]

    def pop_completed(self) -> list[QueuedPodInfo]:
        """Remove and return the pods whose backoff has ended."""
        completed = self.backoff.pop_completed(self.now())
        for info in completed:
            self._forget(info)
        return completed

    def replace(self, info: QueuedPodInfo, pod: Pod) -> None:
        """Replace the state of a waiting pod, and move the pod where its rank has changed.

        Parameters
        ----------
        info : QueuedPodInfo
            The pod in its place.
        pod : Pod
            Its new state.
        """
        self.changes += 1
        place = info.place
        assert place is not None
        is_like_before = self._is_by_priority and pod.spec is info.pod.spec
        if is_like_before and self.groups_pods:  # an annotation may name another group
            is_like_before = group_of(pod) == group_of(info.pod)
        if is_like_before and place is not Place.UNSCHEDULABLE:
            info.pod = pod
            return
        if place is Place.UNSCHEDULABLE:  # ordered by entry, not by rank
            if info.unit is not None:
                self.units.leave(info)
            self.unschedulable.replace(info, pod)
            if self.groups_pods:
                self.units.enter(info)
            return
        self.leave(info)
        info.pod = pod
        self.put(info, place)

    def take(self, info: QueuedPodInfo) -> Place:
        """Remove a waiting pod before its turn, as if it were ready.

        Parameters
        ----------
        info : QueuedPodInfo

        Returns
        -------
        Place
            The place from which a pop would have removed the pod.
        """
        place = info.place
        assert place is not None
        self.leave(info)
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self.now()
        return ACTIVE if place is Place.UNSCHEDULABLE else place

    def reject(
        self,
        infos: list[QueuedPodInfo],
        latest: list[Pod | None],
        rejectors: Sequence[tuple[frozenset[str], frozenset[str]]],
        first: int,
    ) -> int:
        self.changes += 1
        end = super().reject(infos, latest, rejectors, first)
        if self.incoming is not None:
            for info in infos[first:end]:
                place = "unschedulable" if info.unit is None else "backoff"
                self.incoming[place, SCHEDULE_ATTEMPT_FAILURE] += 1
        return end

    def requeue(self, info: QueuedPodInfo, strategy: Strategy, label: str) -> bool:
        """Move a pod to the place that a strategy selects.

        Parameters
        ----------
        info : QueuedPodInfo
        strategy : Strategy
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
        infos : list of QueuedPodInfo
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
        info : QueuedPodInfo
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
        if known is not None:
            self.leave(info)
        if not (from_backoff and self.pop_from_backoff) and self._is_gated(info):
            if self.nominates_gated:
                self._nominate_new(info, label)
            self._enter(info, Place.UNSCHEDULABLE, label, known)
            return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self.now()
        info.order = next(self.numbers)
        self.put(info, ACTIVE)
        if self.incoming is not None:
            self.incoming["active", label] += 1
        self._nominate_new(info, label)
        if info.unit is not None:
            self._ungate_others(info.unit, label)
        return True

    def gate_with_others(self, unit: UnitKey | None, label: str) -> None:
        """Gate all pods of a group of which one is gated (kube-scheduler v1.37, runPreEnqueuePlugins of an
        entity).

        Parameters
        ----------
        unit : UnitKey or None
        label : str
            Label of the event that gates them.
        """
        for info in self.units.waiting(unit):
            if not info.gating_plugin:
                self.leave(info)
                info.gating_plugin = WITH_GROUP
                self._enter(info, Place.UNSCHEDULABLE, label)

    def backs_off(self, first: QueuedPodInfo, others: Sequence[QueuedPodInfo]) -> bool:
        """Whether a new pod has joined a group that backs off: none of its pods that was tried is ready.

        Parameters
        ----------
        first : QueuedPodInfo
            A pod that was popped from the active queue.
        others : sequence of QueuedPodInfo
            The waiting pods of its group.

        Returns
        -------
        bool
        """
        if first.attempts > 1 or not any(info.place in BACKOFFS for info in others):
            return False
        return not any(info.place is ACTIVE and info.attempts for info in others)

    def back_off_with_others(self, unit: UnitKey | None) -> None:
        """Have the new pods of a group that backs off wait with the others, up to the same end
        (kube-scheduler v1.37, addToPodGroupIfExists). They do not count as incoming once more.

        Parameters
        ----------
        unit : UnitKey or None
        """
        infos = self.units.waiting(unit)
        other = next(info for info in infos if info.place in BACKOFFS)
        for info in infos:
            if info.place is ACTIVE:
                self.leave(info)
                info.until = other.until
                self.put(info, cast(Place, other.place))

    def _ungate_others(self, unit: UnitKey, label: str) -> None:
        """Have the pods of a group leave with one of them that is gated no more, if none of them is."""
        infos = [info for info in self.units.waiting(unit) if info.gating_plugin]
        if all(info.gating_plugin == WITH_GROUP for info in infos):
            for info in infos:
                if info.gating_plugin:  # no other has taken it along
                    self.to_active(info, label)

    def _nominate_new(self, info: QueuedPodInfo, label: str) -> None:
        """Nominate a pod that has come to the queue."""
        if label in NEW and (self.nominator or info.pod.status.nominated_node_name):
            self.nominator.add_nominated_pod(info.pod)

    def _is_gated(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue; the first failure gates the pod. The plugin that gated it before runs first."""
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

    def _enter(self, info: QueuedPodInfo, place: Place, label: str, known: Place | None = None) -> None:
        """Move a pod to a place, behind the pods there that are equal to it. `known` is the place that it has
        just left: a pod that stays unschedulable does not count."""
        if info.place is not None:
            self.leave(info)
        info.order = next(self.numbers)
        self.put(info, place)
        if self.incoming is not None and known is not place:
            self.incoming["unschedulable" if place is Place.UNSCHEDULABLE else "backoff", label] += 1

    def put(self, info: QueuedPodInfo, place: Place) -> None:
        """Add a pod to a place.

        Parameters
        ----------
        info : QueuedPodInfo
            Its `order` is set.
        place : Place
        """
        self.changes += 1
        self.infos[info.uid] = info
        info.place = place
        if self.groups_pods:
            self.units.enter(info)
        (self.active if place is ACTIVE else self._by_place[place]).add(info)

    def save(self) -> object:
        """Return the state of every pod, for `undo`: the last result, if no pod has changed since."""
        if self._saved is None or self._saved[0] != self.changes:
            self._saved = self.changes, self.infos.copy(), copies_of(self.infos), self.numbers.last
        return self._saved

    def undo(self, saved: object) -> None:
        """Restore the state of `save`.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        changes, infos, copies, number = cast(
            "tuple[int, dict[str, QueuedPodInfo], dict[str, QueuedPodInfo], int]", saved
        )
        self.numbers.last = number
        if changes == self.changes:
            return
        assign_all(infos, copies)
        self.infos = infos.copy()
        self.rebuild()
        self._saved = self.changes, infos, copies, number

    def copy_from(self, other: PriorityQueue) -> None:
        """Take copies of the pods of another queue.

        Parameters
        ----------
        other : PriorityQueue
        """
        self.numbers.last = other.numbers.last
        self.infos = copies_of(other.infos)
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuild every place from `infos`. Each pod keeps its place and its position there."""
        infos = by_order(self.infos)
        self._clear()
        if isinstance(self.active, PriorityLanes) and not self.groups_pods:
            infos = self.active.fill(infos)
        for info in infos:
            self.put(info, info.place or ACTIVE)

    def leave(self, info: QueuedPodInfo) -> None:
        """Remove a waiting pod from its place.

        Parameters
        ----------
        info : QueuedPodInfo
        """
        assert info.place is not None
        self._by_place[info.place].remove(info)
        self._forget(info)

    def _forget(self, info: QueuedPodInfo) -> None:
        """Remove a pod from `infos` and from its group; its entry has no place then."""
        if info.unit is not None:
            self.units.leave(info)
        self.changes += 1
        del self.infos[info.uid]
        info.place = None
