"""Two threads on one scheduler: each pair of operations ends, and usage is that of the pods."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from threading import Barrier, Event, Thread

import pytest
from msgspec.structs import replace
from tests.framework.make import make
from tests.make import pod
from tests.scheduler.make import profile_with
from tests.scheduler.transactions.interrupts import check_usage
from tests.scheduler.transactions.test_transactions import world

from moorage import Scheduler
from moorage.engine.framework import Plugin, PreEnqueuePlugin
from moorage.kube import Node, Pod

ROUNDS = 5
LIMIT = 120.0  # seconds; reached only by threads that wait for one another


def try_out(one: Scheduler) -> None:
    with one.transaction():
        one.run()


def write(one: Scheduler) -> None:
    a = one.client.get(Node, "a")
    version = {"version": str(one.client.list(Node)[1])}
    one.client.update(replace(a, metadata=replace(a.metadata, labels=version, resource_version="")))
    one.sync()


SMALL = pod("small", requests={"cpu": "1m"})
OPERATIONS: list[Callable[[Scheduler], object]] = [
    try_out,
    write,
    lambda one: one.run(),
    lambda one: one.sync(),
    lambda one: one.fork(),
    lambda one: one.add_nodes(1, like="c"),
    lambda one: one.examine(SMALL),
    lambda one: one.cache.snapshot(),
    lambda one: one.capacity(SMALL, max=2),
    lambda one: one.preempt_pods([SMALL]).undo(),
    lambda one: one.explain("default/big"),
]


@pytest.fixture(autouse=True)
def _hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_any_two_operations_end() -> None:
    for pair in combinations_with_replacement(OPERATIONS, 2):
        one, ends, errors = world(), Barrier(3), list[BaseException]()

        def work(act: Callable[[Scheduler], object], one: Scheduler = one, ends: Barrier = ends) -> None:
            ends.wait(LIMIT)
            for _ in range(ROUNDS):
                try:
                    act(one)
                except BaseException as error:
                    errors.append(error)  # noqa: B023
            ends.wait(LIMIT)

        for act in pair:
            Thread(target=work, args=(act,), daemon=True).start()
        ends.wait(LIMIT)
        ends.wait(LIMIT)
        assert not errors
        check_usage(one)


def test_a_plugin_that_the_queue_asks_may_take_the_lock_of_the_cache() -> None:
    """While it is asked, no other thread can have that lock, and wait for the queue's."""
    asks = list[Callable[[], object]]()

    def ask(plugin: Plugin, asked: Pod) -> None:
        for take in asks:
            other = Thread(target=take)
            other.start()
            other.join()

    one, took = world(profile=profile_with(make(PreEnqueuePlugin, "Gate", pre_enqueue=ask))), list[bool]()
    asks.append(lambda: took.append(one.cache.lock.acquire(False)))
    one.queue.add([SMALL])
    assert took == [False]


@pytest.mark.parametrize(
    "act",
    [lambda one: one.preempt_pods([SMALL]).undo(), lambda one: one.schedule_pods([SMALL])],
)
def test_a_pod_that_another_thread_tries_out_can_be_placed(act: Callable[[Scheduler], object]) -> None:
    """The call waits for the end of the trial, rather than find the pod in the cache."""
    one, errors, begun = world(), list[BaseException](), Event()

    def place() -> None:
        begun.set()
        try:
            act(one)
        except BaseException as error:
            errors.append(error)

    trial, other = one.preempt_pods([SMALL]), Thread(target=place)
    other.start()
    begun.wait(LIMIT)
    other.join(0.1)  # time enough to be refused
    assert other.is_alive()
    trial.undo()
    other.join(LIMIT)
    assert not errors
