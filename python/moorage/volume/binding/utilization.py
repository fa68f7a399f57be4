"""How well a pod's volumes use the storage that they are taken from (kube-scheduler v1.36,
volumebinding/scorer.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .claims import claim_class, parse_bytes, requested_storage, storage_capacity
from .find import PodVolumes

MOST_UTILIZATION = 100
SCORE_SCALE = 10  # a shape's scores are 0 to 10


class Utilization:
    """Scores nodes by a piecewise linear function of the share of storage that is asked for.

    Parameters
    ----------
    shape : sequence of mapping
        Points ``{"utilization": 0 to 100, "score": 0 to 10}``, by ascending utilization.
    """

    def __init__(self, shape: Sequence[Mapping[str, Any]]) -> None:
        self._points = [(point["utilization"], point["score"] * SCORE_SCALE) for point in shape]

    def score(self, volumes: PodVolumes) -> int:
        """The mean over storage classes, 0 to 100: of static bindings, or where there are none, of what is to
        be provisioned where capacity is known. 0 where there is nothing to go by."""
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
        """Between two points, with Go's division, which truncates."""
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
    """By the class in the volumes' spec, which is not the claim's where a volume was bound beforehand."""
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
    """Capacity is not added up: that of the last claim of a class counts."""
    out: Classes = {}
    for claim, capacity in volumes.dynamic_provisions or ():
        if capacity is not None and capacity.capacity is not None:
            name = claim_class(claim)
            requested = out.get(name, (0, 0))[0] + requested_storage(claim)
            out[name] = requested, parse_bytes(capacity.capacity)
    return out
