"""PluginContext: its data, and its lock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cache.threads import running
from tests.compat.v1alpha1.world import Acquiring
from tests.doors.compat import RWMutex

from moorage.compat.v1alpha1 import ContextKey, FrameworkError, NewPluginContext, NotFound, PluginContext


def test_data_is_written_read_and_deleted_whoever_holds_the_lock() -> None:
    pc, other, value = NewPluginContext(), NewPluginContext(), object()
    pc.Lock()
    pc.Write("key", 1)
    pc.Write("key", value)
    pc.Write(ContextKey("other"), None)
    assert (pc.Read("key"), pc.Read("other")) == (value, None)
    for _ in range(2):
        pc.Delete("key")
    for context, key in ((pc, "key"), (other, "other")):
        with pytest.raises(FrameworkError) as caught:
            context.Read(key)
        assert str(caught.value) == NotFound == "not found"
    pc.Unlock()


def test_a_writer_waits_for_all_readers() -> None:
    pc = NewPluginContext()
    pc.RLock()
    pc.RLock()
    writer = Acquiring(pc, pc.Lock)
    pc.RUnlock()
    assert not writer.acquired()
    pc.RUnlock()
    assert writer.acquires()


@pytest.mark.parametrize("kind", ["Lock", "RLock"])
def test_a_writer_excludes_everybody(kind: str) -> None:
    pc = NewPluginContext()
    pc.Lock()
    other = Acquiring(pc, getattr(pc, kind))
    assert not other.acquired()
    pc.Unlock()
    assert other.acquires()


def interrupted(lock: RWMutex, acquire: Callable[[], None], meanwhile: Callable[[], None] = int) -> None:
    """Ctrl-C while a lock is waited for, after something else has happened."""

    def wait(timeout: float | None = None) -> bool:
        meanwhile()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lock._changed, "wait", wait)
        with pytest.raises(KeyboardInterrupt):
            acquire()


def test_an_interrupted_writer_keeps_nobody_out() -> None:
    pc = NewPluginContext()
    pc.RLock()
    interrupted(pc, pc.Lock)
    assert Acquiring(pc, pc.RLock).acquires()
    pc.RUnlock()
    pc.RUnlock()
    assert Acquiring(pc, pc.Lock).acquires()


@pytest.mark.parametrize("unlocked", [True, False])
def test_an_interrupted_reader_keeps_nobody_out(unlocked: bool) -> None:
    """Also if the writer counted it among the readers before the interrupt."""
    pc = NewPluginContext()
    pc.Lock()
    interrupted(pc, pc.RLock, pc.Unlock if unlocked else int)
    if not unlocked:
        pc.Unlock()
    assert Acquiring(pc, pc.Lock).acquires()


def test_no_reader_joins_while_a_writer_waits() -> None:
    pc = NewPluginContext()
    pc.RLock()
    writer = Acquiring(pc, pc.Lock)
    reader = Acquiring(pc, pc.RLock)
    assert (writer.acquired(), reader.acquired()) == (False, False)
    pc.RUnlock()
    assert writer.acquires()
    assert not reader.acquired()
    pc.Unlock()
    assert reader.acquires()


def test_readers_that_came_while_a_writer_held_the_lock_go_before_the_next_writer() -> None:
    pc = NewPluginContext()
    pc.Lock()
    writer = Acquiring(pc, pc.Lock)
    readers = [Acquiring(pc, pc.RLock) for _ in range(2)]
    pc.Unlock()
    assert [reader.acquires() for reader in readers] == [True, True]
    pc.RUnlock()
    assert not writer.acquired()
    pc.RUnlock()
    assert writer.acquires()


def test_the_lock_is_not_reentrant_and_another_thread_may_release_it() -> None:
    pc = NewPluginContext()

    def twice() -> None:
        pc.Lock()
        pc.Lock()

    again = Acquiring(pc, twice)
    assert not again.acquired()
    pc.Unlock()
    assert again.acquires()


@pytest.mark.parametrize(
    ("release", "text"),
    [
        (PluginContext.Unlock, "sync: Unlock of unlocked RWMutex"),
        (PluginContext.RUnlock, "sync: RUnlock of unlocked RWMutex"),
    ],
)
def test_a_lock_that_nobody_holds_cannot_be_released(
    release: Callable[[PluginContext], None], text: str
) -> None:
    with pytest.raises(RuntimeError) as caught:
        release(NewPluginContext())
    assert str(caught.value) == text


def test_threads_that_take_the_lock_lose_nothing() -> None:
    pc = NewPluginContext()
    pc.Write("left", 0)
    pc.Write("right", 0)
    torn: list[tuple[int, int]] = []

    def write() -> None:
        for _ in range(200):
            pc.Lock()
            pc.Write("left", pc.Read("left") + 1)
            pc.Write("right", pc.Read("right") + 1)
            pc.Unlock()

    def read() -> None:
        for _ in range(200):
            pc.RLock()
            left, right = pc.Read("left"), pc.Read("right")
            pc.RUnlock()
            if left != right:
                torn.append((left, right))

    with running(write, write, read, read):
        pass
    assert (pc.Read("left"), pc.Read("right"), torn) == (400, 400, [])
