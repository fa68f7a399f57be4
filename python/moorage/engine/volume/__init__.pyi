# The public names, and modules: for type checkers, and for the package, which imports each at its first use.

from . import attached_volumes as attached_volumes
from . import claims as claims
from . import volume_binder as volume_binder
from . import volume_topology as volume_topology
from . import volumes_in_use as volumes_in_use
from .assume_cache import AssumeCache as AssumeCache
from .assume_cache import ObjectNameError as ObjectNameError
from .assume_cache import ObjectNotFoundError as ObjectNotFoundError
from .assume_cache import PVAssumeCache as PVAssumeCache
from .assume_cache import PVCAssumeCache as PVCAssumeCache
from .assume_cache import WrongTypeError as WrongTypeError
from .assume_cache import new_assume_cache as new_assume_cache
from .assume_cache import new_pv_assume_cache as new_pv_assume_cache
from .assume_cache import new_pvc_assume_cache as new_pvc_assume_cache
from .claims import CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG as CLOUD_VOLUME_CREATED_FOR_CLAIM_NAME_TAG
from .claims import (
    CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG as CLOUD_VOLUME_CREATED_FOR_CLAIM_NAMESPACE_TAG,
)
from .claims import CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG as CLOUD_VOLUME_CREATED_FOR_VOLUME_NAME_TAG
from .claims import VOLUME_SCHEDULER_SUBSYSTEM as VOLUME_SCHEDULER_SUBSYSTEM
from .claims import BindingInfo as BindingInfo
from .claims import DynamicProvision as DynamicProvision
from .claims import PodVolumeClaims as PodVolumeClaims
from .claims import PodVolumes as PodVolumes
from .claims import VolumeError as VolumeError
from .claims import get_bind_volume_to_claim as get_bind_volume_to_claim
from .claims import is_delay_binding_mode as is_delay_binding_mode
from .claims import is_volume_bound_to_claim as is_volume_bound_to_claim
from .volume_binder import DEFAULT_BIND_TIMEOUT as DEFAULT_BIND_TIMEOUT
from .volume_binder import POLL_INTERVAL as POLL_INTERVAL
from .volume_binder import BindTimeoutError as BindTimeoutError
from .volume_binder import PodVolumeBinder as PodVolumeBinder
from .volume_binder import ProvisioningFailedError as ProvisioningFailedError
from .volume_binder import RunningBinding as RunningBinding
from .volume_binder import VolumeBinder as VolumeBinder
from .volume_binder import VolumeSources as VolumeSources
from .volume_binder import listed_pods as listed_pods
