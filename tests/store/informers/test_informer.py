"""Informers, without threads."""

from __future__ import annotations

from typing import Any

import pytest
from tests.make import node, pod
from tests.store.informers.handlers import Recorder, Replica

from moorage.kube import Node, Pod
from moorage.store import Informer, InformerFactory, ObjectStore

X = {"x": "1"}


def informed(store: ObjectStore, **options: Any) -> tuple[Informer[Pod], Recorder]:
    informer: Informer[Pod] = Informer(store, Pod, **options)
    recorder = Recorder()
    informer.add_event_handler(recorder)
    return informer, recorder


def test_list_then_watch() -> None:
    store = ObjectStore()
    store.create_many([pod("b"), pod("a")])
    informer, told = informed(store)
    assert (informer.has_synced(), told.calls, informer.lister.list()) == (False, [], [])
    assert informer.run_once() == 2
    assert informer.has_synced()
    assert told.take() == [("add", "a", True), ("add", "b", True)]
    store.create(pod("c"))
    store.update(pod("a", labels=X))
    store.delete(Pod, "b", "default")
    assert told.calls == []
    assert informer.run_once() == 3
    assert told.take() == [("add", "c", False), ("update", "3", "5"), ("delete", "b", "6")]
    assert informer.run_once() == 0
    assert informer.lister.list() == store.list(Pod)[0]


def test_an_empty_store_is_synced_too() -> None:
    store = ObjectStore()
    informer, told = informed(store)
    assert (informer.run_once(), informer.has_synced()) == (0, True)
    store.create(pod("a"))
    informer.run_once()
    assert told.calls == [("add", "a", False)]


def test_a_history_that_is_gone_is_made_up_for_by_a_list() -> None:
    store = ObjectStore(history=2)
    store.create_many([pod("gone"), pod("kept"), pod("changed")])
    informer, told = informed(store)
    informer.run_once()
    told.take()
    store.create(pod("new"))
    store.update(pod("changed", labels=X))
    store.delete(Pod, "gone", "default")
    assert informer.run_once() == 3
    assert told.take() == [("gone", "default/gone", "2"), ("update", "4", "6"), ("add", "new", False)]
    assert informer.lister.list() == store.list(Pod)[0]
    store.create(pod("next"))
    informer.run_once()
    assert told.take() == [("add", "next", False)]


def test_an_object_that_was_replaced_meanwhile_is_an_update() -> None:
    store = ObjectStore(history=1)
    store.create(pod("a"))
    informer, told = informed(store)
    informer.run_once()
    store.delete(Pod, "a", "default")
    store.create(pod("a"))
    informer.run_once()
    assert told.calls == [("add", "a", True), ("update", "2", "4")]


def test_a_version_that_was_undone_and_given_again_is_noticed() -> None:
    store = ObjectStore(history=1)
    informer, told = informed(store)
    informer.run_once()
    mark = store.save()
    store.create(pod("a"))
    informer.run_once()
    store.undo(mark)
    store.create(pod("a", labels=X))
    store.create(pod("b"))
    informer.run_once()
    assert told.calls == [("add", "a", False), ("update", "2", "2"), ("add", "b", False)]
    assert informer.lister.get("default/a").metadata.labels == {"x": "1"}


def test_each_handler_gets_each_event() -> None:
    store = ObjectStore()
    informer, first = informed(store)
    second = Recorder()
    registration = informer.add_event_handler(second)
    store.create(pod("a"))
    informer.run_once()
    assert first.calls == second.calls == [("add", "a", True)]
    informer.remove_event_handler(registration)
    informer.remove_event_handler(registration)
    store.create(pod("b"))
    assert informer.run_once() == 1
    assert (len(first.calls), len(second.calls)) == (2, 1)


