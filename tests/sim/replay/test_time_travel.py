"""Time travel: the scheduler as it was, and conditions at which a replay stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import moorage as mo
from moorage import Timeline

from .test_replay import node, pod, rows, store_of, timeline_of


def busy() -> Timeline:
    """Pods that come and go, more of them than fit at times."""
    timeline = timeline_of(*[node(f"n{at}", "8") for at in range(2)])
    random = np.random.RandomState(5)
    timeline.add_pods(pod("small"), random.uniform(0, 400, 130), random.exponential(60, 130))
    timeline.add_pods(pod("large", "3"), random.uniform(0, 400, 25), random.exponential(60, 25))
    return timeline


TIMES = (0, 77.5, 200, 1000)  # the last is beyond the end


@pytest.fixture(scope="module")
def stores() -> dict[float, Any]:
    """What the store holds at some times, each reached by a replay of its own."""
    return {time: store_of(mo.replay(busy(), until=time).scheduler) for time in TIMES}


@pytest.mark.parametrize("checkpoints", [0, 3])
def test_the_past_is_as_it_was(checkpoints: int, stores: dict[float, Any]) -> None:
    history = mo.replay(busy(), checkpoints=checkpoints)
    for time, store in stores.items():
        assert store_of(history.at(min(time, history.end))) == store


def test_a_branch_leaves_the_history_as_it_was() -> None:
    history = mo.replay(busy())
    before = store_of(history.at(100))
    branch = history.at(100)
    branch.change.remove_nodes("n0")
    branch.run()
    assert store_of(history.at(100)) == before != store_of(branch)
    assert branch.ask.diff(history.at(100))


def test_the_past_explains() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("x", "3"))
    timeline.create(1, pod("y", "3"))
    timeline.delete(100, "pod/x")
    history = mo.replay(timeline)
    assert "Insufficient cpu" in str(history.at(50).ask.explain("default/y"))
    assert history.at(100).client.get(mo.Pod, "y", "default").spec.node_name == "a"
    with pytest.raises(mo.InputError, match="time: must be between 0 and 100, not 101"):
        history.at(101)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("pod y pending > 5m", 301),
        ("pod default/y pending >= 1m30s", 91),
        ("pod x running", 0),
        ("pod x gone", 400),
        ("pod y running", 400),
        ("pending > 0", 1),
        ("pending >= 2", 50),
        ("running >= 1 and time >= 20", 20),
        ("requested cpu >= 75%", 0),
        ("requested cpu > 75% and pending < 2", 400),
        ("evicted > 0", 400),
        ("time > 100", 100),
        ("pod nobody pending > 5m", 400),
    ],
)
def test_a_replay_stops_at_a_condition(text: str, end: float) -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("x", "3"))
    timeline.create(1, pod("y", "4"))
    timeline.create(50, pod("z", "4"))
    timeline.delete(400, "pod/x")
    assert mo.replay(timeline, until=text).end == end


def test_a_replay_stops_at_a_time() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("x"))
    timeline.create(10, pod("y"))
    for until in (9, "9", "9s"):
        assert rows(mo.replay(timeline, until=until)) == [(0, "default/x", "a", 1)]


@pytest.mark.parametrize("text", ["", "pod x", "pending", "pending > x", "cpu > 5%", "pod x pending > soon"])
def test_bad_conditions_are_refused(text: Any) -> None:
    with pytest.raises(mo.InputError):
        mo.replay(busy(), until=text)
