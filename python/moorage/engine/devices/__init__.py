"""Devices of dynamic resource allocation: selectors, pools, the allocator, claims in use."""

from .allocation.allocator import Allocator as Allocator
from .allocation.device_pools import DeviceSlices as DeviceSlices
from .device_demands import DeviceDemands as DeviceDemands
from .device_state import DeviceState as DeviceState
from .request_survey import DeviceSurvey as DeviceSurvey
from .request_survey import RequestSurvey as RequestSurvey
from .selector_cache import SelectorCache as SelectorCache
