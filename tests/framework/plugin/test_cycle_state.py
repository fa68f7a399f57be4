"""CycleState: values of one cycle by key."""

from __future__ import annotations

import threading

import pytest

from moorage.engine.framework import CycleState, NotFoundError


class Counted:
    def __init__(self, value: int) -> None:
        self.value = value

    def clone(self) -> Counted:
        return Counted(self.value)


def test_read_write_and_delete() -> None:
    state = CycleState()
    state.write("k", 1)
    state.write("k", 2)
    assert state.read("k") == state.find("k") == 2
    state.delete("k")
    state.delete("k")
    with pytest.raises(NotFoundError, match=r"^not found$"):
        state.read("k")
    assert state.find("k") is None


def test_a_clone_clones_each_value_and_shares_the_skip_sets() -> None:
    state, held = CycleState(), Counted(1)
    state.write("held", held)
    state.write("plain", "text")
    state.skip_filter_plugins.add("f")
    copy = state.clone()
    held.value = 2
    copy.write("new", 1)
    copy.skip_score_plugins.add("s")
    assert (copy.read("held").value, copy.read("plain")) == (1, "text")
    assert copy.skip_filter_plugins == {"f"}
    assert state.skip_score_plugins == {"s"}
    with pytest.raises(NotFoundError):
        state.read("new")


def test_threads_may_share_it() -> None:
    state, failures = CycleState(), []

    def work(number: int) -> None:
        for value in range(2000):
            state.write(f"{number}/{value}", value)
            copy = state.clone()
            if copy.read(f"{number}/{value}") != value:
                failures.append((number, value))
            state.delete(f"{number}/{value}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
