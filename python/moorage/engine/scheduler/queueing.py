"""The queue of a scheduler, and the clock that shows the time of its cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from moorage._core.queue.entrance import CreationClock
from moorage.kube import Cluster
from moorage.kube.releases import FeatureGates
from moorage.kube.workloads.ages import newest_timestamp, seconds

from ..framework import PodNominator
from ..framework.configuration import KubeSchedulerConfiguration, groups_pods
from ..framework.plugin.group_index import PodGroups
from ..queue import QueueSettings, SchedulingQueue
from .cycle.engine import Engine


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
    engines: Sequence[Engine],
    configuration: KubeSchedulerConfiguration | None,
    gates: FeatureGates,
    clock: Callable[[], float],
    nominator: PodNominator,
) -> SchedulingQueue:
    """Make the queue of a scheduler.

    Parameters
    ----------
    engines : sequence of Engine
        One for each profile.
    configuration : KubeSchedulerConfiguration or None
        Has the backoff periods; None for the defaults.
    gates : FeatureGates
        The feature gates, and their release.
    clock : callable
        Returns seconds.
    """
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
