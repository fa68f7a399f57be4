"""Merge patches of JSON values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from tests.store.patches.json_values import VALUES

from moorage.errors import InputError
from moorage.store.patches.merge_patch import merge_patch, strategic_merge

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
def test_merge_patch(merge: Any, value: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((value, patch))
    assert merge(value, patch) == result
    assert (value, patch) == before


CONDITIONS = [{"type": "A", "status": "True", "reason": "R"}, {"type": "B", "status": "True"}]
STRATEGIC: list[tuple[Any, Any, Any]] = [
    (
        {"conditions": CONDITIONS},
        {"conditions": [{"type": "B", "status": "False"}, {"type": "C"}, {"type": "A", "reason": None}]},
        {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}, {"type": "C"}]},
    ),
    (
        {"conditions": CONDITIONS},
        {"conditions": [{"type": "A", "$patch": "delete"}, {"type": "Z", "$patch": "delete"}]},
        {"conditions": CONDITIONS[1:]},
    ),
    ({}, {"conditions": [{"type": "A", "reason": None}]}, {"conditions": [{"type": "A"}]}),
    ({"conditions": CONDITIONS}, {"conditions": None}, {}),
    ({"conditions": "text"}, {"conditions": [{"type": "A"}]}, {"conditions": [{"type": "A"}]}),
    ({"tolerations": [1, 2]}, {"tolerations": [3]}, {"tolerations": [3]}),
    (
        {"containers": [{"name": "a", "ports": [{"containerPort": 1}]}, {"name": "b"}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 2}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 2}]}, {"name": "b"}]},
    ),
    # Items that have the key in common stay apart; the first is the one that is meant.
    (
        {"topologySpreadConstraints": [{"topologyKey": "z"}, {"topologyKey": "z", "maxSkew": 2}, {}]},
        {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1}]},
        {
            "topologySpreadConstraints": [
                {"topologyKey": "z", "maxSkew": 1},
                {"topologyKey": "z", "maxSkew": 2},
                {},
            ]
        },
    ),
    (
        {"resourceClaims": [{"name": "a", "resourceClaimName": "x"}, {"name": "b"}]},
        {"resourceClaims": [{"name": "a", "$retainKeys": ["name", "t"], "t": "y"}]},
        {"resourceClaims": [{"name": "a", "t": "y"}, {"name": "b"}]},
    ),
    (
        {"resourceClaimStatuses": [{"name": "a"}]},
        {"resourceClaimStatuses": [{"name": "b"}]},
        {"resourceClaimStatuses": [{"name": "a"}, {"name": "b"}]},
    ),
    ({"s": {"a": 1, "b": 2}}, {"s": {"$retainKeys": ["b"], "a": None}}, {"s": {"b": 2}}),
    ({"finalizers": ["a", "b"]}, {"finalizers": ["c", "a"]}, {"finalizers": ["a", "b", "c"]}),
    ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a", "c"]}, {"finalizers": ["b"]}),
    ({}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": []}),
]


@pytest.mark.parametrize(("value", "patch", "result"), STRATEGIC)
def test_strategic_merge(value: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((value, patch))
    assert strategic_merge(value, patch) == result
    assert (value, patch) == before


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"spec": {"$patch": "replace"}}, "spec.$patch: unknown directive"),
        ({"$setElementOrder/conditions": []}, "$setElementOrder/conditions: unknown directive"),
        ({"$deleteFromPrimitiveList/args": []}, "$deleteFromPrimitiveList/args: unknown directive"),
        ({"$deleteFromPrimitiveList/finalizers": "a"}, "$deleteFromPrimitiveList/finalizers: unknown"),
        (
            {"s": {"conditions": [{"type": "A"}, {}]}},
            "s.conditions[1]: map does not contain declared merge key",
        ),
        ({"conditions": ["A"]}, "conditions[0]: map does not contain declared merge key: type"),
        ({"$retainKeys": "a"}, "$retainKeys: unknown directive"),
        ({"conditions": [{"type": "A", "$retainKeys": []}]}, "conditions[0].$retainKeys: must name"),
    ],
)
def test_strategic_refusals(patch: Any, text: str) -> None:
    with pytest.raises(InputError) as info:
        strategic_merge({}, patch)
    assert str(info.value).startswith(text)


@given(VALUES, VALUES)
def test_a_merge_patch_is_idempotent(value: Any, patch: Any) -> None:
    before = copy.deepcopy((value, patch))
    once = merge_patch(value, patch)
    assert merge_patch(once, patch) == once == strategic_merge(value, patch)
    assert (value, patch) == before
