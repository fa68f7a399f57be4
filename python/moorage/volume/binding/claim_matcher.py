"""Which volume a claim gets on each of many nodes: `find_matching_volume`, prepared once for all."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from moorage.objects.model.pod import NodeSelectorRequirement
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim

from .claims import reaches_node
from .matching import suitable_volumes

_Ranked = tuple[int, PersistentVolume]


class ClaimMatcher:
    """The volumes that a claim may be bound to, the smallest first, by what they ask of a node's labels.

    Parameters
    ----------
    claim : PersistentVolumeClaim
        A claim whose class waits for its first consumer.
    volumes : iterable of PersistentVolume
        The volumes of the claim's class, in the order in which ties are broken.
    """

    def __init__(self, claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> None:
        suitable = list(suitable_volumes(claim, volumes, True, True))
        self.claim = claim
        self._bound_before = [volume for volume, _, was_bound in suitable if was_bound]
        free = sorted((one for one in suitable if not one[2]), key=lambda one: one[1])
        self._anywhere: list[_Ranked] = []
        self._by_label: dict[str, dict[str, list[_Ranked]]] = {}
        self._others: list[_Ranked] = []
        for rank, (volume, _, _) in enumerate(free):
            affinity = volume.spec.node_affinity
            if affinity is None or affinity.required is None:
                self._anywhere.append((rank, volume))
            elif (wanted := _wanted_label(volume)) is None:
                self._others.append((rank, volume))
            else:
                by_value = self._by_label.setdefault(wanted.key, {})
                for value in dict.fromkeys(wanted.values):
                    by_value.setdefault(value, []).append((rank, volume))

    def find(self, labels: dict[str, str], excluded: Container[str]) -> PersistentVolume | None:
        """The volume that the claim gets on a node with these labels, if those excluded by name are taken."""
        for volume in self._bound_before:
            if volume.name not in excluded:
                return volume if reaches_node(volume, labels) else None
        best: _Ranked | None = next((one for one in self._anywhere if one[1].name not in excluded), None)
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


def _wanted_label(volume: PersistentVolume) -> NodeSelectorRequirement | None:
    """A label that a node must have, with one of some values, to be reached at all; None if there is none."""
    affinity = volume.spec.node_affinity
    terms = () if affinity is None or affinity.required is None else affinity.required.node_selector_terms
    if len(terms) != 1:
        return None
    return next((one for one in terms[0].match_expressions if one.operator == "In"), None)
