# The public names: for type checkers, and for the room, which imports each at its first use.

from . import given_objects as given_objects
from .apply_objects import write_objects as write_objects
from .changing_scheduler import ChangingScheduler as ChangingScheduler
from .cluster_changes import ClusterChanges as ClusterChanges
from .examine import Feasibility as Feasibility
from .examine import examine_nodes as examine_nodes
from .examine import first_feasible as first_feasible
from .lacking_pods import expanded as expanded
from .pod_scheduler import PodScheduler as PodScheduler
