# The public names, and modules: for type checkers, and for the package, which imports each at its first use.

from . import allocated_devices as allocated_devices
from . import allocator as allocator
from . import claim_cache as claim_cache
from . import claim_requests as claim_requests
from . import claim_writer as claim_writer
from . import device_state as device_state
from . import extended_resources as extended_resources
from .device_demands import DeviceDemands as DeviceDemands
from .device_pools import DeviceSlices as DeviceSlices
from .device_properties import SelectorCache as SelectorCache
from .device_state import DeviceState as DeviceState
