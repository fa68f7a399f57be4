"""Saving, undoing, cloning."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.make import node, pod
from tests.store.observe import observe

from moorage.errors import MoorageError
from moorage.kube import Node, ObjectMeta, Pod
from moorage.store import ObjectStore, ResourceExpiredError


def labelled(name: str, **labels: str) -> Pod:
    return pod(name, labels=labels)


def filled(**options: int) -> ObjectStore:
    store = ObjectStore(**options)
    store.create_many([pod("a"), node("n"), pod("b"), pod("c")])
    return store


def churn(store: ObjectStore) -> None:
    store.update(labelled("a", x="1"))
    store.delete(Pod, "b", "default")
    store.create(pod("d"))
    store.delete(Pod, "d", "default")
    store.create(pod("b"))
    store.bind(pod("c"), "n")
    store.delete(Node, "n")


def test_what_follows_an_undo_is_as_if_nothing_had_been() -> None:
    store, untouched = filled(), filled()
    mark = store.save()
    churn(store)
    store.undo(mark)
    churn(store)
    churn(untouched_after := untouched.clone())
    assert observe(store) == observe(untouched_after) != observe(untouched)


def test_new_objects_have_the_uids_that_they_would_have_had_without_what_is_undone() -> None:
    store, untouched = ObjectStore(), ObjectStore()
    new, mark = Node(metadata=ObjectMeta(name="n")), store.save()
    store.create_many([untouched.clone().create(new)])  # whose UID lets the others begin anew
    store.undo(mark)
    assert store.create(new).metadata.uid == untouched.create(new).metadata.uid


def test_the_store_tells_which_kinds_have_changed() -> None:
    store, names = filled(), lambda kinds: sorted(kind.__name__ for kind in kinds)
    begin = store.changes
    assert names(store.changed_since(0)) == ["Node", "Pod"]
    assert names(store.changed_since(begin)) == []
    store.update(labelled("a", x="1"))
    store.create(pod("d"))
    middle = store.changes
    assert names(store.changed_since(begin)) == names(store.changed_since(middle - 1)) == ["Pod"]
    store.delete(Node, "n")
    assert names(store.changed_since(middle)) == ["Node"]
    assert names(store.changed_since(middle - 1)) == names(store.changed_since(begin)) == ["Node", "Pod"]
    mark, before = store.save(), store.changes
    store.create_many([pod("e"), pod("f")])
    assert names(store.changed_since(before)) == ["Pod"]
    store.create(node("n"))
    store.undo(mark)
    after = store.changes
    assert names(store.changed_since(before)) == ["Node", "Pod"]
    store.update(labelled("a", x="2"))
    assert names(store.changed_since(after)) == ["Pod"]
    assert names(store.changed_since(after - 1)) == ["Node", "Pod"]


def test_an_outer_mark_closes_those_within() -> None:
    store = filled()
    outer = store.save()
    churn(store)
    inner = store.save()
    store.undo(outer)
    for close in (store.undo, store.release):
        for mark in (outer, inner):
            with pytest.raises(MoorageError, match="no open mark of the store"):
                close(mark)
    assert observe(store) == observe(filled())


def test_a_clone_has_no_open_marks() -> None:
    store = filled()
    mark = store.save()
    with pytest.raises(MoorageError, match="no open mark of the store"):
        store.clone().undo(mark)


def test_undelivered_events_vanish() -> None:
    store = filled()
    watch, filtered = store.watch(Pod, resource_version="5"), store.watch(Pod, label_selector="x")
    mark = store.save()
    churn(store)
    store.undo(mark)
    assert (watch.poll(), filtered.poll()) == ([], [])


@pytest.mark.parametrize("selector", ["", "x"])
@pytest.mark.parametrize("history", [1, 100])
def test_delivered_events_are_followed_by_their_reverse(selector: str, history: int) -> None:
    store = filled(history=history)
    store.update(labelled("c", x="0"))
    watch = store.watch(Pod, resource_version="6", label_selector=selector)
    mark = store.save()
    delivered = []
    for step in (
        lambda: store.update(labelled("a", x="1")),
        lambda: store.delete(Pod, "c", "default"),
        lambda: store.create(labelled("d", x="1")),
        lambda: store.update(labelled("a", x="2")),
        lambda: store.update(pod("a")),
    ):
        step()
        delivered += watch.poll()
    store.create(labelled("never-seen", x="1"))
    store.undo(mark)
    back = watch.poll()
    opposite = {"ADDED": "DELETED", "DELETED": "ADDED", "MODIFIED": "MODIFIED"}
    assert len(delivered) == 5
    assert [(e.type, e.object.name) for e in back] == [
        (opposite[e.type], e.object.name) for e in reversed(delivered)
    ]
    assert {e.resource_version for e in back} == {"6"}
    assert {e.object.metadata.resource_version for e in back if e.type == "DELETED"} == {"6"}
    store.create(labelled("e", x="1"))
    assert [(e.type, e.object.name, e.resource_version) for e in watch.poll()] == [("ADDED", "e", "7")]


def test_reverse_events_hold_the_states_of_before() -> None:
    store = filled()
    a, _, _ = store.list(Pod)[0]
    watch = store.watch(Pod, resource_version="5")
    mark = store.save()
    changed = store.update(labelled("a", x="1"))
    store.delete(Pod, "a", "default")
    assert len(watch.poll()) == 2
    store.undo(mark)
    first, second = watch.poll()
    assert (first.type, first.object, first.old) == ("ADDED", changed, None)
    assert (second.type, second.object, second.old) == ("MODIFIED", a, changed)


def test_a_namespace_has_again_what_an_undo_gives_back() -> None:
    store = filled()
    before, mark = store.list(Pod, "default"), store.save()
    for name in "ab":
        store.delete(Pod, name, "default")
        store.list(Pod, "default")
    store.undo(mark)
    assert store.list(Pod, "default") == before


def test_a_watch_that_has_not_begun_begins_after_the_undo() -> None:
    store = filled()
    mark = store.save()
    store.delete(Pod, "a", "default")
    watch = store.watch(Pod)
    store.undo(mark)
    assert [(e.type, e.object.name) for e in watch.poll()] == [("ADDED", name) for name in "abc"]


def test_one_who_read_an_undone_version_must_list_again() -> None:
    store = filled()
    mark = store.save()
    store.create(pod("d"))
    version = store.list(Pod)[1]
    store.undo(mark)
    with pytest.raises(ResourceExpiredError, match=r"^Too large resource version: 6, current: 5$"):
        store.watch(Pod, resource_version=version)


@pytest.mark.parametrize("change", [churn, lambda store: store.undo(store.save())])
def test_a_clone_is_equal_and_independent(change: Callable[[ObjectStore], None]) -> None:
    store = filled(history=3, seed=4)
    copy, before = store.clone(), observe(store)
    watch = store.watch(Pod, resource_version=store.list(Pod)[1])
    assert observe(copy) == before
    change(copy)
    assert (observe(store), watch.poll()) == (before, [])
    change(store)
    assert observe(store) == observe(copy)
