"""The mean use of nodes over a history."""

from __future__ import annotations

import pytest

import moorage as mo
from tests.doors.sim import history_use
from tests.house.source import ROOT

TRACE = (ROOT / "tests/data/openb/nodes.csv", ROOT / "tests/data/openb/pods.csv")
MODEL = "alibabacloud.com/gpu-card-model"


def test_means_over_time_are_those_of_every_pod() -> None:
    """Against a slow sum over pods and spans of time."""
    timeline = mo.Timeline.read(*TRACE)
    timeline.leave(leaves := 120 * 86_400.0, "openb-node-0000")
    history = mo.replay(timeline)
    requested, room = history.mean_use("cpu")
    sizes, pods, end = history.requests("cpu"), history.pods().to_dict(), history.end
    slow = dict.fromkeys(history.node_names, 0.0)
    for at, node in enumerate(pods["node"]):
        if node is not None:
            slow[node] += sizes[at] * (min(pods["ended"][at], end) - pods["bound"][at]) / end
    assert requested == pytest.approx([slow[name] for name in history.node_names])
    left = history.node_names.index("openb-node-0000")
    whole = {node.name: node.status.allocatable["cpu"] for node in timeline.cluster.nodes}
    cores = float(whole["openb-node-0000"].removesuffix("m")) * (
        1 if whole["openb-node-0000"].endswith("m") else 1000
    )
    assert room[left] == pytest.approx(cores * leaves / end)
    use = history_use(history, MODEL)
    assert use.labels == {"pool": MODEL}
    assert use.total("cpu") == pytest.approx(100 * requested.sum() / room.sum())


def test_a_history_without_duration_has_the_values_of_its_end() -> None:
    timeline = mo.Timeline(mo.synthetic(nodes=2, pods=6))
    history = mo.replay(timeline)
    assert history.end == 0
    requested, room = history.mean_use("cpu")
    table = history.scheduler.table
    assert requested.sum() == table.requested["cpu"].sum() > 0
    assert room.sum() == table.allocatable["cpu"].sum()
