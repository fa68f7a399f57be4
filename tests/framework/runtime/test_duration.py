"""Durations as Go prints them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.kube import format_duration

NANOSECONDS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "µs": 10**3, "ns": 1}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-0.0, "0s"),
        (0.1, "100ms"),
        (1.5, "1.5s"),
        (1, "1s"),
        (10, "10s"),
        (59.999999999, "59.999999999s"),
        (60, "1m0s"),
        (61.25, "1m1.25s"),
        (900, "15m0s"),
        (3600, "1h0m0s"),
        (3661, "1h1m1s"),
        (100 * 3600, "100h0m0s"),
        (0.0015, "1.5ms"),
        (0.010, "10ms"),
        (0.00000205, "2.05µs"),
        (0.000000007, "7ns"),
        (0.0000000004, "0s"),
        (-1.5, "-1.5s"),
        (-0.25, "-250ms"),
        (-3600, "-1h0m0s"),
        (math.inf, "2562047h47m16.854775807s"),
        (-math.inf, "-2562047h47m16.854775808s"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(-(2**52), 2**52))
def test_the_parts_add_up(nanoseconds: int) -> None:
    text = format_duration(nanoseconds / 1e9)
    total, number, unit = 0.0, "", ""
    for char in [*text.removeprefix("-"), "0"]:
        if unit and char in "0123456789":
            whole, _, decimals = number.partition(".")
            scale = NANOSECONDS[unit]
            total += int(whole) * scale + (int(decimals) * scale // 10 ** len(decimals) if decimals else 0)
            number, unit = "", ""
        if char in "0123456789.":
            number += char
        else:
            unit += char
    assert total == abs(round(nanoseconds / 1e9 * 1e9))
    assert text.startswith("-") == (nanoseconds < 0)
