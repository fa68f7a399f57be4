"""Karpenter: which nodes come for pods that wait, and which go."""

from .cluster_view import ClusterObjects as ClusterObjects
from .cluster_view import ClusterView as ClusterView
from .cluster_view import Situation as Situation
from .karpenter_options import VERSION as VERSION
from .karpenter_options import KarpenterOptions as KarpenterOptions
from .new_nodes_result import Launch as Launch
from .new_nodes_result import NewClaim as NewClaim
from .new_nodes_result import PodError as PodError
from .new_nodes_result import Provisioning as Provisioning
from .new_nodes_result import TypePrice as TypePrice
from .provision import provision as provision
