"""Validation of volumes, claims and classes; see `validate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.objects.model.meta import Object
from moorage.objects.model.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

from .validate_pod import (
    VOLUME_MODES,
    check_access_modes,
    check_claim_spec,
    check_enum,
    check_node_term,
    check_quantity,
    check_range,
    check_resources,
    check_selector,
    fail,
)

_VOLUME_PHASES = ("Pending", "Available", "Bound", "Released", "Failed")
_CLAIM_PHASES = ("Pending", "Bound", "Lost")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_RECLAIM_POLICIES = ("Retain", "Delete", "Recycle")


def _check_volume(volume: PersistentVolume) -> None:
    spec = volume.spec
    check_resources(spec.capacity, "spec.capacity")
    check_access_modes(spec.access_modes, "spec.accessModes")
    check_enum(spec.volume_mode, VOLUME_MODES, "spec.volumeMode")
    check_enum(spec.persistent_volume_reclaim_policy, _RECLAIM_POLICIES, "spec.persistentVolumeReclaimPolicy")
    check_enum(volume.status.phase, _VOLUME_PHASES, "status.phase")
    affinity = spec.node_affinity
    if affinity is not None and affinity.required is not None:
        for i, term in enumerate(affinity.required.node_selector_terms):
            check_node_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{i}]")


def _check_claim(claim: PersistentVolumeClaim) -> None:
    check_claim_spec(claim.spec, "spec")
    check_enum(claim.status.phase, _CLAIM_PHASES, "status.phase")


def _check_class(obj: StorageClass) -> None:
    if not obj.provisioner:
        fail("provisioner", "required")
    check_enum(obj.volume_binding_mode, _BINDING_MODES, "volumeBindingMode")
    check_enum(obj.reclaim_policy, _RECLAIM_POLICIES, "reclaimPolicy")


def _check_csi_node(obj: CSINode) -> None:
    for i, driver in enumerate(obj.spec.drivers):
        if not driver.name:
            fail(f"spec.drivers[{i}].name", "required")
        if driver.allocatable is not None:
            check_range(driver.allocatable.count, 0, None, f"spec.drivers[{i}].allocatable.count")


def _check_capacity(obj: CSIStorageCapacity) -> None:
    if not obj.storage_class_name:
        fail("storageClassName", "required")
    for field, quantity in (("capacity", obj.capacity), ("maximumVolumeSize", obj.maximum_volume_size)):
        if quantity is not None:
            check_quantity(quantity, field)
    check_selector(obj.node_topology, "nodeTopology")


CHECKS: dict[type[Object], Callable[[Any], None]] = {
    PersistentVolume: _check_volume,
    PersistentVolumeClaim: _check_claim,
    StorageClass: _check_class,
    CSINode: _check_csi_node,
    CSIStorageCapacity: _check_capacity,
}
