"""Volumes: what the scheduler decides and assumes of them, and the controller that binds them to claims."""

from __future__ import annotations

from .assume_cache import (
    AssumeCache,
    ObjectNameError,
    ObjectNotFoundError,
    PVAssumeCache,
    PVCAssumeCache,
    WrongTypeError,
    new_assume_cache,
    new_pv_assume_cache,
    new_pvc_assume_cache,
)
from .bind import (
    DEFAULT_BIND_TIMEOUT,
    POLL_INTERVAL,
    BindTimeoutError,
    ProvisioningFailedError,
    RunningBinding,
)
from .binder import VolumeBinder
from .claims import VolumeError
from .constants import VOLUME_SCHEDULER_SUBSYSTEM
from .fake_binder import FakeVolumeBinder, FakeVolumeBinderConfig, new_fake_volume_binder
from .find import DynamicProvision, PodVolumeClaims, PodVolumes
from .metrics import (
    VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
    VOLUME_SCHEDULING_STAGE_FAILED,
    VOLUME_SCHEDULING_STAGE_LATENCY,
    register_volume_scheduling_metrics,
)
from .pod_binding_cache import (
    BindingInfo,
    NodeDecision,
    NodeDecisions,
    PodBindingCache,
    new_pod_binding_cache,
)
from .scheduler_binder import CachingVolumeBinder, SchedulerVolumeBinder, new_volume_binder
from .sources import VolumeSources, listed_pods

__all__ = [
    "DEFAULT_BIND_TIMEOUT",
    "POLL_INTERVAL",
    "VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE",
    "VOLUME_SCHEDULER_SUBSYSTEM",
    "VOLUME_SCHEDULING_STAGE_FAILED",
    "VOLUME_SCHEDULING_STAGE_LATENCY",
    "AssumeCache",
    "BindTimeoutError",
    "BindingInfo",
    "CachingVolumeBinder",
    "DynamicProvision",
    "FakeVolumeBinder",
    "FakeVolumeBinderConfig",
    "NodeDecision",
    "NodeDecisions",
    "ObjectNameError",
    "ObjectNotFoundError",
    "PVAssumeCache",
    "PVCAssumeCache",
    "PodBindingCache",
    "PodVolumeClaims",
    "PodVolumes",
    "ProvisioningFailedError",
    "RunningBinding",
    "SchedulerVolumeBinder",
    "VolumeBinder",
    "VolumeError",
    "VolumeSources",
    "WrongTypeError",
    "listed_pods",
    "new_assume_cache",
    "new_fake_volume_binder",
    "new_pod_binding_cache",
    "new_pv_assume_cache",
    "new_pvc_assume_cache",
    "new_volume_binder",
    "register_volume_scheduling_metrics",
]
