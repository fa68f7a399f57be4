"""Threads that write: no write waits for one of another object."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Barrier, Event, Semaphore, get_ident
from typing import Any

import pytest
from tests.doors.live import Writer
from tests.make import pod
from tests.store.api.wire_server import LIMIT

from moorage.store import UnreachableError

WHAT = "pod_status_patch"


class Hanging:
    """Writes that hang until they are released."""

    def __init__(self) -> None:
        self.begun, self.gate, self.names = Semaphore(0), Event(), list[str]()

    def of(self, name: str) -> Callable[[], object]:
        def write() -> None:
            self.names.append(name)
            self.begun.release()
            assert self.gate.wait(LIMIT)

        return write

    def wait(self, number: int) -> None:
        for _ in range(number):
            assert self.begun.acquire(timeout=LIMIT)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.gate.set()


def submit(writer: Writer, name: str, action: Callable[[], object], **options: Any) -> None:
    writer.submit(WHAT, pod(name), action, **options)


def ended(writer: Writer) -> tuple[int, int]:
    """How many writes have ended well, and with errors."""
    counts = Counter[str]()
    for sample in next(iter(writer.durations.collect())).samples:
        if sample.name.endswith("_count"):
            counts[sample.labels["result"]] += int(sample.value)
    return counts["success"], counts["error"]


def test_no_write_waits_for_those_of_others(hanging: Hanging) -> None:
    writer, done = Writer(2, patience=0.0), Event()
    for at in range(50):
        submit(writer, f"slow{at}", hanging.of(f"slow{at}"))
    submit(writer, "fast", done.set)
    assert done.wait(LIMIT)
    hanging.wait(50)
    hanging.gate.set()
    assert writer.finish(LIMIT)


def test_writes_of_one_object_keep_their_order(hanging: Hanging) -> None:
    writer, written, done = Writer(patience=0.0), list[int](), Event()
    submit(writer, "a", hanging.of("a"))
    for at in range(20):
        submit(writer, "a", lambda at=at: written.append(at))
    submit(writer, "b", done.set)
    assert done.wait(LIMIT)
    assert written == []
    assert len(writer) == 21
    hanging.gate.set()
    assert writer.finish(LIMIT)
    assert written == list(range(20))
    assert len(writer) == 0


class Number:
    """A write that can be joined with the one before it."""

    def __init__(self, written: list[int], number: int) -> None:
        self.written, self.number = written, number

    def __call__(self) -> None:
        self.written.append(self.number)

    def after(self, earlier: Number) -> Number:
        return Number(self.written, 10 * earlier.number + self.number)


def test_writes_that_wait_are_joined(hanging: Hanging) -> None:
    """However often the status of a pod changes meanwhile, one write of it waits."""
    writer, written = Writer(), list[int]()
    submit(writer, "a", hanging.of("a"))
    hanging.wait(1)
    for number in (1, 2, 3):
        submit(writer, "a", Number(written, number))
    writer.submit("pod_binding", pod("a"), lambda: written.append(0))
    submit(writer, "a", Number(written, 4))
    assert len(writer) == 4
    submit(writer, "b", Number(written, 5))
    hanging.gate.set()
    assert writer.finish(LIMIT)
    assert sorted(written) == [0, 4, 5, 123]


def test_the_result_of_a_write_can_be_wanted() -> None:
    ended = Semaphore(0)
    writer = Writer(on_end=ended.release)

    def fail() -> int:
        raise TypeError("a defect")

    first, second = writer.future(WHAT, pod("a"), lambda: 7), writer.future(WHAT, pod("b"), fail)
    assert first.result(LIMIT) == 7
    assert str(second.exception(LIMIT)) == "a defect"
    assert ended.acquire(timeout=LIMIT)
    assert ended.acquire(timeout=LIMIT)
    writer.give_up()


def test_a_fast_server_gets_few_connections(hanging: Hanging) -> None:
    """Until a write counts as slow, a limited number begins."""
    now = [0.0]
    writer = Writer(3, clock=lambda: now[0], patience=1000.0)
    for at in range(10):
        submit(writer, f"p{at}", hanging.of(f"p{at}"))
    hanging.wait(3)
    assert not hanging.begun.acquire(blocking=False)
    assert writer.pending() == {WHAT: (3, 7, 0.0)}
    now[0] = 1000.0
    for at in range(10, 13):  # each has a thread look again; three wait at most
        submit(writer, f"p{at}", hanging.of(f"p{at}"))
    hanging.wait(3)
    assert not hanging.begun.acquire(blocking=False)
    assert writer.pending() == {WHAT: (6, 7, 1000.0)}
    hanging.gate.set()
    assert writer.finish(LIMIT)
    begun = [sorted(hanging.names[first : first + 3]) for first in (0, 3)]
    assert begun == [["p0", "p1", "p2"], ["p3", "p4", "p5"]]
    assert len(hanging.names) == 13


def test_writes_that_wait_for_the_limit_of_requests_are_not_slow(hanging: Hanging) -> None:
    waiting = [2]
    writer = Writer(2, throttled=lambda: waiting[0], patience=1000.0)
    submit(writer, "a", hanging.of("a"))
    assert not hanging.begun.acquire(blocking=False)
    waiting[0] = 1
    submit(writer, "b", hanging.of("b"))
    hanging.wait(2)
    hanging.gate.set()
    assert writer.finish(LIMIT)


def test_threads_are_used_again() -> None:
    writer, threads = Writer(), set[int]()
    for at in range(100):
        submit(writer, f"p{at}", lambda: threads.add(get_ident()))
        writer.flush()
    assert len(threads) <= 2
    assert ended(writer) == (100, 0)
    writer.give_up()


def test_ends_are_accounted_for_by_the_thread_that_collects() -> None:
    ends, told = Semaphore(0), list[tuple[str, str, int]]()
    writer = Writer(on_end=ends.release)

    def refuse() -> None:
        raise UnreachableError("away")

    submit(writer, "a", refuse, then=lambda error: told.append(("a", str(error), get_ident())))
    assert ends.acquire(timeout=LIMIT)
    submit(writer, "b", int, then=lambda error: told.append(("b", str(error), get_ident())))
    assert ends.acquire(timeout=LIMIT)
    assert told == []
    writer.collect()
    writer.collect()
    assert told == [("a", "away", get_ident()), ("b", "None", get_ident())]
    assert ended(writer) == (1, 1)
    writer.give_up()


@pytest.mark.parametrize("error", [TypeError("a defect"), SystemExit(3)])
def test_a_defect_ends_no_thread(caplog: pytest.LogCaptureFixture, error: BaseException) -> None:
    writer, done = Writer(1, patience=0.0), Event()

    def fail() -> None:
        raise error

    submit(writer, "a", fail)
    submit(writer, "b", done.set)
    assert done.wait(LIMIT)
    assert writer.finish(LIMIT)
    assert ended(writer) == (1, 1)
    assert "write has failed: what=pod_status_patch object=default/a" in caplog.text


@pytest.mark.parametrize("gives_up", [True, False])
def test_the_end_waits_for_no_write_that_hangs(hanging: Hanging, gives_up: bool) -> None:
    writer = Writer(1, clock=lambda: 0.0)
    submit(writer, "a", hanging.of("a"))
    hanging.wait(1)
    submit(writer, "a", hanging.of("later"))
    submit(writer, "b", hanging.of("b"))
    if gives_up:
        writer.give_up()
    else:
        assert not writer.finish(0.0)
    submit(writer, "c", hanging.of("c"))
    hanging.gate.set()
    for thread in threading.enumerate():
        if thread.name == "write":
            assert thread.daemon  # the interpreter waits for none
            thread.join(LIMIT)
    assert hanging.names == ["a"]


def test_a_system_without_more_threads_has_writes_wait(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = Writer(patience=0.0)
    submit(writer, "a", hanging.of("a"))
    hanging.wait(1)

    def refuse(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    submit(writer, "b", hanging.of("b"))
    assert "writes have to wait: threads=1" in caplog.text
    hanging.gate.set()
    assert writer.finish(LIMIT)
    assert hanging.names == ["a", "b"]


def test_many_threads_submit_and_collect() -> None:
    """Each write is carried out once, and told once."""
    writer, together, told = Writer(4, patience=0.0), Barrier(9), list[object]()

    def feed(first: int) -> None:
        together.wait(LIMIT)
        for at in range(first, first + 100):
            submit(writer, f"p{at % 50}", int, then=told.append)

    threads = [threading.Thread(target=feed, args=(100 * at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    together.wait(LIMIT)
    for thread in threads:
        thread.join(LIMIT)
    assert writer.finish(LIMIT)
    writer.collect()
    assert told == [None] * 800
    assert ended(writer) == (800, 0)
