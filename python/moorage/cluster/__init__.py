"""A cluster in memory: the engine and the controllers around one store, and the verbs of a change."""

from .cluster_changes import ChangingScheduler as ChangingScheduler
from .pod_scheduler import PodScheduler as PodScheduler
from .pod_scheduler import expanded as expanded
