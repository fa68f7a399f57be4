"""Tolerations that compare numbers, where the API server does not allow them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.kube import refuse_comparisons
from tests.make import pod

from moorage.errors import InputError
from moorage.kube import ObjectMeta, Pod, Toleration, decode_object

ABOVE = {"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}
SPEC = {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}, ABOVE]}


def new(*tolerations: Toleration) -> Pod:
    return replace(pod("p", tolerations=tolerations), metadata=ObjectMeta(name="p"))


def test_a_manifest_of_a_pod_is_refused() -> None:
    one = new(Toleration(operator="Exists"), Toleration(key="k", operator="Lt", value="1"))
    with pytest.raises(InputError) as failed:
        refuse_comparisons(one)
    assert failed.value.path == "spec.tolerations[1].operator"
    assert failed.value.message.startswith(
        'Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", "Gt"'
    )


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"])
def test_a_manifest_with_a_template_is_refused(kind: str) -> None:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
    document: dict[str, Any] = {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": {"template": template},
    }
    with pytest.raises(InputError) as failed:
        refuse_comparisons(decode_object(document))
    assert failed.value.path == "spec.template.spec.tolerations[1].operator"


@pytest.mark.parametrize("meta", [ObjectMeta(name="p", uid="u"), ObjectMeta(name="p", resource_version="1")])
def test_what_a_server_has_accepted_stays(meta: ObjectMeta) -> None:
    refuse_comparisons(replace(new(Toleration(key="k", operator="Gt", value="1")), metadata=meta))


def test_other_operators_are_allowed() -> None:
    refuse_comparisons(new(Toleration(key="k", value="1"), Toleration(key="k", operator="Exists")))
