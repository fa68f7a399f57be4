"""Each operation of the caches holds the cache's lock while it touches what the lock guards."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from unittest.mock import Mock

import pytest
from msgspec.structs import replace
from tests.locks import check_locked, guard, is_held
from tests.make import node
from tests.multi.binder_cache.binder_kit import TAKES, WANTS, cnr, group, nm_node, pdb, pod, reservation

from moorage.compat import NodeTree
from moorage.compat.binder_cache import BinderCache, CacheHandler, CachePodInfo, SchedulingStatus
from moorage.engine.cache import SchedulerCache, Snapshot
from moorage.kube import Pod, parse_selector


def test_a_node_tree() -> None:
    tree = NodeTree([node("a", zone="z1"), node("b", zone="z2")])
    calls = {
        "add_node": lambda: tree.add_node(node("c", zone="z1")),
        "update_node": lambda: tree.update_node(node("c", zone="z1"), node("c", zone="z2")),
        "remove_node": lambda: tree.remove_node(node("c", zone="z2")),
        "reset_exhausted": tree.reset_exhausted,
        "zones": lambda: tree.zones,
        "num_nodes": lambda: tree.num_nodes,
    }
    in_the_core = ["list", "next"]  # test_node_tree.py has them
    check_locked(tree, "_lock", ["_core"], calls, exempt=["of_cache", *in_the_core])


def test_a_scheduler_cache() -> None:
    one = SchedulerCache(ttl=1.0)
    every, p, q = parse_selector(""), pod("p", "a"), pod("q", "a")
    replicas = pod("t")

    def transaction() -> None:
        with one.transaction():
            one.add_node(node("z"))

    def trial() -> None:
        with one.trial():
            one.add_node(node("y"))

    calls = {
        "add_node": lambda: one.add_node(node("a")),
        "add_nodes": lambda: one.add_nodes([node("b")]),
        "update_node": lambda: one.update_node(node("a"), node("a", cpu="9")),
        "assume_pod": lambda: one.assume_pod(p),
        "assume_pods": lambda: one.assume_pods([q]),
        "is_assumed_pod": lambda: one.is_assumed_pod(p),
        "get_pod": lambda: one.get_pod(p),
        "finish_binding": lambda: one.finish_binding(p),
        "finish_bindings": lambda: one.finish_bindings([q]),
        "forget_pod": lambda: one.forget_pod(p),
        "forget_pods": lambda: one.forget_pods([q]),
        "add_pod": lambda: one.add_pod(p),
        "add_pods": lambda: one.add_pods([q]),
        "update_pod": lambda: one.update_pod(p, p),
        "remove_pod": lambda: one.remove_pod(p),
        "add_bound_pods": lambda: one.add_bound_pods([pod("r")], ["a"]),
        "confirm_pods": lambda: one.confirm_pods([pod("s", "a")]),
        "remove_added": lambda: one.remove_added([pod("t", "a")]),
        "discard_pod": lambda: one.discard_pod(pod("s", "a")),
        "finish_template": lambda: one.finish_template(replicas, 0, 0),
        "forget_template": lambda: one.forget_template(replicas, 0, 0),
        "confirm_template": lambda: one.confirm_template(replicas, 0, 0),
        "cleanup_assumed_pods": lambda: one.cleanup_assumed_pods(0.0),
        "clean": lambda: one.clean(0.0),
        "list": lambda: one.list(every),
        "filtered_list": lambda: one.filtered_list(lambda _: True, every),
        "snapshot": one.snapshot,
        "transaction": transaction,
        "trial": trial,
        "enlist": lambda: one.enlist(Mock()),
        "fork": one.fork,
        "remove_node": lambda: one.remove_node(node("a")),
    }
    exempt = {"run", "node_info", "update_snapshot", "check_whole"}  # called with the lock
    check_locked(one, one.lock, ["state", "transactions"], calls, exempt)


def test_an_update_of_a_snapshot_waits_for_the_lock() -> None:
    one, snapshot = SchedulerCache(), Snapshot()
    one.add_node(node("a"))
    other = Thread(target=one.update_snapshot, args=(snapshot,))
    with one.lock:
        other.start()
        other.join(0.1)
        assert other.is_alive()
        assert snapshot.num_nodes == 0
    other.join()
    assert snapshot.num_nodes == 1


UNIT = "SinglePodUnit/default/p"


def of_what_belongs_to_pods(one: BinderCache, q: Pod, p: Pod) -> dict[str, Callable[[], object]]:
    """Calls about units, markers and budgets."""
    return {
        "set_unit_scheduling_status": lambda: one.set_unit_scheduling_status(UNIT, SchedulingStatus.PENDING),
        "get_unit_scheduling_status": lambda: one.get_unit_scheduling_status(UNIT),
        "get_unit_status": lambda: one.get_unit_status(UNIT),
        "mark_pod_to_delete": lambda: one.mark_pod_to_delete(q, p),
        "is_pod_marked_to_delete": lambda: one.is_pod_marked_to_delete(q),
        "remove_delete_pod_marker": lambda: one.remove_delete_pod_marker(q, p),
        "remove_delete_pod_marker_by_key": lambda: one.remove_delete_pod_marker_by_key("q", "p"),
        "add_pod_group": lambda: one.add_pod_group(group("Pending")),
        "update_pod_group": lambda: one.update_pod_group(group("Pending"), group("Running")),
        "delete_pod_group": lambda: one.delete_pod_group(group("Running")),
        "add_pdb": lambda: one.add_pdb(pdb("b", app="x")),
        "update_pdb": lambda: one.update_pdb(None, pdb("b", app="y")),
        "delete_pdb": lambda: one.delete_pdb(pdb("b")),
    }


@pytest.mark.parametrize("gate", [False, True])
def test_a_binder_cache(gate: bool) -> None:
    one = BinderCache(CacheHandler(resource_reservation=gate))
    p, q = pod("p", "n"), pod("q", "n")

    def transaction() -> None:
        with one.transaction():
            one.add_node(node("z"))

    def trial() -> None:
        with one.trial():
            one.add_node(node("y"))

    calls = {
        "add_node": lambda: one.add_node(node("n")),
        "update_node": lambda: one.update_node(node("n"), node("n", cpu="9")),
        "add_nm_node": lambda: one.add_nm_node(nm_node("n", {}, {})),
        "update_nm_node": lambda: one.update_nm_node(None, nm_node("n", {}, {})),
        "delete_nm_node": lambda: one.delete_nm_node(nm_node("n", {}, {})),
        "add_cnr": lambda: one.add_cnr(cnr("n", cpu="1")),
        "update_cnr": lambda: one.update_cnr(None, cnr("n", cpu="2")),
        "delete_cnr": lambda: one.delete_cnr(cnr("n")),
        "assume_pod": lambda: one.assume_pod(CachePodInfo(p)),
        "is_assumed_pod": lambda: one.is_assumed_pod(p),
        "get_pod": lambda: one.get_pod(p),
        "finish_binding": lambda: one.finish_binding(p),
        "forget_pod": lambda: one.forget_pod(CachePodInfo(p)),
        "add_pod": lambda: one.add_pod(q),
        "update_pod": lambda: one.update_pod(q, q),
        "get_node_info": lambda: one.get_node_info("n"),
        "fits": lambda: one.fits(p, "n"),
        "dump": one.dump,
        **of_what_belongs_to_pods(one, q, p),
        "clean": lambda: one.clean(0.0),
        "transaction": transaction,
        "trial": trial,
        "enlist": lambda: one.enlist(Mock()),
        "fork": one.fork,
        "delete_pod": lambda: one.delete_pod(q),
        "relist": lambda: one.relist([node("n")], [q]),
        "delete_node": lambda: one.delete_node(node("n")),
    }
    nothing = {f"{verb}_{what}" for verb in ("add", "update", "delete") for what in ("owner", "movement")}
    of_reservations = {f"{verb}_reservation" for verb in ("add", "update", "delete")}
    fixed = {"run", "stores", "find_store", "node_tree", "update_snapshot", "get_available_placeholder_pod"}
    fixed.add("check_whole")  # called with the lock
    stores = ["pods", "units", "markers", "nodes", "pdbs", "transactions"]
    check_locked(one, one.lock, stores, calls, nothing | of_reservations | fixed)


def test_a_clone_of_a_node_of_a_binder_cache_is_of_one_moment() -> None:
    one = BinderCache(CacheHandler())
    one.add_node(node("n"))
    info = one.get_node_info("n")
    amounts = {"nm_node", "cnr", "best_effort_requested", "best_effort_nonzero_requested"}
    touched = guard(info, one.lock, *amounts)
    info.clone()
    assert touched == amounts


def test_the_reservations_of_a_binder_cache() -> None:
    one = BinderCache(CacheHandler(resource_reservation=True))
    assert one.reservations is not None
    gone, back = pod("a", "n", WANTS), pod("b", "n", TAKES)
    unbound = replace(back, spec=replace(back.spec, node_name=""))
    one.add_node(node("n"))
    one.add_pod(gone)
    touched = guard(one.reservations, one.lock, "_infos")
    for call in (
        lambda: one.delete_pod(gone),
        lambda: one.get_available_placeholder_pod(back),
        lambda: one.assume_pod(CachePodInfo(back)),
        lambda: one.forget_pod(CachePodInfo(back)),
        lambda: one.update_pod(unbound, back),
        lambda: one.add_reservation(reservation(gone)),
        lambda: one.update_reservation(reservation(gone), reservation(gone)),
        lambda: one.delete_reservation(reservation(gone)),
        lambda: one.clean(1e9),
        one.fork,
    ):
        touched.clear()
        call()
        assert touched
        assert not is_held(one.lock)


def test_the_tree_of_a_cache_has_the_lock_of_the_cache() -> None:
    one = SchedulerCache()
    assert NodeTree.of_cache(one)._lock is one.lock
