"""The queue of a scheduler, with its clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain

from msgspec.structs import replace

from moorage._core.queue.entrance import CreationClock, newest_timestamps
from moorage.framework import PodNominator
from moorage.framework.configuration import KubeSchedulerConfiguration, groups_pods
from moorage.framework.plugin.group_index import PodGroups
from moorage.objects import Cluster
from moorage.queue import SchedulingQueue
from moorage.queue.priority_queue import QueueSettings, alone
from moorage.releases import FeatureGates

from .cycle.engine import Engine


@lru_cache(1 << 16)
def seconds(timestamp: str) -> float:
    """Parse a timestamp of an object (RFC 3339).

    Parameters
    ----------
    timestamp : str

    Returns
    -------
    float
        Seconds since 1970.
    """
    return datetime.fromisoformat(timestamp).timestamp()


def newest_clock(cluster: Cluster) -> Callable[[], float]:
    """Return a clock that always shows the newest creation timestamp of a cluster, for a store of its
    objects.

    An object without a timestamp that is created in that store gets this time, so it is at least as new as
    all others.

    Parameters
    ----------
    cluster : Cluster

    Returns
    -------
    callable
        Returns seconds since 1970.
    """
    stamps = newest_timestamps(chain(cluster.nodes, cluster.pods, cluster.others))
    return partial(float, max(map(seconds, stamps), default=0.0))


def make_queue(
    engines: Sequence[Engine],
    configuration: KubeSchedulerConfiguration | None,
    gates: FeatureGates,
    clock: Callable[[], float] | None,
    nominator: PodNominator,
) -> tuple[SchedulingQueue, CreationClock | None]:
    """Make the queue of a scheduler.

    Parameters
    ----------
    engines : sequence of Engine
        One for each profile.
    configuration : KubeSchedulerConfiguration or None
        Has the backoff periods; None for the defaults.
    gates : FeatureGates
        The feature gates, and their release.
    clock : callable or None
        Returns seconds. Without one the queue has a CreationClock.
    nominator : PodNominator

    Returns
    -------
    queue : SchedulingQueue
    ages : CreationClock or None
        The clock of the queue, if none was passed.
    """
    ages = CreationClock(seconds)
    has_groups = groups_pods(gates)
    settings = QueueSettings(
        pop_from_backoff=gates["SchedulerPopFromBackoffQ"],
        nominates_gated=gates.release.gated_pods_are_nominated,
        groups_pods=has_groups,
        top_of=engines[0].handle.shared(PodGroups).top if has_groups else alone,
    )
    if configuration is not None:
        settings = replace(
            settings,
            initial_backoff=float(configuration.pod_initial_backoff_seconds or 0),
            max_backoff=float(configuration.pod_max_backoff_seconds or 0),
        )
    frameworks = [engine.framework for engine in engines]
    queue = SchedulingQueue(frameworks, ages if clock is None else clock, settings, nominator)
    return queue, None if clock else ages
