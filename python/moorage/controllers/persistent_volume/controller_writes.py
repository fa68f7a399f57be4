"""Writes of the controller. Each goes to the API server and then into the controller's cache; writes without
a change are skipped (controller/volume/persistentvolume/pv_controller.go)."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from moorage.framework.plugin.handle import EventRecorder
from moorage.objects.model.meta import Object, Resources
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.objects.read.write import plain
from moorage.store.protocol import ObjectClient
from moorage.volume.binding.claims import (
    VolumeError,
    get_bind_volume_to_claim,
    parse_bytes,
    storage_capacity,
    with_annotations,
)
from moorage.volume.constants import BIND_COMPLETED, BOUND_BY_CONTROLLER, YES

from .controller_cache import ControllerCache, VolumeCache

T = TypeVar("T", bound=Object)


class Writes:
    """Binds and unbinds volumes, and sets phases of volumes and claims.

    Every method returns the object as it is afterwards, and raises what the API server answers instead
    (`ConflictError` where somebody else has written in between). What was written before stays written.
    """

    def __init__(
        self,
        client: ObjectClient,
        claims: ControllerCache[PersistentVolumeClaim],
        volumes: VolumeCache,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes
        self._recorder = recorder

    def event(self, regarding: Object, type: str, reason: str, note: str) -> None:
        """Report an event about an object."""
        self._recorder.event(regarding, type, reason, "", note)

    def claim(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Write metadata and spec of a claim."""
        return old if old == new else self._stored_claim(write(self._client, old, new))

    def volume(self, old: PersistentVolume, new: PersistentVolume) -> PersistentVolume:
        """Write metadata and spec of a volume."""
        return old if old == new else self._stored_volume(write(self._client, old, new))

    # ---- the four writes of a binding ----

    def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind a volume to a claim in four writes. After a crash between two of them the next sync of either
        object completes the binding."""
        volume = self.volume(volume, get_bind_volume_to_claim(volume, claim)[0])
        volume = self.volume_phase(volume, "Bound")
        claim = self.claim(claim, _bound_claim(claim, volume))
        self.claim_status(claim, "Bound", volume)

    def unbind(self, volume: PersistentVolume) -> None:
        """Remove the claim from a volume. If the user made the binding, only the claim's UID is removed."""
        held, meta = volume.spec.claim_ref, volume.metadata
        annotations = dict(meta.annotations)
        if annotations.pop(BOUND_BY_CONTROLLER, None) is not None:
            held = None
        elif held is not None:
            held = replace(held, uid="")
        new = replace(
            volume,
            metadata=replace(meta, annotations=annotations),
            spec=replace(volume.spec, claim_ref=held),
        )
        self.volume_phase(self.volume(volume, new), "Available")

    # ---- phases ----

    def volume_phase(self, volume: PersistentVolume, phase: str, message: str = "") -> PersistentVolume:
        """Set the phase of a volume. If it has that phase already, its message is kept."""
        if volume.status.phase == phase:
            return volume
        new = replace(volume, status=replace(volume.status, phase=phase, message=message))
        return self._stored_volume(write(self._client, volume, new, "status"))

    def volume_phase_with_event(
        self, volume: PersistentVolume, phase: str, type: str, reason: str, message: str
    ) -> PersistentVolume:
        """Set the phase of a volume and report an event, unless it has that phase."""
        if volume.status.phase == phase:
            return volume
        volume = self.volume_phase(volume, phase, message)
        self.event(volume, type, reason, message)
        return volume

    def claim_status(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        """Set the phase of a claim, with access modes of its volume, and its capacity if the phase changes
        (the volume may have been resized since). Without a volume both are empty.

        Raises
        ------
        VolumeError
            The volume has no capacity.
        """
        status = claim.status
        new = replace(status, phase=phase, access_modes=(), capacity={})
        if volume is not None:
            capacity = status.capacity if status.phase == phase else _capacity(volume, status.capacity)
            new = replace(new, access_modes=volume.spec.access_modes, capacity=capacity)
        if new == status:
            return claim
        return self._stored_claim(write(self._client, claim, replace(claim, status=new), "status"))

    def claim_status_with_event(
        self, claim: PersistentVolumeClaim, phase: str, type: str, reason: str, message: str
    ) -> None:
        """Set the phase of a claim without a volume and report an event, unless it has that phase."""
        if claim.status.phase != phase:
            self.event(self.claim_status(claim, phase), type, reason, message)

    def _stored_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        self._claims.store(claim)
        return claim

    def _stored_volume(self, volume: PersistentVolume) -> PersistentVolume:
        self._volumes.store(volume)
        return volume


def _bound_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
    """The claim with its binding to a volume, marked as bound by the controller if that chose the volume."""
    marks = {BIND_COMPLETED: YES}
    if claim.spec.volume_name != volume.name:
        claim = replace(claim, spec=replace(claim.spec, volume_name=volume.name))
        marks[BOUND_BY_CONTROLLER] = YES
    marks = {mark: YES for mark in marks if mark not in claim.metadata.annotations}
    return with_annotations(claim, marks) if marks else claim


def _capacity(volume: PersistentVolume, shown: Resources) -> Resources:
    """The capacity in the status of a claim that is bound to a volume; unchanged if the size is equal."""
    if "storage" not in volume.spec.capacity:
        raise VolumeError(f'PersistentVolume "{volume.name}" is without a storage capacity')
    if "storage" in shown and parse_bytes(shown["storage"]) == storage_capacity(volume):
        return shown
    return volume.spec.capacity


def write(client: ObjectClient, old: T, new: T, subresource: str = "") -> T:
    """Patch an object, or its status, from `old` to `new`, on condition that its resource version is
    unchanged.

    Parameters
    ----------
    client : ObjectClient
    old, new : Object
        States of one object; fields of the server that are not in these structs are kept.
    subresource : str
        ``status``, or "" for metadata and spec.

    What the server knows of the object beyond what is known here stays as it is.
    """
    before, after = plain(old), plain(new)
    parts = (subresource,) if subresource else ("metadata", "spec")
    patch = {part: _difference(before.get(part, {}), after.get(part, {})) for part in parts}
    meta = old.metadata
    patch["metadata"] = patch.get("metadata", {}) | {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    return client.patch(type(old), old.name, old.namespace, patch, subresource=subresource)


def _difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from one JSON value to another."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        held = old.get(key)
        if isinstance(held, dict) and isinstance(value, dict):
            if held != value:
                patch[key] = _difference(held, value)
        elif value != held:
            patch[key] = value
    return patch
