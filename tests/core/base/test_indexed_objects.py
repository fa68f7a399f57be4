"""The objects of an informer against dicts that are copied whole: order, indexes, what is undone, copies."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.base.test_watch_events import Maker, stored
from tests.doors.engine import IndexedObjects, Mark, Notice

from moorage.kube import Pod
from moorage.store import WatchEvent

NAMES = ["a", "b", "c", "d"]
STEPS = [
    "put",
    "late",
    "delete",
    "set",
    "remove",
    "read",
    "replace",
    "save",
    "undo",
    "forget",
    "fork",
    "swap",
]


def by_label(one: Pod) -> Iterable[str]:
    return (value for value in (*one.metadata.labels.values(), "all"))


def by_node(one: Pod) -> tuple[str, ...]:
    return (one.spec.node_name,) if one.spec.node_name else ()


FUNCTIONS = {"label": by_label, "node": by_node}


class Plain:
    """The same with dicts; each saved state is a copy."""

    def __init__(self) -> None:
        self.objects: dict[str, Pod] = {}
        self.indexes: dict[str, dict[str, list[str]]] = {name: {} for name in FUNCTIONS}

    def put(self, key: str, new: Pod | None) -> None:
        old = self.objects.get(key)
        for name, function in FUNCTIONS.items():
            index, values = self.indexes[name], [] if new is None else list(function(new))
            for value in [] if old is None else list(dict.fromkeys(function(old))):
                if value not in values:
                    index[value].remove(key)
                    if not index[value]:
                        del index[value]
            for value in values:
                if key not in index.setdefault(value, []):
                    index[value].append(key)
        if new is not None:
            self.objects[key] = new
        else:
            self.objects.pop(key, None)

    def replace(self, objects: dict[str, Pod]) -> None:
        self.__init__()  # type: ignore[misc]
        for key, one in objects.items():
            self.put(key, one)


def defined() -> IndexedObjects[Pod]:
    out = IndexedObjects[Pod]()
    for name, function in FUNCTIONS.items():
        out.define(name, function, name == "label")
    return out


def assert_equal(one: IndexedObjects[Pod], plain: Plain) -> None:
    assert len(one) == len(plain.objects)
    assert list(one.to_dict().items()) == list(plain.objects.items())
    assert [like.key for like in one.identities()] == list(plain.objects)
    for name, index in plain.indexes.items():
        assert one.values_of(name) == list(index)
        assert {value: one.keys(name, value) for value in index} == index
        assert {value: one.count(name, value) for value in index} == {v: len(k) for v, k in index.items()}
    assert (one.keys("label", "none"), one.count("label", "none")) == ([], 0)


def step_of(step: str, name: str, variant: int, version: int, one: IndexedObjects[Pod], plain: Plain) -> None:
    """Change the objects, and check the notice."""
    new = stored(name, uid=str(variant % 2), labels={"l": str(variant)})
    key, known, notices = new.key, plain.objects.get(new.key), list[Notice[Pod]]()
    if step == "put":
        one.apply([WatchEvent("ADDED", new, str(version))], tuple, notices)
        plain.put(key, new)
        assert (notices[0].old, notices[0].new) == (known, new)
    elif step == "late" and known is not None:
        one.apply([WatchEvent.deferred("MODIFIED", known, version, Maker(), f"n{variant}")], tuple, notices)
        plain.put(key, Maker()(known, str(version), f"n{variant}"))
        assert (notices[0].old, notices[0].new) == (known, plain.objects[key])
    elif step == "delete":
        one.apply([WatchEvent("DELETED", new, str(version))], lambda *last: last, notices)
        unobserved = known is not None and known.metadata.uid != new.metadata.uid
        assert notices[0].old == ((key, known) if unobserved else new)
        assert notices[0].is_deletion
        plain.put(key, None)
    elif step in ("set", "remove"):
        assert one.put(key, new if step == "set" else None) == known
        plain.put(key, new if step == "set" else None)
    elif step == "read":
        assert one.get(key) == known
    elif step == "replace":
        objects = {key: new, "default/x": stored("x")}
        plain.replace(objects)
        one.replace(objects)
        for index in FUNCTIONS:
            one.count(index, "")


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(NAMES), st.integers(0, 2)), max_size=40),
    st.booleans(),
)
def test_objects_are_like_dicts(steps: list[tuple[str, str, int]], reads_always: bool) -> None:
    one, plain = defined(), Plain()
    for name in FUNCTIONS:
        one.count(name, "")  # builds the index
    marks: list[tuple[Mark, Plain]] = []
    other: tuple[Any, ...] | None = None
    for version, (step, name, variant) in enumerate(steps):
        if step == "save":
            marks.append((one.save(), deepcopy(plain)))
        elif step == "undo" and marks:
            del marks[max(variant, 1) :]
            mark, saved = marks[-1]
            plain = deepcopy(saved)
            one.undo(mark)
        elif step == "forget" and marks:
            marks.pop()
        elif step == "fork":
            copy = defined()
            copy.copy_from(one)
            other = copy, deepcopy(plain), list[tuple[Mark, Plain]]()
        elif step == "swap" and other is not None:
            (one, plain, marks), other = other, (one, plain, marks)
        else:
            step_of(step, name, variant, version, one, plain)
        if reads_always:
            assert_equal(one, plain)
    assert_equal(one, plain)
    if other is not None:
        assert_equal(other[0], other[1])
    for mark, saved in reversed(marks):
        one.undo(mark)
        assert_equal(one, saved)


def test_a_state_is_void_after_an_earlier_one_was_restored() -> None:
    one = defined()
    first, second = one.save(), one.save()
    assert (one.is_at(first), one.is_at(second), defined().is_at(first)) == (False, True, False)
    one.undo(first)
    with pytest.raises(ValueError, match="an earlier state"):
        one.undo(second)
    with pytest.raises(ValueError, match="an earlier state"):
        defined().undo(first)


def test_indexes_are_as_they_were() -> None:
    """One that was built or defined since is not there; one that was incomplete is built again."""
    one = defined()
    one.put("a", stored("a", labels={"l": "1"}))
    mark = one.save()
    assert one.keys("label", "1") == ["a"]
    one.define("other", by_label, True)
    one.put("b", stored("b", labels={"l": "1"}))
    one.forget_indexes()
    assert one.keys("label", "1") == ["a", "b"]
    one.undo(mark)
    assert one.keys("label", "1") == ["a"]
    with pytest.raises(KeyError, match="other"):
        one.keys("other", "1")
    with pytest.raises(ValueError, match="conflict"):
        one.define("label", by_node, True)


def test_the_objects_of_an_event_are_not_made_for_a_lasting_index() -> None:
    one, make = defined(), Maker()
    one.count("label", "")
    pod = replace(stored("a", labels={"l": "1"}))
    one.put(pod.key, pod)
    mark = one.save()
    one.apply([WatchEvent.deferred("MODIFIED", pod, 1, make, "n")], tuple, [])
    assert (make.made, one.identity(pod.key)) == (0, pod)
    one.undo(mark)
    assert (make.made, one.get(pod.key)) == (0, pod)


def test_a_lasting_index_takes_changes_when_it_is_read_or_saved() -> None:
    one, asked = IndexedObjects[Pod](), list[str]()

    def by_name(one: Pod) -> tuple[str, ...]:
        asked.append(one.name)
        return (one.name,)

    one.define("name", by_name, True)
    assert one.count("name", "a") == 0
    pods = [stored(name) for name in "abcd"]
    one.put("a", pods[0])
    one.apply([WatchEvent("ADDED", pod, "1") for pod in pods[1:]], tuple, [])
    assert not asked
    assert (one.keys("name", "c"), asked) == (["default/c"], [*"abcd"])
    one.put("a", None)
    mark = one.save()
    assert asked == [*"abcda"]
    one.put("b", pods[1])
    one.undo(mark)
    assert (one.values_of("name"), asked) == ([*"bcd"], [*"abcdab"])
