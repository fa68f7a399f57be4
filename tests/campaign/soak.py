"""Eight threads at work for minutes: `python -m tests.campaign.soak REPORT [--seconds N] [--seed N]`.

Two threads write one SchedulerCache, one reads snapshots of it, one writes a BinderCache, two place pods in
forks whose scans take two threads each, one writes an object store, and one follows it with a watch. Each
compares what it sees with what must hold. The report has the rounds of each, and what was found.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from moorage import Cluster, Scheduler, synthetic
from moorage.compat.binder_cache import BinderCache, CacheHandler, CachePodInfo
from moorage.engine.cache import SchedulerCache, Snapshot
from moorage.kube import Pod
from moorage.store import ObjectStore
from tests.conformance.modes import Mode
from tests.make import node, pod

Round = Callable[[], None]
NAMES = [f"n{number}" for number in range(20)]
EACH = 40
"""Pods of a round."""


def writes_cache(cache: SchedulerCache, mine: str, chance: random.Random) -> Round:
    def work() -> None:
        pods = [pod(f"{mine}{at}", on=chance.choice(NAMES), requests={"cpu": 1}) for at in range(EACH)]
        for one in pods:
            cache.assume_pod(one)
        for one in pods:
            how = chance.randrange(3)
            if how == 0:
                cache.forget_pod(one)
            elif how == 1:
                cache.finish_binding(one)
                cache.add_pod(one)
                cache.remove_pod(one)
            else:
                with cache.transaction():  # which is undone
                    cache.add_node(node(mine))
                    cache.forget_pod(one)
                assert cache.is_assumed_pod(one)
                cache.forget_pod(one)
        assert not [one.name for one in pods if cache.is_assumed_pod(one)]

    return work


def reads_cache(cache: SchedulerCache) -> Round:
    snapshot = Snapshot()

    def work() -> None:
        cache.update_snapshot(snapshot)
        assert {*NAMES} <= {info.node.name for info in snapshot.node_info_list if info.node is not None}
        for info in snapshot.node_info_list:
            assert info.requested.milli_cpu == 1000 * len(info.pods), info.node

    return work


def writes_binder(chance: random.Random) -> Round:
    cache = BinderCache(CacheHandler())
    for name in NAMES:
        cache.add_node(node(name, pods="1000"))

    def work() -> None:
        pods = [CachePodInfo(pod(f"b{at}", on=chance.choice(NAMES))) for at in range(EACH)]
        for one in pods:
            cache.assume_pod(one)
        for one in pods:
            cache.forget_pod(one)
        for name in NAMES:
            info = cache.get_node_info(name)
            assert info is not None
            assert not info.pods

    return work


def forks(scheduler: Scheduler, wanted: list[Pod], expected: list[int]) -> Round:
    def work() -> None:
        assert placed(scheduler, wanted) == expected

    return work


def placed(scheduler: Scheduler, pods: list[Pod]) -> list[int]:
    """The rows of pods in a fork, whose scans two threads share."""
    fork = scheduler.fork()
    Mode(candidates=False, threads=2).set_up(fork)
    return fork.schedule_pods(pods).rows.tolist()


def writes_store(store: ObjectStore) -> Round:
    def work() -> None:
        for at in range(EACH):
            store.create(pod(f"s{at}"))
        for at in range(EACH):
            store.delete(Pod, f"s{at}", "default")

    return work


def follows_store(store: ObjectStore) -> Round:
    watch, last = store.watch(Pod, resource_version=store.list(Pod)[1]), 0

    def work() -> None:
        nonlocal last
        while watch.wait(0.01):
            for event in watch.poll():
                version = int(event.resource_version)
                assert version > last, (version, last)
                last = version

    return work


def workers(seed: int) -> dict[str, Round]:
    """What each thread repeats."""
    cache = SchedulerCache()
    for name in NAMES:
        cache.add_node(node(name, pods="1000"))
    cluster = synthetic(nodes=200, pods=300, seed=seed)
    base = Scheduler(Cluster(nodes=cluster.nodes))
    wanted = [replace(one, spec=replace(one.spec, node_name="")) for one in cluster.pods]
    expected = placed(base, wanted)
    store = ObjectStore()
    store.create(pod("first"))
    return {
        "cache, first writer": writes_cache(cache, "x", random.Random(seed)),
        "cache, second writer": writes_cache(cache, "y", random.Random(seed + 1)),
        "cache, reader": reads_cache(cache),
        "binder": writes_binder(random.Random(seed + 2)),
        "fork, first": forks(base, wanted, expected),
        "fork, second": forks(base, wanted, expected),
        "store, writer": writes_store(store),
        "store, watch": follows_store(store),
    }


def soak(rounds: dict[str, Round], seconds: float, least: int = 1) -> tuple[Counter[str], list[str]]:
    """Repeat each in a thread of its own, so long and so often at least; return rounds and findings."""
    done, found = Counter[str](), list[str]()
    ends = monotonic() + seconds

    def repeat(name: str, work: Round) -> None:
        try:
            while not found and (done[name] < least or monotonic() < ends):
                work()
                done[name] += 1
        except BaseException:
            found.append(f"{name}, round {done[name]}: {traceback.format_exc()}")

    threads = [threading.Thread(target=repeat, args=item) for item in rounds.items()]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return done, found


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.campaign.soak")
    parser.add_argument("report", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    done, found = soak(workers(options.seed), options.seconds)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(json.dumps({"rounds": done, "found": found}, indent=1))
    print(f"{sum(done.values()):,} rounds: {dict(done)}")
    print("\n".join(found), file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
