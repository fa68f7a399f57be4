"""The store and its informers: 50,000 pods in, out to a handler, bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moorage.kube import Node, ObjectMeta, Pod
from moorage.store import Informer, ObjectStore

N = 50_000
PODS = [Pod(metadata=ObjectMeta(name=f"pod-{n:05}", namespace=f"ns-{n % 7}")) for n in range(N)]


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
        self.count += 1

    def on_update(self, old: Any, new: Any) -> None:
        self.count += 1

    def on_delete(self, obj: Any) -> None:
        self.count += 1


def filled() -> ObjectStore:
    store = ObjectStore()
    store.create_many(PODS)
    return store


@pytest.fixture
def measure(benchmark: Any, report: Any) -> Callable[..., None]:
    """`measure(what, setup, run)`: one run on a fresh state per round; the table has the time per object."""

    def note(what: str, setup: Any, run: Any, twin: bool = False) -> None:
        report(f"store, {what}, per object", N, twin)
        benchmark.pedantic(run, setup=setup, rounds=10)

    return note


def test_create_many(measure: Any) -> None:
    measure("create_many", lambda: ((ObjectStore(),), {}), lambda store: store.create_many(PODS))


def test_create_one_by_one(measure: Any) -> None:
    def run(store: ObjectStore) -> None:
        for pod in PODS:
            store.create(pod)

    measure("create", lambda: ((ObjectStore(),), {}), run)


def test_the_plain_dictionary_twin(measure: Any) -> None:
    """What there is to do at the very least: key and store each object."""

    def run(objects: dict[str, Pod]) -> None:
        for pod in PODS:
            objects[pod.key] = pod

    measure("create", lambda: (({},), {}), run, twin=True)


@pytest.mark.parametrize("synced", [False, True], ids=["list", "watch"])
def test_create_and_dispatch(measure: Any, synced: bool) -> None:
    def setup() -> tuple[Any, dict[str, Any]]:
        store, counter = ObjectStore(), Counter()
        informer: Informer[Pod] = Informer(store, Pod)
        informer.add_event_handler(counter)
        if synced:
            informer.run_once()
        return (store, informer), {}

    def run(store: ObjectStore, informer: Informer[Pod]) -> None:
        store.create_many(PODS)
        assert informer.run_once() == N

    measure(f"create_many and dispatch, {'watch' if synced else 'list'}", setup, run)


def test_bind_many(measure: Any) -> None:
    nodes = [f"node-{n % 5000}" for n in range(N)]
    measure("bind_many", lambda: ((filled(),), {}), lambda store: store.bind_many(PODS, nodes))


def test_undo(measure: Any) -> None:
    def setup() -> tuple[Any, dict[str, Any]]:
        store = filled()
        mark = store.save()
        store.bind_many(PODS, ["n"] * N)
        return (store, mark), {}

    measure("undo of bind_many", setup, lambda store, mark: store.undo(mark))


def test_list(measure: Any) -> None:
    store = filled()
    measure("list", None, lambda: store.list(Pod))


def test_list_by_field(measure: Any) -> None:
    store = filled()
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    measure("list by field", None, lambda: store.list(Pod, field_selector=selector))


def test_clone(measure: Any) -> None:
    store = filled()
    store.create_many([Node(metadata=ObjectMeta(name=f"node-{n}")) for n in range(5000)])
    measure("clone", None, store.clone)
