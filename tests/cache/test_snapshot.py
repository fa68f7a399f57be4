"""Snapshot, CacheDump and the map of NodeInfos: what each contains, and which changes reach it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cache.world import cache, disturb, said
from tests.conftest import NIGHTLY
from tests.doors.engine import ClusterState, buffers
from tests.make import node, pod

from moorage.compat import update_node_name_to_info_map
from moorage.engine.cache import NodeInfo, NodeInfoClone, SchedulerCache, Snapshot
from moorage.errors import CacheError
from moorage.kube import Affinity, PodAffinity, PodAffinityTerm

NEAR = Affinity(pod_affinity=PodAffinity())
APART = Affinity(pod_anti_affinity=PodAffinity(required=(PodAffinityTerm(topology_key="zone"),)))


def snapshot_of(one: SchedulerCache) -> Snapshot:
    out = Snapshot()
    one.update_snapshot(out)
    return out


# ---- Snapshot --------------------------------------------------------------------------------------------


def test_a_snapshot_follows_rows_whose_memory_has_moved() -> None:
    """An undone transaction leaves as many rows as before, but the table has grown under them."""
    one = SchedulerCache()
    one.add_node(node("a"))
    snapshot = snapshot_of(one)
    with one.transaction():
        for number in range(300):
            one.add_node(node(f"n{number}", **{"example.com/gpu": 1}))
    one.add_node(node("a", **{"example.com/gpu": 3}))
    one.assume_pod(pod("p", on="a", requests={"cpu": 1, "example.com/gpu": 2}))
    one.update_snapshot(snapshot)
    info = snapshot.get("a")
    assert (info.requested.milli_cpu, info.requested.ephemeral_storage) == (1000, 0)
    assert info.requested.scalar_resources == {"example.com/gpu": 2}
    assert info.allocatable.scalar_resources == {"example.com/gpu": 3}


def test_each_snapshot_keeps_the_pods_of_its_own_moment() -> None:
    """A row's list of pods is used again by an update, but not while another snapshot has it."""
    one = SchedulerCache()
    one.add_node(node("a"))
    pods = [pod(name, on="a") for name in "pqrs"]

    def names(snapshot: Snapshot) -> list[str]:
        return [held.name for held in snapshot.get("a").pods]

    one.assume_pods(pods[:2])
    first, second = snapshot_of(one), snapshot_of(one)
    read = first.get("a").pods
    one.forget_pod(pods[0])
    one.update_snapshot(second)
    one.assume_pod(pods[2])
    one.update_snapshot(second)
    one.assume_pod(pods[3])
    assert (names(first), names(second)) == (["p", "q"], ["q", "r"])
    one.update_snapshot(first)
    one.forget_pod(pods[1])
    assert (names(first), names(second)) == (["q", "r", "s"], ["q", "r"])
    assert [held.name for held in read] == ["p", "q"]


class Interrupted(BaseException):
    """As KeyboardInterrupt, from wherever Python is called."""


