"""Where every waiting pod is: in the active queue, in one of the backoff heaps, or unschedulable.

kube-scheduler v1.36, backend/queue/scheduling_queue.go: moveToActiveQ, moveToBackoffQ and what they call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from enum import Enum
from itertools import count
from typing import Any, NamedTuple, cast

from moorage.framework.plugin.events import UNSCHEDULABLE_POD_ADD, UNSCHEDULABLE_POD_UPDATE
from moorage.framework.plugin.interface import Code, PreEnqueuePlugin
from moorage.framework.plugin.nominator import PodNominator
from moorage.framework.runtime.call import ask_status
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import UnitKey, group_of

from .active_queue import Less, active_queue
from .backoff_queue import BackoffQueue
from .queued_pod_info import Place, QueuedPodInfo
from .unschedulable_pods import UnschedulablePods

logger = logging.getLogger("moorage.queue")

ACTIVE = Place.ACTIVE
NEW = (UNSCHEDULABLE_POD_ADD.label, UNSCHEDULABLE_POD_UPDATE.label)


class Strategy(Enum):
    """What an event makes of a pod."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class PendingPods(NamedTuple):
    """The waiting pods by place, each list in its order: that in which they would be popped, or entered."""

    active: list[QueuedPodInfo]
    backoff: list[QueuedPodInfo]
    error_backoff: list[QueuedPodInfo]
    unschedulable: list[QueuedPodInfo]
    gated: list[QueuedPodInfo]


def in_unit(info: QueuedPodInfo) -> tuple[int, float, int]:
    """The order of the pods of a group: by priority, then by when each was first ready."""
    return -(info.pod.spec.priority or 0), info.initial_attempt_timestamp or 0.0, info.order


class Units:
    """Pods with a group by UID, by group; wherever in the queue they are.

    Parameters
    ----------
    is_on : bool
        False where groups are ignored (gate GenericWorkload): then no pod enters.
    """

    def __init__(self, is_on: bool) -> None:
        self.is_on = is_on
        self.members: dict[UnitKey, dict[str, QueuedPodInfo]] = {}

    def enter(self, info: QueuedPodInfo) -> None:
        """A pod entered the queue."""
        info.unit = group_of(info.pod)
        if info.unit is not None:
            self.members.setdefault(info.unit, {})[info.pod.metadata.uid] = info

    def leave(self, info: QueuedPodInfo) -> None:
        """A pod of a group left the queue; its `unit` stays."""
        assert info.unit is not None
        members = self.members[info.unit]
        del members[info.pod.metadata.uid]
        if not members:
            del self.members[info.unit]

    def mates(self, unit: UnitKey | None) -> list[QueuedPodInfo]:
        """The waiting pods of a group, in order of entry."""
        members = {} if unit is None else self.members.get(unit, {})
        return sorted(members.values(), key=lambda info: info.order)


