"""The scheduling queue: active, backoff and unschedulable pods, and the events that move them."""

from .places import PendingPods as PendingPods
from .queued_pod_info import Place as Place
from .queued_pod_info import QueuedPodInfo as QueuedPodInfo
from .scheduling_queue import SchedulingQueue as SchedulingQueue
