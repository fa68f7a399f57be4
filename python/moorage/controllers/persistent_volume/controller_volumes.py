"""Synchronization of volumes: sets their phase, and reclaims them when their claim is deleted
(controller/volume/persistentvolume/pv_controller.go, syncVolume)."""

from __future__ import annotations

from moorage.objects.model.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim
from moorage.store.errors import NotFoundError
from moorage.volume.binding.claims import have_equal_modes
from moorage.volume.constants import BOUND_BY_CONTROLLER, PROVISIONED_BY

from . import controller_events as events
from .controller_reclaim import reclaim_volume
from .controller_state import ControllerState, claim_key, with_migration

_GIVEN_UP = ("Released", "Failed")


def sync_volume(state: ControllerState, volume: PersistentVolume) -> None:
    """Synchronize a volume as far as possible without waiting.

    Parameters
    ----------
    state : ControllerState
    volume : PersistentVolume
        As in the controller's cache.

    Raises
    ------
    ApiError
        A write was refused; the next sync tries again.
    """
    volume = state.writes.volume(volume, with_migration(volume, PROVISIONED_BY, state.migrated_plugins))
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        state.writes.volume_phase(volume, "Available")
        return
    claim = _claim_of(state, volume, reference)
    if claim is None:
        _release(state, volume)
    elif not claim.spec.volume_name:
        _await_claim(state, volume, claim)
    elif claim.spec.volume_name == volume.name:
        state.writes.volume_phase(volume, "Bound")
    elif (
        PROVISIONED_BY in volume.metadata.annotations
        and volume.spec.persistent_volume_reclaim_policy == "Delete"
    ):
        _release(state, volume)  # it was made for a claim that got another one
    else:
        state.writes.unbind(volume)


def _claim_of(
    state: ControllerState, volume: PersistentVolume, reference: ObjectReference
) -> PersistentVolumeClaim | None:
    """The claim that a volume is bound to; None if it was deleted, even if there is a new claim of that name.

    A volume that the scheduler bound may be known here before its claim is, so others are asked before the
    volume is given up.
    """
    claim = state.claims.get(claim_key(reference))
    if (
        claim is None
        and BOUND_BY_CONTROLLER in volume.metadata.annotations
        and volume.status.phase not in _GIVEN_UP
    ):
        try:
            claim = state.parameters.claim_informer.lister.get(claim_key(reference))
        except NotFoundError:
            try:
                claim = state.parameters.kube_client.get(
                    PersistentVolumeClaim, reference.name, reference.namespace
                )
            except NotFoundError:
                return None
    return claim if claim is not None and claim.metadata.uid == reference.uid else None


def _release(state: ControllerState, volume: PersistentVolume) -> None:
    """Release a volume and reclaim it. A failed volume keeps its phase."""
    if volume.status.phase not in _GIVEN_UP:
        volume = state.writes.volume_phase(volume, "Released")
    reclaim_volume(state, volume)


def _await_claim(state: ControllerState, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
    """Queue the claim of a volume that is not bound to it yet; report if their volume modes differ."""
    if have_equal_modes(volume, claim):
        state.claim_queue.add(claim.key)
        return
    # No claim would ever find it.
    state.writes.event(
        volume,
        events.WARNING,
        events.VOLUME_MISMATCH,
        f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.name}" '
        "due to incompatible volumeMode.",
    )
    state.writes.event(
        claim,
        events.WARNING,
        events.VOLUME_MISMATCH,
        f'Cannot bind PersistentVolume "{volume.name}" to requested PersistentVolumeClaim '
        "due to incompatible volumeMode.",
    )
