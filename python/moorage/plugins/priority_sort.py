"""PrioritySort: higher priority first, then the older pod."""

from __future__ import annotations

from datetime import UTC, datetime

from moorage.framework.interface import QueuedPod, QueueSortPlugin
from moorage.objects.pod import Pod

LAST = datetime.max.replace(tzinfo=UTC)


class PrioritySort(QueueSortPlugin):
    """kube-scheduler v1.36, priority_sort.go. A pod's age stands for its time in the queue; pods without a
    creation timestamp are the youngest, and equal ones keep the order in which they came."""

    name = "PrioritySort"

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        ours, theirs = a.pod.spec.priority or 0, b.pod.spec.priority or 0
        return ours > theirs or (ours == theirs and a.timestamp < b.timestamp)

    def key(self, pod: Pod) -> tuple[int, datetime]:
        """Sort key of a pod."""
        created = pod.metadata.creation_timestamp
        return -(pod.spec.priority or 0), datetime.fromisoformat(created) if created else LAST
