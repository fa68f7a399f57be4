"""What readers compare: rounding, series, and which measures differ."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage.sim.sweep import SweepResult
from tests.doors.sim import (
    Cell,
    ReplayOptions,
    TimelineSource,
    drawn_measures,
    series_of,
    side_by_side,
    with_error,
)

MEAN = {"configuration": "a", "timeline": "t", "change": "none", "runs": 3, "least": 1.0, "greatest": 3.0}


def mean(**fields: Any) -> dict[str, Any]:
    return MEAN | {"measure": "m", "mean": 2.0, "margin": 0.5} | fields


@pytest.mark.parametrize(
    ("value", "margin", "text"),
    [
        (12.2236, 0.300017, "12.2 ± 0.3"),
        (0.04567, 0.00123, "0.0457 ± 0.0012"),
        (1234.5, 61.0, "1230 ± 60"),
        (1234.5, 0.96, "1234.5 ± 1.0"),
        (5.0, 0.0, "5"),
        (1 / 3, None, "0.33333"),
    ],
)
def test_a_mean_is_rounded_to_its_error(value: float, margin: float | None, text: str) -> None:
    assert with_error({"mean": value} | ({} if margin is None else {"margin": margin})) == text


def test_series_are_names_with_numbers() -> None:
    names = ["pending_p50", "x_at_10", "other_1", "x_at_9", "x_at_100", "other_2", "placed"]
    assert series_of(names) == {"x": {9.0: "x_at_9", 10.0: "x_at_10", 100.0: "x_at_100"}}


def result(*measures: dict[str, float]) -> SweepResult:
    cell = Cell(("a", "t", "none"), 0, TimelineSource([]), {}, [], (), ReplayOptions())
    return SweepResult([cell] * len(measures), measures)


def test_the_measures_of_a_series_are_in_order_and_have_one_name() -> None:
    found = result({"x_at_1": 1.0, "x_at_30": 1.0, "n": 1.0}, {"x_at_2": 1.0})
    assert found.measures == ["x_at_1", "x_at_2", "x_at_30", "n"]
    assert found.of_measures(["n", "x"]).measures == ["n", "x_at_1", "x_at_2", "x_at_30"]
    with pytest.raises(mo.InputError, match='no replay has the measure "y"'):
        found.of_measures(["y"])


def test_measures_that_differ_only_between_timelines_are_not_what_is_compared() -> None:
    means = [
        mean(configuration=name, timeline=place, mean=len(place)) for name in "ab" for place in ("t", "uu")
    ]
    assert drawn_measures(means) == (["m"], False)
    assert drawn_measures(means[:2]) == (["m"], True)
    same = [mean(measure="same", configuration=name, least=2.0, greatest=2.0) for name in "ab"]
    assert drawn_measures([*same, *means]) == (["m"], False)
    assert drawn_measures(same) == (["same"], False)
    assert drawn_measures([*means, mean(measure="n"), mean(measure="n", configuration="b", mean=9.0)])[0] == [
        "n"
    ]


def test_a_row_names_its_timeline_where_there_are_several() -> None:
    means = [mean(timeline="t"), mean(timeline="u"), mean(timeline="u", configuration="b", margin=0.0)]
    assert side_by_side(means) == (
        ["measure", "timeline"],
        ["a", "b"],
        [["m", "t", "2.0 ± 0.5", ""], ["m", "u", "2.0 ± 0.5", "2"]],
    )


def test_changes_have_the_columns_where_there_is_one_configuration() -> None:
    means = [mean(change="none"), mean(change="small", mean=3.0), mean(change="small", timeline="u")]
    assert side_by_side(means) == (
        ["measure", "timeline"],
        ["none", "small"],
        [["m", "t", "2.0 ± 0.5", "3.0 ± 0.5"], ["m", "u", "", "2.0 ± 0.5"]],
    )
