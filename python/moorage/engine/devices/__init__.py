"""Devices of dynamic resource allocation: selectors, pools, the allocator, claims in use."""

from __future__ import annotations

from .allocator import Allocator as Allocator
from .device_demands import DeviceDemands as DeviceDemands
from .device_pools import DeviceSlices as DeviceSlices
from .device_properties import SelectorCache as SelectorCache
from .device_state import DeviceState as DeviceState
