"""Strategic merge patches, and the ones that kubectl apply makes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.kube import merge_patch, rule_of, strategic_merge, three_way_strategic_patch
from tests.objects.apply.make_merge_keys import KEY, STRATEGY, merge_keys, text
from tests.store.patches.json_values import VALUES

from moorage.errors import InputError

SPEC, STATUS, META = "core.v1.PodSpec", "core.v1.PodStatus", "meta.v1.ObjectMeta"
CONDITIONS = [{"type": "A", "status": "True", "reason": "R"}, {"type": "B", "status": "True"}]
STRATEGIC: list[tuple[str, Any, Any, Any]] = [
    (
        STATUS,
        {"conditions": CONDITIONS},
        {"conditions": [{"type": "B", "status": "False"}, {"type": "C"}, {"type": "A", "reason": None}]},
        {"conditions": [{"type": "B", "status": "False"}, {"type": "C"}, {"type": "A", "status": "True"}]},
    ),
    (
        STATUS,
        {"conditions": CONDITIONS},
        {"conditions": [{"type": "A", "$patch": "delete"}, {"type": "Z", "$patch": "delete"}]},
        {"conditions": CONDITIONS[1:]},
    ),
    (STATUS, {}, {"conditions": [{"type": "A", "reason": None}]}, {"conditions": [{"type": "A"}]}),
    (STATUS, {"conditions": CONDITIONS}, {"conditions": None}, {}),
    (STATUS, {"conditions": "text"}, {"conditions": [{"type": "A"}]}, {"conditions": [{"type": "A"}]}),
    (SPEC, {"tolerations": [1, 2]}, {"tolerations": [3]}, {"tolerations": [3]}),
    (
        SPEC,
        {"containers": [{"name": "a", "ports": [{"containerPort": 1}]}, {"name": "b"}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 2}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 2}, {"containerPort": 1}]}, {"name": "b"}]},
    ),
    # Directives.
    (
        SPEC,
        {"affinity": {"nodeAffinity": 1, "x": 2}},
        {"affinity": {"$patch": "replace", "y": 3}},
        {"affinity": {"y": 3}},
    ),
    (
        SPEC,
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {"containers": [{"$patch": "replace"}, {"name": "c"}]},
        {"containers": [{"name": "c"}]},
    ),
    (
        SPEC,
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
        {"containers": [{"name": "b"}, {"name": "a"}]},
    ),
    (  # What the order does not name stays before what it stood before.
        SPEC,
        {"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]},
        {
            "$setElementOrder/containers": [{"name": "n"}, {"name": "b"}, {"name": "a"}],
            "containers": [{"name": "n"}],
        },
        {"containers": [{"name": "n"}, {"name": "x"}, {"name": "b"}, {"name": "a"}]},
    ),
    (
        META,
        {"finalizers": ["a", "b", "c"]},
        {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["c", "d", "b"],
            "finalizers": ["d"],
        },
        {"finalizers": ["c", "d", "b"]},
    ),
    (
        "policy.v1.PodDisruptionBudgetSpec",
        {"selector": {"a": 1}},
        {"selector": {"b": 2}},
        {"selector": {"b": 2}},
    ),
]


@pytest.mark.parametrize("struct", ["", SPEC])
@given(value=VALUES, patch=VALUES)
def test_maps_without_merge_keys_are_merged_as_by_a_merge_patch(struct: str, value: Any, patch: Any) -> None:
    assert strategic_merge(value, patch, struct) == merge_patch(value, patch)


@pytest.mark.parametrize(("struct", "value", "patch", "result"), STRATEGIC)
def test_lists_are_merged_by_the_keys_of_kubernetes(struct: str, value: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((value, patch))
    assert strategic_merge(value, patch, struct) == result
    assert (value, patch) == before


@pytest.mark.parametrize(
    ("struct", "patch", "text"),
    [
        (SPEC, {"affinity": {"$patch": "merge"}}, "affinity.$patch: unknown directive"),
        (SPEC, {"$setElementOrder/tolerations": []}, "$setElementOrder/tolerations: unknown directive"),
        (SPEC, {"$deleteFromPrimitiveList/args": []}, "$deleteFromPrimitiveList/args: unknown directive"),
        (META, {"$deleteFromPrimitiveList/finalizers": "a"}, "$deleteFromPrimitiveList/finalizers: unknown"),
        (
            "core.v1.Pod",
            {"status": {"conditions": [{"type": "A"}, {}]}},
            "status.conditions[1]: map does not contain declared merge key",
        ),
        (STATUS, {"conditions": ["A"]}, "conditions[0]: map does not contain declared merge key: type"),
        (SPEC, {"$retainKeys": "a"}, "$retainKeys: unknown directive"),
        (STATUS, {"conditions": [{"type": "A", "$retainKeys": []}]}, "conditions[0].$retainKeys: must name"),
    ],
)
def test_a_patch_that_cannot_be_merged_is_refused(struct: str, patch: Any, text: str) -> None:
    with pytest.raises(InputError) as info:
        strategic_merge({}, patch, struct)
    assert str(info.value).startswith(text)


def test_rules_are_those_of_the_types() -> None:
    assert rule_of(SPEC, "volumes") == ("core.v1.Volume", True, "name", True, False)
    assert rule_of("core.v1.Container", "ports").key == "containerPort"
    assert rule_of("core.v1.ServiceSpec", "ports").key == "port"
    assert not rule_of(SPEC, "tolerations").merges
    assert not rule_of("", "containers").merges


# ---- three ways --------------------------------------------------------------------------------------------


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


X, Y = {"name": "X", "value": "1"}, {"name": "Y", "value": "1"}
THREE_WAY: list[tuple[str, Any, Any, Any, Any]] = [
    # A field that no manifest names stays.
    (SPEC, {}, {}, {"nodeSelector": {"pool": "x"}}, {"nodeSelector": {"pool": "x"}}),
    # One that the last manifest named goes, also where others have changed it.
    (SPEC, {"nodeSelector": {"a": "1"}}, {}, {"nodeSelector": {"a": "2"}}, {}),
    (
        SPEC,
        {"nodeSelector": {"a": "1", "b": "1"}},
        {"nodeSelector": {"a": "1"}},
        {"nodeSelector": {"a": "1", "b": "1", "c": "1"}},
        {"nodeSelector": {"a": "1", "c": "1"}},
    ),
    # The manifest counts where others have changed what it names.
    (
        SPEC,
        {"priorityClassName": "a"},
        {"priorityClassName": "a"},
        {"priorityClassName": "b"},
        {"priorityClassName": "a"},
    ),
    # Items of lists with keys: the last manifest's go, those of others stay in their places.
    (
        SPEC,
        {"containers": [container("a"), container("b")]},
        {"containers": [container("b", image="2"), container("c")]},
        {"containers": [container("side"), container("a"), container("b", image="1", tty=True)]},
        {"containers": [container("side"), container("b", image="2", tty=True), container("c")]},
    ),
    # Fields of items.
    (
        SPEC,
        {"containers": [container("a", env=[X], args=["-v"])]},
        {"containers": [container("a", env=[Y])]},
        {"containers": [container("a", env=[X, {"name": "Z"}], args=["-v"], image="i")]},
        {"containers": [container("a", env=[Y, {"name": "Z"}], image="i")]},
    ),
    # A list without a key is the manifest's.
    (
        SPEC,
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "a"}, {"key": "b"}]},
        {"tolerations": [{"key": "a"}]},
    ),
    # Of a volume only the source that the manifest names stays.
    (
        SPEC,
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "configMap": {"name": "m"}}]},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "configMap": {"name": "m"}}]},
    ),
    (
        "apps.v1.DeploymentSpec",
        {},
        {"strategy": {"type": "Recreate"}},
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}},
        {"strategy": {"type": "Recreate"}},
    ),
    # Lists of strings.
    (
        META,
        {"finalizers": ["a", "b"]},
        {"finalizers": ["b"]},
        {"finalizers": ["a", "b", "c"]},
        {"finalizers": ["b", "c"]},
    ),
    (META, {}, {"finalizers": ["b"]}, {"finalizers": ["a"]}, {"finalizers": ["b", "a"]}),
    # The order of the manifest.
    (
        SPEC,
        {"containers": [container("a"), container("b")]},
        {"containers": [container("b"), container("a")]},
        {"containers": [container("a"), container("b")]},
        {"containers": [container("b"), container("a")]},
    ),
    (SPEC, {"hostname": "a"}, {"hostname": None}, {"hostname": "a"}, {}),
]


@pytest.mark.parametrize(("struct", "original", "new", "live", "result"), THREE_WAY)
def test_three_way_strategic_patch(struct: str, original: Any, new: Any, live: Any, result: Any) -> None:
    before = copy.deepcopy((original, new, live))
    merged = strategic_merge(live, three_way_strategic_patch(original, new, live, struct), struct)
    assert merged == result
    assert (original, new, live) == before
    again = three_way_strategic_patch(new, new, merged, struct)
    assert strategic_merge(merged, again, struct) == merged


WORDS = st.sampled_from("12")


def named(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists of maps with names of their own."""
    item = st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional=optional)
    return st.lists(item, unique_by=lambda one: one["name"], max_size=3)


