"""What kubernetes-sigs/scheduler-library promises to a program that embeds it, asked of moorage's verbs.

The cases are those of its integration tests and of its snapshot's tests, in our words. Where moorage has no
method of that name, a case shows how it is done: docs/guide/embed_it.md, "If you know scheduler-library".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import moorage as mo
from moorage.errors import CacheError

ZONE = "topology.kubernetes.io/zone"
GATES = dict.fromkeys(("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"), True)
Objects = list[dict[str, Any]]


def node(name: str, zone: str = "", **allocatable: str) -> dict[str, Any]:
    room = {"cpu": "10", "memory": "10Gi", "pods": "110"} | allocatable
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: zone} if zone else {}},
        "status": {"allocatable": room},
    }


def pod(name: str, cpu: str = "0", on: str = "", **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": cpu}}}
    where = {"nodeName": on} if on else {}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [main]} | where | spec}


def among(*names: str) -> dict[str, Any]:
    """The nodes that a pod may use, by name: what a placement is there."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def scheduler_of(*objects: dict[str, Any], **settings: Any) -> mo.Scheduler:
    return mo.Scheduler(mo.load(list(objects)), **settings)


def on_node1(scheduler: mo.Scheduler) -> set[str]:
    return {pod.name for pod in scheduler.cache.state.pods() if pod.spec.node_name == "node1"}


# ---- does it fit? ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "asked", "fits"),
    [
        pytest.param(["node1", "node2"], pod("p"), ("node1", "node2"), id="on all nodes"),
        pytest.param(["node1"], pod("p", "11"), (), id="too large"),
        pytest.param([], pod("p"), (), id="without nodes"),
        pytest.param(["node1", "node2"], pod("p", **among("node2")), ("node2",), id="among some nodes"),
        pytest.param(["node1"], pod("p", **among("gone")), (), id="among nodes that are not there"),
        pytest.param(
            ["node1"], pod("p", schedulerName="other"), ("node1",), id="of no profile: the first one"
        ),
    ],
)
def test_a_pod_fits(nodes: list[str], asked: dict[str, Any], fits: tuple[str, ...]) -> None:
    scheduler = scheduler_of(*map(node, nodes))
    answer = scheduler.can_schedule_pod(asked)
    assert answer.nodes == fits
    assert bool(answer) is bool(fits)
    assert not on_node1(scheduler)


def test_each_node_is_excluded_by_a_plugin_at_a_stage() -> None:
    """Filter plugins speak of a node, PreFilter plugins of all or of those that they leave."""
    tainted = node("tainted") | {"spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}}
    scheduler = scheduler_of(node("node1"), node("small", cpu="1"), tainted)
    seen = scheduler.examine(pod("p", "2"))
    assert seen.feasible == ["node1"]
    assert seen.pre_filter is None
    assert {name: status.plugin for name, status in seen.rejected.items()} == {
        "small": "NodeResourcesFit",
        "tainted": "TaintToleration",
    }
    narrowed = scheduler.examine(pod("p", "2", **among("small", "gone"))).pre_filter
    assert narrowed is not None
    assert (narrowed.plugins, narrowed.node_names) == (["NodeAffinity"], ["gone", "small"])
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "none"}}
    refused = scheduler.examine(pod("p", volumes=[claim])).pre_filter
    assert refused is not None
    assert refused.plugin == "VolumeRestrictions"


def test_what_was_placed_takes_room_until_it_is_released() -> None:
    scheduler = scheduler_of(node("node1"), pod("running", "2", "node1"))
    huge = pod("huge", "6")
    placed = scheduler.schedule_pods([pod("new", "4")])
    assert placed.placements == {"default/new": "node1"}
    assert not scheduler.can_schedule_pod(huge)
    scheduler.release(placed)
    assert scheduler.can_schedule_pod(huge).nodes == ("node1",)
    assert scheduler.schedule_pods([huge]).placements == {"default/huge": "node1"}


# ---- many pods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "asked", "options", "placed", "failed"),
    [
        pytest.param("2", 1, {}, 1, 0, id="one pod"),
        pytest.param("0", 1, {}, 0, 1, id="no room"),
        pytest.param("2", 4, {}, 2, 2, id="more than there is room for"),
        pytest.param("2", 4, {"stop_on_failure": True}, 2, 1, id="up to the first failure"),
        pytest.param("2", 2, {"dry_run": True}, 2, 0, id="only tried"),
    ],
)
def test_pods_are_placed_in_order(
    pods: str, asked: int, options: dict[str, bool], placed: int, failed: int
) -> None:
    scheduler = scheduler_of(node("node1", pods=pods))
    names = [f"pod{number}" for number in range(asked)]
    result = scheduler.schedule_pods(list(map(pod, names)), **options)
    assert result.placements == {f"default/{name}": "node1" for name in names[:placed]}
    assert len(result.failures) == failed
    assert on_node1(scheduler) == (set() if "dry_run" in options else set(names[:placed]))


