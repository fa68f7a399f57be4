"""Sorting as Go's sort.Slice does."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors.autoscalers import go_sorted
from tests.doors.engine import sort_order

WORD = 2**64 - 1
FNV_OFFSET, FNV_PRIME = 14695981039346656037, 1099511628211
FROM_GO = {
    13: 28612047949539069,
    20: 14716927098608236075,
    49: 9299226327693181431,
    50: 12740008897281452147,
    64: 3247774531765773861,
    129: 16635187553582158865,
    700: 6272905015944375461,
}
"""By number of items, what the orders that Go 1.26 gave twelve lists of theirs come to."""


INSERTION = 12
"""So many items are sorted by insertion."""
FROM_THE_TWIN = 14834590636244921413


def folded(values: Iterable[int]) -> int:
    total = FNV_OFFSET
    for value in values:
        total = (total ^ value) * FNV_PRIME & WORD
    return total


def lots(state: int) -> Iterator[int]:
    while True:
        state ^= state << 13 & WORD
        state ^= state >> 7
        state ^= state << 17 & WORD
        yield state


def test_equal_items_are_left_as_go_leaves_them() -> None:
    """Random lists, ascending and descending ones, and ascending ones with a few small keys."""
    drawn, found = lots(88172645463325252), {}
    for length in FROM_GO:
        orders = []
        for values in (2, 5, 1000):
            for pattern in range(4):
                keys = [next(drawn) % values for _ in range(length)]
                if pattern:
                    keys = [(length - at if pattern == 2 else at) * values // length for at in range(length)]
                if pattern == 3:
                    keys[5::97] = [0] * len(keys[5::97])
                orders.append(folded(go_sorted(range(length), keys.__getitem__)))
        found[length] = folded(orders)
    assert found == FROM_GO


@pytest.mark.parametrize("length", [0, 1, 2, 12, 13, 49, 50, 51, 200, 1000])
@pytest.mark.parametrize("values", [1, 3, 10**9])
def test_keys_come_in_order_and_nothing_is_lost(length: int, values: int) -> None:
    chance = random.Random(length)
    items = [(chance.randrange(values), at) for at in range(length)]
    found = go_sorted(items, key=lambda item: item[0])
    assert sorted(found) == sorted(items)
    assert [key for key, _ in found] == sorted(key for key, _ in items)


def test_few_items_keep_the_order_of_equals_and_more_do_not() -> None:
    for length, stable in ((INSERTION, True), (INSERTION + 1, False)):
        items = [(at % 2, at) for at in range(length)]
        found = go_sorted(items, key=lambda item: item[0])
        assert (found == sorted(items)) == stable


@pytest.mark.parametrize("length", [13, 60, 300])
def test_what_is_sorted_stays(length: int) -> None:
    items = [(at // 7, at) for at in range(length)]
    assert go_sorted(items, key=lambda item: item[0]) == items


def test_orders_are_those_that_a_twin_of_the_kernel_found() -> None:
    """Lists of all lengths at which the algorithm changes, some descending, some with a few small keys."""
    orders = []
    for seed in range(60):
        chance = random.Random(seed)
        length = chance.choice([11, 14, 48, 51, 130, 900])
        keys = [float(chance.randrange(chance.choice([2, 9, 10**6]))) for _ in range(length)]
        if seed % 3 == 1:
            keys.sort(reverse=seed % 2 == 0)
        for _ in range(seed % 4):
            keys[chance.randrange(length)] = -1.0
        orders.append(folded(go_sorted(range(length), keys.__getitem__)))
    assert folded(orders) == FROM_THE_TWIN


def test_a_place_that_is_not_there_is_refused() -> None:
    with pytest.raises(IndexError, match="a place that keys lacks"):
        sort_order(np.zeros(2), np.array([0, 2], dtype=np.int32))


def test_keys_in_an_organ_pipe_come_in_order() -> None:
    items = [min(at, 4000 - at) for at in range(4000)]
    assert go_sorted(items, key=lambda item: item) == sorted(items)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=130), st.data())
def test_the_place_that_has_changed_is_moved_as_by_a_sort(values: list[int], data: st.DataObject) -> None:
    order = np.arange(len(values), dtype=np.int32)
    keys = np.array(sorted(values), np.float64)
    at = data.draw(st.integers(0, len(values) - 1))
    keys[at] += data.draw(st.integers(-3, 3))
    hinted = order.copy()
    sort_order(keys, order)
    sort_order(keys, hinted, at)
    assert hinted.tolist() == order.tolist()
