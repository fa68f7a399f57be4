"""Matching of volumes to claims (component-helpers/storage/volume, FindMatchingVolume)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from moorage.objects.model.selectors import LabelSelectorMatcher
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim

from .claims import (
    VolumeError,
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
    """Find the volume for a claim: a pre-bound one, else the smallest that is large enough, the first of
    equals.

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
    best, best_size = None, 0
    for volume, size, was_bound in suitable_volumes(claim, volumes, reaches is not None, delay_binding):
        if volume.name in excluded:
            continue
        if was_bound:
            return volume if reaches is None or reaches(volume) else None
        if (best is None or size < best_size) and (reaches is None or reaches(volume)):
            best, best_size = volume, size
    return best


def suitable_volumes(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], has_node: bool, delay_binding: bool
) -> Iterator[tuple[PersistentVolume, int, bool]]:
    """Volumes that match a claim independently of the node, with size in bytes and whether each is pre-bound
    to the claim; parameters as for `find_matching_volume`."""
    asked, wanted_class = requested_storage(claim), claim_class(claim)
    attributes = claim.spec.volume_attributes_class_name or ""
    selects = _selection(claim)
    for volume in volumes:
        spec = volume.spec
        was_bound = spec.claim_ref is not None and is_volume_bound_to_claim(volume, claim)
        if (spec.claim_ref is not None and not was_bound) or not have_equal_modes(volume, claim):
            continue
        size = storage_capacity(volume)
        if size < asked or volume.metadata.deletion_timestamp is not None:
            continue
        if (spec.volume_attributes_class_name or "") != attributes:
            continue
        if not was_bound:
            if not has_node and delay_binding:
                continue
            if volume.status.phase != "Available" or not selects(volume.metadata.labels):
                continue
            if volume_class(volume) != wanted_class or (has_node and not has_access_modes(volume, claim)):
                continue
        yield volume, size, was_bound


def _selection(claim: PersistentVolumeClaim) -> Callable[[dict[str, str]], bool]:
    """A predicate of volume labels for a claim's selector."""
    selector = claim.spec.selector
    if selector is None:
        return lambda labels: True
    try:
        return LabelSelectorMatcher(selector).matches
    except ValueError as error:
        raise VolumeError(
            f"error creating internal label selector for claim: {claim.key}: {error}"
        ) from error
