"""Parts of a scheduler's state: its queue and its clock, the data that plugins share, words for pods that a
run does not try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec.structs import replace

from moorage._core.queue.entrance import CreationClock
from moorage.kube import Cluster
from moorage.kube.model.cluster import newest_timestamp, seconds

from ..cache.scheduler_cache import end_each
from ..devices.extended_resources import ResourceClasses
from ..framework import PodNominator
from ..framework.configuration import groups_pods
from ..framework.group_index import PodGroups
from ..framework.handle import FrameworkHandle
from ..plugins.queue_and_groups import GangScheduling
from ..queue import QueueSettings, SchedulingQueue
from ..volume.volumes_in_use import LostUses
from .cycle.engine import Engine
from .options import Options

TERMINATING = "terminating"
WAITING, GATED, OTHER_SCHEDULER = "waiting", "gated", "other-scheduler"
SKIPPED = {"gated": GATED, "other scheduler": OTHER_SCHEDULER, TERMINATING: TERMINATING}
"""The problem of a pod that a run has not tried, by the scheduler's word for it. A plugin gates the others;
those that GangScheduling gates wait for their group."""
GATED_WITH_GROUP = "another pod of its group is gated"


def problem_of(skipped: str) -> str:
    """Return the problem of a pod that a run has not tried, by what `SchedulerState.not_ours` says."""
    return WAITING if skipped.startswith(f"{GangScheduling.name}: ") else SKIPPED.get(skipped, GATED)


# ---- data of plugins ---------------------------------------------------------------------------------------


class SharedPluginData:
    """The data shared by plugins, as a part of a transaction.

    `undo` drops those made since `save`, and restores the assumed volumes of the others.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._handle = handle

    def save(self) -> object:
        """Return the shared data and their state."""
        shared, derived = self._handle.plugin_data()
        parts = [part for data in shared.values() for part in _parts_of(data)]
        return (shared.copy(), derived.copy()), [(part, part.save()) for part in parts]

    def undo(self, saved: object) -> None:
        """Restore the state of `save`."""
        data, parts = cast(Any, saved)
        for now, before in zip(self._handle.plugin_data(), data, strict=True):
            now.clear()
            now.update(before)
        end_each(parts, "undo")

    def copy_from(self, other: SharedPluginData) -> None:
        """Take the assumed volumes and lost uses of another scheduler; all other shared data is derived from
        the informers."""
        for make, data in other._handle.plugin_data()[0].items():
            parts = _copied_of(data)
            if parts:
                mine = self._handle.shared(cast(Any, make))
                for part, its in zip(_copied_of(mine), parts, strict=True):
                    part.copy_from(its)


def _copied_of(data: object) -> list[Any]:
    """Return what a copy takes over of shared data: its parts with a state of their own, or all of it."""
    return [data] if isinstance(data, LostUses) else _parts_of(data)


def _parts_of(data: object) -> list[Any]:
    """Return the parts of shared data that follow from events and cannot be derived anew: assume caches, and
    the classes of extended resources."""
    if isinstance(data, ResourceClasses):
        return [data]
    names = ("pv_cache", "pvc_cache", "claim_cache")
    return [part for name in names if (part := getattr(data, name, None)) is not None]


# ---- queueing ----------------------------------------------------------------------------------------------
# The queue of a scheduler, and the clock that shows the time of its cluster.


def time_of(cluster: Cluster | None) -> CreationClock:
    """Return a clock that shows when the newest object of a cluster was created, until time passes in it.

    An object without a timestamp that is created in a store of this time is at least as new as all others.

    Parameters
    ----------
    cluster : Cluster or None
        None for a store that others write to as well, whose pods set the clock as they come.
    """
    clock, newest = CreationClock(seconds), None if cluster is None else newest_timestamp(cluster)
    clock.now = 0.0 if newest is None else seconds(newest)
    return clock


def make_queue(
    engines: Sequence[Engine], options: Options, clock: Callable[[], float], nominator: PodNominator
) -> SchedulingQueue:
    """Make the queue of a scheduler.

    Parameters
    ----------
    engines : sequence of Engine
        One for each profile.
    options : Options
        A configuration has the backoff periods.
    clock : callable
        Returns seconds.
    """
    configuration, gates = options.configuration, options.gates
    settings = QueueSettings(
        pop_from_backoff=gates["SchedulerPopFromBackoffQ"],
        nominates_gated=gates.release.gated_pods_are_nominated,
    )
    if groups_pods(gates):
        settings = replace(settings, groups_pods=True, top_of=engines[0].handle.shared(PodGroups).top)
    if configuration is not None:
        settings = replace(
            settings,
            initial_backoff=float(configuration.pod_initial_backoff_seconds or 0),
            max_backoff=float(configuration.pod_max_backoff_seconds or 0),
        )
    frameworks, lock = [engine.framework for engine in engines], engines[0].handle.cache.lock
    return SchedulingQueue(frameworks, clock, settings, nominator, lock)