@pytest.mark.parametrize("error", [MemoryError, Interrupted])
@pytest.mark.parametrize("updated", [False, True])
def test_an_update_that_fails_leaves_an_empty_snapshot_and_the_next_one_is_whole(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], updated: bool
) -> None:
    """Each allocation of an update fails in turn, until none does; by day each third."""
    for allowed in range(0, 1000, 1 if NIGHTLY else 3):
        one, snapshot = cache(), Snapshot()
        if updated:
            one.update_snapshot(snapshot)
        for number in range(40):
            one.add_node(node(f"n{number}", images=[([f"i{number}-{at}"], 5) for at in range(4)]))
        left = iter(range(allowed))

        def zeros(*arguments: Any, left: Iterator[int] = left, **options: Any) -> Any:
            if next(left, None) is None:
                raise error
            return bytes(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(buffers, "zeros", zeros)
            try:
                one.update_snapshot(snapshot)
            except error:
                pass
            else:
                break
        assert (snapshot.num_nodes, snapshot.node_info_list) == (0, [])
        with pytest.raises(CacheError, match="nodeinfo not found"):
            snapshot.get("a")
        one.update_snapshot(snapshot)
        fresh = snapshot_of(one)
        assert said(listed(snapshot)) == said(listed(fresh))
        assert snapshot.num_nodes == 43
    assert allowed > 5


def test_rows_of_a_snapshot_that_never_was_updated() -> None:
    for method in (Snapshot().pods_of, Snapshot().images_of):
        with pytest.raises(IndexError, match="no row 0"):
            method(0)


def listed(snapshot: Snapshot) -> dict[str, NodeInfo]:
    return {info.name: info for info in snapshot.node_info_list}


@pytest.mark.parametrize("name", ["ghost", "later", "none"])
def test_a_snapshot_has_no_ghosts(name: str) -> None:
    for snapshot in (Snapshot(), snapshot_of(cache())):
        with pytest.raises(CacheError) as refusal:
            snapshot.get(name)
        assert refusal.value.args == (f'nodeinfo not found for node name "{name}"',)


def test_nodes_with_pods_with_affinity() -> None:
    one = cache()
    one.add_pod(pod("near", on="b", affinity=NEAR))
    snapshot = snapshot_of(one)
    one.add_pod(pod("apart", on="c", affinity=APART))
    assert [info.name for info in snapshot.have_pods_with_affinity_list] == ["b"]
    assert snapshot.have_pods_with_required_anti_affinity_list == []
    one.update_snapshot(snapshot)
    assert [info.name for info in snapshot.have_pods_with_affinity_list] == ["c", "b"]
    assert [info.name for info in snapshot.have_pods_with_required_anti_affinity_list] == ["c"]
    one.remove_pod(pod("near", on="b"))
    one.update_snapshot(snapshot)
    assert [info.name for info in snapshot.have_pods_with_affinity_list] == ["c"]


# ---- CacheDump -------------------------------------------------------------------------------------------


def test_a_dump_stands_still() -> None:
    one = cache()
    dump = one.snapshot()
    before = said(dump.nodes)
    disturb(one)
    assert (said(dump.nodes), dump.assumed_pods) == (before, {"q": True, "early": True})
    dump.assumed_pods.clear()
    assert (one.snapshot().assumed_pods, set(one.snapshot().nodes)) == ({"r": True}, {"a", "c", "d"})


# ---- the map of NodeInfos --------------------------------------------------------------------------------


def test_a_map_stands_still_between_updates() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    update_node_name_to_info_map(one, infos)
    before = said(infos)
    disturb(one)
    assert said(infos) == before
    update_node_name_to_info_map(one, infos)
    assert said(infos) == said(one.snapshot().nodes)


def test_a_map_of_another_cache_is_filled_anew() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    for name, cpu in (("x", "4"), ("a", "9")):
        other = SchedulerCache()
        other.add_node(node(name, cpu=cpu))
        update_node_name_to_info_map(other, infos)
    assert infos.keys() == {"a"}
    only = SchedulerCache()
    only.add_node(node("a"))
    update_node_name_to_info_map(only, infos)  # of the same generation
    assert said(infos) == said(only.snapshot().nodes)
    update_node_name_to_info_map(one, infos)
    assert said(infos) == said(one.snapshot().nodes)


class Watched(dict[str, NodeInfoClone]):
    """A map that says which entries were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.append(name)
        return super().get(name, default)


def states() -> int:
    """The copies of clusters that are alive."""
    gc.collect()
    return sum(isinstance(held, ClusterState) for held in gc.get_objects())


def test_only_what_has_changed_is_looked_at_and_copied() -> None:
    one, infos = cache(), Watched()
    update_node_name_to_info_map(one, infos)
    before = states()
    for number in range(20):
        infos.asked.clear()
        update_node_name_to_info_map(one, infos)
        assert infos.asked == []
        one.add_pod(pod(f"s{number}", on="ab"[number % 2]))
        update_node_name_to_info_map(one, infos)
        assert infos.asked == ["ab"[number % 2]]
    assert states() == before
    assert said(infos) == said(one.snapshot().nodes)


def test_two_maps_are_kept_by_one_cache_and_a_copy_of_one_of_them_too() -> None:
    one = cache()
    first, second = dict[str, NodeInfoClone](), dict[str, NodeInfoClone]()
    update_node_name_to_info_map(one, first)
    update_node_name_to_info_map(one, second)
    copied = first.copy()
    disturb(one)
    for infos in (first, copied, second, first):
        update_node_name_to_info_map(one, infos)
        assert said(infos) == said(one.snapshot().nodes)
    assert copied["a"] is not first["a"]
    assert copied["a"] == first["a"]


def test_entries_that_somebody_took_away_or_put_in_are_mended() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    update_node_name_to_info_map(one, infos)
    del infos["a"]
    update_node_name_to_info_map(one, infos)
    assert said(infos) == said(one.snapshot().nodes)
    infos["foreign"] = infos["a"]
    infos["b"] = cache().snapshot().nodes["b"].clone()
    update_node_name_to_info_map(one, infos)
    assert said(infos) == said(one.snapshot().nodes)


def test_a_map_that_fell_behind_is_compared_as_a_whole() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    update_node_name_to_info_map(one, infos)
    kept = infos["a"]
    for _ in range(one.state.log.capacity // 2 + 1):
        one.add_pod(pod("s", on="c"))
        one.remove_pod(pod("s", on="c"))
    one.remove_pod(pod("g", on="ghost"))
    update_node_name_to_info_map(one, infos)
    assert said(infos) == said(one.snapshot().nodes)
    assert infos["a"] is kept