def test_a_late_handler_hears_of_what_is_there() -> None:
    store = ObjectStore()
    store.create_many([pod("a"), pod("b")])
    informer, _ = informed(store)
    informer.run_once()
    store.create(pod("c"))
    late = Recorder()
    registration = informer.add_event_handler(late)
    assert registration.has_synced()
    assert not Informer(store, Pod).add_event_handler(late).has_synced()
    assert late.take() == [("add", "a", True), ("add", "b", True)]
    informer.run_once()
    assert late.take() == [("add", "c", False)]


def test_a_handler_added_by_a_handler() -> None:
    store = ObjectStore()
    informer: Informer[Pod] = Informer(store, Pod)
    replicas = [Replica()]

    class Adds(Replica):
        def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
            super().on_add(obj, is_in_initial_list)
            if len(replicas) == 1:
                replicas.append(Replica())
                informer.add_event_handler(replicas[-1])

    replicas[0] = Adds()
    informer.add_event_handler(replicas[0])
    store.create_many([pod("a"), pod("b")])
    informer.run_once()
    store.update(pod("a", labels=X))
    informer.run_once()
    assert replicas[0].objects == replicas[1].objects == {obj.key: obj for obj in store.list(Pod)[0]}


def test_a_handler_removed_by_itself_hears_nothing_more() -> None:
    store = ObjectStore()
    informer: Informer[Pod] = Informer(store, Pod)

    class Once(Recorder):
        def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
            super().on_add(obj, is_in_initial_list)
            informer.remove_event_handler(registration)

    once = Once()
    registration = informer.add_event_handler(once)
    store.create_many([pod("a"), pod("b")])
    informer.run_once()
    assert once.calls == [("add", "a", True)]


def test_a_handler_that_raises_loses_one_event_only() -> None:
    store = ObjectStore()
    informer: Informer[Pod] = Informer(store, Pod)

    class Fails(Recorder):
        def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
            if obj.name == "b":
                raise RuntimeError("no b")
            super().on_add(obj, is_in_initial_list)

    fails, after = Fails(), Recorder()
    registration = informer.add_event_handler(fails)
    informer.add_event_handler(after)
    store.create_many([pod("a"), pod("b"), pod("c")])
    with pytest.raises(RuntimeError, match="no b"):
        informer.run_once()
    assert (fails.calls, after.calls) == ([("add", "a", True)], [])
    assert not registration.has_synced()
    assert informer.lister.list() == store.list(Pod)[0]
    assert informer.run_once() == 0
    assert fails.calls == [("add", "a", True), ("add", "c", True)]
    assert after.calls == [("add", name, True) for name in "abc"]


def test_what_handlers_write_is_for_the_next_time() -> None:
    store = ObjectStore()
    informer: Informer[Pod] = Informer(store, Pod)

    class Binds(Recorder):
        def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
            store.bind(obj, "n")

    binds = Binds()
    informer.add_event_handler(binds)
    store.create_many([pod("a"), pod("b")])
    assert [informer.run_once() for _ in range(3)] == [2, 2, 0]
    assert binds.calls == [("update", "2", "4"), ("update", "3", "5")]


# ---- factory ----


def test_one_informer_per_kind() -> None:
    factory = InformerFactory(ObjectStore())
    pods = factory.informer(Pod)
    assert factory.informer("Pod") is factory.informer(Pod) is pods
    assert factory.lister(Pod) is pods.lister
    assert factory.informer(Node) is not pods


def test_the_factory_runs_them_in_their_order() -> None:
    store = ObjectStore()
    store.create_many([pod("a"), node("n")])
    factory = InformerFactory(store)
    told = Recorder()
    factory.informer(Node).add_event_handler(told)
    factory.informer(Pod).add_event_handler(told)
    assert not factory.has_synced()
    assert factory.run_once() == 2
    assert factory.has_synced()
    assert told.take() == [("add", "n", True), ("add", "a", True)]
    store.create_many([pod("b"), node("m")])
    assert factory.run_once() == 2
    assert told.take() == [("add", "m", False), ("add", "b", False)]
    store.create(pod("c"))
    assert (factory.run_kind(Node), factory.run_kind(Pod), factory.run_once()) == (0, 1, 0)
