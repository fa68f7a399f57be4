# The public names: for type checkers, and for the room, which imports each at its first use.

from .autoscaler_protocol import AutoscalerSettings as AutoscalerSettings
from .consolidation_rounds import Consolidation as Consolidation
from .consolidation_rounds import RemovalStep as RemovalStep
from .group_settings import GroupSettings as GroupSettings
from .group_settings import NodeGroup as NodeGroup
from .group_settings import ScaleDown as ScaleDown
from .hourly_cost import HourlyCost as HourlyCost
from .karpenter.karpenter_options import KarpenterOptions as KarpenterOptions
from .karpenter.new_nodes_result import Launch as Launch
from .karpenter.new_nodes_result import Launched as Launched
from .karpenter.new_nodes_result import NewClaim as NewClaim
from .karpenter.new_nodes_result import PodError as PodError
from .karpenter.new_nodes_result import Provisioning as Provisioning
from .karpenter.new_nodes_result import TypePrice as TypePrice
from .node_removal import RemovalVerdict as RemovalVerdict
from .providers.instance_type import InstanceType as InstanceType
from .providers.instance_type import Offering as Offering
from .providers.instance_type import seen_types as seen_types
from .providers.known_labels import KnownLabels as KnownLabels
from .providers.type_files import read_instance_types as read_instance_types
from .scale_up_answer import NewNode as NewNode
from .scale_up_answer import ScaleUp as ScaleUp
