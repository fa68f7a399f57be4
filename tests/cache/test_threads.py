"""One cache, several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.cache.threads import LIMIT, running
from tests.core.child import outcome_of
from tests.doors.engine import node_table
from tests.make import node, pod

from moorage.compat import update_node_name_to_info_map
from moorage.compat.binder_cache import BinderCache, CacheHandler, CachePodInfo
from moorage.engine.cache import NodeInfo, NodeInfoClone, SchedulerCache, Snapshot
from moorage.kube import Pod, parse_selector

Operation = Callable[[Pod], object]

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
            update_node_name_to_info_map(one, infos)
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
    assert sorted(refused) == sorted(
        f"pod default/p{n} is in the cache, so can't be assumed" for n in range(200)
    )
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


# ---- readers that hold no lock


def binder_parts() -> tuple[Operation, Operation, Callable[[], NodeInfo | None]]:
    one = BinderCache(CacheHandler())
    one.add_node(node("n", pods="1000"))
    return (
        lambda held: one.assume_pod(CachePodInfo(held)),
        lambda held: one.forget_pod(CachePodInfo(held)),
        lambda: one.get_node_info("n"),
    )


def cache_parts() -> tuple[Operation, Operation, Callable[[], NodeInfo | None]]:
    one = SchedulerCache()
    one.add_node(node("n", pods="1000"))
    return one.assume_pod, one.forget_pod, lambda: one.node_info("n")


@pytest.mark.parametrize("parts", [cache_parts, binder_parts])
def test_a_clone_and_each_attribute_are_of_one_moment(
    parts: Callable[[], tuple[Operation, Operation, Callable[[], NodeInfo | None]]],
) -> None:
    put, take, get = parts()
    amounts = {"cpu": "100m", "example.com/gpu": 1}
    for number in range(80):
        put(pod(f"p{number}", on="n", requests=amounts))
    reading = threading.Event()

    def write() -> None:
        number = 0
        while not reading.is_set():
            number = (number + 1) % 50
            put(pod(f"more{number}", on="n", requests=amounts))
            take(pod(f"more{number}", on="n", requests=amounts))

    with running(write):
        for _ in range(1500):
            info = get()
            assert info is not None
            clone = info.clone()
            assert clone.requested.milli_cpu == 100 * len(clone.pods)
            requested = info.requested
            assert requested.milli_cpu == 100 * requested.scalar_resources["example.com/gpu"]
        reading.set()


COLUMNS: list[Callable[[node_table.NodeTable], Any]] = [
    lambda table: table.requested["cpu"],
    lambda table: table.allocatable["example.com/gpu"],
    lambda table: table.nonzero["memory"],
    lambda table: table.label_column("new"),
    lambda table: table.label_column("old"),
    lambda table: table.raw()[1]["example.com/gpu"],
    lambda table: table.names,
]


@pytest.mark.parametrize("read", COLUMNS)
def test_a_column_is_read_beside_a_thread_that_adds_rows(read: Callable[[node_table.NodeTable], Any]) -> None:
    """In a process of its own: what writes past the end of an array is found out later, or never."""

    def work() -> None:
        one = SchedulerCache()
        one.state.classes.intern(pod("asks", node_selector={"old": "x"}))
        adding = threading.Event()
        lengths = set[int]()

        def look() -> None:
            while not adding.is_set():
                lengths.add(len(read(one.state.table)))

        labels = {"old": "x", "new": "y"}
        one.add_node(node("n", labels=labels, **{"example.com/gpu": 1}))
        with running(look, look):
            for number in range(1500):
                one.add_node(node(f"n{number}", labels=labels))
            adding.set()
        assert lengths

    assert outcome_of(work) == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda table: table.allocatable["cpu"].tolist(),
        lambda table: table.label_column("old").tolist(),
        lambda table: table.label_column("new").tolist(),
    ],
)
def test_a_column_that_grows_while_it_is_made_is_as_long_as_it_was(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[node_table.NodeTable], list[int]]
) -> None:
    one = SchedulerCache()
    one.state.classes.intern(pod("asks", node_selector={"old": "x"}))
    one.add_node(node("a"))

    others = [node(f"n{number}") for number in range(1000)]

    def slowly(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Another thread gets its turn, once: the debug build makes arrays for nodes, too."""
        out = make(*arguments, **options)
        added = others.copy()
        others.clear()
        for each in added:
            one.add_node(each)
        return out

    makers = {name: partial(slowly, getattr(np, name)) for name in ("zeros", "array")}
    monkeypatch.setattr(node_table, "np", SimpleNamespace(**{**vars(np), **makers}))
    assert len(read(one.state.table)) == 1
    monkeypatch.undo()
    assert len(read(one.state.table)) == 1001


def test_a_cache_is_shown_while_another_thread_holds_its_lock() -> None:
    """Who logs it may hold a lock that the other thread waits for."""
    one, shown = SchedulerCache(), list[str]()
    thread = threading.Thread(target=lambda: shown.append(repr(one)), daemon=True)
    with one.lock:
        thread.start()
        thread.join(LIMIT)
        assert shown == ["<SchedulerCache: 0 nodes, 0 pods>"]
