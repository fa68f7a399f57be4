"""The PersistentVolumeController: binds claims and volumes, provisions and reclaims."""

from .controller import ControllerParameters as ControllerParameters
from .controller import PersistentVolumeController as PersistentVolumeController
from .controller import new_controller as new_controller
from .host import VolumeHost as VolumeHost
from .in_memory_plugin import InMemoryProvisioner as InMemoryProvisioner
from .provisioning import DeletableVolumePlugin as DeletableVolumePlugin
from .provisioning import Deleter as Deleter
from .provisioning import ProvisionableVolumePlugin as ProvisionableVolumePlugin
from .provisioning import Provisioner as Provisioner
from .provisioning import RecyclableVolumePlugin as RecyclableVolumePlugin
from .provisioning import RecycleEventRecorder as RecycleEventRecorder
from .provisioning import VolumeInUseError as VolumeInUseError
from .provisioning import VolumeOptions as VolumeOptions
from .provisioning import VolumePlugin as VolumePlugin
