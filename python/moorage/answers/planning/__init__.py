"""Planning: questions about a cluster that leave the scheduler as it was. Users call them as methods of
`Scheduler`; here are the types of the answers."""

from .bounds.placement_bound import Bound as Bound
from .bounds.placement_bound import Price as Price
from .new_nodes.node_count import NodeBound as NodeBound
from .new_nodes.node_demand import NodesNeeded as NodesNeeded
from .node_emptying import Aim as Aim
from .node_emptying import EmptyingPlan as EmptyingPlan
from .node_room import Holder as Holder
from .node_room import Room as Room
from .pod_moves import Blocker as Blocker
from .pod_moves import Move as Move
from .survival import Loss as Loss
from .survival import LostPod as LostPod
from .survival import Survival as Survival
from .template_capacity import Binding as Binding
from .template_capacity import Capacity as Capacity
from .template_capacity import TemplateCapacity as TemplateCapacity
