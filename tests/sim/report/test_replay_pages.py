"""The pages of replays: histories without this or that, and records that differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

import moorage as mo
from moorage import Timeline
from moorage.table import Table
from tests.doors.sim import duration, history_page, verification_page
from tests.report.pages import Read
from tests.sim.replay.test_replay import node, pod, timeline_of


@pytest.mark.parametrize(
    ("seconds", "text"), [(math.inf, ""), (0.5, "0.5 s"), (90, "1 min 30 s"), (90_061, "1 d 1 h")]
)
def test_a_span_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_history_without_pods_has_neither_waits_nor_causes() -> None:
    timeline = timeline_of()
    timeline.create(1, node("a"), "a")
    found = Read(history_page(mo.replay(timeline)).html())
    assert "0 of 0 pods got a node" in found.text
    assert "Every pod got a node." in found.text
    assert "of these waited" not in found.text
    assert "Pods that waited longest" not in found.tables


def test_a_pod_that_nobody_can_place_waits() -> None:
    timeline = timeline_of(node("a", "1"))
    timeline.create(0, pod("big", "2"))
    timeline.create(5, pod("small"))
    found = Read(history_page(mo.replay(timeline)).html())
    assert "1 of 2 pods got a node" in found.text
    assert "1 still wait." in found.text
    assert [row[0] for row in found.tables["Pods that waited longest"][1:]] == ["default/big"]


def test_numbers_of_measures_have_a_table() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("x"))
    history = mo.replay(timeline)
    assert Read(history_page(history, numbers={"waste": 7}).html()).tables["Measures"][1:] == [["waste", "7"]]
    assert "Measures" not in Read(history_page(history).html()).tables


def test_nodes_and_measures_are_drawn_over_time() -> None:
    timeline = timeline_of(node("a", "1"))
    timeline.create(5, node("b", "1"), "b")
    timeline.create(9, pod("x"))
    timeline.measure(20, "end")
    rows = {"time": [0.0, 5.0], "cost_per_hour": [0.1, 0.2], "cost": [0.0, 1.0]}
    price = Table({name: np.array(values) for name, values in rows.items()})
    history = mo.replay(timeline)
    data = Read(history_page(history, over_time=[price]).html()).data
    (drawn,) = (one for one in data.values() if isinstance(one, list) and "isSum" in one[0])
    assert {one["series"][0]["times"][-1] for one in drawn} == {20}
    assert [one["isSum"] for one in drawn[-2:]] == [False, True]
    text = history_page(history, over_time=[price]).html()
    assert "Nodes over time: all from 1 to 2" in text
    assert "Cost per hour over time: cost_per_hour from 0.1 to 0.2" in text
    history._recorder.scalings.append((5.0, "add", "web", 1, "3 pods"))
    assert Read(history_page(history).html()).tables["Nodes that came and went"][1:] == [
        ["5 s", "add", "web", "1", "3 pods"]
    ]


@pytest.mark.parametrize(("zones", "by_zone"), [(("z1", "z2"), True), (("z1", "z1"), False)])
def test_use_is_drawn_by_zone_where_there_are_several(zones: tuple[str, str], by_zone: bool) -> None:
    timeline = timeline_of(*(node(name, zone=zone) for name, zone in zip("ab", zones, strict=True)))
    for at in range(3):
        timeline.create(at, pod(f"x{at}"))
    html = history_page(mo.replay(timeline)).html()
    assert ("Requested cpu by zone" in html) is by_zone


def diverging() -> Timeline:
    timeline = timeline_of(node("a"), node("b", "8"))
    for time, name, where in ((0, "x", "b"), (1, "y", "a"), (2, "z", "b"), (3, "big", "a")):
        timeline.create(time, pod(name, "3" if name != "big" else "4"))
        timeline.bind(time, f"pod/{name}", where)
    return timeline


def test_records_that_differ_are_listed_and_the_first_is_explained() -> None:
    found = Read(verification_page(mo.verify(diverging())).html())
    assert "first divergence at 1 s: default/y" in found.text
    rows = [tuple(row[1:]) for row in found.tables["Divergences"][1:]]
    assert rows == [("default/y", "a", "b"), ("default/big", "a", "no node")]
