"""Upstream's cases of the cache of decisions (scheduler_binder_cache_test.go), and some more."""

from __future__ import annotations

from msgspec.structs import replace
from tests.doors.engine import VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE as REQUESTS
from tests.volume.binding.binder_kit import PROVISIONED, PV_1A, UNBOUND, pod
from tests.volume.samples import value

from moorage.compat import new_pod_binding_cache
from moorage.engine.volume import BindingInfo

POD = pod(UNBOUND)
OTHER = replace(POD, metadata=replace(POD.metadata, name="other"))


def test_what_is_not_known_is_none() -> None:
    cache = new_pod_binding_cache()
    assert (cache.get_bindings(POD, "node1"), cache.get_provisioned_pvcs(POD, "node1")) == (None, None)
    cache.update_bindings(POD, "node1", [], [])
    assert (cache.get_bindings(POD, "node1"), cache.get_provisioned_pvcs(POD, "node1")) == ([], [])
    assert (cache.get_bindings(POD, "node2"), cache.get_provisioned_pvcs(POD, "node2")) == (None, None)
    assert cache.get_decisions(OTHER) is None


def test_the_very_lists_come_back() -> None:
    cache, bindings, claims = new_pod_binding_cache(), [BindingInfo(PV_1A, UNBOUND)], [PROVISIONED]
    cache.update_bindings(POD, "node1", bindings, claims)
    assert cache.get_bindings(POD, "node1") is bindings
    assert cache.get_provisioned_pvcs(POD, "node1") is claims
    cache.update_bindings(POD, "node1", None, claims)
    assert cache.get_bindings(POD, "node1") is None


def test_a_pod_is_dropped() -> None:
    cache = new_pod_binding_cache()
    cache.delete_bindings(POD)
    cache.update_bindings(POD, "node1", [], [])
    cache.delete_bindings(POD)
    assert cache.get_bindings(POD, "node1") is None
    assert cache.get_decisions(POD) is None


def test_a_pod_without_nodes_is_still_known() -> None:
    cache = new_pod_binding_cache()
    cache.clear_bindings(POD, "node1")
    assert cache.get_decisions(POD) is None
    cache.update_bindings(POD, "node1", [], [])
    cache.clear_bindings(POD, "node1")
    cache.clear_bindings(POD, "node1")
    assert cache.get_decisions(POD) == {}


def test_requests_are_counted() -> None:
    cache = new_pod_binding_cache()
    added, deleted = value(REQUESTS, "add"), value(REQUESTS, "delete")
    for node in ("node1", "node1", "node2"):
        cache.update_bindings(POD, node, [], [])
    cache.clear_bindings(POD, "node2")
    cache.update_bindings(POD, "node2", [], [])
    cache.delete_bindings(POD)
    cache.delete_bindings(POD)
    assert (value(REQUESTS, "add"), value(REQUESTS, "delete")) == (added + 3, deleted + 1)
