"""`Simulation`: the outcomes of the pods of a run."""

from __future__ import annotations

from moorage.objects import Pod, build_cluster
from moorage.scheduler import Failure
from tests.doors.cli import Outcome, Preparation, group_outcomes
from tests.doors.controllers import Workload
from tests.objects.make import make, owned, pod

ONE = {"cpu": "1", "pods": "10"}
CONTAINERS = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}


def test_a_pod_of_a_stateful_set_that_gives_way_is_told_as_it_is_made_anew() -> None:
    """Its name is that of the evicted pod."""
    web = make(
        "StatefulSet",
        "web",
        {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
        metadata={"uid": "set"},
    )
    old = pod(
        "web-0",
        {"containers": CONTAINERS, "nodeName": "n"},
        metadata={"uid": "old", "labels": {"app": "web"}} | owned("StatefulSet", "web", "set"),
    )
    big = pod("big", {"containers": CONTAINERS, "priority": 100})
    node = make("Node", "n", status={"capacity": ONE, "allocatable": ONE})
    done = Preparation(build_cluster([node, web, old, big]), {}).run()
    found = {one.pod.key: one for one in done.outcomes}
    assert [(key, one.status) for key, one in found.items()] == [
        ("default/web-0", "unschedulable"),
        ("default/big", "placed"),
    ]
    anew = found["default/web-0"].pod
    assert anew.metadata.uid != "old"
    assert anew.spec.node_name == ""


def test_pods_whose_reasons_differ_only_in_what_preemption_adds_are_one_group_of_short_ones() -> None:
    web, failure = Workload("default", "Deployment", "web"), Failure(error="no room")
    texts = ("no room preemption: none helps", "no room preemption: not eligible")
    outcomes = [Outcome(Pod(), web, "unschedulable", "", text, failure) for text in texts]
    assert [(one.reason, len(one.outcomes)) for one in group_outcomes(outcomes)] == [(t, 1) for t in texts]
    assert [(one.reason, len(one.outcomes)) for one in group_outcomes(outcomes, short=True)] == [
        ("no room", 2)
    ]