CONTAINERS = named(image=WORDS, env=named(value=WORDS), args=st.lists(WORDS, max_size=2))
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "nodeSelector": st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2),
        "tolerations": st.lists(st.fixed_dictionaries({"key": st.sampled_from("ab")}), max_size=2),
        "hostNetwork": st.booleans(),
    },
)


@given(SPECS, SPECS)
def test_an_object_that_is_the_last_manifest_becomes_the_new_one(old: Any, new: Any) -> None:
    assert strategic_merge(old, three_way_strategic_patch(old, new, old, SPEC), SPEC) == new


@given(SPECS, SPECS, SPECS)
def test_a_second_apply_changes_nothing(original: Any, new: Any, live: Any) -> None:
    once = strategic_merge(live, three_way_strategic_patch(original, new, live, SPEC), SPEC)
    assert three_way_strategic_patch(new, new, once, SPEC) == {}


def test_the_table_is_made_of_the_schema() -> None:
    """Structs that no kind reaches are left out."""
    prefix = "io.k8s.api.core.v1."
    items = {"type": "array", STRATEGY: "merge", KEY: "name"}
    definitions: dict[str, dict[str, Any]] = {
        f"{prefix}Thing": {
            "properties": {"metadata": {}, "spec": {"$ref": f"#/$defs/{prefix}ThingSpec"}},
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}],
        },
        f"{prefix}ThingSpec": {"properties": {"b": items, "a": {STRATEGY: "retainKeys"}, "c": {}}},
        f"{prefix}Unused": {"properties": {"b": items}},
    }
    made = msgspec.json.decode(text(merge_keys(definitions)))
    assert made["structs"] == {"core.v1.ThingSpec": {"a": ["retainKeys", ""], "b": ["merge", "name"]}}
    assert {"source", "licence"} <= made.keys()
