"""Matches volumes to claims (component-helpers/storage/volume, FindMatchingVolume)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from moorage.kube import (
    LabelSelectorMatcher,
    NodeSelectorRequirement,
    PersistentVolume,
    PersistentVolumeClaim,
)

from .claims import (
    claim_class,
    has_access_modes,
    have_equal_modes,
    is_volume_bound_to_claim,
    prefixing,
    reaches_node,
    requested_storage,
    storage_capacity,
    volume_class,
)

_Ranked = tuple[int, PersistentVolume]


def find_matching_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], delay_binding: bool
) -> PersistentVolume | None:
    """Find the volume that the controller binds to a claim.

    It is a pre-bound volume, else the smallest that is large enough; the first of several equal ones.

    Parameters
    ----------
    volumes : iterable of PersistentVolume
        The candidates, in the order in which ties are broken.
    delay_binding : bool
        Whether the claim's class waits for its first consumer; then only a pre-bound volume is found.

    Returns
    -------
    PersistentVolume or None
        None if no volume matches.
    """
    best, best_size = None, 0
    for volume, size, was_bound in suitable_volumes(claim, volumes):
        if was_bound:
            return volume
        if not delay_binding and (best is None or size < best_size):
            best, best_size = volume, size
    return best


def suitable_volumes(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]
) -> Iterator[tuple[PersistentVolume, int, bool]]:
    """Iterate over the volumes that match a claim on some node.

    Parameters
    ----------
    volumes : iterable of PersistentVolume
        The candidates.

    Yields
    ------
    size : int
        Capacity in bytes.
    was_bound : bool
        Whether the volume was bound to the claim beforehand.

    Raises
    ------
    VolumeError
        The claim's selector cannot be read.
    """
    requested, requested_class = requested_storage(claim), claim_class(claim)
    attributes = claim.spec.volume_attributes_class_name or ""
    selects = _selection(claim)
    for volume in volumes:
        spec = volume.spec
        was_bound = spec.claim_ref is not None and is_volume_bound_to_claim(volume, claim)
        if (spec.claim_ref is not None and not was_bound) or not have_equal_modes(volume, claim):
            continue
        size = storage_capacity(volume)
        if size < requested or volume.metadata.deletion_timestamp is not None:
            continue
        if (spec.volume_attributes_class_name or "") != attributes:
            continue
        if not was_bound:
            if volume.status.phase != "Available" or not selects(volume.metadata.labels):
                continue
            if volume_class(volume) != requested_class or not has_access_modes(volume, claim):
                continue
        yield volume, size, was_bound


class ClaimMatcher:
    """Finds the volume for a claim on each of many nodes.

    The candidates are sorted by size and indexed by the node labels that they require.

    Parameters
    ----------
    claim : PersistentVolumeClaim
        A claim whose class waits for its first consumer.
    volumes : iterable of PersistentVolume
        The volumes of the claim's class, in the order in which ties are broken.
    """

    def __init__(self, claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> None:
        suitable = list(suitable_volumes(claim, volumes))
        self.claim = claim
        self._bound_before = [volume for volume, _, was_bound in suitable if was_bound]
        free = sorted((ranked for ranked in suitable if not ranked[2]), key=lambda one: one[1])
        self._anywhere: list[_Ranked] = []
        self._by_label: dict[str, dict[str, list[_Ranked]]] = {}
        self._others: list[_Ranked] = []
        for rank, (volume, _, _) in enumerate(free):
            affinity = volume.spec.node_affinity
            if affinity is None or affinity.required is None:
                self._anywhere.append((rank, volume))
            elif (required := _required_label(volume)) is None:
                self._others.append((rank, volume))
            else:
                by_value = self._by_label.setdefault(required.key, {})
                for value in dict.fromkeys(required.values):
                    by_value.setdefault(value, []).append((rank, volume))

    def find(self, labels: dict[str, str], excluded: Container[str]) -> PersistentVolume | None:
        """Return the volume for the claim on a node.

        It is a pre-bound volume, else the smallest accessible one; the first of several equal ones.

        Parameters
        ----------
        labels : dict of str to str
            Labels of the node.
        excluded : container of str
            Names of volumes that are not available.

        Returns
        -------
        PersistentVolume or None
            None if there is none, or if a pre-bound volume is not accessible.
        """
        for volume in self._bound_before:
            if volume.name not in excluded:
                return volume if reaches_node(volume, labels) else None
        best: _Ranked | None = next(
            (ranked_volume for ranked_volume in self._anywhere if ranked_volume[1].name not in excluded), None
        )
        for ranked in self._lists(labels):
            for rank, volume in ranked:
                if best is not None and rank > best[0]:
                    break
                if volume.name not in excluded and reaches_node(volume, labels):
                    best = rank, volume
                    break
        return None if best is None else best[1]

    def _lists(self, labels: dict[str, str]) -> Iterator[list[_Ranked]]:
        for key, by_value in self._by_label.items():
            if key in labels and (ranked := by_value.get(labels[key])):
                yield ranked
        if self._others:
            yield self._others


def _selection(claim: PersistentVolumeClaim) -> Callable[[dict[str, str]], bool]:
    """Return a predicate of volume labels for a claim's selector."""
    selector = claim.spec.selector
    if selector is None:
        return lambda labels: True
    with prefixing(f"error creating internal label selector for claim: {claim.key}", ValueError):
        return LabelSelectorMatcher(selector).matches


def _required_label(volume: PersistentVolume) -> NodeSelectorRequirement | None:
    """The label requirement that every node with access to a volume meets; None without one."""
    affinity = volume.spec.node_affinity
    terms = () if affinity is None or affinity.required is None else affinity.required.node_selector_terms
    if len(terms) != 1:
        return None
    return next((rule for rule in terms[0].match_expressions if rule.operator == "In"), None)
