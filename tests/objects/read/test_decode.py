"""Literal decoding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.errors import InputError
from moorage.kube import Node, Pod, decode_object

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "creationTimestamp": None, "managedFields": [{"x": 1}]},
    "spec": {
        "containers": [
            {"name": "c", "resources": {"requests": {"cpu": 2, "memory": "1Gi"}}, "command": ["sh"]}
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [{"key": "k", "operator": "In", "values": ["v"]}]}]
                }
            }
        },
    },
}


@pytest.mark.parametrize("form", [lambda d: d, lambda d: json.dumps(d).encode()], ids=["dict", "json"])
def test_a_pod_has_the_values_of_its_fields(form: Any) -> None:
    pod = decode_object(form(POD))
    assert isinstance(pod, Pod)
    assert pod.metadata.labels == {"a": "b"}
    assert pod.metadata.creation_timestamp is None
    assert pod.spec.containers[0].resources.requests == {"cpu": 2, "memory": "1Gi"}
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.required is not None
    assert affinity.node_affinity.required.node_selector_terms[0].match_fields[0].values == ("v",)


def test_nothing_is_filled_in_or_checked() -> None:
    pod = decode_object({"kind": "Pod", "spec": {"tolerations": [{"operator": "Nonsense"}]}})
    assert isinstance(pod, Pod)
    assert (pod.name, pod.namespace, pod.metadata.uid, pod.spec.scheduler_name) == ("", "", "", "")
    assert pod.spec.priority is None
    assert pod.spec.tolerations[0].operator == "Nonsense"


@pytest.mark.parametrize("form", [lambda d: d, lambda d: json.dumps(d).encode()], ids=["dict", "json"])
def test_null_is_absent(form: Any) -> None:
    node = decode_object(
        form(
            {
                "kind": "Node",
                "apiVersion": None,
                "metadata": {"name": "n", "labels": None, "annotations": {"a": None}},
                "spec": {"taints": None, "unschedulable": None},
                "status": {"capacity": {"cpu": None}, "images": [{"names": None, "sizeBytes": 5}]},
            }
        )
    )
    assert isinstance(node, Node)
    assert node.metadata.labels == {}
    assert node.metadata.annotations == {"a": ""}
    assert node.spec.taints == ()
    assert node.spec.unschedulable is False
    assert node.status.capacity == {"cpu": "0"}
    assert node.status.images[0].size_bytes == 5


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "no kind"),
        ({"kind": "ConfigMap", "apiVersion": "v1"}, "unknown kind ConfigMap (v1)"),
        ({"kind": "ConfigMap"}, "unknown kind ConfigMap (no apiVersion)"),
        (
            {"kind": "Pod", "spec": {"containers": [{}, {"ports": [{"hostPort": "x"}]}]}},
            "spec.containers[1].ports[0].hostPort: expected integer, got string",
        ),
        (
            {"kind": "Pod", "metadata": {"labels": {"a": "b", 1: "c"}}},
            "metadata.labels: expected string, got integer",
        ),
        (
            {"kind": "Pod", "spec": {"overhead": {"cpu": 1, "memory": [1]}}},
            "spec.overhead[memory]: expected number or string, got list",
        ),
    ],
)
def test_an_error_names_object_and_field(document: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_object(document)
    assert str(caught.value) == message
