"""Entries of pods and units in order of importance, as kube-scheduler sorts those below a preemptor."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.core._kernels import ffi, lib
from tests.doors.engine import order_as_upstream

PRIORITIES = [0, 5, 5, -1]
"""Priorities of the classes of pods."""
UNITS = [(5, 2), (5, 3), (0, 1)]
"""Priorities and numbers of pods of the units."""
PRIORITIES_OF_PREEMPTORS = [-1, 0, 5, 6]
ANY_CUT = -1
"""What mr_sort_for returns where the order serves any priority."""
ENTRIES = st.tuples(st.integers(-len(UNITS), len(PRIORITIES) - 1), st.integers(0, 3))
"""A class, or the complement of a unit, and a start."""
Entry = tuple[int, int]


def rank_of(entry: Entry) -> tuple[int, int, int]:
    """What counts of an entry, the lowest for the most important one."""
    kind, start = entry
    priority, members = UNITS[~kind] if kind < 0 else (PRIORITIES[kind], 0)
    return -priority, -members, start


def below(entries: list[Entry], priority: int) -> list[int]:
    """Positions of the entries below a priority."""
    return [at for at, entry in enumerate(entries) if -rank_of(entry)[0] < priority]


def expected(entries: list[Entry], priority: int) -> list[int]:
    """Those positions, in upstream's order."""
    lower = below(entries, priority)
    ranks = {rank: at for at, rank in enumerate(sorted({rank_of(entries[at]) for at in lower}))}
    order = order_as_upstream(np.array([ranks[rank_of(entries[at])] for at in lower], dtype=np.int64))
    return [lower[at] for at in order.tolist()]


def test_lists_of_all_lengths_are_sorted() -> None:
    for n in range(140):
        check([((at * 7) % 7 - 3, (at * 5) % 11) for at in range(n)])


@given(st.lists(ENTRIES, max_size=200))
def test_entries_are_sorted_by_importance(entries: list[Entry]) -> None:
    check(entries)


def check(entries: list[Entry]) -> None:
    n = len(entries)
    pods, scratch = ffi.new("mr_pod_entry[]", n), ffi.new("mr_pod_entry[]", n)
    span = ffi.new("mr_pod_span *", {"count": n})
    for priority in PRIORITIES_OF_PREEMPTORS:
        for at, entry in enumerate(entries):
            pods[at].number = at
            highest, members, pods[at].start = rank_of(entry)
            pods[at].priority, pods[at].members = -highest, -members
        span.cut = lib.mr_sort_for(priority, pods, n, scratch)
        for other in PRIORITIES_OF_PREEMPTORS:
            serves = span.cut == ANY_CUT or below(entries, other) == below(entries, priority)
            assert lib.mr_is_sorted_for(other, pods, span) == serves
        order = [pods[at].number for at in range(n)]
        assert [rank_of(entries[at]) for at in order] == sorted(map(rank_of, entries))
        lower = expected(entries, priority)
        assert order[n - len(lower) :] == lower
