"""A fork beside a thread that uses a scheduler: the child gets an error at once, and never waits."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from threading import Event, Thread
from weakref import getweakrefs

import pytest

import moorage as mo
from moorage.store import ObjectStore

USED = "forked while another thread used this {}"


def child_says(use: Callable[[], object]) -> str:
    """The error of a use in a child of this process, or `done`. An alarm ends a child that waits."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads beside a fork
        child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            use()
            os.write(theirs, b"done")
        except BaseException as error:
            os.write(theirs, str(error).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    os.waitpid(child, 0)
    with open(ours, encoding="utf-8") as answer:
        return answer.read()


class Blocking:
    """A function that waits, once it was told to, until it is released."""

    def __init__(self) -> None:
        self.waits, self.has_begun, self.may_end = False, Event(), Event()

    def __call__(self) -> float:
        if self.waits:
            self.has_begun.set()
            assert self.may_end.wait(60)
        return 0.0


@pytest.fixture
def blocking() -> Blocking:
    return Blocking()


def beside(action: Callable[[], object], blocking: Blocking, use: Callable[[], object]) -> str:
    """What a child says that is forked while an action waits in a thread."""
    blocking.waits = True
    thread = Thread(target=action)
    thread.start()
    assert blocking.has_begun.wait(60)
    try:
        return child_says(use)
    finally:
        blocking.may_end.set()
        thread.join()


def test_a_scheduler_that_runs(blocking: Blocking) -> None:
    scheduler = mo.Scheduler(mo.synthetic(nodes=2, pods=4))

    def hold() -> None:
        with scheduler.transaction():
            blocking()

    said = beside(hold, blocking, scheduler.run)
    assert USED.format("SchedulerCache") in said
    assert len(scheduler.run().placements) == 4
    assert child_says(scheduler.run) == "done"


def test_a_store_that_is_written(blocking: Blocking) -> None:
    store = ObjectStore(blocking)
    scheduler = mo.Scheduler(mo.synthetic(nodes=1))
    namespace = mo.read_object({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}})
    said = beside(lambda: store.create(namespace), blocking, lambda: store.list(type(namespace)))
    assert USED.format("ObjectStore") in said
    assert child_says(scheduler.run) == "done"


def test_a_copy_is_its_own(blocking: Blocking) -> None:
    scheduler = mo.Scheduler(mo.synthetic(nodes=2, pods=4))
    other = scheduler.fork()

    def hold() -> None:
        with other.transaction():
            blocking()

    assert beside(hold, blocking, lambda: [scheduler.run(), scheduler.fork()]) == "done"
    blocking.__init__()  # type: ignore[misc]
    assert USED.format("SchedulerCache") in beside(hold, blocking, other.run)


def test_no_code_runs_when_an_owner_is_freed() -> None:
    """Python drops what it raises, so that an interrupt at that moment would be lost."""
    one = mo.Scheduler(mo.Cluster())
    assert {each.__callback__ for each in getweakrefs(one.cache)} == {None}
