"""Measures of sweeps on pages and figures."""

from __future__ import annotations

import re

from moorage.answers import picture
from tests.doors.sim import sweep_figure, sweep_page

MEAN = {"timeline": "t", "change": "none", "runs": 3, "least": 1.0, "greatest": 3.0, "margin": 0.5}
OTHER = [{"configuration": name, "measure": "other", "mean": ord(name) / 50} for name in "ab"]


def test_measures_that_are_equal_everywhere_are_left_out() -> None:
    same = {"measure": "same", "mean": 2.0, "least": 2.0, "greatest": 2.0, "margin": 0.0}
    means = [MEAN | {"configuration": name} | same for name in "ab"]
    means += [MEAN | one for one in OTHER]
    text = picture(sweep_figure({"means": means}), "svg").decode()
    assert re.findall(">(same|other)<", text) == ["other"]


def test_a_series_is_one_chart_with_a_line_for_each_configuration() -> None:
    means = [
        MEAN | {"configuration": name, "measure": f"use_at_{at}", "mean": float(at + (name == "b"))}
        for at in (1, 2, 3)
        for name in "ab"
    ]
    figure = sweep_figure({"means": [*means, *(MEAN | one for one in OTHER)]})
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["use", "other"]
    lines = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}
    assert lines == {"a": [[1, 1], [2, 2], [3, 3]], "b": [[1, 2], [2, 3], [3, 4]]}
    blocks = (
        each
        for section in sweep_page({"means": means, "runs": []}, ["4 replays"]).sections
        for each in section.blocks
    )
    block = next(each.data for each in blocks if hasattr(each, "data"))
    assert {(row["measure"], row["at"]) for row in block} == {("use", 1.0), ("use", 2.0), ("use", 3.0)}