class Places:
    """Every waiting pod, in exactly one place.

    Attributes
    ----------
    infos : dict of str to QueuedPodInfo
        By UID.
    now : callable
        Seconds.
    """

    def __init__(
        self,
        less: Less,
        pre_enqueues: Mapping[str, Sequence[PreEnqueuePlugin]],
        nominator: PodNominator,
        now: Callable[[], float],
        initial_backoff: float,
        max_backoff: float,
        pop_from_backoff: bool,
        groups_pods: bool = False,
    ) -> None:
        self.infos: dict[str, QueuedPodInfo] = {}
        self.units = Units(groups_pods)
        self.now = now
        self.nominator = nominator
        self.pop_from_backoff = pop_from_backoff
        self._pre_enqueues = pre_enqueues
        self._numbers = count(1)
        self._less = less
        self._backoff_setting = initial_backoff, max_backoff, pop_from_backoff
        self._clear()

    def _clear(self) -> None:
        """No pod is in any place."""
        self.infos.clear()
        self.units = Units(self.units.is_on)
        self.active = active_queue(self._less)
        self.backoff = BackoffQueue(*self._backoff_setting, self.active.rank)
        self.unschedulable = UnschedulablePods()
        self._by_place: dict[Place, Any] = {
            Place.ACTIVE: self.active,
            Place.BACKOFF: self.backoff,
            Place.ERROR_BACKOFF: self.backoff,
            Place.UNSCHEDULABLE: self.unschedulable,
        }

    def pending(self) -> PendingPods:
        """All of them."""
        return PendingPods(list(self.active), *self.inactive())

    def inactive(self) -> tuple[list[QueuedPodInfo], ...]:
        """Return the lists of `pending` after the first one."""
        if len(self.infos) == self.active.size:
            return [], [], [], []
        there = self.unschedulable.select()
        return (
            list(self.backoff.rejected),
            list(self.backoff.failed),
            [info for info in there if not info.gating_plugin],
            [info for info in there if info.gating_plugin],
        )

    def has_next(self) -> bool:
        """Whether a pod can be popped."""
        return self.active.size > 0 or bool(self.pop_from_backoff and self.backoff.rejected.entries)

    def pop_many(self, limit: int) -> tuple[list[QueuedPodInfo], Place]:
        """Take up to so many of the next pods that are in one place, and tell which."""
        if self.active.size:
            infos, place = [self.active.pop() for _ in range(min(limit, self.active.size))], ACTIVE
        elif self.pop_from_backoff and self.backoff.rejected.entries:
            infos, place = [self.backoff.rejected.pop()], Place.BACKOFF
        else:
            return [], ACTIVE
        for info in infos:
            self._gone(info)
        return infos, place

    def pop_completed(self) -> list[QueuedPodInfo]:
        """Take the pods whose backoff is over."""
        found = self.backoff.pop_completed(self.now())
        for info in found:
            self._gone(info)
        return found

    def replace(self, info: QueuedPodInfo, pod: Pod) -> None:
        """Another state of a waiting pod, which may have another rank; it keeps its number."""
        place = info.place
        assert place is not None
        if place is Place.UNSCHEDULABLE:  # where its rank does not matter, and it stands in order of entry
            if info.unit is not None:
                self.units.leave(info)
            info.pod = pod
            if self.units.is_on:
                self.units.enter(info)
            return
        self.leave(info)
        info.pod = pod
        self.put(info, place)

    def take(self, info: QueuedPodInfo) -> Place:
        """A waiting pod leaves out of turn, as if it had been ready; where it would have been then."""
        place = info.place
        assert place is not None
        self.leave(info)
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self.now()
        return ACTIVE if place is Place.UNSCHEDULABLE else place

    def requeue(self, info: QueuedPodInfo, strategy: Strategy, label: str) -> bool:
        """Put a pod where it belongs; whether that is the active or the backoff queue."""
        if strategy is Strategy.SKIP:
            self.enter(info, Place.UNSCHEDULABLE)
            return False
        if strategy is Strategy.IMMEDIATELY or not self.backoff.is_backing_off(info, self.now()):
            return self.to_active(info, label)
        if info.place is not None:
            self.leave(info)
        if self.pop_from_backoff and self._is_gated(info):
            self.enter(info, Place.UNSCHEDULABLE)
            return False
        self.enter(info, Place.BACKOFF if info.rejectors else Place.ERROR_BACKOFF)
        return True

    def to_active(self, info: QueuedPodInfo, label: str, from_backoff: bool = False) -> bool:
        """Put a pod into the active queue, unless PreEnqueue keeps it out; it ran when the pod began to back
        off, where pods may be popped from there."""
        if info.place is not None:
            self.leave(info)
        if not (from_backoff and self.pop_from_backoff) and self._is_gated(info):
            self.enter(info, Place.UNSCHEDULABLE)
            return False
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self.now()
        info.order = next(self._numbers)
        self.put(info, ACTIVE)
        if label in NEW and (self.nominator or info.pod.status.nominated_node_name):
            self.nominator.add_nominated_pod(info.pod)
        return True

    def _is_gated(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue, the plugin that gated the pod before first; the first failure gates it."""
        pod = info.pod
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

    def enter(self, info: QueuedPodInfo, place: Place) -> None:
        """A pod enters a place, behind those that are there already and equal to it."""
        if info.place is not None:
            self.leave(info)
        info.order = next(self._numbers)
        self.put(info, place)

    def put(self, info: QueuedPodInfo, place: Place) -> None:
        self.infos[info.pod.metadata.uid] = info
        info.place = place
        if self.units.is_on:
            self.units.enter(info)
        (self.active if place is ACTIVE else self._by_place[place]).add(info)

    def save(self) -> object:
        """Every pod as it is, for `undo`."""
        return [(info, copy(info)) for info in self.infos.values()], copy(self._numbers)

    def undo(self, saved: object) -> None:
        """Be as at `save`."""
        infos, numbers = cast("tuple[list[tuple[QueuedPodInfo, QueuedPodInfo]], count[int]]", saved)
        self._numbers = copy(numbers)
        for info, then in infos:
            info.take_over(then)
        self.infos = {info.pod.metadata.uid: info for info, _ in infos}
        self.rebuild()

    def rebuild(self) -> None:
        """Make every place anew from `infos`; each pod keeps its place and its order in it."""
        infos = sorted(self.infos.values(), key=lambda info: info.order)
        self._clear()
        for info in infos:
            self.put(info, info.place or ACTIVE)

    def leave(self, info: QueuedPodInfo) -> None:
        """A waiting pod leaves its place."""
        assert info.place is not None
        self._by_place[info.place].remove(info)
        self._gone(info)

    def _gone(self, info: QueuedPodInfo) -> None:
        if info.unit is not None:
            self.units.leave(info)
        del self.infos[info.pod.metadata.uid]
        info.place = None
