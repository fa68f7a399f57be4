"""The PersistentVolumeController: binds claims and volumes, provisions and reclaims."""

from __future__ import annotations

from .controller import ControllerParameters, PersistentVolumeController, new_controller
from .host import VolumeHost
from .in_memory_plugin import InMemoryProvisioner
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

__all__ = [
    "ControllerParameters",
    "DeletableVolumePlugin",
    "Deleter",
    "InMemoryProvisioner",
    "PersistentVolumeController",
    "ProvisionableVolumePlugin",
    "Provisioner",
    "RecyclableVolumePlugin",
    "RecycleEventRecorder",
    "VolumeHost",
    "VolumeInUseError",
    "VolumeOptions",
    "VolumePlugin",
    "new_controller",
]
