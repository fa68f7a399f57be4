"""Times of objects."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from tests.doors.store import timestamps


def test_times_are_formatted_together_as_alone() -> None:
    seconds = [0, 59, 86399, 951782400, 1767225600, 253402300799]
    assert timestamps(np.array(seconds)) == [
        datetime.fromtimestamp(one, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for one in seconds
    ]
    assert timestamps(np.array([], np.int64)) == []
