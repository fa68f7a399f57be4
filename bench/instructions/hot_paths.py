"""The paths whose instructions are counted: each is prepared uncounted, and then carried out once."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from itertools import count

from bench import kinds, plugin_pods
from bench.batch import Batch
from bench.cluster import filled_scheduler, placer_of, plain_pods
from bench.decide import test_devices, test_preemption
from msgspec.structs import replace

from moorage import Scheduler, synthetic
from moorage._core.decide.decider import TieBreak
from moorage._core.preempt.preemptor import Preemptor
from moorage.compat import NodeTree
from moorage.engine.cache import SchedulerCache, Snapshot
from moorage.engine.queue import SchedulingQueue
from moorage.kube import Node, Pod, decode_object
from moorage.store import ObjectStore

NODES, PODS = 500, 500

Run = Callable[[], object]


def _plain(tie_break: TieBreak) -> Run:
    scheduler = filled_scheduler(NODES)
    return Batch(scheduler, placer_of(scheduler, 0, tie_break), plain_pods(PODS)).place


def _kind(name: str) -> Run:
    (kind,) = (one for one in kinds.KINDS if one.name == name)
    scheduler = kinds.scheduler_with_service(NODES)
    kind.settle(scheduler)
    return Batch(scheduler, placer_of(scheduler, 0), plugin_pods.copies(kind.pod(), PODS)).place


def place_plain() -> Run:
    return _plain(TieBreak.FIRST)


def place_go_heap() -> Run:
    return _plain(TieBreak.GO_HEAP)


def place_spread() -> Run:
    return _kind("hard spread over zones")


def place_affinity() -> Run:
    return _kind("required affinity and anti-affinity")


def preemption() -> Run:
    """One dry run over full nodes: the first preemptor of its class."""
    scheduler = Scheduler(test_preemption.full_cluster(NODES))
    placer = placer_of(scheduler, 0)
    pod = test_preemption.high(test_preemption.BUDGETED.pod(), 0)
    pod_class = scheduler.context.target_of(pod)[0]
    assert placer.decider.decide(*scheduler.context.target_of(pod))[0] == -1
    scheduler.cache.state.view.follow_usage()
    preemptor = Preemptor(placer.decider)
    return lambda: preemptor.place_run((pod_class, 0, 0), [pod], test_preemption.BUDGETS)


def queue() -> Run:
    """Each pod is pushed; then each is popped and done."""
    pods, ticks = _pods(), count()
    engines = Scheduler().engines.values()
    waiting = SchedulingQueue([one.framework for one in engines], lambda: next(ticks) / 1000)

    def run() -> None:
        for pod in pods:
            waiting.add([pod])
        while infos := waiting.pop():
            waiting.done(infos)

    return run


def assume() -> Run:
    cache, pods = _cache(), _bound("new")
    for pod in pods:
        cache.state.classes.intern(pod)
    return lambda: cache.assume_pods(pods)


def snapshot() -> Run:
    """The update after each node has another pod."""
    cache, taken = _cache(), Snapshot()
    cache.update_snapshot(taken)
    cache.assume_pods(_bound("new"))
    return lambda: cache.update_snapshot(taken)


def bind_many() -> Run:
    store, pods = ObjectStore(), _pods()
    store.create_many(pods)
    names = [f"node-{at}" for at in range(PODS)]
    return lambda: store.bind_many(pods, names)


def node_tree() -> Run:
    """The list, then as many steps of the rotation."""
    tree = NodeTree.of_cache(_cache())

    def run() -> None:
        for _ in tree.list():
            tree.next()

    return run


def devices() -> Run:
    """A run over pods with a claim for a device each."""
    scheduler = Scheduler(test_devices.world())
    scheduler.volumes.settle()
    return scheduler.run


def decode() -> Run:
    """Objects from JSON, into the cache: quantities, labels, classes."""
    documents = [_document(f"p{at}", f"{at + 1}m", f"{at + 1}Mi") for at in range(PODS)]
    cache = _cache()

    def run() -> None:
        pods = [decode_object(document) for document in documents]
        cache.add_pods([pod for pod in pods if isinstance(pod, Pod)])

    return run


def many_terms() -> Run:
    """A pod that prefers not to be with others of its label, in the domains of 500 labels: a term each."""
    selector = {"matchLabels": {"app": "many"}}
    terms = [
        {"weight": 1, "podAffinityTerm": {"topologyKey": f"example.com/key-{at}", "labelSelector": selector}}
        for at in range(500)
    ]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    spec = {"containers": [{"name": "c"}], "affinity": affinity}
    metadata = {"name": "many", "namespace": "default", "uid": "many", "labels": {"app": "many"}}
    pod = decode_object({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    scheduler = Scheduler(synthetic(nodes=100, seed=1))
    scheduler.cache.state.view.refresh()
    return lambda: scheduler.schedule_pods([pod])


PATHS = (
    *(place_plain, place_go_heap, place_spread, place_affinity, preemption, queue),
    *(assume, snapshot, bind_many, node_tree, devices, decode, many_terms),
)


def _nodes() -> list[Node]:
    return synthetic(nodes=NODES, seed=1).nodes


def _pods() -> list[Pod]:
    return synthetic(nodes=0, pods=PODS, seed=2).pods


def _bound(prefix: str) -> list[Pod]:
    """One for each node."""
    return [
        replace(
            pod,
            metadata=replace(pod.metadata, name=f"{prefix}-{at}", uid=f"{prefix}-{at}"),
            spec=replace(pod.spec, node_name=node.name),
        )
        for at, (pod, node) in enumerate(zip(_pods(), _nodes(), strict=True))
    ]


def _cache() -> SchedulerCache:
    cache = SchedulerCache(clock=lambda: 0.0)
    for node in _nodes():
        cache.add_node(node)
    cache.add_pods(_bound("there"))
    cache.state.view.refresh()
    return cache


def _document(name: str, cpu: str, memory: str) -> bytes:
    requests = {"cpu": cpu, "memory": memory}
    spec = {"nodeName": "node-00001", "containers": [{"name": "c", "resources": {"requests": requests}}]}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()


def main(library: str, *names: str) -> None:
    """Carry out the paths of these names, with requests to valgrind before and after each."""
    requests = ctypes.CDLL(library)
    for path in PATHS:
        if names and path.__name__ not in names:
            continue
        run = path()
        gc.collect()
        gc.disable()
        requests.counting_begins()
        run()
        requests.counting_ends(path.__name__.encode())
        gc.enable()


if __name__ == "__main__":
    main(*sys.argv[1:])
