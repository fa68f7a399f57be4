"""Fields of pod templates that scheduling does not read: equal ones have equal texts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.doors.kube import plain
from tests.make import workload


def template(spec: dict[str, Any], container: dict[str, Any]) -> Any:
    whole = {"containers": [{"name": "c", "image": "nginx:1"} | container]} | spec
    return workload(
        "Deployment", "web", template={"metadata": {"labels": {"app": "web"}}, "spec": whole}
    ).spec.template


def unread(spec: dict[str, Any] | None = None, **container: Any) -> str:
    text: str = template(spec or {}, container).unread
    return text


def read(fields: str) -> str:
    """Of fields of the container, or of the pod after ``pod:``."""
    value = yaml.safe_load(fields)
    return unread(value["pod"]) if "pod" in value else unread(**value)


UNREAD = """
env: [{name: A, value: '1'}]
args: [-v]
command: [sh]
readinessProbe: {tcpSocket: {port: 80}}
imagePullPolicy: Always
volumeMounts: [{name: v, mountPath: /v}]
securityContext: {runAsUser: 0}
securityContext: {}
pod: {serviceAccountName: robot}
pod: {securityContext: {runAsNonRoot: false}}
pod: {enableServiceLinks: true}
pod: {volumes: [{name: v, secret: {secretName: s}}]}
pod: {volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}
"""


@pytest.mark.parametrize("fields", UNREAD.strip().splitlines())
def test_a_field_that_is_not_read_changes_the_text(fields: str) -> None:
    assert read(fields) != unread() == ""


READ = """
{imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log}
{image: nginx, imagePullPolicy: Always}
{image: 'host:5000/nginx', imagePullPolicy: Always}
{image: 'nginx@sha256:ab', imagePullPolicy: IfNotPresent}
{terminationMessagePolicy: File, stdin: false, env: [], args: null}
{ports: [{containerPort: 80}], resources: {limits: {cpu: 1}}}
pod: {nodeSelector: {a: b}}
pod: {dnsPolicy: ClusterFirst, securityContext: {}, hostPID: false, imagePullSecrets: []}
"""


@pytest.mark.parametrize("fields", READ.strip().splitlines())
def test_defaults_and_fields_that_are_read_change_nothing(fields: str) -> None:
    assert read(fields) == ""


PROBE = (
    "httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1"
)
EQUAL = f"""
livenessProbe: {{httpGet: {{port: 80}}}} | livenessProbe: {{{PROBE}, failureThreshold: 3}}
env: [{{name: A, valueFrom: {{fieldRef: {{fieldPath: a}}}}}}] | env: [{{valueFrom: {{fieldRef: {{fieldPath: a, apiVersion: v1}}}}, name: A}}]
volumeMounts: [{{name: v, mountPath: /v}}] | volumeMounts: [{{mountPath: /v, name: v, readOnly: false, subPath: ''}}]
pod: {{serviceAccountName: robot}} | pod: {{serviceAccountName: robot, serviceAccount: robot}}
pod: {{volumes: [{{name: v, configMap: {{name: m}}}}]}} | pod: {{volumes: [{{name: v, configMap: {{name: m, defaultMode: 420}}}}]}}
pod: {{volumes: [{{name: v, emptyDir: {{sizeLimit: 1Gi}}}}]}} | pod: {{volumes: [{{name: v, emptyDir: {{sizeLimit: 1024Mi}}}}]}}
pod: {{volumes: [{{name: v, image: {{reference: 'a:1'}}}}]}} | pod: {{volumes: [{{name: v, image: {{reference: 'a:1', pullPolicy: IfNotPresent}}}}]}}
"""  # noqa: E501


@pytest.mark.parametrize("row", EQUAL.strip().splitlines())
def test_explicit_defaults_and_the_order_of_names_change_nothing(row: str) -> None:
    short, whole = map(read, row.split(" | "))
    assert short == whole


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
