"""The order of the queue, by what the QueueSort plugin says of two pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key

from moorage.framework.interface import QUEUE_SORT, QueuedPod
from moorage.framework.runtime import Framework
from moorage.objects.cluster import Cluster
from moorage.objects.pod import Pod
from moorage.plugins.priority_sort import PrioritySort

Less = Callable[[QueuedPod, QueuedPod], bool]


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod in the queue; its age stands for its time there, and one without a timestamp is the youngest."""

    pod: Pod

    @property
    def timestamp(self) -> float:
        created = self.pod.metadata.creation_timestamp
        return datetime.fromisoformat(created).timestamp() if created else float("inf")


def queue_sorted(pods: Iterable[Pod], less: Less) -> list[PendingPod]:
    """Pods in the order of `less`; equals stay in order."""

    def compare(a: PendingPod, b: PendingPod) -> int:
        return -1 if less(a, b) else int(less(b, a))

    return sorted(map(PendingPod, pods), key=cmp_to_key(compare))


def sort_as_queued(pods: list[Pod], framework: Framework) -> None:
    """Sort pods as the QueueSort plugin of a profile has it; equals stay in order."""
    sorter = next(iter(framework.profile.at(QUEUE_SORT)), None)
    if type(sorter) is PrioritySort:
        pods.sort(key=sorter.key)
    else:
        pods[:] = [queued.pod for queued in queue_sorted(pods, framework.queue_sort_func())]


def newest(cluster: Cluster) -> Callable[[], float]:
    """The clock of a store of these objects stands at the newest creation timestamp, so that an object
    without one is younger than all others."""
    stamps = [o.metadata.creation_timestamp for o in (*cluster.nodes, *cluster.pods, *cluster.others)]
    latest = max((datetime.fromisoformat(stamp).timestamp() for stamp in set(stamps) if stamp), default=0.0)
    return lambda: latest
