"""One cache, several threads."""

from __future__ import annotations

import threading

from tests.cache.threads import LIMIT, running
from tests.core.make import node, pod

from moorage.cache import NodeInfoClone, SchedulerCache, Snapshot
from moorage.objects.selectors import parse_selector

EVERY = parse_selector("")


def test_two_threads_assume_and_forget_while_others_read() -> None:
    one = SchedulerCache(ttl=1.0)
    for name in "ab":
        one.add_node(node(name, pods="1000"))
    working = threading.Event()

    def work(mine: str) -> None:
        for number in range(150):
            which = pod(f"{mine}{number}", on="ab"[number % 2], requests={"cpu": 1})
            one.assume_pod(which)
            one.finish_binding(which, float(number))
            if number % 3 == 0:
                one.forget_pod(which)
            elif number % 3 == 1:
                one.add_pod(which)
                one.remove_pod(which)
            else:
                with one.transaction():
                    one.forget_pod(which)

    def read() -> None:
        snapshot, infos = Snapshot(), dict[str, NodeInfoClone]()
        while not working.is_set():
            one.update_snapshot(snapshot)
            one.update_node_name_to_info_map(infos)
            for info in (*snapshot.node_info_list, *infos.values(), *one.snapshot().nodes.values()):
                assert info.requested.milli_cpu == 1000 * len(info.pods)
            one.list(EVERY)

    with running(read):
        with running(lambda: work("x"), lambda: work("y")):
            pass
        working.set()
    assert len(one.list(EVERY)) == len(one.snapshot().assumed_pods) == 100
    assert len(one.cleanup_assumed_pods(1e9)) == 100
    assert [info.requested.milli_cpu for info in one.snapshot().nodes.values()] == [0, 0]


def test_a_transaction_keeps_other_threads_out() -> None:
    one = SchedulerCache()
    one.add_node(node("a"))
    arrived, entered, order = threading.Semaphore(0), threading.Event(), list[str]()

    def other(name: str) -> None:
        assert entered.wait(LIMIT)
        arrived.release()
        one.assume_pod(pod(name, on="a", requests={"cpu": 1}))
        order.append("other")

    with running(lambda: other("p"), lambda: other("q")), one.transaction():
        entered.set()
        for _ in range(2):
            assert arrived.acquire(timeout=LIMIT)
        for number in range(200):
            one.assume_pod(pod(f"mine{number}", on="a", requests={"cpu": 1}))
        assert len(one.list(EVERY)) == 200
        order.append("mine")
    assert order == ["mine", "other", "other"]
    assert {held.name for held in one.list(EVERY)} == {"p", "q"}


def test_the_lock_belongs_to_the_thread_of_the_transaction() -> None:
    one = SchedulerCache()
    taken: list[bool] = []

    def try_it() -> None:
        taken.append(one.lock.acquire(blocking=False))

    with one.transaction(), one.transaction(), running(try_it):
        pass
    with running(lambda: (try_it(), one.lock.release())):
        pass
    assert taken == [False, True]


def test_two_threads_add_one_pod_and_one_succeeds() -> None:
    one = SchedulerCache()
    refused: list[str] = []

    def add() -> None:
        for number in range(200):
            try:
                one.assume_pod(pod(f"p{number}", on="a", requests={"cpu": 1}))
            except Exception as error:
                refused.append(str(error))

    with running(add, add):
        pass
    assert sorted(refused) == sorted(f"pod p{n} is in the cache, so can't be assumed" for n in range(200))
    assert one.snapshot().nodes["a"].requested.milli_cpu == 200_000


def test_forks_in_several_threads() -> None:
    one = SchedulerCache()
    one.add_node(node("a"))
    forks = [one.fork() for _ in range(3)]

    def work(fork: SchedulerCache, name: str) -> None:
        for number in range(100):
            labels = {"app": f"{name}{number}"}
            fork.add_node(node(f"{name}{number}", labels=labels))
            fork.add_pod(pod(f"p{number}", on=f"{name}{number}", requests={"cpu": number}, labels=labels))

    with running(
        *[lambda fork=fork, name=name: work(fork, name) for fork, name in zip(forks, "xyz", strict=True)]
    ):
        pass
    for fork, name in zip(forks, "xyz", strict=True):
        nodes = fork.snapshot().nodes
        assert nodes.keys() == {"a", *(f"{name}{number}" for number in range(100))}
        assert all(nodes[f"{name}{number}"].requested.milli_cpu == 1000 * number for number in range(100))
    assert one.snapshot().nodes.keys() == {"a"}
