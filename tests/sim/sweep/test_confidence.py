"""Means and confidence intervals."""

from __future__ import annotations

import math

import pytest

from tests.doors.sim import spread


def test_one_run_has_no_interval() -> None:
    found = spread([3.0])
    assert found[:4] == (1, 3.0, 3.0, 3.0)
    assert math.isnan(found.margin)


def test_the_interval_is_that_of_students_distribution() -> None:
    # 12.706 standard errors for two runs, 2.262 for ten.
    assert spread([1.0, 3.0]).margin == pytest.approx(12.706)
    assert spread(list(range(10))).margin == pytest.approx(2.262 * math.sqrt(55 / 6) / math.sqrt(10))
    many = spread([0.0, 2.0] * 50)
    assert many.margin == pytest.approx(1.96 * math.sqrt(100 / 99) / 10)
    assert many[:4] == (100, 1.0, 0.0, 2.0)
