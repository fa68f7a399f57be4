"""Entries of pods and units in order of importance, as a stable sort in Python puts them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.core._kernels import ffi, lib

PRIORITIES = [0, 5, 5, -1]
"""Priorities of the classes of pods."""
UNITS = [(5, 2), (5, 3), (0, 1)]
"""Priorities and numbers of pods of the units."""
ENTRIES = st.tuples(st.integers(-len(UNITS), len(PRIORITIES) - 1), st.integers(0, 3))
"""A class, or the complement of a unit, and a start."""


def rank_of(kind: int) -> tuple[int, int]:
    """The priority and the number of members of an entry."""
    return UNITS[~kind] if kind < 0 else (PRIORITIES[kind], 0)


def expected(entries: list[tuple[int, int]]) -> list[int]:
    """Positions of entries in order of importance."""

    def rank(at: int) -> tuple[int, int, int]:
        kind, start = entries[at]
        priority, members = rank_of(kind)
        return -priority, -members, start

    return sorted(range(len(entries)), key=rank)


def test_lists_of_all_lengths_are_sorted() -> None:
    """Runs of 16 entries are merged, and there may be an incomplete one at the end of each round."""
    for n in range(140):
        check([((at * 7) % 7 - 3, (at * 5) % 11) for at in range(n)])


@given(st.lists(ENTRIES, max_size=200))
def test_entries_are_sorted_by_importance(entries: list[tuple[int, int]]) -> None:
    check(entries)


def check(entries: list[tuple[int, int]]) -> None:
    n = len(entries)
    pods, scratch = ffi.new("mr_pod_entry[]", n), ffi.new("mr_pod_entry[]", n)
    for at, (kind, start) in enumerate(entries):
        pods[at].start, pods[at].number = start, at
        pods[at].priority, pods[at].members = rank_of(kind)
    lib.mr_sort_pod_entries(pods, n, scratch)
    assert [pods[at].number for at in range(n)] == expected(entries)
