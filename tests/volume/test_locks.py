"""The caches, queues and counters of volumes hold their locks while they touch what these guard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.doors.controllers import Operations, WorkQueue
from tests.doors.engine import Notice
from tests.locks import check_locked, guard
from tests.make import pod
from tests.volume.binding.binder_kit import PV_1A, at

from moorage.compat import new_pod_binding_cache
from moorage.engine.volume import new_assume_cache


@pytest.mark.parametrize("values", [("a",), ("a", "b")])
def test_an_assume_cache(values: tuple[str, ...]) -> None:
    cache = new_assume_cache(None, "v1.PersistentVolume", "index", lambda obj: values)
    old, new = at(PV_1A, 5), at(PV_1A, 6)
    calls = {
        "add": lambda: cache.add(old),
        "add_all": lambda: cache.add_all([old]),
        "on_add": lambda: cache.on_add(old, False),
        "on_update": lambda: cache.on_update(old, new),
        "on_run": lambda: cache.on_run([Notice(None, new)]),
        "assume": lambda: cache.assume(at(PV_1A, 7)),
        "restore": lambda: cache.restore(old.key),
        "get": lambda: cache.get(old.key),
        "list": lambda: cache.list(old),
        "list_value": lambda: cache.list_value("a"),
        "find": lambda: cache.find(old.key),
        "reader": cache.reader,
        "save": cache.save,
        "undo": lambda: cache.undo(cache.save()),
        "copy_from": lambda: cache.copy_from(cache),
        "on_delete": lambda: cache.on_delete(old),
        "remove": lambda: cache.remove(old.key),
    }
    exempt = ["get_api_obj", "index_values", "changes"]  # one call of the indexer, which has a lock; two ints
    check_locked(cache, "_lock", ["_assumed"], calls, exempt)


def test_decisions_by_pod() -> None:
    one, p = new_pod_binding_cache(), pod("p")
    calls = {
        "update_bindings": lambda: one.update_bindings(p, "n", [], []),
        "get_bindings": lambda: one.get_bindings(p, "n"),
        "get_provisioned_pvcs": lambda: one.get_provisioned_pvcs(p, "n"),
        "assume_node": lambda: one.assume_node(p, "n"),
        "assumed_node": lambda: one.assumed_node(p),
        "get_decisions": lambda: one.get_decisions(p),
        "clear_bindings": lambda: one.clear_bindings(p, "n"),
        "delete_bindings": lambda: one.delete_bindings(p),
    }
    check_locked(one, "_lock", ["_pods", "_assumed"], calls)


def test_operations_hold_their_lock_in_every_call() -> None:
    one = Operations(lambda: 0.0)

    def work() -> Iterator[float]:
        yield 1.0

    def ends() -> None:
        assert one.run("b", lambda: ())

    saved = one.save()
    other = Operations(lambda: 0.0)
    calls = {
        "run": ends,
        "save": one.save,
        "undo": lambda: one.undo(saved),
        "copy_from": lambda: one.copy_from(other),
    }
    exempt = [
        "are_running",
        "is_running",
        "next_due",
        "run_due",
        "use_threads",
    ]  # one look-up each, or without threads
    check_locked(one, "_lock", ["_pauses"], calls, exempt)
    touched = guard(one, one._lock, "_running")
    assert one.run("a", work)
    assert touched


def test_a_work_queue() -> None:
    one = WorkQueue()
    calls = {
        "add": lambda: one.add("a"),
        "save": one.save,
        "undo": lambda: one.undo(one.save()),
        "copy_from": lambda: one.copy_from(WorkQueue()),
        "take": one.take,
    }
    check_locked(one, "_lock", ["keys"], calls)
