"""A cluster in memory: the engine and the controllers around one store, and the verbs of a change."""

from .expanded import expanded as expanded
from .pod_scheduler import PodScheduler as PodScheduler
