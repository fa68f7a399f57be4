"""The rights that `deploy/` gives, beside the log of a server that says what was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.test_manifests import DEPLOY, LOST_ANSWER, Rights, documents, find, rights
from tests.live.kit.cluster_workload import (
    PATHS,
    claim,
    create,
    devices,
    late_class,
    local_volumes,
    node,
    pod,
    priority_classes,
    send,
)
from tests.live.kit.control_plane import ControlPlane, answers, free_ports
from tests.live.kit.followed_pods import FollowedPods
from tests.live.kit.live_process import Command

from moorage.live.client import ApiClient, connect
from moorage.store import NotFoundError

pytestmark = pytest.mark.live
NAMESPACE, ACCOUNT = "moorage-system", "moorage-scheduler"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
GATE = "--feature-gates=DRAExtendedResource=true"
"""Off by default before 1.36; with it, claims are created for pods that ask for extended resources."""
AUDIT = f"""apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {{level: Metadata, users: ["{USER}"]}}
- {{level: None}}
"""
COLLECTIONS = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
}
SOMETIMES: Rights = {
    *LOST_ANSWER,
    ("resource.k8s.io", "resourceclaims", "delete"),  # after a binding cycle that failed
    ("resource.k8s.io", "resourceclaims/binding", "patch"),  # asked for by the server beside the status
    *(("resource.k8s.io", "devicetaintrules", verb) for verb in ("list", "watch")),  # if they are served
    *(
        ("scheduling.k8s.io", name, verb)  # of 1.37, where its gates are on
        for kind in ("podgroups", "compositepodgroups")
        for name, verb in ((kind, "get"), (kind, "list"), (kind, "watch"), (f"{kind}/status", "patch"))
    ),
}
"""What this workload does not ask for, or not of this release."""


def deploy(admin: ApiClient) -> None:
    """Create what the overlay `beside` has, as far as a scheduler without kubelets needs it."""
    send(admin, "POST", "/api/v1/namespaces", find(DEPLOY / "overlays/beside/namespace.yaml", "Namespace"))
    for file in ("service_account.yaml", "rbac.yaml"):
        for one in documents(DEPLOY / "base" / file):
            for subject in one.get("subjects", []):
                subject["namespace"] = NAMESPACE
            send(admin, "POST", COLLECTIONS[one["kind"]], one)


def mounted(plane: ControlPlane, admin: ApiClient) -> Path:
    """The folder of the service account."""
    folder = plane.folder / "account"
    folder.mkdir()
    path = f"{COLLECTIONS['ServiceAccount']}/{ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    (folder / "token").write_text(send(admin, "POST", path, request)["status"]["token"])
    (folder / "ca.crt").write_bytes((plane.folder / "ca.crt").read_bytes())
    return folder


def arguments(plane: ControlPlane, port: int) -> list[str]:
    """Those of the Deployment, with files of the test."""
    template = find(DEPLOY / "base/deployment.yaml", "Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    places = {
        "/etc/moorage/scheduler.yaml": str(DEPLOY / "overlays/beside/scheduler.yaml"),
        "/etc/moorage/tls/tls.crt": f"{plane.folder}/server.crt",
        "/etc/moorage/tls/tls.key": f"{plane.folder}/server.key",
        "10259": str(port),
    }
    given = [one.partition("=") for one in container["args"]]
    found = [f"{name}{sign}{places.get(value, value)}" for name, sign, value in given]
    return [*found, "--bind-address=127.0.0.1"]


def workload() -> Iterator[dict[str, Any]]:
    """Pods for each thing that the scheduler writes. Nobody makes a volume for the claim that waits for
    one."""
    yield late_class("made", "example.com/nobody")
    yield claim("wanted", "made")
    claimed = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim0"}}]}
    wants = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
    resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    extended = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    provisioned = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "wanted"}}]}
    specs = {"claimed": claimed, "provisioned": provisioned, "devices": wants, "extended": extended}
    for name, spec in specs.items():
        yield pod(name, "1", schedulerName="moorage", **spec)
    yield pod("large", "64", schedulerName="moorage", nodeSelector={"disk": "a"})
    for at in range(12):
        yield pod(f"low{at}", "1", schedulerName="moorage", priorityClassName="low")


def spare() -> dict[str, Any]:
    """A node that `large` selects, and that has room for no pod."""
    found: dict[str, Any] = node("spare", disk="a")
    for name in ("capacity", "allocatable"):
        found["status"][name] = {"cpu": "0", "memory": "0", "pods": "0"}
    return found


def written(log: Path, pod_name: str) -> int:
    """How many events of a pod were written so far."""
    events = (json.loads(line).get("objectRef", {}) for line in log.read_text().splitlines())
    return sum(
        one.get("resource") == "events" and one.get("name", "").startswith(f"{pod_name}.") for one in events
    )


def asked(log: Path) -> tuple[Rights, list[dict[str, Any]]]:
    """What was asked for, Leases apart, and what was refused."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    refused = [event for event in events if event.get("responseStatus", {}).get("code") == 403]
    found = Rights()
    for event in events:
        one = event.get("objectRef", {})
        if one and one["resource"] != "leases":
            resource = "/".join(filter(None, (one["resource"], one.get("subresource"))))
            found.add((one.get("apiGroup", ""), resource, event["verb"]))
    return found, refused


def test_a_deployed_scheduler_asks_for_its_rights_and_for_nothing_else(
    planes: Callable[[], ControlPlane],
) -> None:
    plane = planes()
    policy, log = plane.folder / "audit.yaml", plane.folder / "audit.log"
    policy.write_text(AUDIT)
    plane.end("kube-apiserver")
    plane.start_apiserver(f"--audit-policy-file={policy}", f"--audit-log-path={log}", GATE)
    plane.start_controllers()
    with connect(plane.kubeconfig()) as admin:
        deploy(admin)
        names = [f"n{at:04}" for at in range(4)]
        create(admin, [*priority_classes(), *map(node, names), *local_volumes(4), *devices(names)])
        (port,) = free_ports(1)
        account = mounted(plane, admin)
        process = Command(
            plane,
            "ours",
            "tests.live.kit.in_pod",
            str(account),
            str(plane.port),
            *arguments(plane, port),
            GATE,
        )
        create(admin, workload())
        followed = FollowedPods(admin)
        followed.await_bound(15)
        create(admin, [pod("high", "4", schedulerName="moorage", priorityClassName="high")])
        followed.await_that(lambda: any(one.name == "high" and one.spec.node_name for one in followed.pods()))
        while ("events.k8s.io", "events", "patch") not in asked(log)[0]:  # of the third attempt in vain
            before = written(log, "large")
            with suppress(NotFoundError):
                send(admin, "DELETE", f"{PATHS['Node']}/spare")
            create(admin, [spare()])
            followed.await_that(lambda before=before: written(log, "large") > before)
        followed.await_that(lambda: ("", "persistentvolumeclaims", "patch") in asked(log)[0])
        assert answers(f"https://127.0.0.1:{port}/metrics", "admin-token")
        assert process.end() == 0, process.log.read_text()
    used, refused = asked(log)
    assert refused == []
    role = rights(find(DEPLOY / "base/rbac.yaml", "ClusterRole"))
    # Servers without streamed lists are asked for pages.
    lists = {(group, name, "list") for group, name, verb in used if verb == "watch"}
    assert used - role == set()
    assert role - used - lists - SOMETIMES == set()