def test_the_first_failure_ends_the_call_even_if_later_pods_would_fit() -> None:
    scheduler = scheduler_of(node("node1", cpu="2"))
    asked = [pod("a", "1"), pod("large", "5"), pod("b", "1")]
    assert list(scheduler.schedule_pods(asked, stop_on_failure=True).placements) == ["default/a"]


def test_pods_that_cannot_be_read_leave_nothing_behind() -> None:
    scheduler = scheduler_of(node("node1"))
    with pytest.raises(mo.InputError, match=r"Pod b: .*quantities must match"):
        scheduler.schedule_pods([pod("a"), pod("b", "many")])
    assert on_node1(scheduler) == set()


@pytest.mark.parametrize(
    ("wanted", "placed", "failed"),
    [
        pytest.param(2, 2, 0, id="all fit"),
        pytest.param(5, 3, 1, id="ends with the first that does not fit"),
        pytest.param(0, 0, 0, id="none"),
    ],
)
def test_replicas_of_a_template(wanted: int, placed: int, failed: int) -> None:
    scheduler = scheduler_of(node("node1", pods="3"))
    template = pod("t") | {"metadata": {"name": "t", "namespace": "custom"}}
    result = scheduler.schedule_by_template(template, wanted)
    assert result.placements == {f"custom/t-{number}": "node1" for number in range(placed)}
    assert len(result.failures) == failed
    assert len(on_node1(scheduler)) == placed


# ---- pods leave, and come back -----------------------------------------------------------------------------


def put_back(scheduler: mo.Scheduler) -> set[str]:
    pod1 = scheduler.client.get(mo.Pod, "pod1", "default")
    scheduler.release([pod1])
    assert on_node1(scheduler) == {"pod2", "pod3"}
    scheduler.change.apply(pod1)
    return {"pod1", "pod2", "pod3"}


def put_back_in_another_order(scheduler: mo.Scheduler) -> set[str]:
    pods = {name: scheduler.client.get(mo.Pod, name, "default") for name in ("pod1", "pod2", "pod3")}
    with scheduler.transaction() as transaction:
        for pod in pods.values():
            scheduler.release([pod])
        scheduler.change.apply(pods["pod1"])
        assert on_node1(scheduler) == {"pod1"}
        scheduler.change.apply(pods["pod3"])
        transaction.commit()
    return {"pod1", "pod3"}


def undone_in_another_order(scheduler: mo.Scheduler) -> set[str]:
    with scheduler.transaction():
        put_back_in_another_order(scheduler)
    return {"pod1", "pod2", "pod3"}


def replaced_and_undone(scheduler: mo.Scheduler) -> set[str]:
    with scheduler.transaction():
        scheduler.release([pod(name) for name in ("pod1", "pod2", "pod3")])
        scheduler.schedule_pods([pod("large", "10")])
        assert on_node1(scheduler) == {"large"}
    return {"pod1", "pod2", "pod3"}


def one_without_a_node(scheduler: mo.Scheduler) -> set[str]:
    with pytest.raises(CacheError, match="default/nowhere is on no node"):
        scheduler.release([pod("pod1"), pod("nowhere")])
    return {"pod1", "pod2", "pod3"}


def an_error_in_the_block(scheduler: mo.Scheduler) -> set[str]:
    with suppress(ZeroDivisionError), scheduler.transaction() as transaction:
        scheduler.release([pod("pod1")])
        transaction.commit()
        raise ZeroDivisionError
    return {"pod1", "pod2", "pod3"}


def a_block_in_a_block(scheduler: mo.Scheduler) -> set[str]:
    """There it is an error; here the inner one is kept, or undone with the outer one."""
    with scheduler.transaction():
        with scheduler.transaction() as inner:
            scheduler.release([pod("pod1")])
            inner.commit()
        assert on_node1(scheduler) == {"pod2", "pod3"}
    return {"pod1", "pod2", "pod3"}


