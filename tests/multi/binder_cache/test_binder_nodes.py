"""Nodes of a BinderCache: what Node, NMNode and CNR say together, the two ledgers, what fits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.kube import ledger_of
from tests.make import container, node
from tests.multi.binder_cache.binder_kit import Kit, best_effort, cnr, nm_node, pod, refused
from tests.words import RESOURCE_TYPE

from moorage.engine.cache import Resource
from moorage.errors import InputError, MoorageError
from moorage.kube import Node, Pod

QOS_LEVEL = "katalyst.kubewharf.io/qos_level"
SCHEDULER_NAME = "godel.bytedance.com/scheduler-name"

MIB = 1 << 20
GPU = "example.com/foo"


@pytest.fixture
def kit() -> Kit:
    return Kit()


# ---- ledgers


LITTLE = Resource(100, 200 * MIB)
NONE = Resource()


@pytest.mark.parametrize(
    ("assumed", "guaranteed", "best"),
    [
        ([pod("a", "n")], [Resource(100, 500)] * 2, [NONE] * 2),
        (
            [best_effort("a", "n"), pod("b", "n", requests={"cpu": "200m", "memory": 1024})],
            [Resource(200, 1024)] * 2,
            [Resource(100, 500)] * 2,
        ),
        ([best_effort("a", "n", requests={})], [NONE] * 2, [NONE, LITTLE]),
        (
            [pod("a", "n", requests={GPU: 3}), best_effort("b", "n", requests={GPU: 5})],
            [Resource(scalar_resources={GPU: 3}), LITTLE],
            [Resource(scalar_resources={GPU: 5}), LITTLE],
        ),
        (
            [pod("a", "n", requests={"cpu": "100m", "memory": 500, "random-invalid-extended-key": 100})],
            [Resource(100, 500)] * 2,
            [NONE] * 2,
        ),
        (
            [pod("a", "n", requests={"ephemeral-storage": 500})],
            [Resource(ephemeral_storage=500), LITTLE],
            [NONE] * 2,
        ),
    ],
)
def test_a_pod_is_charged_to_the_ledger_of_its_qos(
    kit: Kit, assumed: list[Pod], guaranteed: list[Resource], best: list[Resource]
) -> None:
    """Requested, and requested with a little where nothing is."""
    kit.cache.add_node(node("n"))
    info = kit.info("n")
    for one in assumed:
        kit.assume(one)
    assert [info.requested, info.nonzero_requested] == guaranteed
    assert [info.best_effort_requested, info.best_effort_nonzero_requested] == best
    for one in assumed:
        kit.forget(one)
    assert [info.requested, info.nonzero_requested] == [NONE] * 2
    assert [info.best_effort_requested, info.best_effort_nonzero_requested] == [NONE] * 2


@pytest.mark.parametrize(
    ("annotations", "ledger"),
    [
        ({}, 0),
        ({RESOURCE_TYPE: "guaranteed"}, 0),
        ({RESOURCE_TYPE: "best-effort"}, 1),
        ({RESOURCE_TYPE: "neither"}, 0),
        ({QOS_LEVEL: "reclaimed_cores"}, 1),
        ({QOS_LEVEL: "shared_cores", RESOURCE_TYPE: "best-effort"}, 0),
        ({QOS_LEVEL: "unheard_of", RESOURCE_TYPE: "best-effort"}, 1),
    ],
)
def test_which_qos_a_pod_has(annotations: dict[str, str], ledger: int) -> None:
    assert ledger_of(pod("a", "n", annotations)) == ledger


def test_a_clone_has_both_ledgers_and_is_its_own(kit: Kit) -> None:
    kit.cache.add_node(node("n"))
    kit.cache.add_cnr(cnr("n", cpu="2"))
    kit.cache.add_pod(best_effort("a", "n"))
    clone = kit.info("n").clone()
    clone.add_pod(best_effort("b", "n"))
    clone.add_pod(pod("c", "n"))
    other = clone.clone()
    other.remove_pod(best_effort("a", "n"))
    said = [
        (one.requested.milli_cpu, one.best_effort_requested.milli_cpu, len(one.pods))
        for one in (kit.info("n"), clone, other)
    ]
    assert said == [(0, 100, 1), (100, 200, 3), (100, 100, 2)]
    assert other.best_effort_allocatable.milli_cpu == 2000
    assert (other.nm_node, other.cnr) == (None, cnr("n", cpu="2"))


# ---- three objects of one name


def test_what_nodes_and_nm_nodes_have_together(kit: Kit) -> None:
    capacity: dict[str, Any] = {"cpu": "8", "memory": 1000, "example.com/y": 4}
    kit.cache.add_nm_node(nm_node("n", capacity, {"cpu": "5", "memory": 100, "example.com/y": 3}))
    assert kit.info("n").is_live
    assert kit.info("n").node is None
    assert kit.info("n").allocatable == Resource(5000, 100, scalar_resources={"example.com/y": 3})
    assert kit.info("n").guaranteed_capacity == Resource(8000, 1000, scalar_resources={"example.com/y": 4})
    kit.cache.add_node(node("n", cpu="6", memory=800))
    expected = Resource(3000, 0, allowed_pod_number=10, scalar_resources={"example.com/y": 3})
    assert kit.info("n").allocatable == expected
    kit.cache.update_nm_node(None, nm_node("n", {}, {"cpu": "5"}))
    assert kit.info("n").allocatable == Resource(6000, 800, allowed_pod_number=10)
    kit.cache.delete_node(node("n"))
    assert (kit.info("n").is_live, kit.info("n").allocatable) == (True, Resource(5000))
    kit.cache.delete_nm_node(nm_node("n", {}, {}))
    assert kit.cache.get_node_info("n") is None
    refused("node n is not found", kit.cache.delete_nm_node, nm_node("n", {}, {}))


def test_capacity_is_the_nodes_own(kit: Kit) -> None:
    one = node("n")
    capacity: dict[str, Any] = {"cpu": "9", "memory": 7, "pods": 5, "ephemeral-storage": 3, "bad": 1}
    kit.cache.add_node(replace(one, status=replace(one.status, capacity=capacity)))
    expected = Resource(9000, 7, ephemeral_storage=3, allowed_pod_number=5)
    assert kit.info("n").guaranteed_capacity == expected


def test_a_cnr_says_what_best_effort_pods_have(kit: Kit) -> None:
    kit.cache.add_node(node("n"))
    kit.cache.update_cnr(None, cnr("n", cpu="2", pods=7))
    assert kit.info("n").best_effort_allocatable == Resource(2000, allowed_pod_number=7)
    kit.cache.update_node(node("n"), node("n", cpu="9"))
    assert kit.info("n").best_effort_allocatable == Resource(2000, allowed_pod_number=7)
    kit.cache.delete_cnr(cnr("n"))
    assert kit.info("n").best_effort_allocatable == Resource()
    assert kit.info("n").allocatable.milli_cpu == 9000


def test_a_node_in_whose_place_another_comes_has_nothing_of_it(kit: Kit) -> None:
    kit.cache.add_cnr(cnr("n", cpu="2"))
    kit.cache.delete_cnr(cnr("n"))
    kit.cache.add_pod(pod("a", "m"))
    assert kit.info("m").best_effort_allocatable == Resource()
    kit.cache.delete_pod(pod("a", "m"))
    assert kit.cache.dump().nodes == {}


def test_partitions_are_named_by_either_node(kit: Kit) -> None:
    def said(one: Any, by: str) -> Any:
        return replace(one, metadata=replace(one.metadata, annotations={SCHEDULER_NAME: by}))

    ours = kit.cache.handler.scheduler_name
    kit.cache.add_node(said(node("n"), "another"))
    assert not kit.cache.nodes.in_partition("n")
    kit.cache.add_nm_node(said(nm_node("n", {}, {}), ours))
    assert kit.cache.nodes.in_partition("n")
    assert not kit.cache.nodes.in_partition("unheard-of")


@pytest.mark.parametrize("bad", [{"cpu": "x"}, {"memory": "1ZiB"}])
def test_a_node_that_cannot_be_read_changes_nothing(kit: Kit, bad: dict[str, Any]) -> None:
    kit.cache.add_node(node("n"))
    events = (
        (kit.cache.add_node, node("n", **bad)),
        (kit.cache.add_nm_node, nm_node("n", {}, bad)),
        (kit.cache.add_cnr, cnr("n", **bad)),
        (kit.cache.add_cnr, cnr("m", **bad)),
    )
    for event, one in events:
        with pytest.raises((MoorageError, InputError, ValueError)):
            event(one)  # type: ignore[operator]
    assert list(kit.cache.dump().nodes) == ["n"]
    info = kit.info("n")
    assert (info.allocatable.milli_cpu, info.nm_node, info.cnr) == (4000, None, None)


def test_a_dump_stays_as_it_was(kit: Kit) -> None:
    kit.cache.add_node(node("n"))
    kit.cache.add_cnr(cnr("n", cpu="2"))
    kit.assume(pod("a", "n"))
    dumped = kit.cache.dump()
    kit.forget(pod("a", "n"))
    kit.cache.delete_cnr(cnr("n"))
    kit.cache.delete_node(node("n"))
    assert dumped.assumed_pods == {"a": True}
    assert [one.name for one in dumped.nodes["n"].pods] == ["a"]
    assert (dumped.nodes["n"].node, dumped.nodes["n"].cnr) == (node("n"), cnr("n", cpu="2"))


# ---- what fits


def full(**allocatable: Any) -> Node:
    return node("n", **({"cpu": "1", "memory": 1000, "pods": 3, "ephemeral-storage": 10} | allocatable))


@pytest.mark.parametrize(
    ("one", "reasons"),
    [
        (pod("b", requests={"cpu": "900m", "memory": 500}), ()),
        (pod("b", requests={"cpu": "901m", "memory": 500}), ("Insufficient cpu",)),
        (pod("b", requests={"memory": 501}), ("Insufficient memory",)),
        (pod("b", requests={"ephemeral-storage": 11}), ("Insufficient ephemeral-storage",)),
        (pod("b", requests={"example.com/x": 1}), ("Insufficient example.com/x",)),
        (pod("b", requests={}), ()),
        (best_effort("b", requests={"cpu": "600m"}), ("Insufficient cpu",)),
        (best_effort("b", requests={"cpu": "500m"}), ()),
        (pod("b", annotations={RESOURCE_TYPE: "neither"}, requests={"cpu": "99"}), ()),
    ],
)
def test_a_pod_fits_what_its_ledger_has_left(kit: Kit, one: Pod, reasons: tuple[str, ...]) -> None:
    kit.cache.add_node(full())
    kit.cache.add_cnr(cnr("n", cpu="500m", memory=1000, pods=3))
    kit.cache.add_pod(pod("a", "n"))
    assert kit.cache.fits(one, "n") == reasons


def test_pods_of_either_qos_count(kit: Kit) -> None:
    kit.cache.add_node(full(pods=2))
    kit.cache.add_cnr(cnr("n", cpu="9", memory=9000, pods=1))
    kit.cache.add_pod(best_effort("a", "n"))
    assert kit.cache.fits(pod("b"), "n") == ()
    assert kit.cache.fits(best_effort("b"), "n") == ("Too many pods",)
    assert kit.cache.fits(best_effort("b"), "n", [best_effort("a", "n")]) == ()
    kit.assume(pod("b", "n"))
    assert kit.cache.fits(pod("c", requests={}), "n") == ("Too many pods",)
    assert kit.cache.fits(pod("c", annotations={"godel.bytedance.com/ignore-pods-limit": ""}), "n") == ()


def test_init_containers_and_overhead_count(kit: Kit) -> None:
    kit.cache.add_node(full())
    one = pod("a", init_containers=(container(requests={"cpu": "1"}),), overhead={"cpu": "1m"})
    assert kit.cache.fits(one, "n") == ("Insufficient cpu",)
    assert kit.cache.fits(replace(one, spec=replace(one.spec, overhead={})), "n") == ()


def test_only_live_nodes_are_asked(kit: Kit) -> None:
    kit.cache.add_pod(pod("a", "n"))
    kit.cache.add_cnr(cnr("n", cpu="9"))
    refused("node n is not found", kit.cache.fits, pod("b"), "n")
    kit.cache.add_nm_node(nm_node("n", {}, {"cpu": "1", "memory": 1000, "pods": 2}))
    assert kit.cache.fits(pod("b"), "n") == ()
