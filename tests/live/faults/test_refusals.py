"""A policy that refuses bindings: what the pod says is what it says beside kube-scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.live.kit.cluster_workload import AT_ONCE, PATHS, create, node, pod, send
from tests.live.kit.control_plane import ControlPlane, await_all
from tests.live.kit.live_process import Process

from moorage.live.client import ApiClient
from moorage.store import ApiError, NotFoundError

pytestmark = pytest.mark.live
GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bad"}, "target": {"name": "n0"}}


@pytest.fixture
def policy(admin: ApiClient) -> Iterator[None]:
    """Refuses to bind the pod `bad`."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    validation = {"expression": "object.metadata.name != 'bad'", "message": "not this one"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    meta = {"apiVersion": GROUP.removeprefix("/apis/"), "metadata": {"name": "bad"}}
    send(admin, "POST", POLICIES, meta | {"kind": "ValidatingAdmissionPolicy", "spec": spec})
    bound = {"policyName": "bad", "validationActions": ["Deny"]}
    send(admin, "POST", BINDINGS, meta | {"kind": "ValidatingAdmissionPolicyBinding", "spec": bound})
    create(admin, [node("n0"), pod("bad")])

    def refuses() -> bool:
        path, dry = f"{PATHS['Pod']}/bad/binding", {"dryRun": "All"}
        with suppress(ApiError):
            admin.connection.request("POST", path, dry, msgspec.json.encode(BINDING))
            return False
        return True

    await_all([refuses], lambda: time.sleep(0.2))
    yield
    for path in (BINDINGS, POLICIES):
        send(admin, "DELETE", f"{path}/bad")


def told(admin: ApiClient) -> tuple[Any, Any]:
    """The condition of the pod, and the note of its first event."""

    def condition() -> list[Any]:
        found = send(admin, "GET", f"{PATHS['Pod']}/bad")["status"].get("conditions", [])
        return [(one["status"], one["reason"], one["message"]) for one in found]

    def notes() -> list[Any]:
        events = send(admin, "GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return [(one["type"], one["reason"], one["note"]) for one in events]

    await_all([lambda: bool(condition()), lambda: bool(notes())], lambda: time.sleep(0.2))
    return condition(), notes()[0]


def test_a_refused_binding_is_told_as_kube_scheduler_tells_it(
    cluster: ControlPlane, scheduler: Callable[..., Process], admin: ApiClient, policy: None
) -> None:
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    send(admin, "DELETE", events, AT_ONCE)
    cluster.start_scheduler()
    theirs = told(admin)
    cluster.end("kube-scheduler")
    with suppress(NotFoundError):
        send(admin, "DELETE", f"{PATHS['Pod']}/bad", AT_ONCE)
    send(admin, "DELETE", events, AT_ONCE)
    create(admin, [pod("bad")])
    process = scheduler()
    assert told(admin) == theirs
    assert "not this one" in theirs[1][2]
    assert process.end() == 0, process.log.read_text()
