"""Volumes: what the scheduler decides and assumes of them."""

from __future__ import annotations

from .binding.assume_cache import (
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
from .binding.bind import (
    DEFAULT_BIND_TIMEOUT,
    POLL_INTERVAL,
    BindTimeoutError,
    ProvisioningFailedError,
    RunningBinding,
)
from .binding.claims import (
    VolumeError,
    get_bind_volume_to_claim,
    is_delay_binding_mode,
    is_volume_bound_to_claim,
)
from .binding.find import BindingInfo, DynamicProvision, PodVolumeClaims, PodVolumes
from .binding.metrics import (
    VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
    VOLUME_SCHEDULING_STAGE_FAILED,
    VOLUME_SCHEDULING_STAGE_LATENCY,
    register_volume_scheduling_metrics,
)
from .binding.sources import VolumeSources, listed_pods
from .binding.volume_binder import VolumeBinder
from .constants import (
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG,
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
    CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG,
    VOLUME_SCHEDULER_SUBSYSTEM,
)

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
    "DynamicProvision",
    "ObjectNameError",
    "ObjectNotFoundError",
    "PVAssumeCache",
    "PVCAssumeCache",
    "PodVolumeClaims",
    "PodVolumes",
    "ProvisioningFailedError",
    "RunningBinding",
    "VolumeBinder",
    "VolumeError",
    "VolumeSources",
    "WrongTypeError",
    "get_bind_volume_to_claim",
    "is_delay_binding_mode",
    "is_volume_bound_to_claim",
    "listed_pods",
    "new_assume_cache",
    "new_pv_assume_cache",
    "new_pvc_assume_cache",
    "register_volume_scheduling_metrics",
]
