"""Recorded bindings against decisions."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo
from moorage import Timeline
from moorage.sim.timeline import Verb

from .test_replay import node, pod, timeline_of
from .test_time_travel import busy


def recorded(timeline: Timeline) -> Timeline:
    """A timeline with the bindings of its own replay."""
    return mo.replay(timeline).record()


def test_a_record_of_this_scheduler_agrees() -> None:
    timeline = timeline_of(*[node(f"n{at}", "8") for at in range(5)])
    timeline.add_pods(pod("x"), range(60), [30] * 60)
    verification = mo.verify(recorded(timeline))
    assert (verification.agrees, verification.bindings, verification.explanation()) == (True, 60, [])
    assert verification.headline() == "60 of 60 recorded bindings are decided alike"


@pytest.fixture(scope="module")
def record() -> Timeline:
    return recorded(busy())


def test_a_record_tells_another_configuration_apart(record: Timeline) -> None:
    assert list(mo.replay(record).record()) == list(record)
    profiles = [{"plugins": {"score": {"disabled": [{"name": "NodeResourcesFit"}]}}}]
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    other = mo.verify(record, config=config | {"profiles": profiles})
    assert 0 < len(other.divergences) < other.bindings == 119


def test_pods_that_waited_are_tried_when_they_were_bound(record: Timeline) -> None:
    verification = mo.verify(record)
    assert verification.bindings == sum(event.verb is Verb.BIND for event in record) > 100
    assert (verification.agrees, verification.left_out) == (True, {})


def test_the_first_divergence_is_explained_and_the_record_followed() -> None:
    timeline = timeline_of(node("a"), node("b", "8"))
    for time, name, where in ((0, "x", "b"), (1, "y", "a"), (2, "z", "b"), (3, "big", "a")):
        timeline.create(time, pod(name, "3" if name != "big" else "4"))
        timeline.bind(time, f"pod/{name}", where)
    verification = mo.verify(timeline)
    assert [(one.pod, one.recorded, one.here) for one in verification.divergences] == [
        ("default/y", "a", "b"),
        ("default/big", "a", ""),
    ]
    first, recorded_, here = verification.explanation()
    assert first == "first divergence at 1 s: default/y"
    assert recorded_.startswith("  recorded: a: total 417 (TaintToleration 100, NodeResourcesFit 61, ")
    assert here.startswith("  here: b: total 426 (TaintToleration 100, NodeResourcesFit 60, ")
    assert verification.to_dict()["bindings"] == 4


def test_a_rejected_node_is_explained() -> None:
    timeline = timeline_of(node("a"), node("b"))
    timeline.create(0, pod("x", node_selector={"kubernetes.io/hostname": "a"}))
    timeline.bind(5, "pod/x", "b")
    (found,) = mo.verify(timeline).divergences
    assert (found.time, found.recorded, found.here) == (5, "b", "a")
    assert found.why_not_recorded.startswith("rejected by NodeAffinity: node(s) didn't match")
    assert found.why_here.startswith("total ")


@pytest.mark.parametrize("priority", [0, 10])
def test_a_pod_that_was_put_where_it_does_not_fit_evicts_nobody(priority: int) -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("x", "3"))
    timeline.bind(0, "pod/x", "a")
    timeline.create(1, pod("y", "3", priority=priority))
    timeline.bind(1, "pod/y", "a")
    timeline.delete(2, "pod/y")
    timeline.create(3, pod("z", "1"))
    timeline.bind(3, "pod/z", "a")
    verification = mo.verify(timeline)
    compared = [one.pod for one in verification.divergences]
    assert compared == ([] if priority else ["default/y"])
    assert verification.bindings == 3


def test_what_is_not_compared_is_counted() -> None:
    timeline = timeline_of(node("a"))
    timeline.create(0, pod("x"))
    timeline.bind(0, "pod/x", "gone")
    timeline.bind(1, "pod/nobody", "a")
    timeline.create(2, pod("never"))
    timeline.delete(3, "pod/never")
    timeline.create(3, pod("there", node_name="a"))
    timeline.drain(4, "a")
    verification = mo.verify(timeline)
    assert verification.left_out == {
        "the record does not have its node": 1,
        "there is no pod of this name without a node": 1,
    }
    assert (verification.bindings, verification.agrees) == (0, True)


def test_a_verification_becomes_a_table_of_pandas(capsys: Any) -> None:
    timeline = timeline_of(node("a"), node("b"))
    timeline.create(0, pod("x", node_selector={"kubernetes.io/hostname": "a"}))
    timeline.bind(5, "pod/x", "b")
    table = mo.verify(timeline).to_pandas()
    assert table.to_dict("records") == [{"time": 5.0, "pod": "default/x", "recorded": "b", "here": "a"}]
