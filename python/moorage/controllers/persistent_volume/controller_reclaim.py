"""Reclaiming of volumes whose claim was deleted (pv_controller.go, reclaimVolume)."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.objects.model.storage import PersistentVolume
from moorage.store.errors import ApiError, NotFoundError
from moorage.volume.binding.claims import VolumeError
from moorage.volume.constants import MIGRATED_TO, PROVISIONED_BY

from . import controller_events as events
from .controller_state import IN_TREE, ControllerState, claim_key, pods_that_use
from .operations import logger
from .provisioning import DeletableVolumePlugin, VolumeInUseError


def reclaim_volume(state: ControllerState, volume: PersistentVolume) -> None:
    """Apply the reclaim policy of a released volume; deleting and recycling run as operations.

    Parameters
    ----------
    state : ControllerState
    volume : PersistentVolume

    Raises
    ------
    ApiError
        The policy is not known, and that could not be written.
    """
    if MIGRATED_TO in volume.metadata.annotations:
        return  # the CSI driver's provisioner does it
    policy, name = volume.spec.persistent_volume_reclaim_policy, f"{volume.name}[{volume.metadata.uid}]"
    if policy == "Recycle":
        state.operations.run(f"recycle-{name}", lambda: _recycle(state, volume))
    elif policy == "Delete":
        state.times.begin(volume.name, _deleter_name(state, volume), "delete")
        state.operations.run(f"delete-{name}", lambda: _delete(state, volume))
    elif policy != "Retain":
        message = "Volume has unrecognized PersistentVolumeReclaimPolicy"
        state.writes.volume_phase_with_event(
            volume, "Failed", events.WARNING, events.VOLUME_UNKNOWN_RECLAIM_POLICY, message
        )


def _delete(state: ControllerState, volume: PersistentVolume) -> Iterator[float]:
    """Delete a volume, first the storage asset. If that fails the operation fails, and each sync tries
    again."""
    current = _released_state(state, volume)
    if current is None or current.metadata.deletion_timestamp is not None:
        return
    try:
        with state.times.counting_failures(volume.name):
            deleted = delete_real_volume(state, current)
    except VolumeInUseError as error:
        state.writes.event(current, events.NORMAL, events.VOLUME_DELETE, str(error))
        raise
    except Exception as error:
        state.writes.volume_phase_with_event(
            current, "Failed", events.WARNING, events.VOLUME_FAILED_DELETE, str(error)
        )
        raise
    if deleted:
        _delete_object(state, current)
    yield from ()


def _delete_object(state: ControllerState, volume: PersistentVolume) -> None:
    try:
        state.parameters.kube_client.delete(PersistentVolume, volume.name)
    except ApiError as error:  # the next sync tries again
        logger.info("failed to delete volume %r from database: %s", volume.name, error)


def delete_real_volume(state: ControllerState, volume: PersistentVolume) -> bool:
    """Delete a storage asset by its plugin.

    Returns
    -------
    bool
        False if an external provisioner is responsible.

    Raises
    ------
    VolumeError
        There is no such plugin, or it cannot do it; else whatever the plugin raises.
    """
    plugin = _deleter_of(state, volume)
    if plugin is None:
        return False
    try:
        deleter = plugin.new_deleter(volume)
    except Exception as error:
        text = f'Failed to create deleter for volume "{volume.name}": {error}'
        raise VolumeError(text) from error
    deleter.delete()
    return True


def _deleter_of(state: ControllerState, volume: PersistentVolume) -> DeletableVolumePlugin | None:
    """The plugin that provisioned a volume, else one that supports it; None for an external provisioner."""
    made_by = volume.metadata.annotations.get(PROVISIONED_BY)
    if made_by:
        try:
            return state.plugins.deletable(made_by)
        except VolumeError:
            if made_by.startswith(IN_TREE):
                raise
            return None
    try:
        return state.plugins.deletable_for(volume)
    except VolumeError as error:
        text = f'Error getting deleter volume plugin for volume "{volume.name}": {error}'
        raise VolumeError(text) from error


def _deleter_name(state: ControllerState, volume: PersistentVolume) -> str:
    """The plugin that deletes a volume, as a label of metrics."""
    try:
        plugin = _deleter_of(state, volume)
    except VolumeError:
        return ""
    return volume.metadata.annotations.get(PROVISIONED_BY, "") if plugin is None else plugin.name


def _recycle(state: ControllerState, volume: PersistentVolume) -> Iterator[float]:
    """Scrub a volume and make it available. A failure is set on the volume, not on the operation, so that the
    next sync tries again without a pause."""
    current = _released_state(state, volume)
    if current is None or current.spec.claim_ref is None:
        return
    key = claim_key(current.spec.claim_ref)
    users = [pod.key for pod in pods_that_use(state.parameters.pod_informer.lister, key)]
    # A claim of that name which is there now is another one, and cannot use this volume.
    if users and state.claims.get(key) is None:
        message = f"Volume is used by pods: {','.join(users)}"
        state.writes.event(current, events.NORMAL, events.VOLUME_FAILED_RECYCLE, message)
        return

    def report(type: str, message: str) -> None:
        state.writes.event(current, type, events.RECYCLER_POD, f"Recycler pod: {message}")

    failure = ""
    try:
        plugin = state.plugins.recyclable_for(current)
    except VolumeError:
        failure = "No recycler plugin found for the volume!"
    else:
        try:
            plugin.recycle(current.name, current, report)
        except Exception as error:
            failure = f"Recycle failed: {error}"
    if failure:
        state.writes.volume_phase_with_event(
            current, "Failed", events.WARNING, events.VOLUME_FAILED_RECYCLE, failure
        )
        return
    state.writes.event(current, events.NORMAL, events.VOLUME_RECYCLED, "Volume recycled")
    state.writes.unbind(current)
    yield from ()


def _released_state(state: ControllerState, volume: PersistentVolume) -> PersistentVolume | None:
    """The current state of a volume if it is still released, else None: an earlier operation may have changed
    it."""
    try:
        current = state.parameters.kube_client.get(PersistentVolume, volume.name)
    except ApiError as error:
        if not isinstance(error, NotFoundError):
            logger.info("error reading persistent volume %r: %s", volume.name, error)
        return None
    reference = current.spec.claim_ref
    if reference is None or not reference.uid:
        return None
    claim = state.claims.get(claim_key(reference))
    if claim is not None and claim.metadata.uid == reference.uid:
        return current if claim.spec.volume_name not in ("", current.name) else None
    return current
