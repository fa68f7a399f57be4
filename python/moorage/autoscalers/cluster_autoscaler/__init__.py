"""cluster-autoscaler: which groups of nodes grow and shrink."""

from .cluster_autoscaler import ClusterAutoscaler as ClusterAutoscaler
from .cluster_autoscaler import Loop as Loop
from .flags import Flags as Flags
from .flags import Instance as Instance
from .flags import Memory as Memory
from .flags import NodeGroup as NodeGroup
from .flags import PodPrices as PodPrices
from .flags import ScaleUpRequest as ScaleUpRequest
from .scale_down_pass import ScaleDownResult as ScaleDownResult
from .scale_up_pass import ScaleUpResult as ScaleUpResult
