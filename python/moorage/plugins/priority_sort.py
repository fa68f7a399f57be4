"""PrioritySort: higher priority first, then the older pod."""

from __future__ import annotations

from datetime import UTC, datetime

from moorage.framework.interface import QUEUE_SORT, Plugin
from moorage.objects.pod import Pod

LAST = datetime.max.replace(tzinfo=UTC)


class PrioritySort(Plugin):
    """kube-scheduler v1.36, priority_sort.go. A pod's age stands for its time in the queue; pods without a
    creation timestamp are the youngest, and equal ones keep the order in which they came."""

    name = "PrioritySort"
    extension_points = (QUEUE_SORT,)

    def key(self, pod: Pod) -> tuple[int, datetime]:
        """Sort key of a pod."""
        created = pod.metadata.creation_timestamp
        return -(pod.spec.priority or 0), datetime.fromisoformat(created) if created else LAST
