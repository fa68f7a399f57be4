"""Indexes of the pods of indexed Jobs, and lists of them such as ``1,3-5``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.kube.model.field_rules import whole_number
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import Job

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod of a Job with a limit per index: how many pods of its index had failed before it."""

Ranges = list[tuple[int, int]]
"""First and last index of each range."""


def index_of(job: Job, pod: Pod) -> int | None:
    """Return the index of a pod; None if it has none below the completions of its Job."""
    index = _number(pod, INDEX)
    return index if index is not None and index < (job.spec.completions or 0) else None


def failures_before(pod: Pod) -> int:
    """Return how many pods of the index of a pod had failed before it."""
    return _number(pod, FAILURES) or 0


def _number(pod: Pod, annotation: str) -> int | None:
    """Return the number in an annotation; None without one."""
    return whole_number(pod.metadata.annotations.get(annotation, ""), 64)


def parse(text: str, end: int) -> Ranges:
    """Return the ranges of a list of indexes, as far as they are below `end`.

    Parameters
    ----------
    text : str
        Such as ``1,3-5``.
    """
    pairs = [item.partition("-") for item in text.split(",") if item]
    ranges = [(int(low), min(int(high or low), end - 1)) for low, _, high in pairs]
    return merged((low, high) for low, high in ranges if low <= high)


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges in ascending order, those that touch or overlap as one."""
    found: Ranges = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def text_of(ranges: Ranges) -> str:
    """Return ranges as a list of indexes: two that follow one another are named singly."""
    parts = [
        str(low) if low == high else f"{low},{high}" if high == low + 1 else f"{low}-{high}"
        for low, high in ranges
    ]
    return ",".join(parts)


def total(ranges: Ranges) -> int:
    """Return the number of indexes in ranges."""
    return sum(high - low + 1 for low, high in ranges)


def common(some: Ranges, others: Ranges) -> int:
    """Return the number of indexes that two lists of ranges share."""
    pairs = ((max(a, c), min(b, d)) for a, b in some for c, d in others)
    return sum(high - low + 1 for low, high in pairs if low <= high)


def gaps(ranges: Iterable[tuple[int, int]], end: int) -> Iterator[int]:
    """Yield the indexes below `end` that are in none of some ranges, in ascending order."""
    pending = 0
    for low, high in merged(ranges):
        yield from range(pending, min(low, end))
        pending = max(pending, high + 1)
    yield from range(pending, end)
