"""Scores nodes by the utilization of storage (kube-scheduler v1.36, volumebinding/scorer.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .claims import claim_class, parse_bytes, requested_storage, storage_capacity
from .pod_volumes import PodVolumes

MOST_UTILIZATION = 100
SCORE_SCALE = 10  # a shape's scores are 0 to 10


class Utilization:
    """A piecewise linear score of the ratio of requested storage to capacity.

    Parameters
    ----------
    shape : sequence of mapping
        Points ``{"utilization": 0 to 100, "score": 0 to 10}``, by ascending utilization.
    """

    def __init__(self, shape: Sequence[Mapping[str, Any]]) -> None:
        self._points = [(point["utilization"], point["score"] * SCORE_SCALE) for point in shape]

    def score(self, volumes: PodVolumes) -> int:
        """Mean score over storage classes, 0 to 100: of static bindings, else of dynamic provisions with
        known capacity; 0 if there are neither.

        Parameters
        ----------
        volumes : PodVolumes

        Returns
        -------
        int
        """
        scores = [self._of_class(requested, capacity) for requested, capacity in _sums(volumes).values()]
        if not scores:
            return 0
        return int(sum(scores) / len(scores) + 0.5)

    def _of_class(self, requested: int, capacity: int) -> int:
        if capacity == 0 or requested > capacity:
            return self._at(MOST_UTILIZATION)
        return self._at(requested * MOST_UTILIZATION // capacity)

    def _at(self, utilization: int) -> int:
        """Interpolate the score at a utilization, with Go's integer division, which truncates towards
        zero."""
        before = self._points[0]
        for x, y in self._points:
            if utilization <= x:
                if x == before[0]:
                    return int(y)
                rise = (y - before[1]) * (utilization - before[0])
                run = x - before[0]
                return int(before[1] + (rise // run if rise >= 0 else -(-rise // run)))
            before = x, y
        return int(before[1])


def _sums(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Requested bytes and capacity in bytes by storage class: of static bindings, else of dynamic provisions
    with known capacity.

    The class of a static binding is the volume's, which differs from the claim's for pre-bound volumes. The
    capacities of dynamic provisions are not added: the last one of a class counts, as upstream.
    """
    sums: dict[str, tuple[int, int]] = {}
    for volume, claim in volumes.static_bindings or ():
        name = volume.spec.storage_class_name
        requested, capacity = sums.get(name, (0, 0))
        sums[name] = requested + requested_storage(claim), capacity + storage_capacity(volume)
    if sums:
        return sums
    for claim, node_capacity in volumes.dynamic_provisions or ():
        if node_capacity is not None and node_capacity.capacity is not None:
            requested, _ = sums.get(claim_class(claim), (0, 0))
            available = parse_bytes(node_capacity.capacity)
            sums[claim_class(claim)] = requested + requested_storage(claim), available
    return sums
