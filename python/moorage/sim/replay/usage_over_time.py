"""Levels over time from changes: how much is requested, and how much there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Levels = tuple[Array, Array, Array]
"""Times, groups and levels, in the order of groups and then of times; no two of one group and time."""


def levels(times: Array, groups: Array, changes: Array) -> Levels:
    """Add up changes.

    Parameters
    ----------
    times : (n,) float64 array
    groups : (n,) int array
    changes : (n,) int64 array

    Returns
    -------
    times, groups, levels : (m,) arrays
        See `Levels`.
    """
    order = np.lexsort((times, groups))
    times, groups, changes = times[order], groups[order], changes[order]
    total = np.cumsum(changes)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    before = np.where(starts > 0, total[np.maximum(starts - 1, 0)], 0)
    total = total - np.repeat(before, np.diff(np.append(starts, len(groups))))
    last = np.append((np.diff(times) > 0) | (np.diff(groups) > 0), True)[: len(times)]
    return times[last], groups[last], total[last]


def over_time(requested: Levels, allocatable: Levels) -> tuple[Array, Array, Array, Array]:
    """Join two levels.

    Parameters
    ----------
    requested, allocatable : Levels

    Returns
    -------
    time : (n,) float64 array
        Ascending; those of one time are in the order of groups.
    group : (n,) int array
    requested, allocatable : (n,) int64 array
    """
    times, groups = (np.concatenate([requested[at], allocatable[at]]) for at in (0, 1))
    order = np.lexsort((groups, times))
    times, groups = times[order], groups[order]
    is_new = np.append(True, (np.diff(times) > 0) | (np.diff(groups) > 0))[: len(times)]
    times, groups = times[is_new], groups[is_new]
    return times, groups, _at(requested, times, groups), _at(allocatable, times, groups)


def _at(given: Levels, when: Array, where: Array) -> Array:
    """Return the level of a group at each time: that of its last time before or at it, or 0."""
    times, groups, level = given
    out = np.zeros(len(when), np.int64)
    for group in np.unique(where):
        first, last = np.searchsorted(groups, [group, group + 1])
        mine = np.flatnonzero(where == group)
        at = np.searchsorted(times[first:last], when[mine], "right")
        known = np.append(0, level[first:last])
        out[mine] = known[at]
    return out
