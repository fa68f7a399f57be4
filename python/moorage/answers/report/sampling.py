"""Reduction of long series to what a chart can show."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def m4(times: Array, values: Array, bins: int) -> Array:
    """Return which points of a series are kept: of each of some equal spans of time the first, the last, the
    least and the greatest, so that a line through them covers the pixels that all points would.

    Source: Jugel, Jerzak, Hackenbroich and Markl: M4, a visualization-oriented time series data aggregation.
    PVLDB 7(10), 2014.

    Parameters
    ----------
    times : (n,) float64 array
        Ascending.
    values : (n,) array
    bins : int
        Number of spans.

    Returns
    -------
    (m,) int64 array
        Ascending numbers of points, at most four a span; all of them if there are no more than that.
    """
    n = len(times)
    if n <= 4 * bins:
        return np.arange(n)
    span = (times[-1] - times[0]) or 1.0
    place = np.minimum(((times - times[0]) / span * bins).astype(np.int64), bins - 1)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    ends = np.append(starts[1:], n) - 1
    by_value = np.lexsort((values, place))  # the same spans, sorted by value within each
    return np.unique(np.concatenate([starts, ends, by_value[starts], by_value[ends]]))
