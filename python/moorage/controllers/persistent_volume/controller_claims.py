"""Synchronization of claims: finds or provisions a volume, and binds claim and volume
(controller/volume/persistentvolume/pv_controller.go, syncClaim)."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.volume.binding.claims import (
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
from moorage.volume.constants import (
    BETA_DEFAULT_CLASS,
    BETA_STORAGE_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DEFAULT_CLASS,
    STORAGE_PROVISIONER,
)

from . import controller_events as events
from .controller_provision import provision_claim
from .controller_state import ControllerState, claim_key, pods_that_use, with_migration


def sync_claim(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    """Synchronize a claim as far as possible without waiting.

    Parameters
    ----------
    state : ControllerState
    claim : PersistentVolumeClaim
        As in the controller's cache.

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
    """Synchronize a claim that does not name a volume."""
    delays = is_delay_binding_mode(claim, state.parameters.class_informer.lister)
    try:
        volume = state.volumes.best_match(claim, delays)
    except VolumeError as error:
        raise VolumeError(f'Error finding PV for claim "{claim.key}": {error}') from error
    if volume is not None:
        with state.times.counting_failures(claim.key):
            state.writes.bind(volume, claim)
        state.times.end(claim.key)
    elif (default := _default_class(state, claim)) is not None:
        with_class = replace(claim, spec=replace(claim.spec, storage_class_name=default.name))
        state.writes.claim(claim, with_class)  # the informer brings it back
    elif delays and not is_delay_binding_provisioning(claim):
        _report_waiting(state, claim)
        state.writes.claim_status(claim, "Pending")
    elif claim_class(claim):
        provision_claim(state, claim)
    else:
        message = "no persistent volumes available for this claim and no storage class is set"
        state.writes.event(claim, events.NORMAL, events.FAILED_BINDING, message)
        state.writes.claim_status(claim, "Pending")


def _default_class(state: ControllerState, claim: PersistentVolumeClaim) -> StorageClass | None:
    """The default storage class for a claim without a class: the newest, of equals the first by name. None if
    the claim has a class ("" counts as one), or there is no default."""
    if claim.spec.storage_class_name is not None or BETA_STORAGE_CLASS in claim.metadata.annotations:
        return None
    marks = DEFAULT_CLASS, BETA_DEFAULT_CLASS
    defaults = [
        one
        for one in state.parameters.class_informer.lister.list()
        if any(one.metadata.annotations.get(mark) == "true" for mark in marks)
    ]
    return min(defaults, key=lambda one: (-_created(one), one.name), default=None)


def _created(obj: StorageClass) -> float:
    """Creation time in seconds since 1970; minus infinity if unknown."""
    stamp = obj.metadata.creation_timestamp
    return datetime.fromisoformat(stamp).timestamp() if stamp else float("-inf")


def _report_waiting(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    """Report that a claim waits for its first consumer, or for its pods to be scheduled."""
    pods = [
        one.name
        for one in pods_that_use(state.parameters.pod_informer.lister, claim.key)
        if not (one.spec.node_name or one.metadata.deletion_timestamp)
    ]
    if pods:
        message = f"waiting for pod{'s' if len(pods) > 1 else ''} {','.join(pods)} to be scheduled"
        state.writes.event(claim, events.NORMAL, events.WAIT_FOR_POD_SCHEDULED, message)
        return
    message = "waiting for first consumer to be created before binding"
    state.writes.event(claim, events.NORMAL, events.WAIT_FOR_FIRST_CONSUMER, message)


def _sync_named(state: ControllerState, claim: PersistentVolumeClaim) -> None:
    """Synchronize a claim that names its volume, but is not bound to it yet."""
    volume = state.volumes.get(claim.spec.volume_name)
    if volume is None:
        state.writes.claim_status(claim, "Pending")
    elif volume.spec.claim_ref is None:
        wrong = _mismatch(volume, claim)
        if wrong:
            message = f'Cannot bind to requested volume "{volume.name}": {wrong}'
            state.writes.event(claim, events.WARNING, events.VOLUME_MISMATCH, message)
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
    """The reason why a claim cannot be bound to the volume that it names, or "" (checkVolumeSatisfyClaim)."""
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
    """Synchronize a bound claim: complete missing writes, and report a lost volume."""
    name = claim.spec.volume_name
    volume = state.volumes.get(name) if name else None
    if volume is None:
        lost = "its PersistentVolume" if name else "reference to PersistentVolume"
        message = f"Bound claim has lost {lost}. Data on the volume is lost!"
        state.writes.claim_status_with_event(claim, "Lost", events.WARNING, events.CLAIM_LOST, message)
    elif volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.metadata.uid:
        state.writes.bind(volume, claim)
    else:
        message = "Two claims are bound to the same volume, this one is bound incorrectly"
        state.writes.claim_status_with_event(claim, "Lost", events.WARNING, events.CLAIM_MISBOUND, message)
