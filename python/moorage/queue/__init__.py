"""The scheduling queue: active, backoff and unschedulable pods, and the events that move them."""

from .places import PendingPods
from .queued_pod_info import Place, QueuedPodInfo
from .scheduling_queue import SchedulingQueue

__all__ = ["PendingPods", "Place", "QueuedPodInfo", "SchedulingQueue"]
