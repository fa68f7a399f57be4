"""The scheduling framework: interfaces of plugins, their results, and the profiles that order plugins.

`moorage.framework.configuration` reads KubeSchedulerConfigurations; `moorage.compat.v1alpha1` is the first
version of the framework's interface, of 2019.
"""

from .plugin.any_node_info import NodeInfo as NodeInfo
from .plugin.cycle_state import CycleState as CycleState
from .plugin.cycle_state import NotFoundError as NotFoundError
from .plugin.events import QUEUE as QUEUE
from .plugin.events import QUEUE_SKIP as QUEUE_SKIP
from .plugin.events import ActionType as ActionType
from .plugin.events import ClusterEvent as ClusterEvent
from .plugin.events import ClusterEventWithHint as ClusterEventWithHint
from .plugin.events import QueueingHint as QueueingHint
from .plugin.evidence import Evidence as Evidence
from .plugin.evidence import EvidencePlugin as EvidencePlugin
from .plugin.evidence import Fact as Fact
from .plugin.evidence import Inquiry as Inquiry
from .plugin.evidence import Need as Need
from .plugin.handle import FrameworkHandle as FrameworkHandle
from .plugin.interface import MAX_NODE_SCORE as MAX_NODE_SCORE
from .plugin.interface import Assignments as Assignments
from .plugin.interface import BindPlugin as BindPlugin
from .plugin.interface import EnqueueExtensions as EnqueueExtensions
from .plugin.interface import FailedGroup as FailedGroup
from .plugin.interface import FilterPlugin as FilterPlugin
from .plugin.interface import NominatingInfo as NominatingInfo
from .plugin.interface import PermitPlugin as PermitPlugin
from .plugin.interface import Placement as Placement
from .plugin.interface import PlacementGeneratePlugin as PlacementGeneratePlugin
from .plugin.interface import PlacementScorePlugin as PlacementScorePlugin
from .plugin.interface import Plugin as Plugin
from .plugin.interface import PodGroupPostFilterPlugin as PodGroupPostFilterPlugin
from .plugin.interface import PostBindPlugin as PostBindPlugin
from .plugin.interface import PostFilterPlugin as PostFilterPlugin
from .plugin.interface import PostFilterResult as PostFilterResult
from .plugin.interface import PreBindPlugin as PreBindPlugin
from .plugin.interface import PreBindPreFlightResult as PreBindPreFlightResult
from .plugin.interface import PreEnqueuePlugin as PreEnqueuePlugin
from .plugin.interface import PreFilterExtensions as PreFilterExtensions
from .plugin.interface import PreFilterPlugin as PreFilterPlugin
from .plugin.interface import PreFilterResult as PreFilterResult
from .plugin.interface import PreScorePlugin as PreScorePlugin
from .plugin.interface import QueuedPod as QueuedPod
from .plugin.interface import QueueSortPlugin as QueueSortPlugin
from .plugin.interface import ReservePlugin as ReservePlugin
from .plugin.interface import ScorePlugin as ScorePlugin
from .plugin.interface import SignPlugin as SignPlugin
from .plugin.nodes_view import NodesView as NodesView
from .plugin.nominator import PodNominator as PodNominator
from .plugin.status import SKIP as SKIP
from .plugin.status import Answers as Answers
from .plugin.status import Code as Code
from .plugin.status import Status as Status
from .plugin.status import as_status as as_status
from .plugin.waiting_pods import WaitingPod as WaitingPod
from .profiles.plugin_registry import Registry as Registry
from .profiles.plugin_registry import installed_plugins as installed_plugins
from .profiles.profile import Profile as Profile
from .runtime.call import StatusError as StatusError
from .runtime.filtering import PreFilterRun as PreFilterRun
from .runtime.preempt_handle import PluginsRunner as PluginsRunner
from .runtime.preempt_handle import PreemptHandle as PreemptHandle
from .runtime.runtime import Framework as Framework
