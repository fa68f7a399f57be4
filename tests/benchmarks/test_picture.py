"""Cost per pod beside kube-scheduler's code: what both are given, and what is drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from bench import picture
from tests.house.source import ROOT


def upstream(*seconds: float, placed: int = 20) -> Any:
    """Stands for the Go program: each call takes the next time."""
    left = list(seconds)
    return lambda scenario: {"seconds": left.pop(0), "placed": placed}


def ticks() -> Any:
    """Each look at the clock is a millisecond later."""
    numbers = count()
    return lambda: next(numbers) / 1000


def test_both_get_the_same_objects_and_the_least_time_counts() -> None:
    given: list[Mapping[str, Any]] = []
    times = upstream(*[0.4, 0.2] * len(picture.WORKLOADS))

    def program(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
        given.append(scenario)
        return dict(times(scenario))

    found = list(picture.costs(program, 50, 20, 2, ticks()))
    assert [cost.theirs for cost in found] == [0.01] * len(picture.WORKLOADS)
    assert [cost.ours for cost in found] == pytest.approx([0.001 / 20] * len(picture.WORKLOADS))
    assert given[0]["objects"] == picture.objects(picture.WORKLOADS[0], 50, 20)
    assert {one["mode"] for one in given} == {"timed"}


def test_what_was_measured_is_drawn_again(tmp_path: Path) -> None:
    shown = ROOT / "docs/pictures"
    (tmp_path / "cost.json").write_text((shown / "cost.json").read_text())
    picture.main([str(tmp_path), "--again"])
    for name in ("cost-light.svg", "cost-dark.svg"):
        drawn, kept = (re.findall(r">([^<>\n]+)</text>", (at / name).read_text()) for at in (tmp_path, shown))
        assert drawn == kept
        assert "3,600 times less" in " ".join(kept)
