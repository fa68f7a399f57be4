"""The native scores: known values, who is skipped."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.make import container, node, pod
from tests.doors.engine import schedule_one

from moorage import Scheduler
from moorage.objects import Cluster, Node, Pod, ResourceRequirements, Taint, Toleration
from moorage.scheduler import Examination

BALANCED = "NodeResourcesBalancedAllocation"


def examine(one_pod: Pod, *nodes: Node, pods: tuple[Pod, ...] = (), **settings: Any) -> Examination:
    return Scheduler(Cluster(nodes=list(nodes), pods=list(pods)), **settings).examine(one_pod)


@pytest.mark.parametrize(
    ("cpu", "memory", "least", "balanced", "until_1_35"),
    [
        ("0", "0", 97, 74, 99),
        ("1000m", "5000Mi", 77, 74, 94),
        ("2700m", "1500Mi", 61, 75, 68),
        ("3600m", "2000Mi", 49, 74, 57),
        ("2000m", "16Gi", 47, 74, 99),
    ],
)
def test_resource_scores_are_those_of_each_release(
    cpu: str, memory: str, least: int, balanced: int, until_1_35: int
) -> None:
    used = pod("used", on="a", requests={"cpu": cpu, "memory": memory})
    one_pod = pod("p", requests={"cpu": "100m", "memory": "500Mi"})
    raw = examine(one_pod, node("a", memory="32Gi"), pods=(used,)).raw
    assert (raw["NodeResourcesFit"].tolist(), raw[BALANCED].tolist()) == ([least], [balanced])
    old = examine(one_pod, node("a", memory="32Gi"), pods=(used,), kubernetes_version="1.35")
    assert old.raw[BALANCED].tolist() == [until_1_35]


def test_a_pod_without_requests_counts_with_the_defaults_and_has_no_balance() -> None:
    seen = examine(pod("p"), node("a", memory="32Gi"))
    assert seen.raw["NodeResourcesFit"].tolist() == [98]
    assert BALANCED in seen.skipped_score


def test_pod_level_requests_score_only_once_placed() -> None:
    """The incoming pod counts 1Gi + 200Mi of its containers, the placed one the pod's own 4Gi."""
    containers = (container("c", {"cpu": 1, "memory": "1Gi"}), container("d", {"cpu": 0}))
    level = ResourceRequirements(requests={"memory": "4Gi"})
    incoming = pod("p", containers=containers, resources=level)
    there = pod("q", on="a", containers=containers, resources=level)
    empty = examine(incoming, node("a", memory="10000Mi"))
    assert empty.raw["NodeResourcesFit"].tolist() == [(75 + 87) // 2]
    full = examine(incoming, node("a", memory="10000Mi"), pods=(there,))
    assert full.raw["NodeResourcesFit"].tolist() == [(50 + 46) // 2]
    assert examine(incoming, node("a", memory="4095Mi")).fit_error.endswith(" 1 Insufficient memory.")


def test_image_locality_counts_how_many_nodes_have_an_image() -> None:
    images = [(["i:latest"], 300 << 20)]
    nodes = [node(f"n{at:03}", images=images if at < 50 else ()) for at in range(100)]
    wants = pod("p", containers=(container(image="i"),))
    assert examine(wants, *nodes).raw["ImageLocality"].tolist() == [12] * 50 + [0] * 50


def test_taint_toleration_counts_soft_taints() -> None:
    soft = [Taint(key=key, effect="PreferNoSchedule") for key in "abc"]
    nodes = [node("none"), node("one", taints=soft[:1]), node("three", taints=soft)]
    seen = examine(pod("p"), *nodes)
    assert seen.raw["TaintToleration"].tolist() == [0, 1, 3]
    assert seen.normalized["TaintToleration"].tolist() == [100, 67, 0]
    tolerating = (
        Toleration(key="a", operator="Exists", effect="NoSchedule"),
        Toleration(key="b", operator="Exists"),
    )
    seen = examine(pod("p", tolerations=tolerating), *nodes)
    assert seen.raw["TaintToleration"].tolist() == [0, 1, 2]


def test_plugins_that_a_pod_does_not_need_are_skipped() -> None:
    seen = examine(pod("p", requests={"cpu": 1}), node("a"), node("b"))
    assert not {"NodeAffinity", "NodePorts"} - set(seen.skipped_filter)
    assert "NodeAffinity" in seen.skipped_score
    assert BALANCED not in seen.skipped_score
    assert "NodeAffinity" not in examine(pod("p", node_selector={}), node("a")).skipped_filter


def test_taints_count_where_nothing_filters_by_them() -> None:
    """On nodes that another taint would reject as well."""
    hard, soft = Taint(key="h", effect="NoSchedule"), Taint(key="s", effect="PreferNoSchedule")
    nodes = [node("a", taints=[hard]), node("b", taints=[hard, soft]), node("c")]
    seen = examine(pod("p"), *nodes, config=WITHOUT_TAINT_FILTER)
    assert seen.raw["TaintToleration"].tolist() == [0, 1, 0]
    assert seen.normalized["TaintToleration"].tolist() == [100, 0, 100]


WITHOUT_TAINT_FILTER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}}],
}


@pytest.mark.parametrize(
    ("requests", "skips"),
    [({"cpu": 1}, True), ({"memory": 1}, False), ({"example.com/gpu": 1}, False), ({}, True)],
)
def test_who_requests_nothing_of_what_is_balanced_has_no_balance(requests: Any, skips: bool) -> None:
    resources = [{"name": name, "weight": 1} for name in ("memory", "example.com/gpu")]
    args = {"name": BALANCED, "args": {"resources": resources}}
    config = WITHOUT_TAINT_FILTER | {"profiles": [{"pluginConfig": [args]}]}
    gpus = node("a", **{"example.com/gpu": "4"})
    seen = examine(pod("p", requests=requests), gpus, config=config)
    assert (BALANCED in seen.skipped_score) == skips
    assert (BALANCED in seen.raw) != skips


OVERFLOW = (
    'applying score defaultWeights on Score plugins: plugin "NodeResourcesFit" returns an invalid score -42, '
    "it should in the range of [0, 100] after normalizing"
)


def test_a_score_out_of_range_ends_the_cycle() -> None:
    """Of 100P of memory the product with 100 is beyond 64 bits. A single feasible node is not scored."""
    wide = node("b", cpu="100m", memory="100P", pods="2")
    one_pod, other = pod("p", requests={"cpu": "100m"}), pod("q", requests={"cpu": "100m"})

    def fresh(*nodes: Node) -> Scheduler:
        return Scheduler(Cluster(nodes=list(nodes)))

    nodes = node("a"), wide, node("c", cpu="1")
    seen = fresh(*nodes).examine(one_pod)
    assert (seen.feasible, seen.error) == (["a", "b", "c"], OVERFLOW)
    decision = schedule_one(fresh(*nodes).context, one_pod)
    assert (decision.node, decision.error) == (None, OVERFLOW)
    for cycles in ([one_pod], [one_pod, other]):
        scheduler = fresh(*nodes)
        result = scheduler.schedule_pods(cycles)
        assert result.rows.tolist() == [-1] * len(cycles)
        assert [failure.error for failure in result.failures.values()] == [OVERFLOW] * len(cycles)
    assert schedule_one(fresh(wide).context, one_pod).node == "b"
    assert fresh(wide).schedule_pods([one_pod]).rows.tolist() == [0]
