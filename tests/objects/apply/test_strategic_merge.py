"""Strategic merge patches, and the ones that kubectl apply makes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.kube import merge_patch, rule_of, strategic_merge, three_way_strategic_patch
from tests.objects.apply.make_merge_keys import KEY, STRATEGY, merge_keys, text
from tests.store.patches.json_values import VALUES

from moorage.errors import InputError

SPEC, STATUS, META = "core.v1.PodSpec", "core.v1.PodStatus", "meta.v1.ObjectMeta"


def rows(text: str) -> list[list[Any]]:
    """The rows of a table of YAML values, the first of which is a struct."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [list(map(yaml.safe_load, line.split(" | "))) for line in lines]


STRATEGIC = rows("""
core.v1.PodStatus | {conditions: [{type: A, status: 'True', reason: R}, {type: B, status: 'True'}]} | {conditions: [{type: B, status: 'False'}, {type: C}, {type: A, reason: null}]} | {conditions: [{type: B, status: 'False'}, {type: C}, {type: A, status: 'True'}]}
core.v1.PodStatus | {conditions: [{type: A, status: 'True', reason: R}, {type: B, status: 'True'}]} | {conditions: [{type: A, $patch: delete}, {type: Z, $patch: delete}]} | {conditions: [{type: B, status: 'True'}]}
core.v1.PodStatus | {} | {conditions: [{type: A, reason: null}]} | {conditions: [{type: A}]}
core.v1.PodStatus | {conditions: [{type: A, status: 'True', reason: R}, {type: B, status: 'True'}]} | {conditions: null} | {}
core.v1.PodStatus | {conditions: text} | {conditions: [{type: A}]} | {conditions: [{type: A}]}
core.v1.PodSpec | {tolerations: [1, 2]} | {tolerations: [3]} | {tolerations: [3]}
core.v1.PodSpec | {containers: [{name: a, ports: [{containerPort: 1}]}, {name: b}]} | {containers: [{name: a, ports: [{containerPort: 2}]}]} | {containers: [{name: a, ports: [{containerPort: 2}, {containerPort: 1}]}, {name: b}]}
core.v1.PodSpec | {affinity: {nodeAffinity: 1, x: 2}} | {affinity: {$patch: replace, y: 3}} | {affinity: {y: 3}}
core.v1.PodSpec | {containers: [{name: a}, {name: b}]} | {containers: [{$patch: replace}, {name: c}]} | {containers: [{name: c}]}
core.v1.PodSpec | {containers: [{name: a}, {name: b}]} | {$setElementOrder/containers: [{name: b}, {name: a}]} | {containers: [{name: b}, {name: a}]}
core.v1.PodSpec | {containers: [{name: a}, {name: x}, {name: b}]} | {$setElementOrder/containers: [{name: n}, {name: b}, {name: a}], containers: [{name: n}]} | {containers: [{name: n}, {name: x}, {name: b}, {name: a}]}
meta.v1.ObjectMeta | {finalizers: [a, b, c]} | {$deleteFromPrimitiveList/finalizers: [a], $setElementOrder/finalizers: [c, d, b], finalizers: [d]} | {finalizers: [c, d, b]}
policy.v1.PodDisruptionBudgetSpec | {selector: {a: 1}} | {selector: {b: 2}} | {selector: {b: 2}}
""")  # noqa: E501
"""Struct, value, patch and result."""


@pytest.mark.parametrize("struct", ["", SPEC])
@given(value=VALUES, patch=VALUES)
def test_maps_without_merge_keys_are_merged_as_by_a_merge_patch(struct: str, value: Any, patch: Any) -> None:
    assert strategic_merge(value, patch, struct) == merge_patch(value, patch)