def nothing_in_the_block(scheduler: mo.Scheduler) -> set[str]:
    with scheduler.transaction():
        scheduler.can_schedule_pod(pod("asked"))
    return {"pod1", "pod2", "pod3"}


@pytest.mark.parametrize(
    "steps",
    [
        put_back,
        put_back_in_another_order,
        undone_in_another_order,
        replaced_and_undone,
        one_without_a_node,
        an_error_in_the_block,
        a_block_in_a_block,
        nothing_in_the_block,
    ],
)
def test_pods_that_leave(steps: Callable[[mo.Scheduler], set[str]]) -> None:
    pods = [pod(name, "3", "node1") for name in ("pod1", "pod2", "pod3")]
    scheduler = scheduler_of(node("node1"), *pods)
    left = steps(scheduler)
    assert on_node1(scheduler) == left
    assert len(scheduler.schedule_by_template(pod("probe", "3"), 3).placements) == 3 - len(left)


# ---- groups ------------------------------------------------------------------------------------------------


def group(kind: str, name: str, minimum: int = 0, parent: str = "", topology: str = "") -> dict[str, Any]:
    version, field = {
        "PodGroup": ("v1beta1", "minCount"),
        "CompositePodGroup": ("v1alpha3", "minGroupCount"),
    }[kind]
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {field: minimum}} if minimum else {"basic": {}}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    if parent or kind == "CompositePodGroup":
        spec["workloadRef"] = {"workloadName": "w", "templateName": "t"}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def member(name: str, of: str, cpu: str, **spec: Any) -> dict[str, Any]:
    return pod(name, cpu, schedulingGroup={"podGroupName": of}, **spec)


def tree(topology: str, *members: dict[str, Any]) -> Objects:
    leaves = [group("PodGroup", name, parent="top") for name in ("left", "right")]
    return [group("CompositePodGroup", "top", 2, topology=topology), *leaves, *members]


def zones(cpu: str) -> Objects:
    return [node("node1", "a", cpu=cpu), node("node2", "b", cpu=cpu)]


def gang(topology: str = "") -> Objects:
    return [
        group("PodGroup", "top", 2, topology=topology),
        member("a", "top", "2"),
        member("b", "top", "2"),
    ]


@pytest.mark.parametrize(
    ("objects", "kind", "nodes"),
    [
        pytest.param([*zones("2"), *gang()], "podgroup", 2, id="a gang"),
        pytest.param(
            [node("node1", cpu="4"), *tree("", member("a", "left", "1"), member("b", "right", "1"))],
            "compositepodgroup",
            1,
            id="a tree",
        ),
        pytest.param(
            [node("node1", cpu="4"), *tree("", member("a", "left", "3"), member("b", "right", "3"))],
            "compositepodgroup",
            0,
            id="a tree without room for both",
        ),
        pytest.param([*zones("2"), *gang(ZONE)], "podgroup", 0, id="a gang that no zone has room for"),
        pytest.param(
            [*zones("4"), *tree(ZONE, member("a", "left", "2"), member("b", "right", "2"))],
            "compositepodgroup",
            1,
            id="a tree in one zone",
        ),
    ],
)
def test_a_workload_is_placed_as_a_whole_or_not_at_all(objects: Objects, kind: str, nodes: int) -> None:
    scheduler = scheduler_of(*objects, kubernetes_version="1.37", feature_gates=GATES)
    result = scheduler.schedule_workload(f"{kind}/top")
    assert len(set(result.placements.values())) == nodes
    assert (len(result.placements), len(result.failures)) == ((2, 0) if nodes else (0, 2))
    assert len(list(scheduler.cache.state.pods())) == len(result.placements)


def test_a_gang_evicts_no_more_than_it_needs() -> None:
    """The pod that runs longest stays, as one of its size has to leave."""
    victims = [pod("victim1", "1", "node1"), pod("victim2", "1", "node1"), pod("victim3", "2", "node1")]
    for minute, victim in zip((5, 1, 3), victims, strict=True):
        victim["status"] = {"startTime": f"2026-01-01T00:0{minute}:00Z"}
    asking = group("PodGroup", "top", 2)
    asking["spec"]["priority"] = 10
    members = [member("a", "top", "1", priority=10), member("b", "top", "2", priority=10)]
    scheduler = scheduler_of(
        node("node1", cpu="4"), *victims, asking, *members, kubernetes_version="1.37", feature_gates=GATES
    )
    result = scheduler.run()
    assert set(result.evicted) == {"default/victim1", "default/victim3"}
    assert set(result.placements) == {"default/a", "default/b"}
