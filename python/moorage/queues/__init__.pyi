# The public names: for type checkers, and for the room, which imports each at its first use.

from .candidates import REASONS as REASONS
from .queue_manager import AdmittedWorkload as AdmittedWorkload
from .queue_manager import Cycle as Cycle
from .queue_manager import Kueue as Kueue
from .queue_manager import PreemptedWorkload as PreemptedWorkload
from .settings import Settings as Settings
from .topology_snapshot import PlacedPods as PlacedPods
from .workloads import AdmittedPods as AdmittedPods
from .workloads import QueuedWorkload as QueuedWorkload
