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


def changes_of(groups: Array, values: Array) -> Array:
    """Return the changes of which values are the levels; the inverse of `levels`.

    Parameters
    ----------
    groups : (n,) int array
        Ascending.
    values : (n,) array
        Of each group in the order of time.

    Returns
    -------
    (n,) array
    """
    before = np.where(np.diff(groups, prepend=-1) > 0, 0, np.append(0, values)[: len(values)])
    return np.asarray(values - before)


def at_times(times: Array, values: Array, moments: Array) -> Array:
    """Return the level at some moments; 0 before the first.

    Parameters
    ----------
    times : (n,) float64 array
        Ascending.
    values : (n,) array
        The level from each time on.
    moments : (m,) float64 array

    Returns
    -------
    (m,) array
    """
    return np.asarray(np.append(0, values)[np.searchsorted(times, moments, "right")])


def percent(part: Array, whole: Array) -> Array:
    """Return parts in per cent; 0 of nothing.

    Parameters
    ----------
    part, whole : (n,) array

    Returns
    -------
    (n,) float64 array
    """
    return 100 * np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def over_time(*given: Levels) -> tuple[Array, ...]:
    """Join levels.

    Returns
    -------
    time : (n,) float64 array
        Ascending; those of one time are in the order of groups.
    group : (n,) int array
    *levels : (n,) arrays
        One for each that is given: the level of the last time of the group before or at it, or 0.
    """
    times, groups = (np.concatenate([part[at] for part in given]) for at in (0, 1))
    order = np.lexsort((times, groups))
    is_new = (np.diff(times[order], prepend=np.nan) != 0) | (np.diff(groups[order], prepend=-1) != 0)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_new) - 1
    times, groups = times[order][is_new], groups[order][is_new]
    values, start = list[Array](), 0
    for part in given:
        last = np.full(len(times), -1)
        last[number[start : start + len(part[0])]] = np.arange(len(part[0]))
        start += len(part[0])
        last = np.maximum.accumulate(last)
        is_known = np.append(part[1], -1)[last] == groups
        values.append(np.where(is_known, np.append(part[2], 0)[last], 0))
    by_time = np.lexsort((groups, times))
    return times[by_time], groups[by_time], *(value[by_time] for value in values)
