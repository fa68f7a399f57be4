"""Watches: order, selectors, history, waiting."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from tests.make import node, pod

from moorage.kube import Node, Pod
from moorage.store import BadRequestError, ObjectStore, ResourceExpiredError, Watch


def labelled(name: str = "a", **labels: str) -> Pod:
    return pod(name, labels=labels)


def seen(watch: Watch[Pod]) -> list[tuple[str, str, str]]:
    return [(event.type, event.object.name, event.resource_version) for event in watch.poll()]


def expired(text: str) -> Any:
    return pytest.raises(ResourceExpiredError, match=f"^{text}$".replace("(", r"\(").replace(")", r"\)"))


def test_events_in_order() -> None:
    store = ObjectStore()
    watch = store.watch(Pod, resource_version="1")
    first = store.create(pod("a"))
    store.create(node("n"))
    second = store.update(labelled(x="1"))
    last = store.delete(Pod, "a", "default")
    events = watch.poll()
    assert [(e.type, e.object, e.old, e.resource_version) for e in events] == [
        ("ADDED", first, None, "2"),
        ("MODIFIED", second, first, "4"),
        ("DELETED", last, second, "5"),
    ]
    assert all(event.object.metadata.resource_version == event.resource_version for event in events)
    assert watch.poll() == []


@pytest.mark.parametrize("version", ["", "0"])
def test_without_a_version_it_begins_with_what_is_there(version: str) -> None:
    store = ObjectStore()
    store.create_many([pod("b"), pod("a")])
    watch = store.watch(Pod, resource_version=version)
    assert watch.wait(0)
    assert seen(watch) == [("ADDED", "a", "3"), ("ADDED", "b", "2")]
    store.delete(Pod, "b", "default")
    assert seen(watch) == [("DELETED", "b", "4")]


def test_objects_that_begin_and_cease_to_match() -> None:
    store = ObjectStore()
    watch = store.watch(Pod, resource_version="1", label_selector="x")
    store.create(pod("a"))
    matching = store.update(labelled(x="1"))
    store.update(labelled(x="2"))
    store.update(pod("a"))
    store.update(labelled(x="3"))
    store.delete(Pod, "a", "default")
    events = watch.poll()
    assert [(e.type, e.resource_version) for e in events] == [
        ("ADDED", "3"),
        ("MODIFIED", "4"),
        ("DELETED", "5"),
        ("ADDED", "6"),
        ("DELETED", "7"),
    ]
    assert events[0].object is matching
    assert events[0].old is None
    ceased = events[2].object.metadata
    assert (ceased.labels, ceased.resource_version) == ({"x": "2"}, "5")


def test_a_watch_from_a_forgotten_version_is_refused() -> None:
    store = ObjectStore(history=2)
    watch = store.watch(Pod, resource_version="1")
    store.create_many([pod("a"), pod("b")])
    store.create(node("n"))
    assert len(watch.poll()) == 2
    late, later = store.watch(Pod, resource_version="1"), store.watch(Pod, resource_version="2")
    store.create(pod("c"))
    with expired("too old resource version: 1 (2)"):
        late.poll()
    with expired("too old resource version: 1 (2)"):
        store.watch(Pod, resource_version="1")
    assert seen(later) == [("ADDED", "b", "3"), ("ADDED", "c", "5")]
    assert seen(watch) == [("ADDED", "c", "5")]
    store.create(pod("d"))
    with expired("too old resource version: 2 (4)"):
        store.watch(Pod, resource_version="2")
    # As upstream: the bound is the version before the oldest event, whatever kinds have changed between.
    with expired("too old resource version: 3 (4)"):
        store.watch(Pod, resource_version="3")
    assert seen(store.watch(Pod, resource_version="4")) == [("ADDED", "c", "5"), ("ADDED", "d", "6")]


def test_each_kind_has_its_own_history() -> None:
    store = ObjectStore(history=1)
    nodes = store.watch(Node, resource_version="1")
    store.create(node("n"))
    store.create_many([pod(str(number)) for number in range(10)])
    assert len(nodes.poll()) == 1


@pytest.mark.parametrize("version", ["x", "-1", "1.0", "²"])
def test_a_version_is_a_number(version: str) -> None:
    with pytest.raises(BadRequestError) as info:
        ObjectStore().watch(Pod, resource_version=version)
    assert str(info.value) == f'resourceVersion: Invalid value: "{version}"'


def test_a_version_that_is_not_there_yet() -> None:
    with expired("Too large resource version: 9, current: 1"):
        ObjectStore().watch(Pod, resource_version="9")


def test_open_watches_can_read_all_of_the_last_write() -> None:
    store = ObjectStore(history=1)
    watch = store.watch(Pod)
    store.create_many([pod("a"), pod("b"), pod("c")])
    assert [name for _, name, _ in seen(watch)] == ["a", "b", "c"]
    store.bind_many(list(map(pod, "abc")), ["n", "n", "n"])
    assert [name for _, name, _ in seen(watch)] == ["a", "b", "c"]
    store.create(pod("d"))
    with expired("too old resource version: 5 (7)"):
        store.watch(Pod, resource_version="5")


def test_waiting_ends_when_there_is_an_event() -> None:
    store = ObjectStore()
    watch = store.watch(Pod, resource_version="1")
    assert not watch.wait(0)
    store.create(pod("a"))
    assert watch.wait(0)
    watch.poll()
    assert not watch.wait(0)


def test_a_closed_watch_is_silent() -> None:
    store = ObjectStore()
    with store.watch(Pod) as watch:
        store.create(pod("a"))
    assert (watch.poll(), watch.wait()) == ([], True)
    watch.close()


def test_a_watch_that_nobody_holds_is_forgotten() -> None:
    store = ObjectStore()
    watch = weakref.ref(store.watch(Pod))
    store.create(pod("a"))
    assert watch() is None


def test_objects_are_shared() -> None:
    store = ObjectStore()
    watch = store.watch(Pod, resource_version="1")
    stored = store.create(pod("a"))
    assert watch.poll()[0].object is stored is store.list(Pod)[0][0]
