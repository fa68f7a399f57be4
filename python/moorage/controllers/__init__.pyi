# The public names: for type checkers, and for the room, which imports each at its first use.

from .availability import Rollout as Rollout
from .cluster_controllers import ClusterControllers as ClusterControllers
from .pod_times import PodTimes as PodTimes
from .pod_times import TimesOf as TimesOf
from .simulated_claims import SimulatedClaims as SimulatedClaims
