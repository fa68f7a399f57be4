"""StringIndex: numbers of strings, beside a dictionary."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.alone import run_alone
from tests.doors.engine import StringIndex

ABSENT = -7
keys = st.integers(0, 60).map(lambda number: f"key-{number}")  # each time another object
numbers = st.integers(-1, 2**31 - 1)


class BesideADictionary(RuleBasedStateMachine):
    """All operations; most keys are drawn again, so they move into gaps and wrap around the end."""

    def __init__(self) -> None:
        super().__init__()
        self.index, self.twin = StringIndex(), dict[str, int]()

    @rule(key=keys, number=numbers)
    def put(self, key: str, number: int) -> None:
        self.index.put(key, number)
        self.twin[key] = number

    @rule(key=keys, number=numbers)
    def claim(self, key: str, number: int) -> None:
        assert self.index.claim(key, number) == (key not in self.twin)
        self.twin.setdefault(key, number)

    @rule(key=keys)
    def remove(self, key: str) -> None:
        self.index.remove(key)
        self.twin.pop(key, None)

    @rule(room=st.integers(0, 100))
    def reserve(self, room: int) -> None:
        self.index.reserve(room)

    @rule(key=keys)
    def clone(self, key: str) -> None:
        """Go on with a copy; the original is changed and dropped."""
        copy = self.index.clone()
        self.index.put(key, 1)
        self.index.remove("key-0")
        self.index = copy

    @invariant()
    def equals(self) -> None:
        assert dict(self.index.items()) == self.twin
        assert len(self.index) == len(self.twin)
        for number in range(61):
            key = f"key-{number}"
            assert self.index.find(key, ABSENT) == self.twin.get(key, ABSENT)


TestBesideADictionary = BesideADictionary.TestCase
TestBesideADictionary.settings = settings(deadline=None, max_examples=50, stateful_step_count=60)


def test_keys_are_held_as_long_as_they_are_in_an_index() -> None:
    key = "".join(["a string", " of its own"])
    before = sys.getrefcount(key)
    one = StringIndex()
    one.put(key, 1)
    one.put(key, 2)
    other = one.clone()
    assert sys.getrefcount(key) == before + 2
    one.remove(key)
    assert sys.getrefcount(key) == before + 1
    del other
    assert sys.getrefcount(key) == before


def without_memory(operation: Callable[[], object]) -> bool:
    """Carry an operation out while there is no memory; whether it ran out."""
    import _testcapi as memory  # type: ignore[import-not-found]

    memory.set_nomemory(0)
    try:
        operation()
    except MemoryError:
        return True
    finally:
        memory.remove_mem_hooks()
    return False


def removed_and_put_back() -> None:
    keys = [f"key-{number}" for number in range(1000)]
    one = StringIndex()
    for number, key in enumerate(keys):
        one.put(key, number)
    for key in keys:
        one.remove(key)
    assert [key for key in keys if without_memory(partial(one.put, key, 7))] == []
    assert dict(one.items()) == dict.fromkeys(keys, 7)


def one_too_many() -> None:
    one = StringIndex()
    for number in range(8):
        one.put(f"key-{number}", number)
    before = sorted(one.items())
    assert without_memory(partial(one.put, "one too many", 8))
    assert sorted(one.items()) == before
    one.put("one too many", 8)
    assert one.find("one too many", ABSENT) == 8


def puts_without_memory() -> None:
    removed_and_put_back()
    one_too_many()


def test_what_is_put_without_memory_is_put_whole_or_not_at_all() -> None:
    """In a process of its own: other threads of this one would run out of memory, too."""
    pytest.importorskip("_testcapi", reason="a CPython without its test modules")
    run_alone(puts_without_memory)
