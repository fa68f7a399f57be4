# The public names: for type checkers, and for the room, which imports each at its first use.

from .cluster_changes import ChangingScheduler as ChangingScheduler
from .pod_scheduler import PodScheduler as PodScheduler
from .pod_scheduler import expanded as expanded
