# The public names: for type checkers, and for the room, which imports each at its first use.

from .changing_scheduler import ChangingScheduler as ChangingScheduler
from .cluster_changes import ClusterChanges as ClusterChanges
from .lacking_pods import expanded as expanded
from .pod_scheduler import PodScheduler as PodScheduler
