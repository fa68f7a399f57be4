"""JSON merge patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from tests.doors.kube import merge_patch, strategic_merge, three_way_patch
from tests.store.patches.json_values import VALUES

# RFC 7386, appendix A.
MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize("merge", [merge_patch, strategic_merge])
@pytest.mark.parametrize(("value", "patch", "result"), MERGES)
def test_a_merge_patch_gives_the_results_of_the_rfc(merge: Any, value: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((value, patch))
    assert merge(value, patch) == result
    assert (value, patch) == before


@given(VALUES, VALUES)
def test_a_merge_patch_is_idempotent(value: Any, patch: Any) -> None:
    before = copy.deepcopy((value, patch))
    once = merge_patch(value, patch)
    assert merge_patch(once, patch) == once == strategic_merge(value, patch)
    assert (value, patch) == before


@pytest.mark.parametrize(
    ("original", "new", "live", "result"),
    [
        ({"a": 1, "b": 1}, {"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "c": 1}),
        ({}, {"a": 1}, {"b": {"c": 1}}, {"a": 1, "b": {"c": 1}}),
        ({"m": {"a": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "x": 3}}, {"m": {"b": 2, "x": 3}}),
        ({"l": [1, 2]}, {"l": [1]}, {"l": [1, 2, 3]}, {"l": [1]}),
        ({"l": [1]}, {"l": [1]}, {"l": [1, 2]}, {"l": [1]}),
        ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 1}),
    ],
)
def test_three_way_patch(original: Any, new: Any, live: Any, result: Any) -> None:
    assert merge_patch(live, three_way_patch(original, new, live)) == result
