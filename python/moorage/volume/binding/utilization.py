"""Scores nodes by the utilization of storage (kube-scheduler v1.36, volumebinding/scorer.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
        known capacity; 0 if there are neither."""
        classes = _static(volumes) or _dynamic(volumes)
        if not classes:
            return 0
        scores = [self._of_class(requested, capacity) for requested, capacity in classes.values()]
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


Classes = dict[str, tuple[int, int]]
"""Storage class to bytes that are asked for, and bytes that there are."""


def _static(volumes: PodVolumes) -> Classes:
    """Sums of static bindings by the class of the volumes, which differs from the claim's for pre-bound
    volumes."""
    bindings = volumes.static_bindings or ()
    return _summed(
        (pv.spec.storage_class_name, requested_storage(pvc), storage_capacity(pv)) for pv, pvc in bindings
    )


def _summed(each: Iterable[tuple[str, int, int]]) -> Classes:
    out: Classes = {}
    for name, requested, capacity in each:
        before = out.get(name, (0, 0))
        out[name] = before[0] + requested, before[1] + capacity
    return out


def _dynamic(volumes: PodVolumes) -> Classes:
    """Sums of dynamic provisions by class. Capacities are not added: the last one of a class counts, as
    upstream."""
    out: Classes = {}
    for claim, capacity in volumes.dynamic_provisions or ():
        if capacity is not None and capacity.capacity is not None:
            name = claim_class(claim)
            requested = out.get(name, (0, 0))[0] + requested_storage(claim)
            out[name] = requested, parse_bytes(capacity.capacity)
    return out
