"""What the controller does with a claim: finds or makes a volume for it, and binds the two
(controller/volume/persistentvolume/pv_controller.go, syncClaim)."""

from __future__ import annotations

from moorage.objects.storage import PersistentVolume, PersistentVolumeClaim

from .claims import (
    VolumeError,
    claim_class,
    has_access_modes,
    have_equal_modes,
    is_delay_binding_mode,
    is_delay_binding_provisioning,
    is_volume_bound_to_claim,
    requested_storage,
    storage_capacity,
    volume_class,
)
from .constants import BIND_COMPLETED, BOUND_BY_CONTROLLER, STORAGE_PROVISIONER
from .controller_events import (
    CLAIM_LOST,
    CLAIM_MISBOUND,
    FAILED_BINDING,
    NORMAL,
    VOLUME_MISMATCH,
    WAIT_FOR_FIRST_CONSUMER,
    WARNING,
)
from .controller_provision import provision_claim
from .controller_state import ControllerState, claim_key, with_migration


def sync_claim(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    """Bring a claim a step further, as far as it goes without waiting for anybody.

    Raises
    ------
    VolumeError
        The claim cannot be bound.
    ApiError
        A write was refused; the next sync tries again.
    """
    claim = state.writes.claim(claim, with_migration(claim, STORAGE_PROVISIONER, state.migrated_plugins))
    if BIND_COMPLETED in claim.metadata.annotations:
        _sync_bound(state, claim)
    elif claim.spec.volume_name:
        _sync_named(state, claim)
    else:
        _sync_unbound(state, claim)


def _sync_unbound(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    """A claim that takes any volume that suits it."""
    delays = is_delay_binding_mode(claim, state.class_lister)
    try:
        volume = state.volumes.best_match(claim, delays)
    except VolumeError as error:
        raise VolumeError(f'Error finding PV for claim "{claim.key}": {error}') from error
    if volume is not None:
        state.writes.bind(volume, claim)
    elif delays and not is_delay_binding_provisioning(claim):
        message = "waiting for first consumer to be created before binding"
        state.writes.event(claim, NORMAL, WAIT_FOR_FIRST_CONSUMER, message)
        state.writes.claim_status(claim, "Pending")
    elif claim_class(claim):
        provision_claim(state, claim)
    else:
        message = "no persistent volumes available for this claim and no storage class is set"
        state.writes.event(claim, NORMAL, FAILED_BINDING, message)
        state.writes.claim_status(claim, "Pending")


def _sync_named(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    """A claim that names its volume, but is not bound to it yet."""
    volume = state.volumes.get(claim.spec.volume_name)
    if volume is None:
        state.writes.claim_status(claim, "Pending")
    elif volume.spec.claim_ref is None:
        wrong = _mismatch(volume, claim)
        if wrong:
            message = f'Cannot bind to requested volume "{volume.name}": {wrong}'
            state.writes.event(claim, WARNING, VOLUME_MISMATCH, message)
            state.writes.claim_status(claim, "Pending")
        else:
            state.writes.bind(volume, claim)
    elif is_volume_bound_to_claim(volume, claim):
        state.writes.bind(volume, claim)
    elif BOUND_BY_CONTROLLER not in claim.metadata.annotations:
        state.writes.claim_status(claim, "Pending")
    else:  # the controller never writes that
        holder = claim_key(volume.spec.claim_ref)
        raise VolumeError(
            f'Invalid binding of claim "{claim.key}" to volume "{volume.name}": '
            f'volume already claimed by "{holder}"'
        )


def _mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a claim cannot have the volume that it names, or "" (checkVolumeSatisfyClaim)."""
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.name}"'
    if storage_capacity(volume) < requested_storage(claim):
        return "requested PV is too small"
    if volume_class(volume) != claim_class(claim):
        return "storageClassName does not match"
    if not have_equal_modes(volume, claim):
        return "incompatible volumeMode"
    return "" if has_access_modes(volume, claim) else "incompatible accessMode"


def _sync_bound(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    """A claim whose binding is complete: nothing to do, unless its volume went, or a write is missing."""
    name = claim.spec.volume_name
    volume = state.volumes.get(name) if name else None
    if volume is None:
        lost = "its PersistentVolume" if name else "reference to PersistentVolume"
        message = f"Bound claim has lost {lost}. Data on the volume is lost!"
        state.writes.claim_status_with_event(claim, "Lost", WARNING, CLAIM_LOST, message)
    elif volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.metadata.uid:
        state.writes.bind(volume, claim)
    else:
        message = "Two claims are bound to the same volume, this one is bound incorrectly"
        state.writes.claim_status_with_event(claim, "Lost", WARNING, CLAIM_MISBOUND, message)
