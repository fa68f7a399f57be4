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
from .claims import (
    VolumeError,
    get_bind_volume_to_claim,
    is_delay_binding_mode,
    is_volume_bound_to_claim,
)
from .constants import (
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
    CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG,
    VOLUME_SCHEDULER_SUBSYSTEM,
)
from .controller import ControllerParameters, PersistentVolumeController, new_controller
from .fake_binder import FakeVolumeBinder, FakeVolumeBinderConfig, new_fake_volume_binder
from .find import DynamicProvision, PodVolumeClaims, PodVolumes
from .host import VolumeHost
from .in_memory_plugin import InMemoryProvisioner
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
from .provisioning import (
    DeletableVolumePlugin,
    Deleter,
    ProvisionableVolumePlugin,
    Provisioner,
    RecyclableVolumePlugin,
    RecycleEventRecorder,
    VolumeInUseError,
    VolumeOptions,
    VolumePlugin,
)
from .scheduler_binder import CachingVolumeBinder, SchedulerVolumeBinder, new_volume_binder
from .sources import VolumeSources, listed_pods

__all__ = [
    "CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG",
    "CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG",
    "CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG",
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
    "ControllerParameters",
    "DeletableVolumePlugin",
    "Deleter",
    "DynamicProvision",
    "FakeVolumeBinder",
    "FakeVolumeBinderConfig",
    "InMemoryProvisioner",
    "NodeDecision",
    "NodeDecisions",
    "ObjectNameError",
    "ObjectNotFoundError",
    "PVAssumeCache",
    "PVCAssumeCache",
    "PersistentVolumeController",
    "PodBindingCache",
    "PodVolumeClaims",
    "PodVolumes",
    "ProvisionableVolumePlugin",
    "Provisioner",
    "ProvisioningFailedError",
    "RecyclableVolumePlugin",
    "RecycleEventRecorder",
    "RunningBinding",
    "SchedulerVolumeBinder",
    "VolumeBinder",
    "VolumeError",
    "VolumeHost",
    "VolumeInUseError",
    "VolumeOptions",
    "VolumePlugin",
    "VolumeSources",
    "WrongTypeError",
    "get_bind_volume_to_claim",
    "is_delay_binding_mode",
    "is_volume_bound_to_claim",
    "listed_pods",
    "new_assume_cache",
    "new_controller",
    "new_fake_volume_binder",
    "new_pod_binding_cache",
    "new_pv_assume_cache",
    "new_pvc_assume_cache",
    "new_volume_binder",
    "register_volume_scheduling_metrics",
]
