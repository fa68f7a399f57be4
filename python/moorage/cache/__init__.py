"""The scheduler cache: what the engine knows of nodes and pods."""

from .scheduler_cache import SchedulerCache as SchedulerCache
