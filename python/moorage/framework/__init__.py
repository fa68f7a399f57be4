"""The framework: what plugins are, what they answer, and the profile that puts them in order.

`moorage.framework.configuration` reads KubeSchedulerConfigurations; `moorage.framework.v1alpha1` is the first
API of this framework, of 2019.
"""

from .build import make_profiles as make_profiles
from .cycle_state import NOT_FOUND as NOT_FOUND
from .cycle_state import CycleState as CycleState
from .cycle_state import NotFoundError as NotFoundError
from .handle import Event as Event
from .handle import EventRecorder as EventRecorder
from .handle import FrameworkHandle as FrameworkHandle
from .handle import Parallelizer as Parallelizer
from .interface import BindPlugin as BindPlugin
from .interface import EnqueueExtensions as EnqueueExtensions
from .interface import FilterPlugin as FilterPlugin
from .interface import NominatingInfo as NominatingInfo
from .interface import PermitPlugin as PermitPlugin
from .interface import Plugin as Plugin
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
from .interface import QueueSortPlugin as QueueSortPlugin
from .interface import ReservePlugin as ReservePlugin
from .interface import ScorePlugin as ScorePlugin
from .interface import SignPlugin as SignPlugin
from .native import load_native_plugin as load_native_plugin
from .nodes_view import NodesView as NodesView
from .nominator import PodNominator as PodNominator
from .profile import Profile as Profile
from .registry import Registry as Registry
from .registry import installed_plugins as installed_plugins
from .runtime import Framework as Framework
from .status import Code as Code
from .status import Status as Status
from .waiting_pods import WaitingPod as WaitingPod
