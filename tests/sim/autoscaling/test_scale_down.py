"""Nodes leave by the rules of cluster-autoscaler."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import moorage as mo
from moorage import Timeline
from moorage.kube import Cluster, EmptyDirVolumeSource, Pod, PodDisruptionBudgetStatus, Volume
from tests.sim.autoscaling.made import budget, deployment, group, held, member, pod, scalings, steps, timeline

RULES = {"unneededTime": "5m", "delayAfterAdd": 0}


def removed(history: mo.History) -> list[tuple[float, int]]:
    return [(time, nodes) for time, action, _, nodes in steps(history) if action == "remove"]


def two_nodes(rules: dict[str, Any] | None = None, **fields: Any) -> Timeline:
    """Two nodes of 4 cpu, of which the first is filled; the pod that fills it never leaves."""
    made = timeline(group(**fields), scaleDown=RULES if rules is None else rules)
    made.create(0, pod("full", "4"))
    made.measure(2000, "end")
    return made


def test_an_empty_node_leaves_when_it_was_unneeded_for_longer_than_the_time() -> None:
    made = two_nodes()
    made.create(100, pod("x"))
    made.delete(400, "pod/x")
    history = mo.replay(made)
    # "x" runs from 160 on and keeps its node, as no controller would replace it. A node that could not be
    # removed is looked at again after 5 minutes, at 460; 300 is not over 300.
    assert scalings(history)[-1] == (770, "remove", "small", 1, "unneeded")
    assert removed(history) == [(770, 1)]
    assert history.disruptions().to_dict() == {"time": [770], "node": ["small-2"], "reason": ["Empty"]}


def test_nothing_leaves_for_some_time_after_nodes_were_added() -> None:
    made = two_nodes({"unneededTime": "5m", "delayAfterAdd": "20m"})
    made.create(100, pod("x"))
    made.delete(400, "pod/x")
    assert removed(mo.replay(made)) == [(1300, 1)]


def test_a_node_that_is_needed_again_starts_anew() -> None:
    made = two_nodes()
    made.create(100, pod("x"))
    made.delete(400, "pod/x")
    made.create(600, pod("y"))
    made.delete(620, "pod/y")
    assert removed(mo.replay(made)) == [(1210, 1)]  # looked at again at 900, 5 minutes after "y" kept it


def cluster(*pods: Pod, nodes: int = 3, rules: dict[str, Any] | None = None, **fields: Any) -> Timeline:
    """Nodes of 4 cpu with pods, at the start."""
    found = Cluster(nodes=[member(f"n{at}") for at in range(nodes)], pods=list(pods))
    made = timeline(group(**fields), cluster=found, scaleDown=RULES | (rules or {}))
    made.measure(2000, "end")
    return made


def left(history: mo.History) -> list[str]:
    return sorted(history.scheduler.context.view_order())


def test_pods_are_moved_off_little_used_nodes() -> None:
    made = timeline(group(), scaleDown=RULES)
    made.create(0, deployment("web", 12))
    made.scale(200, "deploy/web", 3)
    made.measure(2000, "end")
    history = mo.replay(made)
    assert sum(nodes for _, nodes in removed(history)) == 2
    assert history.summary()["pending"] == 0
    pods = history.pods().to_dict()
    assert len({name for name, end in zip(pods["node"], pods["ended"], strict=True) if end > 2000}) == 1


def test_nodes_at_the_threshold_may_leave() -> None:
    pods = held("a", "n0", "2"), held("b", "n1", "1900m")
    assert left(mo.replay(cluster(*pods, nodes=2))) == ["n1"]
    assert left(mo.replay(cluster(*pods, nodes=2, rules={"utilizationThreshold": 0.475}))) == ["n0"]
    assert left(mo.replay(cluster(*pods, nodes=2, rules={"utilizationThreshold": 0.47}))) == ["n0", "n1"]
    memory = held("a", "n0", "1", annotations={}), held("b", "n1", "1")
    assert len(left(mo.replay(cluster(*memory, nodes=2)))) == 1


def test_pods_without_another_place_keep_their_node() -> None:
    # Each node has 2.2 cpu free: one of them can take one pod more.
    pods = [held(f"p{at}", f"n{at}", "1800m") for at in range(3)]
    assert removed(mo.replay(cluster(*pods, rules={"maxDrainParallelism": 10})))[0] == (310, 1)
    full = [held(f"f{at}", f"n{at}", "3") for at in (0, 1)]
    assert left(mo.replay(cluster(*full, held("p", "n2", "1500m")))) == ["n0", "n1", "n2"]


def test_a_node_that_leaves_takes_no_pods() -> None:
    # Two little used nodes cannot leave for one another.
    assert len(left(mo.replay(cluster(held("a", "n0"), held("b", "n1"), nodes=2)))) == 1


def test_no_more_nodes_at_once_than_the_rules_allow() -> None:
    history = mo.replay(cluster(nodes=5, rules={"maxScaleDownParallelism": 2}))
    assert removed(history) == [(310, 2), (320, 2), (330, 1)]
    pods = [held(f"p{at}", f"n{at}", "200m") for at in range(4)]
    history = mo.replay(cluster(*pods, nodes=5, rules={"maxDrainParallelism": 2}))
    assert removed(history) == [(310, 3), (320, 1)]


def test_a_removal_delays_the_next_one() -> None:
    history = mo.replay(cluster(nodes=3, rules={"maxScaleDownParallelism": 1, "delayAfterDelete": "1m"}))
    assert removed(history) == [(310, 1), (370, 1), (430, 1)]


def test_the_minimum_stays() -> None:
    assert sum(nodes for _, nodes in removed(mo.replay(cluster(nodes=5, minSize=2)))) == 3


def test_nodes_with_the_annotation_stay() -> None:
    made = cluster(nodes=2)
    annotations = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    made.patch(0, "node/n1", {"metadata": {"annotations": annotations}})
    assert left(mo.replay(made)) == ["n1"]


# ---- pods that keep their node -----------------------------------------------------------------------------

EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
SCRATCH = (Volume(name="scratch", empty_dir=EmptyDirVolumeSource()),)


def with_volume(**annotations: str) -> Pod:
    made = held("p", "n0", annotations={name.replace("_", "-"): one for name, one in annotations.items()})
    return replace(made, spec=replace(made.spec, volumes=SCRATCH))


def marked(one: Pod, **annotations: str) -> Pod:
    return replace(one, metadata=replace(one.metadata, annotations=annotations))


def system(one: Pod) -> Pod:
    return replace(one, metadata=replace(one.metadata, namespace="kube-system"))


PLAIN = held("p", "n0")


@pytest.mark.parametrize(
    ("one", "rules", "leaves"),
    [
        (PLAIN, {}, True),
        (held("p", "n0", kind=""), {}, False),
        (marked(held("p", "n0", kind=""), **{EVICT: "true"}), {}, True),
        (held("p", "n0", kind="Workflow"), {}, False),
        (held("p", "n0", kind="Workflow"), {"skipNodesWithCustomControllerPods": False}, True),
        (held("p", "n0", kind="Job"), {}, True),
        (marked(PLAIN, **{EVICT: "false"}), {}, False),
        (system(PLAIN), {}, False),
        (system(PLAIN), {"skipNodesWithSystemPods": False}, True),
        (system(marked(PLAIN, **{EVICT: "true"})), {}, True),
        (with_volume(), {}, False),
        (with_volume(), {"skipNodesWithLocalStorage": False}, True),
        (marked(with_volume(), **{VOLUMES: "other,scratch"}), {}, True),
        (marked(with_volume(), **{EVICT: "true"}), {}, True),
    ],
)
def test_pods_that_keep_their_node(one: Pod, rules: dict[str, Any], leaves: bool) -> None:
    made = cluster(one, held("f", "n1", "3"), nodes=2, rules=rules)
    assert left(mo.replay(made)) == (["n1"] if leaves else ["n0", "n1"])


@pytest.mark.parametrize(("allowed", "leaves"), [(0, False), (1, True), (2, True)])
def test_a_budget_without_a_disruption_keeps_a_node(allowed: int, leaves: bool) -> None:
    web = {"labels": {"app": "web"}}
    pods = held("a", "n0", **web), held("b", "n0", "500m", **web), held("f", "n1", "2500m")
    made = cluster(*pods, nodes=2)
    one = budget("web", 2)
    status = PodDisruptionBudgetStatus(disruptions_allowed=allowed, current_healthy=2, expected_pods=2)
    made.cluster.others.append(replace(one, status=status))
    assert left(mo.replay(made)) == (["n1"] if leaves else ["n0", "n1"])


def test_a_scan_when_the_time_has_just_passed_removes_nothing() -> None:
    made = cluster(nodes=2)
    made.label(295, "node/n0", "a=b")  # so that there is a scan at 300
    assert removed(mo.replay(made)) == [(310, 2)]


def test_nodes_that_leave_at_once_share_a_budget() -> None:
    web = {"labels": {"app": "web"}}
    pods = held("a", "n0", **web), held("b", "n1", **web), held("f", "n2", "2100m")
    made = cluster(*pods, rules={"maxDrainParallelism": 2})
    status = PodDisruptionBudgetStatus(disruptions_allowed=1, current_healthy=2, expected_pods=2)
    made.cluster.others.append(replace(budget("web", 1), status=status))
    assert removed(mo.replay(made))[0] == (310, 1)
