"""Seconds as Go prints durations; nanoseconds have tests of their own."""

from __future__ import annotations

import math

import pytest
from tests.doors.kube import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-0.0, "0s"),
        (0.1, "100ms"),
        (1.5, "1.5s"),
        (59.999999999, "59.999999999s"),
        (61.25, "1m1.25s"),
        (0.0015, "1.5ms"),
        (0.00000205, "2.05µs"),
        (0.000000007, "7ns"),
        (0.0000000004, "0s"),
        (-1.5, "-1.5s"),
        (math.inf, "2562047h47m16.854775807s"),
        (-math.inf, "-2562047h47m16.854775808s"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
