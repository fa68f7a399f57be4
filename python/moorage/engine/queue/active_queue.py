"""The active queue: pods that are ready for an attempt, in the order of the QueueSort plugin.

kube-scheduler v1.36, backend/queue/active_queue.go. Equal pods stay in the order in which they entered;
upstream's heap leaves their order open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key, partial

from moorage._core.queue.queued_pods import KeyedHeap, PriorityLanes, QueuedPodInfo

from ..framework import QueuedPod

Less = Callable[[QueuedPod, QueuedPod], bool]


def by_priority(self: object, a: QueuedPod, b: QueuedPod) -> bool:
    """Compare two pods by PrioritySort: higher priority first, then the earlier timestamp.

    Parameters
    ----------
    self : object
        The plugin; unused.

    Returns
    -------
    bool
        Whether `a` comes before `b`.
    """
    ours, theirs = a.pod.spec.priority or 0, b.pod.spec.priority or 0
    return ours > theirs or (ours == theirs and a.timestamp < b.timestamp)


def active_queue(less: Less) -> Callable[[], PriorityLanes | KeyedHeap]:
    """Return what makes an empty queue in the order of a QueueSort plugin, by its `less`."""
    if getattr(less, "__func__", None) is by_priority:
        return PriorityLanes

    def compare(a: QueuedPodInfo, b: QueuedPodInfo) -> int:
        return -1 if less(a, b) else 1 if less(b, a) else a.order - b.order

    key = cmp_to_key(compare)
    return partial(KeyedHeap, lambda info: (key(info),))
