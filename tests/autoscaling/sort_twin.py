"""The twin of `moorage._core.base.go_sort` in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

INSERTION = 12
"""So many items are sorted by insertion."""
_NINTHER = 50
_MOST_SWAPS = 12
_STEPS = 5
_SHORTEST_SHIFT = 50
_WORD = 2**64 - 1


def go_sorted(items: Sequence[T], key: Callable[[T], Any]) -> list[T]:
    """Return items in the order of their keys, equal ones as sort.Slice leaves them."""
    sorting = _Sorting([key(item) for item in items])
    sorting.sort(0, len(items), len(items).bit_length())
    return [items[at] for at in sorting.order]


class _Sorting:
    """Keys that are sorted in place, and where each was."""

    def __init__(self, keys: list[Any]) -> None:
        self.keys = keys
        self.order = list(range(len(keys)))

    def less(self, a: int, b: int) -> bool:
        return bool(self.keys[a] < self.keys[b])

    def swap(self, a: int, b: int) -> None:
        keys, order = self.keys, self.order
        keys[a], keys[b] = keys[b], keys[a]
        order[a], order[b] = order[b], order[a]

    def sort(self, a: int, b: int, limit: int) -> None:
        balanced = partitioned = True
        while b - a > INSERTION:
            if limit == 0:
                self._heap_sort(a, b)
                return
            if not balanced:
                self._break_patterns(a, b)
                limit -= 1
            pivot, swaps = self._choose_pivot(a, b)
            if swaps == _MOST_SWAPS:
                self._reverse(a, b)
                pivot, swaps = b - 1 - (pivot - a), 0
            if balanced and partitioned and swaps == 0 and self._almost_sorted(a, b):
                return
            if a > 0 and not self.less(a - 1, pivot):
                a = self._partition_equal(a, b, pivot)
                continue
            middle, partitioned = self._partition(a, b, pivot)
            left, right = middle - a, b - middle
            balanced = min(left, right) >= (b - a) // 8
            if left < right:
                self.sort(a, middle, limit)
                a = middle + 1
            else:
                self.sort(middle + 1, b, limit)
                b = middle
        for i in range(a + 1, b):
            while i > a and self.less(i, i - 1):
                self.swap(i, i - 1)
                i -= 1

    def _reverse(self, a: int, b: int) -> None:
        for at in range((b - a) // 2):
            self.swap(a + at, b - 1 - at)

    def _heap_sort(self, a: int, b: int) -> None:
        size = b - a
        for root in range((size - 1) // 2, -1, -1):
            self._sift_down(root, size, a)
        for last in range(size - 1, -1, -1):
            self.swap(a, a + last)
            self._sift_down(0, last, a)

    def _sift_down(self, root: int, size: int, first: int) -> None:
        while (child := 2 * root + 1) < size:
            if child + 1 < size and self.less(first + child, first + child + 1):
                child += 1
            if not self.less(first + root, first + child):
                return
            self.swap(first + root, first + child)
            root = child

    def _break_patterns(self, a: int, b: int) -> None:
        """Scatter three items around the middle, by an xorshift that begins with the length."""
        length = b - a
        if length < 8:
            return
        random, modulus = length, 1 << length.bit_length()
        middle = a + length // 4 * 2
        for at in range(3):
            random ^= random << 13 & _WORD
            random ^= random >> 7
            random ^= random << 17 & _WORD
            other = random & (modulus - 1)
            if other >= length:
                other -= length
            self.swap(middle - 1 + at, a + other)

    def _choose_pivot(self, a: int, b: int) -> tuple[int, int]:
        """The pivot, and how many pairs of the sample were out of order: none hints at an ascending run."""
        length, swaps = b - a, 0

        def median(places: Sequence[int]) -> int:
            nonlocal swaps
            x, y, z = places
            for first in (True, False, True):
                if first and self.less(y, x):
                    x, y, swaps = y, x, swaps + 1
                elif not first and self.less(z, y):
                    y, z, swaps = z, y, swaps + 1
            return y

        sample = [a + length // 4 * quarter for quarter in (1, 2, 3)]
        if length >= _NINTHER:
            sample = [median((at - 1, at, at + 1)) for at in sample]
        return median(sample), swaps

    def _almost_sorted(self, a: int, b: int) -> bool:
        """Whether a few shifts sort the range; they are made either way."""
        i = a + 1
        for _ in range(_STEPS):
            while i < b and not self.less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < _SHORTEST_SHIFT:
                return False
            self.swap(i, i - 1)
            if i - a >= 2:
                for j in range(i - 1, 0, -1):
                    if not self.less(j, j - 1):
                        break
                    self.swap(j, j - 1)
            if b - i >= 2:
                for j in range(i + 1, b):
                    if not self.less(j, j - 1):
                        break
                    self.swap(j, j - 1)
        return False

    def _partition_equal(self, a: int, b: int, pivot: int) -> int:
        """Gather the items that equal the pivot in front; none is smaller. Where the others begin."""
        self.swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not self.less(a, i):
                i += 1
            while i <= j and self.less(a, j):
                j -= 1
            if i > j:
                return i
            self.swap(i, j)
            i, j = i + 1, j - 1

    def _partition(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        """Gather smaller items in front of the pivot; where it is, and whether nothing had to be moved."""
        self.swap(a, pivot)
        i, j, moved = a + 1, b - 1, False
        while True:
            while i <= j and self.less(i, a):
                i += 1
            while i <= j and not self.less(j, a):
                j -= 1
            if i > j:
                break
            self.swap(i, j)
            i, j, moved = i + 1, j - 1, True
        self.swap(j, a)
        return j, not moved
