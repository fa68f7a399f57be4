"""The first API of the scheduling framework, v1alpha1, as between Kubernetes v1.14 and v1.15.

Names are those of v1alpha1. `adapt` and `adapt_factory` adapt plugins and factories to the current framework,
whose scheduler then runs them; `Framework` runs plugins of v1alpha1 for other schedulers. Durations are in
seconds. A nil ``*Status`` is None; methods that Go calls on nil are called through the class:
``Status.IsSuccess(None)``, ``Status.Code(plugin.Reserve(...))``.
"""

from .adapter import ProfileHandle as ProfileHandle
from .adapter import adapt as adapt
from .adapter import adapt_factory as adapt_factory
from .framework import Clock as Clock
from .framework import Framework as Framework
from .framework import MonotonicClock as MonotonicClock
from .framework import NewFramework as NewFramework
from .plugin_interface import Code as Code
from .plugin_interface import ContextData as ContextData
from .plugin_interface import ContextKey as ContextKey
from .plugin_interface import Error as Error
from .plugin_interface import FrameworkError as FrameworkError
from .plugin_interface import FrameworkHandle as FrameworkHandle
from .plugin_interface import NewPluginContext as NewPluginContext
from .plugin_interface import NewRegistry as NewRegistry
from .plugin_interface import NewStatus as NewStatus
from .plugin_interface import NodeInfoSnapshot as NodeInfoSnapshot
from .plugin_interface import NotFound as NotFound
from .plugin_interface import PermitPlugin as PermitPlugin
from .plugin_interface import Plugin as Plugin
from .plugin_interface import PluginContext as PluginContext
from .plugin_interface import PluginFactory as PluginFactory
from .plugin_interface import PrebindPlugin as PrebindPlugin
from .plugin_interface import Registry as Registry
from .plugin_interface import ReservePlugin as ReservePlugin
from .plugin_interface import Status as Status
from .plugin_interface import Success as Success
from .plugin_interface import Unknown as Unknown
from .plugin_interface import UnreservePlugin as UnreservePlugin
from .plugin_interface import Unschedulable as Unschedulable
from .plugin_interface import Wait as Wait
from .plugin_interface import WaitingPod as WaitingPod
