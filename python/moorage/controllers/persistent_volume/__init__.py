"""The PersistentVolumeController: binds claims and volumes, provisions and reclaims."""

from .controller import PersistentVolumeController as PersistentVolumeController
from .controller import new_controller as new_controller
from .in_memory_plugin import InMemoryProvisioner as InMemoryProvisioner
from .volume_operations import ControllerParameters as ControllerParameters
from .volume_plugins import DeletableVolumePlugin as DeletableVolumePlugin
from .volume_plugins import Deleter as Deleter
from .volume_plugins import PluginHost as PluginHost
from .volume_plugins import ProvisionableVolumePlugin as ProvisionableVolumePlugin
from .volume_plugins import Provisioner as Provisioner
from .volume_plugins import RecyclableVolumePlugin as RecyclableVolumePlugin
from .volume_plugins import RecycleEventRecorder as RecycleEventRecorder
from .volume_plugins import VolumeInUseError as VolumeInUseError
from .volume_plugins import VolumeOptions as VolumeOptions
from .volume_plugins import VolumePlugin as VolumePlugin
