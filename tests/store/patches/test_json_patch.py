"""JSON patches of JSON values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from tests.doors.store import json_patch
from tests.store.patches.json_values import VALUES

from moorage.errors import InputError

# RFC 6902, appendix A, and what its text says beyond that.
DOCUMENT: Any = {"a": {"b": [1, 2, 3]}, "c/d": 1, "e~f": {"": True}, "~1": 0}
PATCHES: list[tuple[list[Any], Any]] = [
    ([{"op": "add", "path": "/x", "value": None}], {**DOCUMENT, "x": None}),
    ([{"op": "add", "path": "/a/b/1", "value": 9}], {**DOCUMENT, "a": {"b": [1, 9, 2, 3]}}),
    ([{"op": "add", "path": "/a/b/3", "value": 9}], {**DOCUMENT, "a": {"b": [1, 2, 3, 9]}}),
    ([{"op": "add", "path": "/a/b/-", "value": [9]}], {**DOCUMENT, "a": {"b": [1, 2, 3, [9]]}}),
    ([{"op": "add", "path": "/a", "value": 9}], {**DOCUMENT, "a": 9}),
    ([{"op": "add", "path": "", "value": 9}], 9),
    ([{"op": "remove", "path": "/a/b/0"}], {**DOCUMENT, "a": {"b": [2, 3]}}),
    ([{"op": "remove", "path": "/a/b"}], {**DOCUMENT, "a": {}}),
    ([{"op": "replace", "path": "/a/b/2", "value": 9}], {**DOCUMENT, "a": {"b": [1, 2, 9]}}),
    ([{"op": "replace", "path": "/c~1d", "value": 9}], {**DOCUMENT, "c/d": 9}),
    ([{"op": "replace", "path": "/e~0f/", "value": 9}], {**DOCUMENT, "e~f": {"": 9}}),
    ([{"op": "replace", "path": "/~01", "value": 9}], {**DOCUMENT, "~1": 9}),
    ([{"op": "copy", "from": "/a/b", "path": "/a/c"}], {**DOCUMENT, "a": {"b": [1, 2, 3], "c": [1, 2, 3]}}),
    ([{"op": "move", "from": "/a/b/0", "path": "/a/b/-"}], {**DOCUMENT, "a": {"b": [2, 3, 1]}}),
    ([{"op": "test", "path": "/a", "value": {"b": [1, 2, 3]}}], DOCUMENT),
    ([{"op": "test", "path": "", "value": dict(reversed(DOCUMENT.items()))}], DOCUMENT),
    ([{"op": "test", "path": "/no", "value": None}], DOCUMENT),
    ([{"op": "replace", "path": "/no", "value": 9}], {**DOCUMENT, "no": 9}),
    (
        [{"op": "add", "path": "/x", "value": {}}, {"op": "add", "path": "/x/y", "value": 1}],
        DOCUMENT | {"x": {"y": 1}},
    ),
    ([], DOCUMENT),
]


@pytest.mark.parametrize(("patch", "result"), PATCHES)
def test_a_json_patch_gives_the_result_of_its_operations(patch: list[Any], result: Any) -> None:
    before = copy.deepcopy((DOCUMENT, patch))
    assert json_patch(DOCUMENT, patch) == result
    assert (DOCUMENT, patch) == before


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (
            {"op": "add", "path": "/x/y", "value": 1},
            'add operation does not apply: doc is missing path: "/x/y"',
        ),
        ({"op": "add", "path": "/a/b/4", "value": 1}, 'add operation does not apply: doc is missing path: "'),
        ({"op": "add", "path": "/a/b/x", "value": 1}, 'add operation does not apply: doc is missing path: "'),
        (
            {"op": "add", "path": "/c~1d/x", "value": 1},
            'add operation does not apply: doc is missing path: "',
        ),
        ({"op": "add", "path": "a", "value": 1}, 'add operation does not apply: doc is missing path: "a"'),
        ({"op": "replace", "path": "/a/b/3", "value": 1}, "replace operation does not apply: doc is missing"),
        ({"op": "replace", "path": "/a/b/-", "value": 1}, "replace operation does not apply: doc is missing"),
        (
            {"op": "remove", "path": "/a/x"},
            "error in remove for path: '/a/x': Unable to remove nonexistent key",
        ),
        ({"op": "remove", "path": "/a/b/" + "9" * 5000}, "remove operation does not apply: doc is missing"),
        ({"op": "remove", "path": "/c~1d/x"}, "remove operation does not apply: doc is missing path"),
        ({"op": "test", "path": "/c~1d", "value": True}, "testing value /c~1d failed: test failed"),
        ({"op": "test", "path": "/c~1d", "value": "1"}, "testing value /c~1d failed: test failed"),
        ({"op": "move", "path": "/x", "from": "/no"}, "error in move for path: 'no': Unable to remove"),
        ({"op": "move", "path": "/a/x", "from": "/a"}, "move operation does not apply: doc is missing path"),
        (
            {"op": "copy", "path": "/x", "from": "/no"},
            "copy operation does not apply: doc is missing path: /no",
        ),
        ({"op": "rename", "path": "/a"}, "Unexpected kind: rename"),
        ({}, "Unexpected kind: None"),
        ("remove", "not the operations of a JSON patch"),
        ({"op": "remove", "path": 1}, "not the operations of a JSON patch"),
    ],
)
def test_json_patch_refusals(operation: Any, text: str) -> None:
    with pytest.raises(InputError) as info:
        json_patch(DOCUMENT, [{"op": "test", "path": "/c~1d", "value": 1}, operation])
    assert str(info.value).startswith(text)


def diff(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """A JSON patch from one value to another, step by step."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [{"op": "replace", "path": path, "value": new}]
    steps: list[dict[str, Any]] = []
    for key in sorted(old.keys() | new.keys()):
        at = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            steps.append({"op": "remove", "path": at})
        elif key not in old:
            steps.append({"op": "add", "path": at, "value": new[key]})
        else:
            steps += diff(old[key], new[key], at)
    return steps


@given(VALUES, VALUES)
def test_json_patch_leads_from_any_value_to_any_other(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    assert json_patch(old, diff(old, new)) == new
    assert json_patch(new, [{"op": "test", "path": "", "value": new}]) == new
    assert old == before


def test_copies_that_double_are_refused() -> None:
    value = {"a": "x" * 1000}
    double = [{"op": "copy", "from": "", "path": f"/b{at}"} for at in range(30)]
    with pytest.raises(InputError, match=r"Unable to complete the copy, .* exceeding the limit 3145728$"):
        json_patch(value, double)
    assert json_patch(value, double[:1]) == value | {"b0": value}


def test_too_many_operations() -> None:
    test = {"op": "test", "path": "/a", "value": 1}
    assert json_patch({"a": 1}, [test] * 10_000) == {"a": 1}
    with pytest.raises(InputError, match=r"maximum operations in a JSON patch is 10000, got 10001$"):
        json_patch({"a": 1}, [test] * 10_001)
