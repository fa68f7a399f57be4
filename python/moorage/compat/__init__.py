"""Interfaces of earlier releases: the framework API v1alpha1, the preemption handle of v1.20, the volume
binder and the host of volume plugins of v1.14, the nodes of a cache of v1.13.
"""

from __future__ import annotations

from moorage.controllers.volume_operations import ControllerParameters as ControllerParameters

from .adapted_binder import AdaptedBinder as AdaptedBinder
from .nodes_of_cache import NodeTree as NodeTree
from .nodes_of_cache import update_node_name_to_info_map as update_node_name_to_info_map
from .preempt_handle import PluginsRunner as PluginsRunner
from .preempt_handle import PreemptHandle as PreemptHandle
from .scheduler_binder import CachingVolumeBinder as CachingVolumeBinder
from .scheduler_binder import FakeVolumeBinder as FakeVolumeBinder
from .scheduler_binder import FakeVolumeBinderConfig as FakeVolumeBinderConfig
from .scheduler_binder import NodeDecision as NodeDecision
from .scheduler_binder import NodeDecisions as NodeDecisions
from .scheduler_binder import PodBindingCache as PodBindingCache
from .scheduler_binder import SchedulerVolumeBinder as SchedulerVolumeBinder
from .scheduler_binder import new_fake_volume_binder as new_fake_volume_binder
from .scheduler_binder import new_pod_binding_cache as new_pod_binding_cache
from .scheduler_binder import new_volume_binder as new_volume_binder
from .volume_host import OSExecutor as OSExecutor
from .volume_host import VolumeHost as VolumeHost
