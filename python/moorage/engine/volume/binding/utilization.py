"""Scores nodes by the utilization of their storage (kube-scheduler v1.36, volumebinding/scorer.go)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .claims import claim_class, parse_bytes, requested_storage, storage_capacity
from .pod_volumes import PodVolumes

MOST_UTILIZATION = 100
SCORE_SCALE = 10  # scores of a shape are 0 to 10


class Utilization:
    """A piecewise linear score of the ratio of requested storage to capacity.

    Parameters
    ----------
    shape : sequence of mapping
        Points ``{"utilization": 0 to 100, "score": 0 to 10}`` in ascending order of utilization.
    """

    def __init__(self, shape: Sequence[Mapping[str, Any]]) -> None:
        self._points = [(point["utilization"], point["score"] * SCORE_SCALE) for point in shape]

    def score(self, volumes: PodVolumes) -> int:
        """Return the mean score over storage classes.

        Parameters
        ----------
        volumes : PodVolumes
            Static bindings are scored, else dynamic provisions with known capacity.

        Returns
        -------
        int
            0 to 100; 0 if there is nothing to score.
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
        """Interpolate the score with Go's integer division, which truncates towards zero."""
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
    """Requested bytes and capacity in bytes by storage class.

    Counted are static bindings, else dynamic provisions with known capacity. The class of a static binding is
    the volume's, which differs from the claim's for pre-bound volumes. As upstream, capacities of dynamic
    provisions are not added: the last one of a class counts.
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
