"""The scheduling framework: interfaces of plugins, their results, and the profiles that order plugins.

`moorage.engine.framework.configuration` reads KubeSchedulerConfigurations; `moorage.compat.v1alpha1` is the
first version of the framework's interface, of 2019.
"""

from __future__ import annotations

from .events import QUEUE as QUEUE
from .events import QUEUE_SKIP as QUEUE_SKIP
from .events import ActionType as ActionType
from .events import ClusterEvent as ClusterEvent
from .events import ClusterEventWithHint as ClusterEventWithHint
from .events import QueueingHint as QueueingHint
from .evidence import Evidence as Evidence
from .evidence import Fact as Fact
from .evidence import Need as Need
from .evidence import RejectedPod as RejectedPod
from .extension_points import PreFilterRun as PreFilterRun
from .extension_points import StatusError as StatusError
from .handle import FrameworkHandle as FrameworkHandle
from .interface import MAX_NODE_SCORE as MAX_NODE_SCORE
from .interface import Assignments as Assignments
from .interface import BindPlugin as BindPlugin
from .interface import EnqueueExtensions as EnqueueExtensions
from .interface import EvidencePlugin as EvidencePlugin
from .interface import FailedGroup as FailedGroup
from .interface import FilterPlugin as FilterPlugin
from .interface import NodeRanking as NodeRanking
from .interface import NominatingInfo as NominatingInfo
from .interface import PermitPlugin as PermitPlugin
from .interface import Placement as Placement
from .interface import PlacementGeneratePlugin as PlacementGeneratePlugin
from .interface import PlacementScorePlugin as PlacementScorePlugin
from .interface import Plugin as Plugin
from .interface import PodGroupPostFilterPlugin as PodGroupPostFilterPlugin
from .interface import PostBindPlugin as PostBindPlugin
from .interface import PostFilterPlugin as PostFilterPlugin
from .interface import PostFilterResult as PostFilterResult
from .interface import PreBindPlugin as PreBindPlugin
from .interface import PreBindPreFlightResult as PreBindPreFlightResult
from .interface import PreEnqueuePlugin as PreEnqueuePlugin
from .interface import PreFilterExtensions as PreFilterExtensions
from .interface import PreFilterPlugin as PreFilterPlugin
from .interface import PreFilterResult as PreFilterResult
from .interface import PreScorePlugin as PreScorePlugin
from .interface import QueuedPod as QueuedPod
from .interface import QueueSortPlugin as QueueSortPlugin
from .interface import ReservePlugin as ReservePlugin
from .interface import ScorePlugin as ScorePlugin
from .interface import SignPlugin as SignPlugin
from .nodes_view import NodeInfo as NodeInfo
from .nodes_view import NodesView as NodesView
from .out_of_tree_plugins import RowPlugin as RowPlugin
from .plugin_registry import Registry as Registry
from .plugin_registry import installed_plugins as installed_plugins
from .preempt_handle import PluginsRunner as PluginsRunner
from .preempt_handle import PreemptHandle as PreemptHandle
from .profile import Profile as Profile
from .run_plugins import Framework as Framework
from .status import SKIP as SKIP
from .status import Answers as Answers
from .status import Code as Code
from .status import CycleState as CycleState
from .status import NotFoundError as NotFoundError
from .status import Status as Status
from .status import as_status as as_status
from .waiting_pods import PodNominator as PodNominator
from .waiting_pods import WaitingPod as WaitingPod
