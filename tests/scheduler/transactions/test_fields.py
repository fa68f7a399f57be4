"""An undo restores every field of every part of a scheduler, but for those that are named here.

A new field that a verb changes is either restored, or named with the reason why nothing depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.leaks.test_verbs import VERBS, world

COUNTS = {
    "Indexer.changes", "ObjectTable.changes", "Tables.changes", "Tables._last", "Tables._others",
    "PodNominator.epoch", "PodNominator.changes", "StoreControl.deletions",
}  # fmt: skip
"""They only grow: whoever has read one sees that something has changed, by an undo as well."""
MADE_ANEW = {
    "Informer._saved", "StoreControl._admission", "StoreControl._to_create", "Framework.pod",
    "SearchCalls._alone", "SearchCalls._state", "SimulatedController._settled", "Informer.resource_version",
}  # fmt: skip
"""Remembered answers; the next one who asks looks whether they still hold, or sets them first."""


def fields_of(one: object) -> dict[str, Any]:
    """The fields of an object in Python."""
    slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: getattr(one, name) for name in slots if hasattr(one, name)} | getattr(one, "__dict__", {})


def parts(root: object) -> Iterator[object]:
    """The objects of moorage that can be reached from one by fields and containers; objects of the API and
    of the compiled core, which has a journal, have no parts."""
    seen, left = set[int](), [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | msgspec.Struct):
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple | set | frozenset | deque):
            left += one
        elif type(one).__module__.startswith("moorage") and (fields := fields_of(one)):
            yield one
            left += fields.values()


def held(value: object, depth: int = 3) -> object:
    """What a field holds: values and objects of the API as they are, containers copied, parts by identity."""
    if isinstance(value, dict) and depth:
        return {key: held(each, depth - 1) for key, each in value.items()}
    if isinstance(value, list | tuple | deque) and depth:
        return [type(value), *(held(each, depth - 1) for each in value)]
    if isinstance(value, set):
        return value.copy()
    is_value = isinstance(value, str | bytes | int | float | None | frozenset | msgspec.Struct)
    return value if is_value else id(value)


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - {"fork"}))
def test_an_undo_restores_every_field(verb: str) -> None:
    made = world()
    VERBS[verb](made)
    before = [
        (part, {name: held(value) for name, value in fields_of(part).items()}) for part in parts(made.context)
    ]
    assert len(before) > 100
    with made.transaction():
        VERBS[verb](made)
        made.run()
    lost = {
        f"{type(part).__name__}.{name}"
        for part, fields in before
        for name, value in fields_of(part).items()
        if name in fields and held(value) != fields[name]
    }
    assert lost <= COUNTS | MADE_ANEW
