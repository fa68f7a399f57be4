"""Edited copies of objects."""

from __future__ import annotations

from typing import Any

import pytest
from tests.objects.make import node, pod

import moorage as mo
from moorage.errors import InputError
from moorage.kube import Node, Pod, Taint

POD = pod("p", {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})


@pytest.mark.parametrize(
    ("path", "value", "read"),
    [
        ("spec.nodeName", "n", lambda one: one.spec.node_name),
        ("spec.node_name", "n", lambda one: one.spec.node_name),
        ("spec.priority", 7, lambda one: one.spec.priority),
        ("metadata.labels.app", "web", lambda one: one.metadata.labels["app"]),
        ("metadata.labels[x.io/app]", "web", lambda one: one.metadata.labels["x.io/app"]),
        ('metadata.labels["x.io/app"]', "web", lambda one: one.metadata.labels["x.io/app"]),
        (
            "spec.containers[0].resources.requests.cpu",
            "2",
            lambda one: one.spec.containers[0].resources.requests["cpu"],
        ),
        ("spec.containers[1].name", "d", lambda one: one.spec.containers[1].name),
        (
            "spec.affinity.nodeAffinity.required",
            None,
            lambda one: one.spec.affinity.node_affinity.required,
        ),
    ],
)
def test_one_field_is_changed_in_a_copy(path: str, value: Any, read: Any) -> None:
    before = mo.edit(POD)
    assert read(mo.edit(POD, {path: value})) == value
    assert before == POD


def test_several_fields_are_changed_at_once() -> None:
    edited = mo.edit(POD, {"spec.priority": 3}, metadata={"name": "q", "labels": {"a": "b"}})
    assert isinstance(edited, Pod)
    assert (edited.spec.priority, edited.name, edited.metadata.labels) == (3, "q", {"a": "b"})


def test_structs_and_their_json_are_values() -> None:
    taint = Taint(key="k", effect="NoSchedule")
    for value in ([taint], (taint,), [{"key": "k", "effect": "NoSchedule"}]):
        edited = mo.edit(node("n"), {"spec.taints": value})
        assert isinstance(edited, Node)
        assert edited.spec.taints == (taint,)
    assert mo.edit(node("n"), {"spec.taints[0]": taint}).spec.taints == (taint,)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        ("spec.nodeNam", "n", 'Pod p: spec.nodeNam: unknown field "nodeNam" of PodSpec'),
        ("spec.priority", "high", "Pod p: spec.priority: Expected `int | null`, got `str`"),
        ("spec.containers[3].name", "x", "has 1 items: [3] is not one of them"),
        ("spec.containers.name", "x", "has 1 items: [name] is not one of them"),
        ("spec.nodeName.x", "x", 'has no field "x"'),
        ("", 1, "is not a path"),
        ("spec..x", 1, "is not a path: there is no name at character 5"),
        ("metadata.labels.x.io/app", 1, "there is no name at character 21; write labels[x.io/app]"),
        ("metadata.annotations.a.b", "x", 'has no field "b"; write annotations[a.b]'),
        ("metadata.labels[app]", "!", 'metadata.labels: Invalid value: "!": a valid label'),
    ],
)
def test_bad_edits_name_the_field(path: str, value: Any, error: str) -> None:
    with pytest.raises(InputError) as caught:
        mo.edit(POD, {path: value})
    assert error in str(caught.value)


@pytest.mark.parametrize(("given", "what"), [({}, "dict"), (Pod, "the class Pod")])
def test_only_objects_are_edited(given: Any, what: str) -> None:
    with pytest.raises(TypeError, match=f"^edit takes an object .*, not {what}$"):
        mo.edit(given, {"spec.priority": 1})
