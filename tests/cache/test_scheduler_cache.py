"""SchedulerCache: events in, state out."""

from __future__ import annotations

import pytest
from tests.core.make import node, pod

from moorage.cache import SchedulerCache
from moorage.errors import CacheError


def cache() -> SchedulerCache:
    one = SchedulerCache(ttl=10.0)
    one.add_node(node("a"))
    return one


def requested(one: SchedulerCache) -> dict[str, int]:
    table = one.state.table
    return {name: cpu for name, cpu in zip(table.names, table.requested["cpu"].tolist(), strict=True) if name}


def test_the_life_of_a_pod() -> None:
    one = cache()
    waiting = pod("p", on="a", requests={"cpu": 1})
    one.assume_pod(waiting)
    assert one.is_assumed_pod(waiting)
    one.finish_binding(waiting, 0.0)
    one.add_pod(waiting)
    assert not one.is_assumed_pod(waiting)
    assert one.cleanup_assumed_pods(99.0) == []
    changed = pod("p", on="a", requests={"cpu": 2})
    one.update_pod(waiting, changed)
    assert one.get_pod(waiting) is changed
    assert requested(one) == {"a": 2000}
    one.remove_pod(changed)
    assert requested(one) == {"a": 0}


def test_forgetting_and_expiring() -> None:
    one = cache()
    first, second = pod("p", on="a", requests={"cpu": 1}), pod("q", on="a", requests={"cpu": 1})
    one.assume_pod(first)
    one.assume_pod(second)
    one.forget_pod(first)
    one.finish_binding(second, 5.0)
    assert one.cleanup_assumed_pods(15.0) == []
    assert one.cleanup_assumed_pods(15.5) == [second]
    assert requested(one) == {"a": 0}
    with pytest.raises(CacheError, match="does not exist in scheduler cache"):
        one.get_pod(second)


def test_without_a_ttl_nothing_expires() -> None:
    one = SchedulerCache(clock=lambda: 7.0)
    one.assume_pod(pod("p", on="a"))
    one.finish_binding(pod("p"))
    assert one.cleanup_assumed_pods(1e300) == []


def test_the_clock_gives_the_deadline() -> None:
    one = SchedulerCache(ttl=1.0, clock=lambda: 7.0)
    one.assume_pod(pod("p", on="a"))
    one.finish_binding(pod("p"))
    assert one.cleanup_assumed_pods(8.0) == []
    assert [held.name for held in one.cleanup_assumed_pods(8.5)] == ["p"]


def test_nodes() -> None:
    one = cache()
    one.update_node(node("a"), node("a", cpu=8))
    one.update_node(node("new"), node("new"))
    assert one.state.table.allocatable["cpu"].tolist() == [8000, 4000]
    one.add_pod(pod("p", on="a", requests={"cpu": 1}))
    one.remove_node(node("a"))
    assert not one.state.has_node("a")
    assert requested(one) == {"a": 1000, "new": 0}
    with pytest.raises(CacheError, match="node a is not found"):
        one.remove_node(node("a"))


def test_errors_pass_through() -> None:
    one = cache()
    with pytest.raises(CacheError, match="is not added to scheduler cache, so cannot be updated"):
        one.update_pod(pod("p"), pod("p", on="a"))
    one.add_pod(pod("p", on="a"))
    with pytest.raises(CacheError, match="was already in added state"):
        one.add_pod(pod("p", on="a"))
    with pytest.raises(CacheError, match="is in the cache, so can't be assumed"):
        one.assume_pod(pod("p", on="a"))
    with pytest.raises(CacheError, match="wasn't assumed so cannot be forgotten"):
        one.forget_pod(pod("p", on="a"))
