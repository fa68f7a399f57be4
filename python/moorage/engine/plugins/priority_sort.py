"""PrioritySort: sorts the queue by priority, then by the time of entry."""

from __future__ import annotations

from moorage.engine import framework as fwk

from ..queue.active_queue import by_priority


class PrioritySort(fwk.QueueSortPlugin):
    """QueueSort of kube-scheduler v1.36, priority_sort.go. Pods with equal times keep the order of entry."""

    name = "PrioritySort"

    less = by_priority
