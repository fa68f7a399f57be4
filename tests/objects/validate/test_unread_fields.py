"""Fields of pod templates that scheduling does not read: equal ones have equal texts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import plain
from tests.objects.make import make


def template(spec: dict[str, Any], container: dict[str, Any]) -> Any:
    spec = {"containers": [{"name": "c", "image": "nginx:1"} | container]} | spec
    meta = {"labels": {"app": "web"}}
    obj: Any = make(
        "Deployment",
        "web",
        {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": meta, "spec": spec}},
    )
    return obj.spec.template


def unread(spec: dict[str, Any] | None = None, **container: Any) -> str:
    text: str = template(spec or {}, container).unread
    return text


@pytest.mark.parametrize(
    ("container", "spec"),
    [
        ({"env": [{"name": "A", "value": "1"}]}, {}),
        ({"args": ["-v"]}, {}),
        ({"command": ["sh"]}, {}),
        ({"readinessProbe": {"tcpSocket": {"port": 80}}}, {}),
        ({"imagePullPolicy": "Always"}, {}),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, {}),
        ({"securityContext": {"runAsUser": 0}}, {}),
        ({"securityContext": {}}, {}),
        ({}, {"serviceAccountName": "robot"}),
        ({}, {"securityContext": {"runAsNonRoot": False}}),
        ({}, {"enableServiceLinks": True}),
        ({}, {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
        ({}, {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]}),
    ],
)
def test_a_field_that_is_not_read_changes_the_text(container: dict[str, Any], spec: dict[str, Any]) -> None:
    assert unread(spec, **container) != unread() == ""


@pytest.mark.parametrize(
    ("container", "spec"),
    [
        ({"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}, {}),
        ({"image": "nginx", "imagePullPolicy": "Always"}, {}),
        ({"image": "host:5000/nginx", "imagePullPolicy": "Always"}, {}),
        ({"image": "nginx@sha256:ab", "imagePullPolicy": "IfNotPresent"}, {}),
        ({"terminationMessagePolicy": "File", "stdin": False, "env": [], "args": None}, {}),
        (
            {"ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1}}},
            {"nodeSelector": {"a": "b"}},
        ),
        ({}, {"dnsPolicy": "ClusterFirst", "securityContext": {}, "hostPID": False, "imagePullSecrets": []}),
    ],
)
def test_defaults_and_fields_that_are_read_change_nothing(
    container: dict[str, Any], spec: dict[str, Any]
) -> None:
    assert unread(spec, **container) == ""


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        (
            {"livenessProbe": {"httpGet": {"port": 80}}},
            {
                "livenessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            {
                "env": [
                    {
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}},
                        "name": "A",
                    }
                ]
            },
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
            {"volumeMounts": [{"mountPath": "/v", "name": "v", "readOnly": False, "subPath": ""}]},
        ),
    ],
)
def test_explicit_defaults_and_the_order_of_names_change_nothing(
    short: dict[str, Any], whole: dict[str, Any]
) -> None:
    assert unread(**short) == unread(**whole) != ""


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        ({"serviceAccountName": "robot"}, {"serviceAccountName": "robot", "serviceAccount": "robot"}),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "m"}}]},
            {"volumes": [{"name": "v", "configMap": {"name": "m", "defaultMode": 420}}]},
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]},
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}]},
        ),
        (
            {"volumes": [{"name": "v", "image": {"reference": "a:1"}}]},
            {"volumes": [{"name": "v", "image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}}]},
        ),
    ],
)
def test_equal_specs_have_equal_texts(short: dict[str, Any], whole: dict[str, Any]) -> None:
    assert unread(short) == unread(whole)


def test_a_template_is_written_with_all_its_fields() -> None:
    env = [{"name": "A", "value": "sha256:6b86b273ff34fce1"}]
    volumes = [{"name": "e", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "s", "secret": {"secretName": "s"}}]
    written = plain(
        template({"volumes": volumes, "dnsPolicy": "None"}, {"env": [{"name": "A", "value": "1"}]})
    )
    assert written == {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "c", "image": "nginx:1", "env": env}],
            "volumes": volumes,
            "dnsPolicy": "None",
        },
    }


def test_digests_stand_for_what_may_be_secret() -> None:
    probe = {"exec": {"command": ["hunter2"]}}
    fields = {"env": [{"name": "A", "value": "hunter2"}], "args": ["hunter2"], "livenessProbe": probe}
    text = unread(**fields)
    assert "hunter2" not in text
    assert unread(**plain(template({}, fields))["spec"]["containers"][0]) == text
    assert unread(args=["hunter3"]) != unread(args=["hunter2"])
