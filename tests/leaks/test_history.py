"""Memory is bounded by the cluster, not by its history: Jobs run for ever, each with labels of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import msgspec
import pytest

from moorage import Scheduler
from moorage.kube import Pod
from moorage.store import ObjectStore
from tests.alone import run_alone
from tests.doors.engine import scheduler_state as module
from tests.doors.live import collection
from tests.leaks.test_leaks import blocks, resident
from tests.make import manifest, node, owned, pod

ALIVE = 300
AT_ONCE = 100
TURNS = 4  # between moments at which blocks are counted


def job_pod(number: int) -> Pod:
    """A pod as the API server tells it, with the labels and the owner that the Job controller sets."""
    uid, job = f"{number:032x}", f"job-{number}"
    labels = {"app": f"a{number % 50}", "job-name": job, "controller-uid": uid}
    meta = owned("Job", job, uid) | {"uid": uid, "resourceVersion": "1"}
    made = pod(f"p{number}", requests={"cpu": "1m"}, labels=labels, metadata=meta)
    return collection.decode_object_of(Pod, msgspec.json.encode(manifest(made)))


def job_pods(nodes: int) -> Iterator[Scheduler]:
    """Let pods come and go; yields the scheduler after each ``AT_ONCE`` of them. A store of its own forgets
    its history, as an API server does."""
    store, alive, numbers = ObjectStore(history=AT_ONCE), list[str](), count()
    for at in range(nodes):
        store.create(node(f"n{at}", f"z{at % 3}", pods=110))
    made = Scheduler(store)
    while True:
        for number in (next(numbers) for _ in range(AT_ONCE)):
            alive.append(store.create(job_pod(number)).metadata.name)
        assert len(made.run().placements) == AT_ONCE
        for name in alive[:-ALIVE]:
            store.delete(Pod, name, "default")
        del alive[:-ALIVE]
        made.sync()
        yield made


def check_flat(kept: list[int]) -> None:
    """At no moment of the second half more is kept than at some moment of the first."""
    half = len(kept) // 2
    assert max(kept[half:]) < max(kept[:half]) + AT_ONCE


def kept_of_jobs() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW_CLASSES", 1)
        patch.setattr(collection, "_PARTS", {})  # texts that are kept up to a size
        kept = list[int]()
        for at, made in enumerate(job_pods(20)):
            assert len(made.cache.state.classes) <= 4 * ALIVE + 2 * AT_ONCE
            if at % TURNS == TURNS - 1:
                kept.append(blocks())
            if at == 16 * TURNS - 1:
                break
        check_flat(kept)


# The same with a million pods, and what the system sees of it, in `make leaks`, nightly. 100,000 take 39 s,
# too long for `make test`; the test below makes 6,400, and finds what a class keeps by counting blocks.
@pytest.mark.slow
def test_resident_memory_stays() -> None:
    for at, _ in enumerate(job_pods(1000), 1):
        if at * AT_ONCE == 10_000:
            before = resident()
        if at * AT_ONCE == 1_000_000:
            assert resident() < 1.2 * before
            return


def kept_of_bound_pods() -> None:
    """Each of these calls makes its writes whole or not at all."""
    store, kept = ObjectStore(history=AT_ONCE), list[int]()
    store.create(node("n", pods=110))
    one = Scheduler(store)
    for turn in range(16 * TURNS):
        pods = [pod(f"p{turn}-{at}", requests={"cpu": "1m"}) for at in range(AT_ONCE)]
        one.release(one.bind(one.schedule_pods(pods)))
        if turn % TURNS == TURNS - 1:
            kept.append(blocks())
    check_flat(kept)


@pytest.mark.parametrize("check", [kept_of_jobs, kept_of_bound_pods])
def test_pods_that_are_gone_leave_nothing(check: Callable[[], None]) -> None:
    run_alone(check)
