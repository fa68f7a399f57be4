"""The binder's cache, 10,000 nodes with ten pods each: pods in and out, markers, expiry, dumps, what fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from moorage import synthetic
from moorage.compat.binder_cache import BinderCache, CacheHandler, CachePodInfo
from moorage.compat.godel import BEST_EFFORT, RESOURCE_TYPE
from moorage.kube import Pod

NODES, PODS, MANY = 10_000, 100_000, 10_000

nodes = synthetic(nodes=NODES, pods=0, seed=1).nodes


def bound(pod: Pod, number: int) -> Pod:
    """The pod on a node, under a UID of its own; every other one is a best-effort pod."""
    annotations = {RESOURCE_TYPE: BEST_EFFORT} if number % 2 else {}
    meta = replace(pod.metadata, uid=f"uid-{number:06}", annotations=annotations)
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=nodes[number % NODES].name))


held = [bound(pod, number) for number, pod in enumerate(synthetic(nodes=0, pods=PODS, seed=2).pods)]
coming = [bound(pod, PODS + n) for n, pod in enumerate(synthetic(nodes=0, pods=MANY, seed=3).pods)]
infos = [CachePodInfo(pod) for pod in coming]
preemptor = replace(held[0], metadata=replace(held[0].metadata, uid="preemptor"))


@pytest.fixture(scope="module")
def cache() -> BinderCache:
    """Each benchmark leaves it as it was."""
    one = BinderCache(CacheHandler(clock=lambda: 0.0))
    for node in nodes:
        one.add_node(node)
    for pod in held:
        one.add_pod(pod)
    for pod in coming:
        one.state.classes.intern(pod)  # what follows is not about reading specs
    return one


def each(operation: Callable[[Any], Any], over: list[Any]) -> Callable[[], None]:
    def run() -> None:
        for one in over:
            operation(one)

    return run


def is_there(cache: BinderCache, pod: Pod) -> bool:
    return cache.pods.find(pod) is not None


def clear(cache: BinderCache) -> None:
    for pod in coming:
        if is_there(cache, pod):
            cache.delete_pod(pod)
    cache.clean(0.0)


@pytest.mark.parametrize("operation", ["assume", "finish", "forget", "confirm"])
def test_assumed_pods(benchmark: Any, report: Any, cache: BinderCache, operation: str) -> None:
    assume = each(cache.assume_pod, infos)
    run = {
        "assume": assume,
        "finish": each(cache.finish_binding, coming),
        "forget": each(cache.forget_pod, infos),
        "confirm": each(lambda pod: cache.update_pod(pod, pod), coming),
    }[operation]

    def setup() -> None:
        clear(cache)
        if operation != "assume":
            assume()

    report(f"binder: {operation}", MANY)
    benchmark.pedantic(run, setup=setup, rounds=10)
    assert is_there(cache, coming[0]) == (operation != "forget")
    clear(cache)


@pytest.mark.parametrize("operation", ["mark", "unmark"])
def test_markers(benchmark: Any, report: Any, cache: BinderCache, operation: str) -> None:
    victims = held[:MANY]
    mark = each(lambda pod: cache.mark_pod_to_delete(pod, preemptor), victims)
    unmark = each(lambda pod: cache.remove_delete_pod_marker(pod, preemptor), victims)
    report(f"binder: {operation} a victim", MANY)
    before, run = (unmark, mark) if operation == "mark" else (mark, unmark)
    benchmark.pedantic(run, setup=before, rounds=10)
    assert cache.is_pod_marked_to_delete(victims[0]) == (operation == "mark")
    unmark()


def test_expiry(benchmark: Any, report: Any, cache: BinderCache) -> None:
    def setup() -> None:
        for info in infos:
            cache.assume_pod(info)
            cache.finish_binding(info.pod)

    report("binder: expiry of 10,000 pods")
    benchmark.pedantic(lambda: cache.clean(301.0), setup=setup, rounds=10)
    assert not is_there(cache, coming[0])


def test_dump(benchmark: Any, report: Any, cache: BinderCache) -> None:
    report("binder: dump of 10,000 nodes, 100,000 pods")
    dumped = benchmark.pedantic(cache.dump, rounds=10)
    assert sum(len(info.pods) for info in dumped.nodes.values()) == PODS


def test_fits(benchmark: Any, report: Any, cache: BinderCache) -> None:
    names = [node.name for node in nodes]
    report("binder: does a pod fit a node", NODES)
    benchmark.pedantic(each(lambda name: cache.fits(coming[0], name), names), rounds=10)
