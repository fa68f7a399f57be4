"""NodeInfo: a view of one node; and its clone, which pods can be added to and removed from."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cache.world import everything
from tests.make import node, pod, port

from moorage.compat.binder_cache import BinderCache, CacheHandler
from moorage.engine.cache import NodeInfo, Resource, SchedulerCache, Snapshot
from moorage.errors import CacheError
from moorage.kube import Affinity, Pod, PodAffinity, PodAffinityTerm

GPU = "example.com/gpu"
TERM = PodAffinityTerm(topology_key="zone")
MIB = 1 << 20


def view(*pods: Pod, **allocatable: Any) -> tuple[SchedulerCache, NodeInfo]:
    """A cache with one node and these pods, and the view of that node."""
    one = SchedulerCache()
    one.add_node(node("n", **allocatable))
    one.add_pods(pods)
    info = one.node_info("n")
    assert info is not None
    return one, info


def on(name: str, requests: dict[str, Any] | None = None, **rest: Any) -> Pod:
    return pod(name, on="n", requests=requests, **rest)


def test_an_empty_node() -> None:
    _, info = view(**{"ephemeral-storage": "3", GPU: 2})
    assert (info.name, info.node, info.pods) == ("n", node("n", **{"ephemeral-storage": "3", GPU: 2}), [])
    assert info.allocatable == Resource(4000, 8 << 30, 3, 10, {GPU: 2})
    assert (info.requested, info.nonzero_requested) == (Resource(), Resource())
    assert (info.used_ports, info.image_states, info.taints) == (frozenset(), {}, ())


def test_ports_have_defaults_and_need_a_number() -> None:
    ports = [port(80), port(53, "10.0.0.1", "UDP"), port(0)]
    _, info = view(on("p", ports=ports))
    assert info.used_ports == {("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 53)}


def test_pods_with_affinity() -> None:
    needs_apart = Affinity(pod_anti_affinity=PodAffinity(required=(TERM,)))
    _, info = view(
        on("plain"),
        on("empty", affinity=Affinity(pod_affinity=PodAffinity())),
        on("apart", affinity=needs_apart),
        on("node", affinity=Affinity()),
        on("near", affinity=Affinity(pod_affinity=PodAffinity(required=(TERM,)))),
    )
    assert [held.name for held in info.pods_with_affinity] == ["empty", "apart", "near"]
    assert [held.name for held in info.pods_with_required_anti_affinity] == ["apart"]


def test_the_generation_grows_with_every_change() -> None:
    one, info = view()
    one.add_node(node("other"))
    seen = [info.generation]
    for change in (
        lambda: one.assume_pod(on("p")),
        lambda: one.add_pod(on("p")),
        lambda: one.update_pod(on("p"), on("p", {"cpu": 1})),
        lambda: one.update_node(node("n"), node("n", cpu="9")),
        lambda: one.remove_node(node("n")),
        lambda: one.add_node(node("n")),
        lambda: one.remove_pod(on("p")),
    ):
        change()
        seen.append(info.generation)
    assert seen == sorted(set(seen))
    other = one.node_info("other")
    assert other is not None
    one.add_pod(pod("x", on="other"))
    assert (info.generation, other.generation > info.generation) == (seen[-1], True)


# ---- clones ----------------------------------------------------------------------------------------------


def full() -> tuple[SchedulerCache, NodeInfo]:
    apart = Affinity(pod_anti_affinity=PodAffinity(required=(TERM,)))
    return view(
        on("p", {"cpu": 1, GPU: 1}, ports=[port(80)]),
        on("q", {"memory": 5, "ephemeral-storage": 2}, affinity=apart),
        on("r"),
        images=[(["i"], 5)],
        **{GPU: 4},
    )


def test_a_clone_says_the_same_at_the_same_generation() -> None:
    _, info = full()
    clone = info.clone()
    assert everything(clone) == everything(info)
    assert everything(clone.clone()) == everything(info)
    assert clone.clone().generation == clone.generation == info.generation


def test_a_clone_and_what_it_was_made_from_are_independent() -> None:
    one, info = full()
    clone = info.clone()
    before = everything(clone)
    one.add_pod(on("s", {"cpu": 1, GPU: 1}, ports=[port(81)]))
    one.update_node(node("n"), node("n", cpu="9"))
    assert everything(clone) == before
    now, other = everything(info), clone.clone()
    other.add_pod(on("t", {"cpu": 1, GPU: 1, "ephemeral-storage": 1}, ports=[port(82)]))
    other.remove_pod(on("q", {"memory": 5, "ephemeral-storage": 2}))
    assert everything(clone) == before
    assert everything(info) == now


@pytest.mark.parametrize(
    "added", [on("s", {"cpu": "1500m", GPU: 2}, ports=[port(81)]), on("s", {"memory": 9})]
)
def test_a_pod_added_to_a_clone_counts_as_in_the_cache(added: Pod) -> None:
    one, info = full()
    clone = info.clone()
    clone.add_pod(added)
    one.add_pod(added)
    assert everything(clone) == everything(info)


@pytest.mark.parametrize("name", ["p", "q", "r"])
def test_a_pod_removed_from_a_clone_counts_as_in_the_cache(name: str) -> None:
    one, info = full()
    clone = info.clone()
    gone = one.get_pod(on(name))
    clone.remove_pod(gone)
    one.remove_pod(gone)
    without_zeros = {key: amount for key, amount in clone.requested.scalar_resources.items() if amount}
    clone.requested.scalar_resources = without_zeros
    assert everything(clone) == everything(info)


def test_a_pod_is_removed_by_its_uid_or_not_at_all() -> None:
    _, info = full()
    clone = info.clone()
    with pytest.raises(CacheError) as refusal:
        clone.remove_pod(on("x"))
    assert refusal.value.args == ("no corresponding pod default/x in pods of node n",)
    assert everything(clone) == everything(info)


# ---- after the node is gone


def read_all(info: NodeInfo) -> dict[str, Any]:
    """The answer or the error of every attribute and of `clone`."""
    out = dict[str, Any]()
    for name, value in vars(type(info)).items() | vars(NodeInfo).items():
        if isinstance(value, property):
            try:
                out[name] = getattr(info, name)
            except CacheError as error:
                out[name] = str(error)
    with pytest.raises(CacheError, match="nodeinfo not found"):
        info.clone()
    return out


def reused(one: SchedulerCache | BinderCache) -> None:
    """The row of node a becomes that of node b."""
    state = one.state
    row = state.find_row("a")
    (one.remove_node if isinstance(one, SchedulerCache) else one.delete_node)(node("a"))
    one.add_node(node("b"))
    one.add_pod(pod("q", on="b", requests={"cpu": 1}))
    assert (state.find_row("a"), state.find_row("b")) == (None, row)


GONE = 'nodeinfo not found for node name "a"'


@pytest.mark.parametrize("kind", ["cache", "binder", "snapshot"])
def test_what_is_held_of_a_node_that_is_gone_is_no_other_node(kind: str) -> None:
    one: SchedulerCache | BinderCache = SchedulerCache()
    if kind == "binder":
        one = BinderCache(CacheHandler())
    one.add_node(node("a"))
    snapshot = Snapshot()
    one.update_snapshot(snapshot)
    if kind == "snapshot":
        info: NodeInfo | None = snapshot.get("a")
    elif isinstance(one, BinderCache):
        info = one.get_node_info("a")
    else:
        info = one.node_info("a")
    assert info is not None
    assert info.node == node("a")
    reused(one)
    one.update_snapshot(snapshot)
    assert (info.name, repr(info)) == ("a", "<NodeInfo a>")
    said = read_all(info)
    assert (said.pop("node"), said.pop("taints")) == (None, ())
    if kind == "binder":
        assert (said.pop("is_live"), said.pop("nm_node"), said.pop("cnr")) == (False, None, None)
        assert said.pop("guaranteed_capacity") == Resource()
    assert set(said.values()) == {GONE}


def test_what_is_held_of_a_dump_stays_as_it_was() -> None:
    one = SchedulerCache()
    one.add_node(node("a"))
    info = one.snapshot().nodes["a"]
    reused(one)
    assert (info.node, info.pods) == (node("a"), [])


def test_a_node_that_comes_back_is_shown_again() -> None:
    one, info = view()
    one.remove_node(node("n"))
    one.add_node(node("m"))  # takes the row
    one.add_node(node("n", cpu="9"))
    assert info.allocatable.milli_cpu == 9000


def test_a_node_of_a_transaction_that_was_undone_is_gone() -> None:
    one = SchedulerCache()
    with one.transaction():
        one.add_node(node("n"))
        info = one.node_info("n")
        assert info is not None
    one.add_node(node("m"))
    assert info.node is None
    with pytest.raises(CacheError):
        _ = info.pods
