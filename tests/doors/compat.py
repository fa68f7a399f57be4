"""What tests need of the inside of compat."""

# The type of a handler, for an annotation.
from moorage.compat.adapted_binder import DecisionsHandler as DecisionsHandler

# Documented names, which stand outside the room of compat so far.
from moorage.compat.binder_cache import BinderCache as BinderCache
from moorage.compat.binder_cache import CacheHandler as CacheHandler
from moorage.compat.binder_cache import CachePodInfo as CachePodInfo
from moorage.compat.binder_cache import QosNodeInfo as QosNodeInfo
from moorage.compat.binder_cache import SchedulingStatus as SchedulingStatus
from moorage.compat.binder_cache import StoreName as StoreName
from moorage.compat.binder_cache import UnitStatus as UnitStatus
from moorage.compat.binder_cache import Victims as Victims
from moorage.compat.binder_cache import new_binder_cache as new_binder_cache

# Documented names, one level below the room's own, under the spelling of v1.14.
from moorage.compat.v1alpha1 import Code as Code
from moorage.compat.v1alpha1 import ContextKey as ContextKey
from moorage.compat.v1alpha1 import Error as Error
from moorage.compat.v1alpha1 import Framework as Framework
from moorage.compat.v1alpha1 import FrameworkError as FrameworkError
from moorage.compat.v1alpha1 import FrameworkHandle as FrameworkHandle
from moorage.compat.v1alpha1 import MonotonicClock as MonotonicClock
from moorage.compat.v1alpha1 import NewFramework as NewFramework
from moorage.compat.v1alpha1 import NewPluginContext as NewPluginContext
from moorage.compat.v1alpha1 import NewRegistry as NewRegistry
from moorage.compat.v1alpha1 import NewStatus as NewStatus
from moorage.compat.v1alpha1 import NotFound as NotFound
from moorage.compat.v1alpha1 import PermitPlugin as PermitPlugin
from moorage.compat.v1alpha1 import Plugin as Plugin
from moorage.compat.v1alpha1 import PluginContext as PluginContext

# Locks and threads.
from moorage.compat.v1alpha1 import PodInPermit as PodInPermit
from moorage.compat.v1alpha1 import PrebindPlugin as PrebindPlugin
from moorage.compat.v1alpha1 import ProfileHandle as ProfileHandle
from moorage.compat.v1alpha1 import Registry as Registry
from moorage.compat.v1alpha1 import ReservePlugin as ReservePlugin
from moorage.compat.v1alpha1 import RWMutex as RWMutex
from moorage.compat.v1alpha1 import Status as Status
from moorage.compat.v1alpha1 import Success as Success
from moorage.compat.v1alpha1 import Unknown as Unknown
from moorage.compat.v1alpha1 import UnreservePlugin as UnreservePlugin
from moorage.compat.v1alpha1 import Unschedulable as Unschedulable
from moorage.compat.v1alpha1 import Wait as Wait
from moorage.compat.v1alpha1 import WaitingPod as WaitingPod
from moorage.compat.v1alpha1 import WaitingPods as WaitingPods
from moorage.compat.v1alpha1 import adapt as adapt
from moorage.compat.v1alpha1 import adapt_factory as adapt_factory
