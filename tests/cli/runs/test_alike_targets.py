"""Which explanations of pods of a workload are told as one."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as replaced
from tests.doors.answers import Target, merge_alike
from tests.doors.kube import Workload
from tests.make import node, pod

from moorage import Scheduler
from moorage.answers.explain import Explanation
from moorage.kube import Cluster


def explained(free: int = 0) -> Explanation:
    """A pod that would evict the one on a node; `free` is what is free there."""
    held = pod("held", on="a", requests={"cpu": 4 - free})
    return Scheduler(Cluster(nodes=[node("a", cpu="4")], pods=[held])).ask.explain(
        pod("p", requests={"cpu": 4})
    )


def merged(*explanations: Explanation) -> list[tuple[str, ...]]:
    workload = Workload("default", "StatefulSet", "db")
    targets = [Target(f"default/p{at}", workload, (f"p{at}",)) for at in range(len(explanations))]
    return [one.target.pods for one in merge_alike(list(zip(targets, explanations, strict=True)))]


def test_pods_that_would_evict_different_victims_with_a_higher_priority_are_told_as_one() -> None:
    one = explained()
    assert one.raised_priority is not None
    other = replace(one, raised_priority=replaced(one.raised_priority, node="b"))
    assert merged(one, other) == [("p0", "p1")]


def test_pods_that_fail_for_different_reasons_are_told_apart() -> None:
    assert merged(explained(), explained(1)) == [("p0",), ("p1",)]
