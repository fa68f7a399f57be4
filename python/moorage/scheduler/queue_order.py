"""The order of the queue, by what the QueueSort plugin says of two pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cmp_to_key

from moorage.framework.interface import QueuedPod
from moorage.objects.cluster import Cluster
from moorage.objects.pod import Pod

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


def newest(cluster: Cluster) -> Callable[[], float]:
    """The clock of a store of these objects stands at the newest creation timestamp, so that an object
    without one is younger than all others."""
    stamps = [o.metadata.creation_timestamp for o in (*cluster.nodes, *cluster.pods, *cluster.others)]
    latest = max((datetime.fromisoformat(stamp).timestamp() for stamp in set(stamps) if stamp), default=0.0)
    return lambda: latest
