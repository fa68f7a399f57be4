"""The cache: pods in and out, expiry, snapshots, dumps, forks, transactions; from the store to the cache."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from bench.cluster import NODES
from bench.twins.cache_twin import CacheTwin, TreeTwin, TwinInfo
from msgspec.structs import replace

from moorage import Scheduler, synthetic
from moorage.compat import NodeTree
from moorage.engine.cache import SchedulerCache, Snapshot
from moorage.kube import Cluster, Node, Pod
from moorage.store import ObjectStore

PODS = 50_000
MANY = 10_000
TTL = 30.0

nodes = synthetic(nodes=NODES, pods=0, seed=1).nodes


def bound(pod: Pod, number: int) -> Pod:
    """The pod on a node, under a UID of its own."""
    meta = replace(pod.metadata, uid=f"uid-{number:06}")
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=nodes[number % NODES].name))


pods = [bound(pod, number) for number, pod in enumerate(synthetic(nodes=0, pods=PODS, seed=2).pods)]
pods += [bound(pod, PODS + n) for n, pod in enumerate(synthetic(nodes=0, pods=MANY, seed=3).pods)]
held, coming = pods[:PODS], pods[PODS:]


@pytest.fixture(scope="module")
def cache() -> SchedulerCache:
    """5,000 nodes with 50,000 pods on them. Each benchmark leaves it as it was."""
    one = SchedulerCache(ttl=TTL, clock=lambda: 0.0)
    for node in nodes:
        one.add_node(node)
    one.add_pods(held)
    for pod in coming:
        one.state.classes.intern(pod)  # what follows is not about reading specs
    one.state.view.refresh()
    return one


@pytest.fixture(scope="module")
def twin(cache: SchedulerCache) -> CacheTwin:
    classes = cache.state.classes
    one = CacheTwin({pod.metadata.uid: classes.shape_of(classes.intern(pod)).requests for pod in pods})
    for node in nodes:
        one.add_node(node)
    for pod in held:
        one.assume_pod(pod)
        del one.assumed[pod.metadata.uid]
    one.update({})
    assert one.total() == total(cache)
    return one


def each(operation: Callable[[Pod], Any]) -> Callable[[], None]:
    def run() -> None:
        for pod in coming:
            operation(pod)

    return run


# ---- pods, one by one and in batches


class Engine:
    """The four operations, and how to get into and out of the state that each needs."""

    def __init__(self, cache: SchedulerCache) -> None:
        self.cache = cache
        self.assume, self.forget = cache.assume_pods, cache.forget_pods
        self.single: dict[str, Callable[[], Any]] = {
            "assume": each(cache.assume_pod),
            "finish": each(lambda pod: cache.finish_binding(pod, 0.0)),
            "forget": each(cache.forget_pod),
            "confirm": each(cache.add_pod),
        }
        self.batch: dict[str, Callable[[], Any]] = {
            "assume": lambda: cache.assume_pods(coming),
            "finish": lambda: cache.finish_bindings(coming, 0.0),
            "forget": lambda: cache.forget_pods(coming),
            "confirm": lambda: cache.add_pods(coming),
        }

    def clear(self) -> None:
        for pod in coming:
            if self.cache.state.has_pod(pod):
                (self.cache.forget_pod if self.cache.is_assumed_pod(pod) else self.cache.remove_pod)(pod)
        self.cache.cleanup_assumed_pods(1e9)  # hints of deadlines
        self.cache.state.view.refresh()

    def enter(self) -> None:
        self.cache.assume_pods(coming)


class Twin:
    def __init__(self, twin: CacheTwin) -> None:
        self.twin = twin
        self.single = {
            "assume": each(twin.assume_pod),
            "finish": each(lambda pod: twin.finish_binding(pod, TTL)),
            "forget": each(twin.forget_pod),
            "confirm": each(twin.add_pod),
        }

    def clear(self) -> None:
        for pod in coming:
            if pod.metadata.uid in self.twin.pods:
                self.twin.assumed.setdefault(pod.metadata.uid, None)
                self.twin.forget_pod(pod)

    def enter(self) -> None:
        for pod in coming:
            self.twin.assume_pod(pod)


OPERATIONS = ["assume", "finish", "forget", "confirm"]


def measure(benchmark: Any, side: Engine | Twin, run: Callable[[], Any], operation: str) -> None:
    def setup() -> None:
        side.clear()
        if operation != "assume":
            side.enter()

    benchmark.pedantic(run, setup=setup, rounds=10)
    side.clear()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_single(benchmark: Any, report: Any, cache: SchedulerCache, operation: str) -> None:
    side = Engine(cache)
    report(f"{operation}, one by one", MANY)
    measure(benchmark, side, side.single[operation], operation)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_batch(benchmark: Any, report: Any, cache: SchedulerCache, operation: str) -> None:
    side = Engine(cache)
    report(f"{operation}, batch", MANY)
    measure(benchmark, side, side.batch[operation], operation)


def test_confirm_reported(benchmark: Any, report: Any, cache: SchedulerCache) -> None:
    """As the informer reports what this scheduler has bound: with metadata and specs of their own."""
    side = Engine(cache)
    reported = [replace(pod, metadata=replace(pod.metadata), spec=replace(pod.spec)) for pod in coming]
    report("confirm as reported, batch", MANY)
    measure(benchmark, side, lambda: cache.confirm_pods(reported), "confirm")


@pytest.mark.parametrize("form", ["one by one", "batch"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_twin(benchmark: Any, report: Any, twin: CacheTwin, operation: str, form: str) -> None:
    side = Twin(twin)
    report(f"{operation}, {form}", MANY, twin=True)
    measure(benchmark, side, side.single[operation], operation)


def test_expiry(benchmark: Any, report: Any, cache: SchedulerCache) -> None:
    def setup() -> None:
        cache.assume_pods(coming)
        cache.finish_bindings(coming, 0.0)

    logger = logging.getLogger("moorage.cache")
    logger.disabled = True  # one line per pod
    report("expiry of 10,000, per pod", MANY)
    benchmark.pedantic(lambda: len(cache.cleanup_assumed_pods(TTL + 1)), setup=setup, rounds=10)
    logger.disabled = False
    assert cache.snapshot().assumed_pods == {}


def test_expiry_twin(benchmark: Any, report: Any, twin: CacheTwin) -> None:
    def setup() -> None:
        for pod in coming:
            twin.assume_pod(pod)
            twin.finish_binding(pod, TTL)

    report("expiry of 10,000, per pod", MANY, twin=True)
    benchmark.pedantic(lambda: twin.expire(TTL + 1), setup=setup, rounds=10)


# ---- copies

DIRTY = [0, 1, 100, NODES]


def touch(cache: SchedulerCache | CacheTwin, dirty: int) -> None:
    """Change as many nodes: a pod comes, and goes again."""
    for pod in islice(coming, dirty):
        cache.assume_pod(pod)
        cache.forget_pod(pod)


@pytest.mark.parametrize("dirty", DIRTY)
def test_snapshot(benchmark: Any, report: Any, cache: SchedulerCache, dirty: int) -> None:
    snapshot = Snapshot()
    cache.update_snapshot(snapshot)
    report(f"snapshot refresh, {dirty:,} of 5,000 dirty")
    if dirty == 0:
        benchmark(cache.update_snapshot, snapshot)
        return
    setup: Callable[[], None] = lambda: touch(cache, dirty)  # noqa: E731
    benchmark.pedantic(cache.update_snapshot, (snapshot,), setup=setup, rounds=200 if dirty < 1000 else 20)
    assert sum(len(info.pods) for info in snapshot.node_info_list) == PODS


@pytest.mark.parametrize("dirty", DIRTY)
def test_snapshot_twin(benchmark: Any, report: Any, twin: CacheTwin, dirty: int) -> None:
    snapshot: dict[str, TwinInfo] = {}
    report(f"snapshot refresh, {dirty:,} of 5,000 dirty", twin=True)
    if dirty == 0:
        benchmark(twin.update, snapshot)
        return
    benchmark.pedantic(
        twin.update, (snapshot,), setup=lambda: touch(twin, dirty), rounds=200 if dirty < 1000 else 20
    )


def test_dump(benchmark: Any, report: Any, cache: SchedulerCache) -> None:
    report("dump of 5,000 nodes, 50,000 pods")
    assert len(benchmark(cache.snapshot).nodes) == NODES


def test_fork(benchmark: Any, report: Any, cache: SchedulerCache) -> None:
    report("fork of 5,000 nodes, 50,000 pods")
    assert total(benchmark(cache.fork)) == total(cache)


@pytest.mark.parametrize("what", ["dump", "fork"])
def test_fork_twin(benchmark: Any, report: Any, twin: CacheTwin, what: str) -> None:
    report(f"{what} of 5,000 nodes, 50,000 pods", twin=True)
    assert benchmark(twin.fork).total() == twin.total()


@pytest.mark.parametrize("is_twin", [False, True])
def test_fork_of_a_scheduler(benchmark: Any, report: Any, is_twin: bool) -> None:
    """The twin is a scheduler of the same objects."""
    report("fork of a scheduler, 5,000 nodes, 50,000 pods", twin=is_twin)
    cluster = Cluster(nodes=nodes, pods=held)
    one = Scheduler(cluster)
    made = benchmark.pedantic((lambda: Scheduler(cluster)) if is_twin else one.fork, rounds=5)
    assert total(made.cache) == total(one.cache)


def hundred_pods(cache: SchedulerCache) -> None:
    with cache.transaction():
        for pod in islice(coming, 100):
            cache.assume_pod(pod)


def test_transaction(benchmark: Any, report: Any, cache: SchedulerCache) -> None:
    before = total(cache)
    report("transaction of 100 pods rolled back")
    benchmark(hundred_pods, cache)
    assert total(cache) == before


def test_transaction_twin(benchmark: Any, report: Any, twin: CacheTwin) -> None:
    """The twin remembers what it did and does the reverse."""

    def run() -> None:
        for pod in islice(coming, 100):
            twin.assume_pod(pod)
        for pod in reversed(coming[:100]):
            twin.forget_pod(pod)

    report("transaction of 100 pods rolled back", twin=True)
    benchmark(run)


# ---- reading


def total(cache: SchedulerCache) -> tuple[int, int]:
    requested = cache.state.table.requested
    return int(requested["cpu"].sum()), int(requested["memory"].sum())


def test_aggregation(benchmark: Any, report: Any, cache: SchedulerCache) -> None:
    report("sums of requested cpu and memory")
    benchmark(total, cache)


def test_aggregation_twin(benchmark: Any, report: Any, twin: CacheTwin) -> None:
    report("sums of requested cpu and memory", twin=True)
    benchmark(twin.total)


@pytest.mark.parametrize("is_twin", [False, True])
def test_tree_list(benchmark: Any, report: Any, cache: SchedulerCache, is_twin: bool) -> None:
    report("node tree, list of 5,000", twin=is_twin)
    names = NodeTree.of_cache(cache).list()
    assert benchmark(TreeTwin(nodes).list if is_twin else NodeTree.of_cache(cache).list) == names


@pytest.mark.parametrize("is_twin", [False, True])
def test_tree_next(benchmark: Any, report: Any, cache: SchedulerCache, is_twin: bool) -> None:
    tree = TreeTwin(nodes) if is_twin else NodeTree.of_cache(cache)

    def run() -> None:
        for _ in range(NODES):
            tree.next()

    report("node tree, next", NODES, twin=is_twin)
    benchmark(run)


# ---- from the store


def waiting_scheduler(*kinds: Any) -> tuple[Any, dict[str, Any]]:
    """An empty store with a scheduler that watches it, and what is to come."""
    store = ObjectStore()
    return (store, Scheduler(store), [replace(obj) for kind in kinds for obj in kind]), {}


def fill(store: ObjectStore, scheduler: Scheduler, objects: list[Node | Pod]) -> None:
    store.create_many(objects)
    scheduler.sync()


@pytest.mark.parametrize("what", ["50,000 bound pods", "5,000 nodes"])
def test_store_to_cache(benchmark: Any, report: Any, what: str) -> None:
    """Reading specs into classes included: nothing remembers these objects."""
    objects: Any = held if "pods" in what else nodes
    report(f"store to cache, {what}, each", len(objects))
    benchmark.pedantic(fill, setup=lambda: waiting_scheduler(objects), rounds=5)


def test_events_to_cache(benchmark: Any, report: Any) -> None:
    """A change of every pod, from the store's history to the cache."""

    def setup() -> tuple[Any, dict[str, Any]]:
        (store, scheduler, _), _ = waiting_scheduler()
        store.create_many([*nodes, *held])
        scheduler.sync()
        for pod in store.list(Pod)[0]:
            store.update(replace(pod, metadata=replace(pod.metadata, labels={"app": "x"})))
        return (scheduler,), {}

    report("50,000 changed pods to cache, each", PODS)
    benchmark.pedantic(lambda scheduler: scheduler.sync(), setup=setup, rounds=3)
