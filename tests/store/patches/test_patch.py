"""Patches: what they make of an object, and what they cannot change."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import apply_strategic_merge as strategic_merge
from tests.doors.kube import json_text
from tests.make import make, pod
from tests.store.test_contract import refused

from moorage.kube import Condition, Node, Object, Pod, PodStatus, Taint, decode_object
from moorage.store import BadRequestError, InvalidObjectError, ObjectStore

READY = Condition(type="Ready", status="True", last_transition_time="then")


def stored(obj: Object | None = None) -> tuple[ObjectStore, Any]:
    store = ObjectStore()
    status = PodStatus(phase="Running", conditions=(READY,))
    some = pod("a", "n", labels={"a": "1", "b": "2"}, status=status)
    return store, store.create(obj or some)


def is_tainted(obj: Node) -> bool:
    return obj.spec.taints == (Taint(key="k"),)


def patch(store: ObjectStore, what: Any, **options: Any) -> Any:
    return store.patch(Pod, "a", "default", what, **options)


def test_what_it_does_not_change_stays_the_same_object() -> None:
    """The scheduler knows specs by their identity."""
    store, old = stored()
    new = patch(store, {"metadata": {"labels": {"a": "9"}}, "spec": {"nodeName": "n"}})
    assert new.spec is old.spec
    assert patch(store, {"status": {"phase": "Failed"}}, subresource="status").spec is old.spec


@pytest.mark.parametrize(
    ("obj", "what", "check"),
    [
        (
            make("Node", "a"),
            {"spec": {"taints": [{"key": "k"}]}},
            is_tainted,
        ),
        (
            make("PodDisruptionBudget", "default/a"),
            {"spec": {"minAvailable": "50%"}},
            lambda one: one.spec.min_available == "50%",
        ),
    ],
)
def test_objects_of_each_kind_can_be_patched(obj: Object, what: Any, check: Any) -> None:
    store, _ = stored(obj)
    assert check(store.patch(obj.kind, "a", obj.namespace, what))
    left = {"status": {"disruptionsAllowed": 3, "capacity": {"cpu": 2}}}
    new: Any = store.patch(type(obj), "a", obj.namespace, left, subresource="status")
    assert new.status == type(new.status)(
        **{"disruptions_allowed": 3} if not isinstance(obj, Node) else {"capacity": {"cpu": 2}}
    )


@pytest.mark.parametrize(
    ("what", "options", "error", "text"),
    [
        ([], {}, BadRequestError, "error decoding patch: a merge patch is a map"),
        ([], {"type": "strategic"}, BadRequestError, "error decoding patch: a strategic patch is a map"),
        ({}, {"type": "json"}, BadRequestError, "error decoding patch: a json patch is a list of operations"),
        ({}, {"type": "apply"}, BadRequestError, "apply: unimplemented patch type"),
        (
            {"spec": {"containers": 7}},
            {},
            InvalidObjectError,
            'Pod "a" is invalid: spec.containers: expected list, got integer',
        ),
        (
            {"status": {"conditions": [{"reason": "x"}]}},
            {"type": "strategic", "subresource": "status"},
            InvalidObjectError,
            'Pod "a" is invalid: status.conditions[0]: map does not contain declared merge key: type',
        ),
        (
            [{"op": "remove", "path": "/spec/affinity"}],
            {"type": "json"},
            InvalidObjectError,
            "Pod \"a\" is invalid: error in remove for path: '/spec/affinity': Unable to remove nonexistent "
            "key: affinity: missing value",
        ),
        (
            [{"op": "remove", "path": ""}],
            {"type": "json"},
            InvalidObjectError,
            'Pod "a" is invalid: expected map, got null',
        ),
    ],
)
def test_a_patch_that_is_refused_changes_nothing(what: Any, options: Any, error: Any, text: str) -> None:
    store, old = stored()
    with refused(error, text):
        patch(store, what, **options)
    assert store.list(Pod) == ([old], "2")


def test_null_counts_as_absent() -> None:
    store, _ = stored()
    new = patch(store, [{"op": "add", "path": "/spec/nodeName", "value": None}], type="json")
    assert new.spec.node_name == ""


def test_a_value_of_the_patch_is_not_shared() -> None:
    store, _ = stored()
    labels = {"a": "x"}
    new = patch(store, [{"op": "add", "path": "/metadata/labels", "value": labels}], type="json")
    labels["a"] = "y"
    assert new.metadata.labels == {"a": "x"}
    assert decode_object({"kind": "Pod"}).metadata.labels == {}


# ---- patches without bounds --------------------------------------------------------------------------------


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("type_", ["merge", "strategic", "json"])
def test_patches_that_are_nested_too_deeply_or_for_ever(type_: Any) -> None:
    store, old = stored()
    loop: dict[str, Any] = {}
    loop["a"] = loop
    for value in (nested(100_000), loop):
        what = [{"op": "add", "path": "/metadata/labels/a", "value": value}] if type_ == "json" else value
        with refused(BadRequestError, "error decoding patch: nested more than 200 levels deep"):
            patch(store, what, type=type_)
    assert store.get(Pod, "a", "default") is old


def test_a_patch_that_is_small_in_memory_alone() -> None:
    store, _ = stored()
    shared: Any = ["x"]
    for _ in range(30):
        shared = [shared] * 10
    with refused(BadRequestError, "Request entity too large: limit is 3145728"):
        patch(store, {"spec": {"x": shared}})
    with refused(BadRequestError, "Request entity too large: limit is 3145728"):
        patch(store, {"spec": {"x": "y" * (3 << 20)}})


def test_patches_that_are_no_json() -> None:
    store, old = stored()
    with pytest.raises(BadRequestError, match=r"^error decoding patch: .* surrogates not allowed$"):
        patch(store, {"metadata": {"labels": {"a": "\ud800"}}})
    with pytest.raises(BadRequestError, match=r"^error decoding patch: Encoding objects of type object"):
        patch(store, {"metadata": {"labels": {"a": object()}}})
    assert store.get(Pod, "a", "default") is old


def test_strategic_merge_of_long_lists_takes_few_looks_at_each_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted by the keys that are made into text."""
    texts = 0

    def counted(value: Any) -> bytes:
        nonlocal texts
        texts += 1
        return json_text(value)

    monkeypatch.setattr(strategic_merge, "json_text", counted)
    old = [{"name": f"v{at}", "x": 1} for at in range(2000)]
    new = [{"name": f"v{at}", "y": 2} for at in range(1000, 3000)]
    merged = strategic_merge.strategic_merge({"volumes": old}, {"volumes": new}, "core.v1.PodSpec")["volumes"]
    assert merged == [
        {"name": f"v{at}"} | ({"x": 1} if at < 2000 else {}) | ({"y": 2} if at >= 1000 else {})
        for at in range(3000)
    ]
    finalizers = [f"a.b/{at}" for at in range(2000)]
    listed = {"finalizers": finalizers}
    assert strategic_merge.strategic_merge(listed, listed, "meta.v1.ObjectMeta") == listed
    assert texts <= 4 * (len(old) + len(new) + len(finalizers))


def test_items_that_share_a_merge_key() -> None:
    """Ports of two protocols: the first is meant, and when it is deleted the second."""
    ports = [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]
    gone = {"$patch": "delete", "containerPort": 53}

    def merged(*items: Any) -> Any:
        value, patch = {"ports": ports}, {"ports": list(items)}
        return strategic_merge.strategic_merge(value, patch, "core.v1.Container")["ports"]

    assert merged({"containerPort": 53, "name": "x"}) == [ports[0] | {"name": "x"}, ports[1]]
    assert merged(gone) == ports[1:]
    assert merged(gone, {"containerPort": 53, "name": "x"}) == [ports[1] | {"name": "x"}]
    assert merged(gone, gone, gone) == []
    assert merged(gone, gone, {"containerPort": 53}) == [{"containerPort": 53}]
