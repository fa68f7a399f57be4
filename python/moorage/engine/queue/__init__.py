"""The scheduling queue: active, backoff and unschedulable pods, and the events that move them."""

from moorage._core.queue.queued_pods import Place as Place
from moorage._core.queue.queued_pods import QueuedPodInfo as QueuedPodInfo

from .scheduling_queue import PendingPods as PendingPods
from .scheduling_queue import QueueSettings as QueueSettings
from .scheduling_queue import SchedulingQueue as SchedulingQueue
