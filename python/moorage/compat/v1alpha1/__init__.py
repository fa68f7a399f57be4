"""The framework's first API, v1alpha1, between Kubernetes v1.14 and v1.15, with Permit and waiting pods.

With the names of that time. Its plugins join today's profiles through `adapt`, their factories today's
registries through `adapt_factory`, and the scheduler runs them. `Framework` runs them for other schedulers.
Durations are seconds. A nil ``*Status`` is None. Go calls methods on nil; here the class is asked:
``Status.IsSuccess(None)``, ``Status.Code(plugin.Reserve(...))``.
"""

from .adapted_handle import ProfileHandle as ProfileHandle
from .adapter import adapt as adapt
from .adapter import adapt_factory as adapt_factory
from .context import ContextData as ContextData
from .context import ContextKey as ContextKey
from .context import NewPluginContext as NewPluginContext
from .context import NotFound as NotFound
from .context import PluginContext as PluginContext
from .framework import Framework as Framework
from .framework import NewFramework as NewFramework
from .plugin_collection import NewRegistry as NewRegistry
from .plugin_collection import Registry as Registry
from .plugin_interface import FrameworkHandle as FrameworkHandle
from .plugin_interface import NodeInfoSnapshot as NodeInfoSnapshot
from .plugin_interface import PermitPlugin as PermitPlugin
from .plugin_interface import Plugin as Plugin
from .plugin_interface import PluginFactory as PluginFactory
from .plugin_interface import PrebindPlugin as PrebindPlugin
from .plugin_interface import ReservePlugin as ReservePlugin
from .plugin_interface import Unknown as Unknown
from .plugin_interface import UnreservePlugin as UnreservePlugin
from .plugin_interface import WaitingPod as WaitingPod
from .v1alpha1_status import Code as Code
from .v1alpha1_status import Error as Error
from .v1alpha1_status import FrameworkError as FrameworkError
from .v1alpha1_status import NewStatus as NewStatus
from .v1alpha1_status import Status as Status
from .v1alpha1_status import Success as Success
from .v1alpha1_status import Unschedulable as Unschedulable
from .v1alpha1_status import Wait as Wait
from .waiting_pods_map import Clock as Clock
from .waiting_pods_map import MonotonicClock as MonotonicClock
