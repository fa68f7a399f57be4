"""PrioritySort: higher priority first, then the pod that came earlier."""

from __future__ import annotations

from moorage import framework as fwk
from moorage.queue.active_queue import by_priority


class PrioritySort(fwk.QueueSortPlugin):
    """kube-scheduler v1.36, priority_sort.go. Pods that came at one time keep the order of their entry."""

    name = "PrioritySort"

    less = by_priority
