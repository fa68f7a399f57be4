"""What Pod Security makes of pods whose fields are odd, or not known."""

from __future__ import annotations

from typing import Any

import pytest
from tests.make import written

import moorage as mo
from moorage.kube import Container, ObjectMeta, Pod, PodSpec

LABEL = "pod-security.kubernetes.io/enforce"
SHOP = written("v1/Namespace", {"name": "shop", "labels": {LABEL: "restricted"}})


def manifest(**spec: Any) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "shop"}
    spec = {"containers": [{"name": "c", "image": "i"}]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def refusals(*objects: object) -> list[str]:
    return [pod.message for pod in mo.load(list(objects), refused="ignore").refused]


@pytest.mark.parametrize(
    "spec",
    [
        {"securityContext": {"sysctls": ["a"]}},
        {"securityContext": {"seccompProfile": {"type": ["a"]}}},
        {"ephemeralContainers": [{"image": "a"}]},
        {"containers": [{"name": "c", "securityContext": {"capabilities": {"add": 1}}}]},
        {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": {}}}, "lifecycle": 5}]},
    ],
)
def test_values_of_wrong_types_are_refused(spec: dict[str, Any]) -> None:
    (text,) = refusals(SHOP, manifest(**spec))
    assert "wrong types" in text


def test_a_pod_made_in_python_is_applied_as_its_other_fields_are_not_known() -> None:
    scheduler = mo.Scheduler(mo.load(SHOP))
    with pytest.raises(mo.InputError, match='violates PodSecurity "restricted:latest"'):
        scheduler.change.apply(manifest())
    spec = PodSpec(containers=(Container(name="c"),))
    made_in_python = Pod(metadata=ObjectMeta(name="p", namespace="shop"), spec=spec)
    assert scheduler.change.apply(made_in_python).created == ("Pod shop/p",)


def test_pods_are_equal_whatever_is_not_read_of_them() -> None:
    plain, other = (mo.read_object(manifest(**spec), Pod) for spec in ({}, {"hostPID": True}))
    assert plain == other
    assert (plain.unread != other.unread) is False
    assert hash(plain.unread) == hash(other.unread) == hash(None)
