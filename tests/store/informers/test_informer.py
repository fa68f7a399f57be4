"""Informers, without threads."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.informers.handlers import Recorder, Replica

from moorage.objects import Node, ObjectMeta, Pod
from moorage.store import Informer, InformerFactory, NotFoundError, ObjectStore


def pod(name: str, **labels: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="default", labels=labels))


def node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name))


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
    store.update(pod("a", x="1"))
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
    store.update(pod("changed", x="1"))
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
    store.create(pod("a", x="1"))
    store.create(pod("b"))
    informer.run_once()
    assert told.calls == [("add", "a", False), ("update", "2", "2"), ("add", "b", False)]
    assert informer.lister.get("default/a").metadata.labels == {"x": "1"}


def test_undone_writes_are_taken_back() -> None:
    store = ObjectStore()
    informer, told = informed(store)
    informer.run_once()
    mark = store.save()
    store.create(pod("a"))
    informer.run_once()
    store.create(pod("b"))
    store.undo(mark)
    informer.run_once()
    assert told.calls == [("add", "a", False), ("delete", "a", "1")]
    assert informer.lister.list() == []


def test_an_object_that_leaves_the_selection_is_deleted() -> None:
    store = ObjectStore()
    store.create_many([pod("a", x="1"), pod("b", x="1"), pod("c")])
    informer, told = informed(store, label_selector="x", field_selector="spec.nodeName=", namespace="default")
    informer.run_once()
    store.bind(pod("a"), "n")
    informer.run_once()
    assert told.calls == [("add", "a", True), ("add", "b", True), ("delete", "a", "5")]


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
    assert late.take() == [("add", "a", True), ("add", "b", True)]
    informer.run_once()
    assert late.take() == [("add", "c", False)]


def test_a_handler_has_synced_when_it_was_told_the_initial_list() -> None:
    store = ObjectStore()
    informer: Informer[Pod] = Informer(store, Pod)
    registration = informer.add_event_handler(Recorder())
    assert not registration.has_synced()
    informer.run_once()
    assert registration.has_synced()


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
    store.update(pod("a", x="1"))
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


def test_an_informer_that_a_caller_was_given_runs_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    store, ran = ObjectStore(), list[str]()
    store.create(node("n"))
    factory, told = InformerFactory(store), Recorder()
    nodes = factory.informer(Node)
    factory.informer(Pod)
    factory.run_once()
    run_once = Informer.run_once

    def noted(informer: Informer[Any]) -> int:
        ran.append("nodes" if informer is nodes else "pods")
        return run_once(informer)

    monkeypatch.setattr(Informer, "run_once", noted)
    assert (factory.run_once(), ran) == (0, [])
    factory.informer(Node).add_event_handler(told)
    saved = factory.save()
    assert told.take() == [("add", "n", True)], "told when it was added"
    assert (factory.run_once(), ran) == (0, ["nodes"])
    assert (factory.run_once(), ran) == (0, ["nodes"])
    factory.undo(saved)
    assert (factory.run_once(), ran) == (0, ["nodes", "nodes"])


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
    with pytest.raises(NotFoundError):
        factory.lister(Pod).get("nobody")


def test_one_kind_runs_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore()
    factory, told, ran = InformerFactory(store), Recorder(), list[str]()
    factory.informer(Node)
    informer = factory.informer(Pod)
    informer.add_event_handler(told)
    factory.run_once()
    run_once = Informer.run_once

    def noted(self: Informer[Any]) -> int:
        ran.append("Pod" if self is informer else "Node")
        return run_once(self)

    monkeypatch.setattr(Informer, "run_once", noted)
    store.create(pod("a"))
    assert factory.run_kind(Pod) == 1
    assert told.take() == [("add", "a", False)]
    assert factory.run_once() == 0
    assert ran == ["Pod", "Pod"]  # the other kinds have not changed
