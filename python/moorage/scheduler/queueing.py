"""Between the scheduler and its queue: when pods come to it, and how those come back that failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial

from moorage.errors import ClockError, MoorageError
from moorage.framework.configuration import KubeSchedulerConfiguration, groups_pods
from moorage.framework.plugin.interface import NominatingInfo
from moorage.framework.plugin.nominator import PodNominator
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.pod import Pod
from moorage.queue import QueuedPodInfo, SchedulingQueue

from .cycle.diagnosis import Rejectors
from .cycle.engine import Engine

logger = logging.getLogger("moorage.scheduler")


@lru_cache(1 << 16)
def seconds(timestamp: str) -> float:
    """Seconds since 1970."""
    return datetime.fromisoformat(timestamp).timestamp()


class Ages:
    """Time for a queue without a clock: a pod comes when it was created, and it is as late as when the
    youngest known pod was created. So nothing depends on when a program runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def came(self, pod: Pod) -> QueuedPodInfo:
        """The entry of a pod that came."""
        created = pod.metadata.creation_timestamp
        at = seconds(created) if created else self.now
        self.now = max(self.now, at)
        return QueuedPodInfo(pod, at)


def newest(cluster: Cluster) -> Callable[[], float]:
    """The clock of a store of these objects stands at the newest creation timestamp, so that an object
    without one is younger than all others."""
    stamps = [o.metadata.creation_timestamp for o in (*cluster.nodes, *cluster.pods, *cluster.others)]
    latest = max((seconds(stamp) for stamp in set(stamps) if stamp), default=0.0)
    return partial(float, latest)


def make_queue(
    engines: Sequence[Engine],
    configuration: KubeSchedulerConfiguration | None,
    gates: Mapping[str, bool],
    clock: Callable[[], float] | None,
    nominator: PodNominator,
) -> tuple[SchedulingQueue, Ages | None]:
    """A scheduler's queue; with the ages of pods where it has no clock."""
    ages = Ages()
    times = {}
    if configuration is not None:
        times["initial_backoff"] = float(configuration.pod_initial_backoff_seconds or 0)
        times["max_backoff"] = float(configuration.pod_max_backoff_seconds or 0)
    queue = SchedulingQueue(
        [engine.framework for engine in engines],
        ages if clock is None else clock,
        pop_from_backoff=gates["SchedulerPopFromBackoffQ"],
        groups_pods=groups_pods(gates),
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
    """A popped pod failed: it comes back to the queue in its latest state, unless it is gone or has a node
    (kube-scheduler v1.36, schedule_one.go handleSchedulingFailure).

    Parameters
    ----------
    current : callable
        What informers have of a pod now, by namespace and name.
    rejectors : Rejectors
        Empty where the attempt ended with an error.
    nominating : NominatingInfo, optional
        What the attempt made of the pod's nomination; without it the latest status decides.

    Returns
    -------
    bool
        False where another pod has its name now, so that there is nothing more to say about this one.
    """
    info.gating_plugin = ""
    info.unschedulable_plugins, info.pending_plugins = rejectors
    uid, held = info.pod.metadata.uid, current(info.pod)
    if held is None or held.spec.node_name or held.metadata.uid != uid:
        queue.done(uid)
        return held is None or held.metadata.uid == uid
    info.pod = held
    try:
        queue.add_unschedulable_if_not_present(info)
    except ClockError:
        raise
    except MoorageError as error:
        logger.error("%s", error)
    if queue.nominator or held.status.nominated_node_name:
        queue.nominator.add_nominated_pod(held, nominating)
    return True
