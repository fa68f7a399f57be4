"""Which nodes come for pods that wait, and which go, as autoscalers decide it."""

from .consolidation_rounds import Consolidation as Consolidation
from .consolidation_rounds import RemovalStep as RemovalStep
from .group_settings import GroupSettings as GroupSettings
from .group_settings import NodeGroup as NodeGroup
from .group_settings import ScaleDown as ScaleDown
from .instance_types.instance_type import InstanceType as InstanceType
from .instance_types.instance_type import Offering as Offering
from .instance_types.read_types import read_instance_types as read_instance_types
from .instance_types.seen_types import seen_types as seen_types
from .karpenter import KarpenterOptions as KarpenterOptions
from .karpenter import Launch as Launch
from .karpenter import NewClaim as NewClaim
from .karpenter import PodError as PodError
from .karpenter import Provisioning as Provisioning
from .karpenter import TypePrice as TypePrice
from .providers.registrations import Registration as Registration
from .scale_up_answer import NewNode as NewNode
from .scale_up_answer import ScaleUp as ScaleUp
from .scalers import Growth as Growth
