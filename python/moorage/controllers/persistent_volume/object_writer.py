"""The controller's writes of claims and volumes, and their latest states.

Source: controller/volume/persistentvolume/pv_controller.go and index.go.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from moorage.engine.framework.handle import EventRecorder
from moorage.engine.volume import AssumeCache, VolumeError, get_bind_volume_to_claim
from moorage.engine.volume.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    YES,
    parse_bytes,
    storage_capacity,
    with_annotations,
)
from moorage.kube import Object, PersistentVolume, PersistentVolumeClaim, Resources
from moorage.kube.apiserver.merge_patch import merge_difference
from moorage.kube.model.storage import ObjectReference
from moorage.kube.plain import plain
from moorage.store import ObjectClient
from moorage.store.indexer import by_namespace

T = TypeVar("T", bound=Object)


class ObjectWriter:
    """Writes claims and volumes, and caches the latest state of each.

    A write goes to the API server and then into the cache, so that the next sync reads it before the informer
    reports it. A write without changes is skipped. Every method returns the object as written, or raises the
    client's error (`ConflictError` if another writer was faster); earlier writes remain.

    Parameters
    ----------
    client : ObjectClient
        Client of the object store or API server.
    recorder : EventRecorder
        Receives the controller's events.

    Attributes
    ----------
    claims, volumes : AssumeCache
        Claims by namespace, and volumes by access modes (joined with commas); updated by the informers'
        events and by accepted writes.
    """

    def __init__(self, client: ObjectClient, recorder: EventRecorder) -> None:
        self.claims = AssumeCache[PersistentVolumeClaim](None, "claim", "namespace", by_namespace)
        self.volumes = AssumeCache[PersistentVolume](None, "volume", "accessmodes", _access_modes)
        self._client = client
        self._recorder = recorder

    def event(self, regarding: Object, reason: str, note: str, type: str = "Normal") -> None:
        """Record an event about an object.

        Parameters
        ----------
        reason : str
            Upstream's reason (controller/volume/events).
        note : str
            Description.
        type : str
            ``Normal`` or ``Warning``.
        """
        self._recorder.event(regarding, type, reason, "", note)

    def warning(self, regarding: Object, reason: str, note: str) -> None:
        """Record an event of type Warning.

        Parameters
        ----------
        reason : str
            Upstream's reason (controller/volume/events).
        note : str
            Description.
        """
        self.event(regarding, reason, note, "Warning")

    def update(self, old: T, new: T, subresource: str = "") -> T:
        """Write metadata and spec of a claim or volume, or a subresource.

        Parameters
        ----------
        old, new : PersistentVolumeClaim or PersistentVolume
            States of one object.
        subresource : str
            ``status``; "" for metadata and spec.

        Returns
        -------
        PersistentVolumeClaim or PersistentVolume
            The object as written.
        """
        if old == new:
            return old
        written = write(self._client, old, new, subresource)
        cache: AssumeCache[Any] = self.claims if isinstance(old, PersistentVolumeClaim) else self.volumes
        cache.add(written)
        return written

    # ---- the four writes of a binding ----

    def bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind a volume to a claim in four writes.

        After a crash between two writes the next sync of either object completes the binding.
        """
        volume = self.update(volume, get_bind_volume_to_claim(volume, claim)[0])
        volume = self.update_volume_phase(volume, "Bound")
        claim = self.update(claim, _bound_claim(claim, volume))
        self.update_claim_status(claim, "Bound", volume)

    def unbind(self, volume: PersistentVolume) -> None:
        """Remove the claim from a volume; from a binding made by the user only the claim's UID is removed."""
        reference, meta = volume.spec.claim_ref, volume.metadata
        annotations = dict(meta.annotations)
        if annotations.pop(BOUND_BY_CONTROLLER, None) is not None:
            reference = None
        elif reference is not None:
            reference = replace(reference, uid="")
        spec = replace(volume.spec, claim_ref=reference)
        new = replace(volume, metadata=replace(meta, annotations=annotations), spec=spec)
        self.update_volume_phase(self.update(volume, new), "Available")

    # ---- phases ----

    def update_volume_phase(
        self, volume: PersistentVolume, phase: str, message: str = ""
    ) -> PersistentVolume:
        """Set the phase of a volume; if it has that phase already, its message is unchanged.

        Parameters
        ----------
        phase : str
            The new phase.
        message : str
            Message in the status.

        Returns
        -------
        PersistentVolume
            The object as written.
        """
        if volume.status.phase == phase:
            return volume
        new = replace(volume, status=replace(volume.status, phase=phase, message=message))
        return self.update(volume, new, "status")

    def fail_volume(self, volume: PersistentVolume, reason: str, message: str) -> None:
        """Set the phase Failed of a volume and record a warning, unless it has that phase.

        Parameters
        ----------
        reason : str
            Reason of the event.
        message : str
            Message of the event and of the volume's status.
        """
        if volume.status.phase != "Failed":
            self.warning(self.update_volume_phase(volume, "Failed", message), reason, message)

    def update_claim_status(
        self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None
    ) -> PersistentVolumeClaim:
        """Set the phase of a claim, with the access modes and the capacity of its volume.

        The capacity is set only if the phase changes, since the volume may have been resized. Without a
        volume both are empty.

        Parameters
        ----------
        phase : str
            The new phase.
        volume : PersistentVolume, optional
            The volume to which the claim is bound.

        Returns
        -------
        PersistentVolumeClaim
            The object as written.

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
        return self.update(claim, replace(claim, status=new), "status")

    def lose_claim(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        """Set the phase Lost of a claim and record a warning, unless it has that phase.

        Parameters
        ----------
        reason, message : str
            Reason and message of the event.
        """
        if claim.status.phase != "Lost":
            self.warning(self.update_claim_status(claim, "Lost"), reason, message)


def claim_key(reference: ObjectReference) -> str:
    """Return ``namespace/name`` of the claim to which a volume refers.

    Parameters
    ----------
    reference : ObjectReference
        The volume's ``claimRef``.
    """
    return f"{reference.namespace}/{reference.name}"


def _access_modes(volume: PersistentVolume) -> tuple[str]:
    return (",".join(sorted(set(volume.spec.access_modes))),)


def _bound_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
    """The claim with its binding to a volume, marked as bound by the controller if that chose it."""
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


def write(client: ObjectClient, old: T, new: T, subresource: str) -> T:
    """Patch an object or its status, if its resource version is unchanged.

    Parameters
    ----------
    client : ObjectClient
        Client of the object store or API server.
    old, new : Object
        States of one object; fields of the server that these structs lack are unchanged.
    subresource : str
        ``status``, or "" for metadata and spec.

    Returns
    -------
    Object
        The object as written.

    Raises
    ------
    ConflictError
        The resource version has changed.
    """
    patch = {}
    for part in (subresource,) if subresource else ("metadata", "spec"):
        before, after = getattr(old, part), getattr(new, part)
        if after is not before:
            patch[part] = merge_difference(plain(before), plain(after))
    meta = old.metadata
    condition = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    patch["metadata"] = patch.get("metadata", {}) | condition
    return client.patch(type(old), old.name, old.namespace, patch, subresource=subresource)
