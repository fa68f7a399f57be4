"""Which volume a claim gets (component-helpers/storage/volume, FindMatchingVolume)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from moorage.objects.pod import PersistentVolumeClaimSpec
from moorage.objects.selectors import LabelSelectorMatcher
from moorage.objects.storage import PersistentVolume, PersistentVolumeClaim

from .claims import (
    claim_class,
    has_access_modes,
    have_equal_modes,
    is_volume_bound_to_claim,
    requested_storage,
    storage_capacity,
    volume_class,
)

Reaches = Callable[[PersistentVolume], bool]
"""Whether a volume can be used where its claim's pod is to run."""


def find_matching_volume(
    claim: PersistentVolumeClaim,
    volumes: Iterable[PersistentVolume],
    reaches: Reaches | None,
    excluded: Container[str],
    delay_binding: bool,
) -> PersistentVolume | None:
    """The volume that a claim is to be bound to: one that was bound to it beforehand, else the smallest that
    is large enough, the first of equals.

    Parameters
    ----------
    claim : PersistentVolumeClaim
        The claim.
    volumes : iterable of PersistentVolume
        The candidates, in the order in which ties are broken.
    reaches : callable or None
        Whether a volume can be used on the node in question; None where no node is given (the controller).
    excluded : container of str
        Names of volumes that are taken.
    delay_binding : bool
        The claim's class waits for its first consumer: without a node, only a volume that was bound to the
        claim beforehand is found.

    Returns
    -------
    PersistentVolume or None
        None also where the volume bound to the claim beforehand cannot be used on the node: no other one is
        looked at then.
    """
    asked, wanted_class = requested_storage(claim), claim_class(claim)
    attributes = claim.spec.volume_attributes_class_name or ""
    selects = _selection(claim.spec)
    best, best_size = None, 0
    for volume in volumes:
        spec = volume.spec
        if volume.name in excluded or not have_equal_modes(volume, claim):
            continue
        if spec.claim_ref is not None and not is_volume_bound_to_claim(volume, claim):
            continue
        size = storage_capacity(volume)
        if size < asked or volume.metadata.deletion_timestamp is not None:
            continue
        if (spec.volume_attributes_class_name or "") != attributes:
            continue
        if is_volume_bound_to_claim(volume, claim):
            return volume if reaches is None or reaches(volume) else None
        if reaches is None and delay_binding:
            continue
        if volume.status.phase != "Available" or not selects(volume.metadata.labels):
            continue
        if volume_class(volume) != wanted_class:
            continue
        if reaches is not None and not (has_access_modes(volume, claim) and reaches(volume)):
            continue
        if best is None or size < best_size:
            best, best_size = volume, size
    return best


def _selection(spec: PersistentVolumeClaimSpec) -> Callable[[dict[str, str]], bool]:
    """Whether a volume's labels match a claim's selector; without one, all do."""
    return (lambda labels: True) if spec.selector is None else LabelSelectorMatcher(spec.selector).matches