@pytest.mark.parametrize(("struct", "value", "patch", "result"), STRATEGIC)
def test_lists_are_merged_by_the_keys_of_kubernetes(struct: str, value: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((value, patch))
    assert strategic_merge(value, patch, struct) == result
    assert (value, patch) == before


REFUSED = """
core.v1.PodSpec | {affinity: {$patch: merge}} | affinity.$patch: unknown directive
core.v1.PodSpec | {$setElementOrder/tolerations: []} | $setElementOrder/tolerations: unknown directive
core.v1.PodSpec | {$deleteFromPrimitiveList/args: []} | $deleteFromPrimitiveList/args: unknown directive
meta.v1.ObjectMeta | {$deleteFromPrimitiveList/finalizers: a} | $deleteFromPrimitiveList/finalizers: unknown
core.v1.Pod | {status: {conditions: [{type: A}, {}]}} | status.conditions[1]: map does not contain declared
core.v1.PodStatus | {conditions: [A]} | conditions[0]: map does not contain declared merge key: type
core.v1.PodSpec | {$retainKeys: a} | $retainKeys: unknown directive
core.v1.PodStatus | {conditions: [{type: A, $retainKeys: []}]} | conditions[0].$retainKeys: must name
"""


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_a_patch_that_cannot_be_merged_is_refused(row: str) -> None:
    struct, patch, text = row.split(" | ")
    with pytest.raises(InputError) as info:
        strategic_merge({}, yaml.safe_load(patch), struct)
    assert str(info.value).startswith(text)


def test_rules_are_those_of_the_types() -> None:
    assert rule_of(SPEC, "volumes") == ("core.v1.Volume", True, "name", True, False)
    assert rule_of("core.v1.Container", "ports").key == "containerPort"
    assert rule_of("core.v1.ServiceSpec", "ports").key == "port"
    assert not rule_of(SPEC, "tolerations").merges
    assert not rule_of("", "containers").merges


# ---- three ways --------------------------------------------------------------------------------------------


THREE_WAY = rows("""
# A field that no manifest names stays; one that the last manifest named goes, also where others have changed it.
core.v1.PodSpec | {} | {} | {nodeSelector: {pool: x}} | {nodeSelector: {pool: x}}
core.v1.PodSpec | {nodeSelector: {a: '1'}} | {} | {nodeSelector: {a: '2'}} | {}
core.v1.PodSpec | {nodeSelector: {a: '1', b: '1'}} | {nodeSelector: {a: '1'}} | {nodeSelector: {a: '1', b: '1', c: '1'}} | {nodeSelector: {a: '1', c: '1'}}
# The manifest counts where others have changed what it names.
core.v1.PodSpec | {priorityClassName: a} | {priorityClassName: a} | {priorityClassName: b} | {priorityClassName: a}
# Items of lists with keys: the last manifest's go, those of others stay in their places.
core.v1.PodSpec | {containers: [{name: a}, {name: b}]} | {containers: [{name: b, image: '2'}, {name: c}]} | {containers: [{name: side}, {name: a}, {name: b, image: '1', tty: true}]} | {containers: [{name: side}, {name: b, image: '2', tty: true}, {name: c}]}
core.v1.PodSpec | {containers: [{name: a, env: [{name: X, value: '1'}], args: [-v]}]} | {containers: [{name: a, env: [{name: Y, value: '1'}]}]} | {containers: [{name: a, env: [{name: X, value: '1'}, {name: Z}], args: [-v], image: i}]} | {containers: [{name: a, env: [{name: Y, value: '1'}, {name: Z}], image: i}]}
# A list without a key is the manifest's.
core.v1.PodSpec | {tolerations: [{key: a}]} | {tolerations: [{key: a}]} | {tolerations: [{key: a}, {key: b}]} | {tolerations: [{key: a}]}
# Of a volume, and of a strategy, only what the manifest names stays.
core.v1.PodSpec | {volumes: [{name: v, emptyDir: {}}]} | {volumes: [{name: v, configMap: {name: m}}]} | {volumes: [{name: v, emptyDir: {}}]} | {volumes: [{name: v, configMap: {name: m}}]}
apps.v1.DeploymentSpec | {} | {strategy: {type: Recreate}} | {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%}}} | {strategy: {type: Recreate}}
# Lists of strings.
meta.v1.ObjectMeta | {finalizers: [a, b]} | {finalizers: [b]} | {finalizers: [a, b, c]} | {finalizers: [b, c]}
meta.v1.ObjectMeta | {} | {finalizers: [b]} | {finalizers: [a]} | {finalizers: [b, a]}
# The order of the manifest.
core.v1.PodSpec | {containers: [{name: a}, {name: b}]} | {containers: [{name: b}, {name: a}]} | {containers: [{name: a}, {name: b}]} | {containers: [{name: b}, {name: a}]}
core.v1.PodSpec | {hostname: a} | {hostname: null} | {hostname: a} | {}
""")  # noqa: E501
"""Struct, last manifest, new manifest, live state and result."""


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
