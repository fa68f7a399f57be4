"""Transactions, forks and snapshots of a BinderCache, and what a relist makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.make import node
from tests.multi.binder_cache.binder_kit import GANG, Kit, best_effort, group, member, pdb, pod

from moorage.compat.binder_cache import BinderCache, CachePodInfo, SchedulingStatus, UnitStatus
from moorage.engine.cache import Snapshot
from moorage.kube import Node, Pod
from moorage.store import Informer, ObjectStore


@pytest.fixture
def kit() -> Kit:
    return Kit()


def everything(cache: BinderCache) -> Any:
    return (
        cache.get_unit_status(GANG),
        cache.is_pod_marked_to_delete(pod("a")),
        cache.pdbs.pdbs,
        cache.nodes.nm_nodes,
        cache.nodes.cnrs,
        {name: [one.name for one in info.pods] for name, info in cache.dump().nodes.items()},
    )


def disturb(cache: BinderCache) -> None:
    cache.set_unit_scheduling_status(GANG, SchedulingStatus.TIMEOUT)
    cache.assume_pod(CachePodInfo(member("c")))
    cache.remove_delete_pod_marker_by_key("a", "p")
    cache.delete_pod(member("a"))
    cache.add_pdb(pdb("new"))
    cache.delete_pdb(pdb("old"))


@pytest.mark.parametrize("gate", [False, True])
def test_a_rollback_takes_every_store_back(gate: bool) -> None:
    kit = Kit(resource_reservation=gate)
    kit.cache.add_node(node("n"))
    kit.cache.add_pdb(pdb("old"))
    kit.cache.add_pod_group(group("Pending"))
    for name in ("a", "b"):
        kit.cache.add_pod(member(name))
    kit.cache.mark_pod_to_delete(member("a"), pod("p"))
    before, fork = everything(kit.cache), kit.cache.fork()
    with kit.cache.transaction():
        disturb(kit.cache)
        assert everything(kit.cache) != before
    assert everything(kit.cache) == before
    with kit.cache.transaction() as outer:
        with kit.cache.transaction() as inner:
            disturb(kit.cache)
            inner.commit()
        outer.commit()
    after = everything(kit.cache)
    assert after != before
    assert everything(fork) == before
    disturb(fork)
    assert everything(fork) == after


def test_a_snapshot_shows_guaranteed_pods(kit: Kit) -> None:
    kit.cache.add_node(node("n"))
    snapshot = Snapshot()
    kit.cache.update_snapshot(snapshot)
    kit.assume(pod("a", "n"))
    kit.assume(best_effort("b", "n"))
    kit.cache.update_snapshot(snapshot)
    assert snapshot.get("n").requested.milli_cpu == 100
    assert len(snapshot.get("n").pods) == 2


# ---- informers, and what they missed


def test_a_relist_makes_up_for_what_was_lost(kit: Kit) -> None:
    """Whatever informers have said, after a relist the cache has what the server has."""
    store = ObjectStore()
    for one in (node("n"), node("m"), pod("a", "n"), pod("b", "m"), pod("waits")):
        store.create(one)
    kit.cache.add_node(node("gone"))
    kit.cache.add_pod(pod("gone", "gone"))
    kit.cache.add_pod(pod("b", "n"))
    kit.cache.mark_pod_to_delete(pod("gone", "gone"), pod("p"))
    kit.assume(pod("waits", "m"))
    kit.assume(pod("never", "m"))
    nodes, pods = Informer(store, Node), Informer(store, Pod)
    for informer in (nodes, pods):
        informer.run_once()
    kit.cache.relist(nodes.indexer.values(), pods.indexer.values())
    assert sorted(kit.cache.dump().nodes) == ["m", "n"]
    assert (kit.used("n"), kit.used("m")) == ((100, 1), (200, 2))
    assert kit.cache.dump().assumed_pods == {"waits": True}
    assert not kit.cache.is_pod_marked_to_delete(pod("gone"))
    assert kit.cache.get_unit_status("SinglePodUnit/default/gone") == UnitStatus()


def test_a_relist_that_cannot_be_read_changes_nothing(kit: Kit) -> None:
    kit.cache.add_node(node("n"))
    kit.cache.add_pod(pod("a", "n"))
    with pytest.raises(ValueError, match="x"):
        kit.cache.relist([node("m")], [pod("b", "m"), pod("c", "m", requests={"cpu": "x"})])
    assert (list(kit.cache.dump().nodes), kit.used("n")) == (["n"], (100, 1))
