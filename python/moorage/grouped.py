"""What belongs together: values by a key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, keys in the order in which they come first."""
    groups = dict[K, list[V]]()
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
