"""Several threads. Nothing sleeps; whatever waits has a limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest
from tests.make import node, pod
from tests.store.informers.handlers import Recorder, Replica

from moorage import edit
from moorage.kube import Node, Pod
from moorage.store import ConflictError, ForbiddenError, Informer, InformerFactory, ObjectStore

LIMIT = 60.0
X = {"x": "1"}


def start(*targets: Callable[[], Any]) -> list[Thread]:
    threads = [Thread(target=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def finish(*threads: Thread) -> None:
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()


class Signals(Recorder):
    """Sets an event when a pod of that name is there."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.seen = Event()

    def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
        super().on_add(obj, is_in_initial_list)
        if obj.name == self.name:
            self.seen.set()


def test_close_wakes_who_waits() -> None:
    watch = ObjectStore().watch(Pod, resource_version="1")
    got: list[Any] = []
    threads = start(lambda: got.append(watch.wait(LIMIT)))
    watch.close()
    finish(*threads)
    assert got == [True]


def wait_then(store: ObjectStore, act: Callable[[ObjectStore], Any]) -> bool:
    """Let a watch wait, act, and say whether the watch noticed."""
    watch = store.watch(Pod, resource_version=store.list(Pod)[1])
    got: list[bool] = []
    threads = start(lambda: got.append(watch.wait()))  # no limit: it would notice at its end
    while not store._changed._waiters:  # type: ignore[attr-defined]
        assert threads[0].is_alive()
    act(store)
    finish(*threads)
    return got == [True]


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.create(pod("b")),
        lambda store: store.create_many([pod("b"), pod("c")]),
        lambda store: store.update(pod("a", labels=X)),
        lambda store: store.delete(Pod, "a", "default"),
        lambda store: store.bind(pod("a"), "n"),
        lambda store: store.bind_many([pod("a")], ["n"]),
    ],
    ids=["create", "create_many", "update", "delete", "bind", "bind_many"],
)
def test_every_write_wakes_who_waits(act: Callable[[ObjectStore], Any]) -> None:
    store = ObjectStore()
    store.create(pod("a"))
    assert wait_then(store, act)


def test_an_undo_wakes_who_has_read_what_is_undone() -> None:
    store = ObjectStore()
    mark = store.save()
    store.create(pod("a"))
    assert wait_then(store, lambda store: store.undo(mark))


def test_events_of_many_writers_are_in_order() -> None:
    store = ObjectStore()
    watch = store.watch(Pod, resource_version="1")
    versions: list[int] = []

    def write(writer: int) -> None:
        for number in range(200):
            store.create(pod(f"{writer}-{number}"))

    def read() -> None:
        while len(versions) < 800:
            assert watch.wait(LIMIT)
            versions.extend(int(event.resource_version) for event in watch.poll())

    finish(*start(read, *(lambda w=writer: write(w) for writer in range(4))))
    assert versions == list(range(2, 802))
    assert len(store.list(Pod)[0]) == 800


def test_no_update_is_lost() -> None:
    store = ObjectStore()
    store.create(pod("a", labels={"count": "0"}))

    def count() -> None:
        done = 0
        while done < 50:
            held = store.get(Pod, "a", "default")
            labels = {"count": str(int(held.metadata.labels["count"]) + 1)}
            try:
                store.update(edit(held, {"metadata.labels": labels}))
            except ConflictError:
                continue
            done += 1

    finish(*start(*[count] * 4))
    assert store.get(Pod, "a", "default").metadata.labels == {"count": "200"}


def test_an_informer_in_a_thread() -> None:
    store = ObjectStore()
    store.create(pod("a"))
    informer: Informer[Pod] = Informer(store, Pod)
    signals = Signals("b")
    informer.add_event_handler(signals)
    stop = Event()
    thread = informer.run(stop)
    assert thread.daemon
    store.create(pod("b"))
    assert signals.seen.wait(LIMIT)
    assert [obj.name for obj in informer.lister.list()] == ["a", "b"]
    stop.set()
    finish(thread)
    store.create(pod("c"))
    assert informer.run_once() == 0


def test_an_informer_in_a_thread_goes_on_after_a_handler_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Signals):
        def on_add(self, obj: Any, is_in_initial_list: bool) -> None:
            if obj.name == "a":
                raise TypeError("a defect")
            super().on_add(obj, is_in_initial_list)

    store = ObjectStore()
    for name in "ab":
        store.create(pod(name))
    informer: Informer[Pod] = Informer(store, Pod)
    signals, stop = Failing("b"), Event()
    informer.add_event_handler(signals)
    thread = informer.run(stop)
    assert signals.seen.wait(LIMIT)
    stop.set()
    finish(thread)
    assert "a handler of Pod has failed" in caplog.text


def test_an_informer_in_a_thread_goes_on_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(ObjectStore):
        refusals = 3

        def follow(self, *args: Any, **kwargs: Any) -> Any:
            self.refusals -= 1
            if self.refusals >= 0:
                raise ForbiddenError("not yet")
            return super().follow(*args, **kwargs)

    monkeypatch.setattr("moorage.store.informer.RETRY", 0.0)
    store = Refusing()
    informer: Informer[Pod] = Informer(store, Pod)
    signals, stop = Signals("a"), Event()
    informer.add_event_handler(signals)
    store.create(pod("a"))
    thread = informer.run(stop)
    assert signals.seen.wait(LIMIT)
    stop.set()
    finish(thread)


@pytest.mark.parametrize("history", [1, 10, 100_000])
def test_an_informer_keeps_up_with_writers(history: int) -> None:
    store = ObjectStore(history=history)
    informer: Informer[Pod] = Informer(store, Pod)
    replica, signals = Replica(), Signals("last")
    informer.add_event_handler(replica)
    informer.add_event_handler(signals)
    stop = Event()
    thread = informer.run(stop)

    def write(writer: int) -> None:
        for number in range(100):
            store.create(pod(f"{writer}-{number}"))
            store.update(pod(f"{writer}-{number}", labels=X))
            if number % 3:
                store.delete(Pod, f"{writer}-{number}", "default")

    finish(*start(lambda: write(0), lambda: write(1)))
    store.create(pod("last"))
    assert signals.seen.wait(LIMIT)
    stop.set()
    finish(thread)
    expected = {obj.key: obj for obj in store.list(Pod)[0]}
    assert replica.objects == informer.indexer.items() == expected


def test_a_factory_in_threads() -> None:
    store = ObjectStore()
    factory = InformerFactory(store)
    signals = [Signals("x"), Signals("x")]
    factory.informer(Pod).add_event_handler(signals[0])
    factory.informer(Node).add_event_handler(signals[1])
    stop = Event()
    threads = factory.run(stop)
    store.create_many([pod("x"), node("x")])
    assert all(signal.seen.wait(LIMIT) for signal in signals)
    stop.set()
    finish(*threads)


def test_a_running_informer_does_not_keep_the_process_alive() -> None:
    code = (
        "from threading import Event\n"
        "from moorage.store import Informer, ObjectStore\n"
        "Informer(ObjectStore(), 'Pod').run(Event())\n"
        "print('end')"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", "")
