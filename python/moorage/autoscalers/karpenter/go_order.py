"""Sorting as Go's sort.Slice does: equal items come in an order that follows from the order before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from moorage._core.base.go_sort import sort_order

T = TypeVar("T")


def go_sorted(items: Sequence[T], key: Callable[[T], float]) -> list[T]:
    """Return items in the order of their keys, equal ones as sort.Slice leaves them."""
    order = np.arange(len(items), dtype=np.int32)
    sort_order(np.fromiter(map(key, items), np.float64, len(items)), order)
    return [items[at] for at in order.tolist()]
