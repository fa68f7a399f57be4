"""Snapshot, CacheDump and the map of NodeInfos: what each contains, and which changes reach it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cache.world import cache, disturb, everything, said
from tests.conftest import NIGHTLY
from tests.core.make import node, pod, port
from tests.doors.engine import ClusterState, buffers

from moorage.cache import CacheDump, NodeInfo, NodeInfoClone, SchedulerCache, Snapshot
from moorage.errors import CacheError
from moorage.objects import Affinity, Pod, PodAffinity, PodAffinityTerm

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

        monkeypatch.setattr(buffers, "zeros", zeros)
        try:
            one.update_snapshot(snapshot)
        except error:
            monkeypatch.setattr(buffers, "zeros", bytes)
            assert (snapshot.num_nodes, snapshot.node_info_list) == (0, [])
            with pytest.raises(CacheError, match="nodeinfo not found"):
                snapshot.get("a")
            one.update_snapshot(snapshot)
        else:
            break
        finally:
            monkeypatch.setattr(buffers, "zeros", bytes)
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


def test_a_snapshot_lists_live_nodes_in_the_order_of_the_tree() -> None:
    snapshot = snapshot_of(cache())
    assert [info.name for info in snapshot.node_info_list] == ["a", "c", "b"]
    assert snapshot.num_nodes == 3
    assert [info.requested.milli_cpu for info in snapshot.node_info_list] == [1000, 0, 2000]
    assert snapshot.get("b").pods == [pod("q", on="b", requests={"cpu": 2})]


@pytest.mark.parametrize("name", ["ghost", "later", "none"])
def test_a_snapshot_has_no_ghosts(name: str) -> None:
    with pytest.raises(CacheError) as refusal:
        snapshot_of(cache()).get(name)
    assert refusal.value.args == (f'nodeinfo not found for node name "{name}"',)


def test_a_snapshot_that_was_never_updated_is_empty() -> None:
    snapshot = Snapshot()
    assert (snapshot.node_info_list, snapshot.num_nodes) == ([], 0)
    with pytest.raises(CacheError, match="nodeinfo not found"):
        snapshot.get("a")


def test_a_snapshot_says_the_same_as_the_cache() -> None:
    one = cache()
    for name, info in listed(snapshot_of(one)).items():
        live = one.node_info(name)
        assert live is not None
        assert everything(info) | {"images": 0} == everything(live) | {"images": 0}
        assert info.image_states.keys() == live.image_states.keys()
        assert info.generation == live.generation


def test_a_snapshot_stands_still_until_it_is_updated() -> None:
    one = cache()
    snapshot = snapshot_of(one)
    before, generation = said(listed(snapshot)), snapshot.generation
    disturb(one)
    assert said(listed(snapshot)) == before
    one.update_snapshot(snapshot)
    fresh = snapshot_of(one)
    assert said(listed(snapshot)).keys() == said(listed(fresh)).keys() == {"a", "c", "d"}
    assert {name: everything(info) for name, info in listed(snapshot).items()} == {
        name: everything(info) for name, info in listed(fresh).items()
    }
    assert snapshot.generation == fresh.generation > generation


def test_the_list_is_rebuilt_only_when_nodes_come_or_go() -> None:
    one = cache()
    snapshot = snapshot_of(one)
    one.update_node(node("a", zone="z1"), node("a", zone="z2"))
    one.update_snapshot(snapshot)
    assert list(listed(snapshot)) == ["a", "c", "b"]
    one.add_node(node("d", zone="z1"))
    one.update_snapshot(snapshot)
    assert list(listed(snapshot)) == ["b", "c", "d", "a"]


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


def test_a_dump_has_the_assumed_pods_and_all_nodes() -> None:
    dump = cache().snapshot()
    assert dump.assumed_pods == {"q": True, "early": True}
    assert {name: info.node is not None for name, info in dump.nodes.items()} == {
        "a": True,
        "b": True,
        "c": True,
        "ghost": False,
        "later": False,
    }
    pods = {name: [held.name for held in info.pods] for name, info in dump.nodes.items()}
    assert pods == {"a": ["p"], "b": ["q"], "c": [], "ghost": ["g"], "later": ["early"]}
    assert dump.nodes["ghost"].requested.milli_cpu == 3000


def test_a_dump_says_the_same_as_the_cache() -> None:
    one = cache()
    for name, info in one.snapshot().nodes.items():
        live = one.node_info(name)
        assert live is not None
        assert everything(info) == everything(live)


def test_a_dump_stands_still() -> None:
    one = cache()
    dump = one.snapshot()
    before = said(dump.nodes)
    disturb(one)
    assert (said(dump.nodes), dump.assumed_pods) == (before, {"q": True, "early": True})
    dump.assumed_pods.clear()
    assert (one.snapshot().assumed_pods, set(one.snapshot().nodes)) == ({"r": True}, {"a", "c", "d"})


def test_a_dump_of_nothing() -> None:
    assert SchedulerCache().snapshot() == CacheDump({}, {})


# ---- the map of NodeInfos --------------------------------------------------------------------------------


def test_a_map_is_filled_with_every_node() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    one.update_node_name_to_info_map(infos)
    assert said(infos) == said(one.snapshot().nodes)
    assert infos.keys() == {"a", "b", "c", "ghost", "later"}


def test_the_entries_of_a_map_sum_up_pods_that_are_added_and_pods_that_are_assumed() -> None:
    one, infos = SchedulerCache(), dict[str, NodeInfoClone]()
    for name in "ab":
        one.add_node(node(name))
    one.add_pod(pod("p", on="a", requests={"cpu": 1, "memory": 100}, ports=[port(80)]))
    one.assume_pod(pod("q", on="a", requests={"cpu": 2, "memory": 20}, ports=[port(90)]))
    one.assume_pod(pod("r", on="later", requests={"cpu": 3}))
    one.update_node_name_to_info_map(infos)
    there = {
        name: ([held.name for held in info.pods], info.requested.milli_cpu, info.requested.memory)
        for name, info in infos.items()
    }
    assert there == {"a": (["p", "q"], 3000, 120), "b": ([], 0, 0), "later": (["r"], 3000, 0)}
    assert (infos["a"].nonzero_requested.milli_cpu, infos["a"].nonzero_requested.memory) == (3000, 120)
    assert {number for _, _, number in infos["a"].used_ports} == {80, 90}
    assert infos["a"].node == node("a")
    one.forget_pod(pod("q", on="a"))
    one.update_node_name_to_info_map(infos)
    assert ([held.name for held in infos["a"].pods], infos["a"].requested.milli_cpu) == (["p"], 1000)


def test_only_what_has_changed_is_replaced_in_a_map() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    one.update_node_name_to_info_map(infos)
    before = infos.copy()
    one.update_node_name_to_info_map(infos)
    assert all(infos[name] is info for name, info in before.items())
    one.add_pod(pod("s", on="c", requests={"cpu": 1}))
    one.remove_pod(pod("g", on="ghost"))
    one.add_node(node("d"))
    one.update_node_name_to_info_map(infos)
    assert infos.keys() == {"a", "b", "c", "d", "later"}
    assert [name for name in before if infos.get(name) is before[name]] == ["a", "b", "later"]
    assert (infos["c"].requested.milli_cpu, before["c"].requested.milli_cpu) == (1000, 0)


def test_a_map_stands_still_between_updates() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    one.update_node_name_to_info_map(infos)
    before = said(infos)
    disturb(one)
    assert said(infos) == before
    one.update_node_name_to_info_map(infos)
    assert said(infos) == said(one.snapshot().nodes)


def test_an_entry_of_another_generation_is_replaced_even_if_it_is_newer() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    with one.transaction():
        one.add_pod(pod("s", on="c"))
        one.update_node_name_to_info_map(infos)
    assert [held.name for held in infos["c"].pods] == ["s"]
    one.update_node_name_to_info_map(infos)
    assert infos["c"].pods == []


def test_a_node_that_went_and_came_back_is_replaced() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    one.update_node_name_to_info_map(infos)
    one.remove_node(node("c"))
    one.add_node(node("c", cpu="9"))
    one.update_node_name_to_info_map(infos)
    assert infos["c"].allocatable.milli_cpu == 9000


def test_a_map_of_another_cache_is_filled_anew() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    for name, cpu in (("x", "4"), ("a", "9")):
        other = SchedulerCache()
        other.add_node(node(name, cpu=cpu))
        other.update_node_name_to_info_map(infos)
    assert infos.keys() == {"a"}
    only = SchedulerCache()
    only.add_node(node("a"))
    only.update_node_name_to_info_map(infos)  # of the same generation
    assert said(infos) == said(only.snapshot().nodes)
    one.update_node_name_to_info_map(infos)
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
    one.update_node_name_to_info_map(infos)
    before = states()
    for number in range(20):
        infos.asked.clear()
        one.update_node_name_to_info_map(infos)
        assert infos.asked == []
        one.add_pod(pod(f"s{number}", on="ab"[number % 2]))
        one.update_node_name_to_info_map(infos)
        assert infos.asked == ["ab"[number % 2]]
    assert states() == before
    assert said(infos) == said(one.snapshot().nodes)


def test_two_maps_are_kept_by_one_cache_and_a_copy_of_one_of_them_too() -> None:
    one = cache()
    first, second = dict[str, NodeInfoClone](), dict[str, NodeInfoClone]()
    one.update_node_name_to_info_map(first)
    one.update_node_name_to_info_map(second)
    copied = first.copy()
    disturb(one)
    for infos in (first, copied, second, first):
        one.update_node_name_to_info_map(infos)
        assert said(infos) == said(one.snapshot().nodes)
    assert copied["a"] is not first["a"]
    assert copied["a"] == first["a"]


def test_entries_that_somebody_took_away_or_put_in_are_mended() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    one.update_node_name_to_info_map(infos)
    del infos["a"]
    one.update_node_name_to_info_map(infos)
    assert said(infos) == said(one.snapshot().nodes)
    infos["foreign"] = infos["a"]
    infos["b"] = cache().snapshot().nodes["b"].clone()
    one.update_node_name_to_info_map(infos)
    assert said(infos) == said(one.snapshot().nodes)


def test_a_map_follows_rows_that_change_their_nodes() -> None:
    one, infos = SchedulerCache(), dict[str, NodeInfoClone]()
    for name in "abc":
        one.add_node(node(name))
    one.update_node_name_to_info_map(infos)
    kept = infos["c"]
    one.remove_node(node("a"))
    one.remove_node(node("b"))
    one.add_node(node("a", cpu="7"))
    one.add_node(node("d"))
    one.update_node_name_to_info_map(infos)
    assert said(infos) == said(one.snapshot().nodes)
    assert infos["c"] is kept
    with one.transaction():
        one.add_node(node("e"))
        one.remove_node(node("d"))
        one.update_node_name_to_info_map(infos)
        assert infos.keys() == {"a", "c", "e"}
    one.update_node_name_to_info_map(infos)
    assert said(infos) == said(one.snapshot().nodes)
    assert infos["c"] is kept


def test_a_map_that_fell_behind_is_compared_as_a_whole() -> None:
    one, infos = cache(), dict[str, NodeInfoClone]()
    one.update_node_name_to_info_map(infos)
    kept = infos["a"]
    for _ in range(one.state.log.capacity // 2 + 1):
        one.add_pod(pod("s", on="c"))
        one.remove_pod(pod("s", on="c"))
    one.remove_pod(pod("g", on="ghost"))
    one.update_node_name_to_info_map(infos)
    assert said(infos) == said(one.snapshot().nodes)
    assert infos["a"] is kept


def test_pods_of_a_copy_name_their_node() -> None:
    one = cache()
    held: list[Pod] = [held for info in one.snapshot().nodes.values() for held in info.pods]
    assert {each.name: each.spec.node_name for each in held} == {
        "p": "a",
        "q": "b",
        "g": "ghost",
        "early": "later",
    }
