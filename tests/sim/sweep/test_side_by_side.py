"""What readers compare on the page of a sweep: rounding, series, and which measures differ."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doors.sim import sweep_page
from tests.report.pages import Read

MEAN = {"configuration": "a", "timeline": "t", "change": "none", "runs": 3, "least": 1.0, "greatest": 3.0}


def mean(**fields: Any) -> dict[str, Any]:
    return MEAN | {"measure": "m", "mean": 2.0, "margin": 0.5} | fields


def page(means: list[dict[str, Any]]) -> Read:
    return Read(sweep_page({"means": means, "runs": []}, ["3 replays"]).html())


def beside(means: list[dict[str, Any]]) -> list[list[str]]:
    """The table of means side by side."""
    return page(means).tables["Means side by side"]


def drawn(means: list[dict[str, Any]]) -> tuple[list[tuple[str, float | None]], bool]:
    """The measures that are drawn, and at which numbers; whether any differs between the configurations."""
    found = page(means)
    (rows,) = (block for block in found.data.values() if isinstance(block, list))
    measures = dict.fromkeys((row["measure"], row.get("at")) for row in rows)
    return [*measures], "No measure differs between the configurations." not in found.text


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
    one = {key: item for key, item in mean(mean=value, margin=margin).items() if item is not None}
    assert beside([one, mean(configuration="b")])[1] == ["m", text, "2.0 ± 0.5"]


def test_series_are_names_with_numbers() -> None:
    names = ["pending_p50", "x_at_10", "other_1", "x_at_9", "x_at_100", "other_2", "placed"]
    means = [mean(measure=name, configuration=one, mean=ord(one)) for name in names for one in "ab"]
    assert drawn(means) == (
        [
            ("pending_p50", None),
            ("x", 10.0),
            ("other_1", None),
            *(("x", 9.0), ("x", 100.0), ("other_2", None), ("placed", None)),
        ],
        True,
    )


def test_measures_that_differ_only_between_timelines_are_not_what_is_compared() -> None:
    means = [
        mean(configuration=name, timeline=place, mean=len(place)) for name in "ab" for place in ("t", "uu")
    ]
    assert drawn(means) == ([("m", None)], False)
    alike = [mean(measure="n", timeline=place) for place in ("t", "uu")]
    assert drawn([*means[:2], *alike]) == ([("m", None)], True)
    same = [mean(measure="same", configuration=name, least=2.0, greatest=2.0) for name in "ab"]
    assert drawn([*same, *means]) == ([("m", None)], False)
    assert drawn(same) == ([("same", None)], False)
    assert drawn([*means, mean(measure="n"), mean(measure="n", configuration="b", mean=9.0)]) == (
        [("n", None)],
        True,
    )


def test_a_row_names_its_timeline_where_there_are_several() -> None:
    means = [mean(timeline="t"), mean(timeline="u"), mean(timeline="u", configuration="b", margin=0.0)]
    assert beside(means) == [
        ["measure", "timeline", "a", "b"],
        ["m", "t", "2.0 ± 0.5", ""],
        ["m", "u", "2.0 ± 0.5", "2"],
    ]


def test_changes_have_the_columns_where_there_is_one_configuration() -> None:
    means = [mean(change="none"), mean(change="small", mean=3.0), mean(change="small", timeline="u")]
    assert beside(means) == [
        ["measure", "timeline", "none", "small"],
        ["m", "t", "2.0 ± 0.5", "3.0 ± 0.5"],
        ["m", "u", "", "2.0 ± 0.5"],
    ]
