"""Stores, watches, informers and their copies hold their locks while they touch what these guard."""

from __future__ import annotations

from tests.locks import check_locked, guard
from tests.make import pod
from tests.store.informers.handlers import Recorder

from moorage.kube import Condition, LabelSelector, Pod
from moorage.store import DeletedFinalStateUnknown, Indexer, Informer, ObjectStore, WatchEvent


def test_a_store() -> None:
    one = ObjectStore()
    mark = one.save()
    p = pod("p")

    def write_nothing() -> None:
        with one.all_or_nothing():
            pass

    calls = {
        "changed_since": lambda: one.changed_since(0),
        "create": lambda: one.create(p),
        "create_equal": lambda: one.create_equal(pod("s"), 1),
        "create_many": lambda: one.create_many([pod("q"), pod("r")]),
        "names_of_new": lambda: one.names_of_new([p]),
        "get": lambda: one.get(Pod, "p", "default"),
        "has": lambda: one.has([Pod]),
        "has_kind": lambda: one.has_kind("Pod"),
        "list": lambda: one.list(Pod),
        "watch": lambda: one.watch(Pod),
        "follow": lambda: one.follow(Pod),
        "update": lambda: one.update(p),
        "update_many": lambda: one.update_many([p]),
        "patch": lambda: one.patch(Pod, "p", "default", {"metadata": {"labels": {"a": "b"}}}),
        "patch_pod_status": lambda: one.patch_pod_status(one.get(Pod, "p", "default"), "n", ()),
        "bind": lambda: one.bind(one.get(Pod, "p", "default"), "n"),
        "bind_many": lambda: one.bind_many([one.get(Pod, "q", "default")], ["n"]),
        "had_placed_pods": one.had_placed_pods,
        "set_condition": lambda: one.set_condition([p], Condition(type="t")),
        "evict": lambda: one.evict([one.get(Pod, "q", "default")], Condition(type="t")),
        "delete": lambda: one.delete(Pod, "r", "default"),
        "all_or_nothing": write_nothing,
        "clone": one.clone,
        "save": one.save,
        "release": lambda: one.release(one.save()),
        "is_open": lambda: one.is_open(mark),
        "undo": lambda: one.undo(mark),
    }
    check_locked(
        one, one._changed, ["_tables"], calls, exempt=["changes", "history", "is_unwritten", "now"]
    )  # one read each


def test_a_watch() -> None:
    store = ObjectStore()
    store.create_many([pod("p"), pod("q")])
    one = store.watch(Pod)
    calls = {
        "save": one.save,
        "undo": lambda: one.undo(one.save()),
        "copy_from": lambda: one.copy_from(store.watch(Pod)),
        "is_at": lambda: one.is_at(one.save()),
        "wait": one.wait,
        "poll": one.poll,
        "close": one.close,
    }
    guarded = ["_position", "_version", "_pending", "_initial", "_closed"]
    check_locked(one, store._changed, guarded, calls, exempt=["rewind"])


def test_an_informer() -> None:
    store = ObjectStore()
    one = Informer(store, Pod)
    registration = one.add_event_handler(Recorder())
    empty = one.save()
    calls = {
        "begin": one.begin,
        "begin_empty": lambda: one.begin_empty(str(1)),
        "run_once": one.run_once,
        "add_event_handler": lambda: one.add_event_handler(Recorder()),
        "save": one.save,
        "undo": lambda: one.undo(empty),
        "copy_from": lambda: one.copy_from(Informer(store, Pod)),
        "remove_event_handler": lambda: one.remove_event_handler(registration),
    }
    check_locked(one, one._lock, ["_registrations", "_watch"], calls, exempt=["has_synced", "lister", "run"])


def test_the_copy_of_an_informer() -> None:
    one: Indexer[Pod] = Indexer({})
    p = pod("p")
    calls = {
        "put": lambda: one.put(p.key, p),
        "put_newer": lambda: one.put_newer([p], {}),
        "apply": lambda: one.apply([WatchEvent("ADDED", p, "1")], DeletedFinalStateUnknown, []),
        "follow": one.follow,
        "add_index": lambda: one.add_index("name", lambda obj: (obj.metadata.name,)),
        "get": lambda: one.get(p.key),
        "get_many": lambda: one.get_many([p.key]),
        "reader": one.reader,
        "items": one.items,
        "values": one.values,
        "identities": one.identities,
        "identity": lambda: one.identity(p.key),
        "identities_of": lambda: one.identities_of([p.key]),
        "count": lambda: one.count("name", "p"),
        "by_index": lambda: one.by_index("name", "p"),
        "select": lambda: one.select("name", ["p"], lambda pod: True),
        "identities_by_index": lambda: one.identities_by_index("name", "p"),
        "selected": lambda: one.selected("name", "p", LabelSelector()),
        "items_by_index": lambda: one.items_by_index("name", "p"),
        "list_index_func_values": lambda: one.list_index_func_values("name"),
        "save": one.save,
        "undo": lambda: one.undo(one.save()),
        "is_at": lambda: one.is_at(one.save()),
        "copy_from": lambda: one.copy_from(one),
        "remove": lambda: one.remove(p.key),
        "replace": lambda: one.replace({}),
    }
    check_locked(one, one.lock, ["_objects", "_log"], calls)


def test_the_log_of_an_informers_copy() -> None:
    one: Indexer[Pod] = Indexer({})
    log = one.follow()
    touched = guard(log, one.lock, "_keys", "head")
    one.put("p", pod("p"))
    one.remove("p")
    one.replace({})
    assert touched == {"_keys", "head"}
    touched.clear()
    log.since(0)
    assert touched
