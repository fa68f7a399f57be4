"""The framework's first API, v1alpha1, between Kubernetes v1.14 and v1.15, with Permit and waiting pods.

With the names of that time. Its plugins join today's profiles through `adapt`, their factories today's
registries through `adapt_factory`, and the scheduler runs them. `Framework` runs them for other schedulers.
Durations are seconds. A nil ``*Status`` is None. Go calls methods on nil; here the class is asked:
``Status.IsSuccess(None)``, ``Status.Code(plugin.Reserve(...))``.
"""

from .adapter import adapt as adapt
from .adapter import adapt_factory as adapt_factory
from .context import ContextData as ContextData
from .context import ContextKey as ContextKey
from .context import NewPluginContext as NewPluginContext
from .context import NotFound as NotFound
from .context import PluginContext as PluginContext
from .framework import Framework as Framework
from .framework import NewFramework as NewFramework
from .handle import ProfileHandle as ProfileHandle
from .interface import FrameworkHandle as FrameworkHandle
from .interface import NodeInfoSnapshot as NodeInfoSnapshot
from .interface import PermitPlugin as PermitPlugin
from .interface import Plugin as Plugin
from .interface import PluginFactory as PluginFactory
from .interface import PrebindPlugin as PrebindPlugin
from .interface import ReservePlugin as ReservePlugin
from .interface import Unknown as Unknown
from .interface import UnreservePlugin as UnreservePlugin
from .interface import WaitingPod as WaitingPod
from .registry import NewRegistry as NewRegistry
from .registry import Registry as Registry
from .status import Code as Code
from .status import Error as Error
from .status import FrameworkError as FrameworkError
from .status import NewStatus as NewStatus
from .status import Status as Status
from .status import Success as Success
from .status import Unschedulable as Unschedulable
from .status import Wait as Wait
from .waiting_pods import Clock as Clock
from .waiting_pods import MonotonicClock as MonotonicClock
