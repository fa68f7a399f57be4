"""The queue of a scheduler with its clock, and the return of pods whose attempt failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain

from moorage._core.services.entrance import CreationClock, newest_timestamps
from moorage.errors import ClockError, MoorageError
from moorage.framework import NominatingInfo, PodNominator
from moorage.framework.configuration import KubeSchedulerConfiguration, groups_pods
from moorage.framework.plugin.group_index import PodGroups
from moorage.objects import Cluster, Pod
from moorage.queue import QueuedPodInfo, SchedulingQueue
from moorage.queue.places import alone

from .cycle.diagnosis import Rejectors
from .cycle.engine import Engine

logger = logging.getLogger("moorage.scheduler")


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
    gates: Mapping[str, bool],
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
    gates : mapping of str to bool
        The feature gates.
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
    times = {}
    if configuration is not None:
        times["initial_backoff"] = float(configuration.pod_initial_backoff_seconds or 0)
        times["max_backoff"] = float(configuration.pod_max_backoff_seconds or 0)
    has_groups = groups_pods(gates)
    queue = SchedulingQueue(
        [engine.framework for engine in engines],
        ages if clock is None else clock,
        pop_from_backoff=gates["SchedulerPopFromBackoffQ"],
        groups_pods=has_groups,
        top_of=engines[0].handle.shared(PodGroups).top if has_groups else alone,
        nominator=nominator,
        **times,
    )
    return queue, None if clock else ages


def give_back(
    queue: SchedulingQueue,
    info: QueuedPodInfo,
    current: Callable[[Pod], Pod | None],
    rejectors: Rejectors,
    nominating: NominatingInfo | None = None,
) -> bool:
    """Return a popped pod whose attempt failed to the queue, in its latest state.

    A pod that was deleted or has a node does not return (kube-scheduler v1.36, schedule_one.go
    handleSchedulingFailure).

    Parameters
    ----------
    queue : SchedulingQueue
    info : QueuedPodInfo
        The popped pod.
    current : callable
        Returns the latest state of a pod by namespace and name, or None.
    rejectors : Rejectors
        Empty where the attempt ended with an error.
    nominating : NominatingInfo, optional
        The change of the pod's nomination; without it the latest status decides.

    Returns
    -------
    bool
        False if another pod has the name now; the caller must not write this pod's status then.
    """
    info.gating_plugin = ""
    info.unschedulable_plugins, info.pending_plugins = rejectors
    uid, latest = info.pod.metadata.uid, current(info.pod)
    if latest is None or latest.spec.node_name or latest.metadata.uid != uid:
        queue.done(uid)
        return latest is None or latest.metadata.uid == uid
    info.pod = latest
    try:
        queue.add_unschedulable_if_not_present(info)
    except ClockError:
        raise
    except MoorageError as error:
        logger.error("%s", error)
    if queue.nominator or latest.status.nominated_node_name:
        queue.nominator.nominate_current(latest, nominating)
    return True
