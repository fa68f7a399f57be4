"""Volumes: binding of claims, assumed states, and volumes in use on nodes."""

from .binding.assume_cache import AssumeCache as AssumeCache
from .binding.assume_cache import ObjectNameError as ObjectNameError
from .binding.assume_cache import ObjectNotFoundError as ObjectNotFoundError
from .binding.assume_cache import PVAssumeCache as PVAssumeCache
from .binding.assume_cache import PVCAssumeCache as PVCAssumeCache
from .binding.assume_cache import WrongTypeError as WrongTypeError
from .binding.assume_cache import new_assume_cache as new_assume_cache
from .binding.assume_cache import new_pv_assume_cache as new_pv_assume_cache
from .binding.assume_cache import new_pvc_assume_cache as new_pvc_assume_cache
from .binding.claims import VolumeError as VolumeError
from .binding.claims import get_bind_volume_to_claim as get_bind_volume_to_claim
from .binding.claims import is_delay_binding_mode as is_delay_binding_mode
from .binding.claims import is_volume_bound_to_claim as is_volume_bound_to_claim
from .binding.pod_volumes import BindingInfo as BindingInfo
from .binding.pod_volumes import DynamicProvision as DynamicProvision
from .binding.pod_volumes import PodVolumeClaims as PodVolumeClaims
from .binding.pod_volumes import PodVolumes as PodVolumes
from .binding.volume_binder import DEFAULT_BIND_TIMEOUT as DEFAULT_BIND_TIMEOUT
from .binding.volume_binder import POLL_INTERVAL as POLL_INTERVAL
from .binding.volume_binder import BindTimeoutError as BindTimeoutError
from .binding.volume_binder import PodVolumeBinder as PodVolumeBinder
from .binding.volume_binder import ProvisioningFailedError as ProvisioningFailedError
from .binding.volume_binder import RunningBinding as RunningBinding
from .binding.volume_binder import VolumeBinder as VolumeBinder
from .binding.volume_binder import VolumeSources as VolumeSources
from .binding.volume_binder import listed_pods as listed_pods
from .constants import CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG as CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG
from .constants import (
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG as CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
)
from .constants import CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG as CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG
from .constants import VOLUME_SCHEDULER_SUBSYSTEM as VOLUME_SCHEDULER_SUBSYSTEM
