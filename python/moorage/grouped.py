"""What belongs together: values by a key, and counts in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, keys in the order in which they come first."""
    groups = dict[K, list[V]]()
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def most_of(ordered: Sequence[tuple[K, int]], part: float) -> list[tuple[K, float]]:
    """Return the first of some counts that are at least a part of all, each with its share of these."""
    most, covered, total = list[tuple[K, int]](), 0, sum(count for _, count in ordered)
    for key, count in ordered:
        if covered >= part * total:
            break
        covered += count
        most.append((key, count))
    return [(key, count / covered) for key, count in most]


def by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts in descending order, equal ones by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
