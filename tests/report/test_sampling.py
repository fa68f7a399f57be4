"""M4: a reduced series covers what the whole one does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.doors.answers import m4


@given(
    st.lists(st.tuples(st.floats(0, 100, allow_subnormal=False), st.integers(-5, 5)), min_size=1),
    st.integers(1, 6),
)
def test_spans_keep_first_last_least_and_greatest(points: list[tuple[float, int]], bins: int) -> None:
    points.sort(key=lambda point: point[0])
    times = np.array([time for time, _ in points])
    values = np.array([value for _, value in points])
    kept = m4(times, values, bins)
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert len(kept) <= max(4 * bins, 0)
    if len(points) <= 4 * bins:
        assert len(kept) == len(points)
        return
    span = (times[-1] - times[0]) or 1.0
    for one in range(bins):
        whole = [
            at for at, time in enumerate(times) if min(int((time - times[0]) / span * bins), bins - 1) == one
        ]
        part = [at for at in whole if at in set(kept.tolist())]
        if whole:
            assert (part[0], part[-1]) == (whole[0], whole[-1])
            assert min(values[part]) == min(values[whole])
            assert max(values[part]) == max(values[whole])
