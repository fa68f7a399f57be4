"""A manifest gets the defaults of its version in all of its fields."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import with_version_defaults

Json = dict[str, Any]


def _pod(spec: Json, **container: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", **container}], **spec}}


def _filled(value: Json) -> Json:
    return with_version_defaults(value, value["kind"], value["apiVersion"])


def test_a_pod_gets_all_of_its_defaults_and_stays_as_it_was_given() -> None:
    given = _pod({"hostNetwork": True, "volumes": [{"name": "v"}]}, ports=[{"containerPort": 80}])
    spec = _filled(given)["spec"]
    assert spec.pop("containers")[0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    assert spec.pop("volumes") == [{"name": "v", "emptyDir": {}}]
    assert spec == {
        "hostNetwork": True,
        "enableServiceLinks": True,
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
    }
    assert "dnsPolicy" not in given["spec"]


@pytest.mark.parametrize(
    ("pod", "containers", "requests"),
    [
        ({}, {"limits": {"cpu": 1.5}}, None),
        ({"resources": {"limits": {"cpu": 2}}}, {"requests": {"cpu": "300m"}}, {"cpu": "300m"}),
        ({"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}, {}, {"cpu": "2", "memory": "1Gi"}),
    ],
)
def test_requests_are_those_of_limits(pod: Json, containers: Json, requests: Json | None) -> None:
    spec = _filled(_pod(pod, resources=containers))["spec"]
    own = spec["containers"][0]["resources"]
    if requests is None:
        assert own["requests"] == own["limits"] == {"cpu": "1500m"}
    else:
        assert spec["resources"]["requests"] == requests
