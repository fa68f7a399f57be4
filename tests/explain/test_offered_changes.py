"""What offered changes make of a pod, beside the case `answers/changes_that_would_be_undone`."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.doors.cluster import PlayedChanges
from tests.explain.test_evidence_of_filters import explained, node, pod
from tests.make import written

KATA = written(
    "node.k8s.io/v1/RuntimeClass",
    "kata",
    handler="kata",
    overhead={"podFixed": {"cpu": "1"}},
    scheduling={"nodeSelector": {"sandbox": "true"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
)
SELECTOR = {"matchLabels": {"app": "x"}}


def texts(text: str, key: str = "default/new") -> list[str]:
    return [change.text for change in explained(text, key).changes]


def limits(**more: Any) -> str:
    made = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"}}
    return yaml.safe_dump(made | {"spec": {"limits": [{"type": "Container"} | more]}}) + "---\n"


def test_what_a_runtime_class_asks_for_is_dropped_with_the_class_alone() -> None:
    text = node("small", {"sandbox": "true"}, allocatable={"cpu": "1500m"}) + node("plain")
    text += yaml.safe_dump(KATA) + "---\n"
    text += pod("new", cpu="1", spec={"runtimeClassName": "kata"})
    seen = explained(text)
    assert [change.text for change in seen.changes] == [
        "lower the cpu request of container c from 1 to 500m",
        "label node plain with sandbox=true, if it has the runtime kata",
        "add a node like plain (4 cpu, 8Gi memory), with sandbox=true, if it has the runtime kata",
        "drop runtime-class kata",
    ]
    dropped = seen.changes[-1].pod.spec
    assert (dropped.runtime_class_name, dropped.node_selector, dropped.overhead) == (None, {}, {})
    assert "kata" not in [one.key for one in dropped.tolerations]


def test_containers_do_not_keep_a_dropped_claim() -> None:
    """The API server refuses a container that names a claim which the pod does not have."""
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpus"}]}}
    uses = [{"name": "gpus", "resourceClaimName": "none"}]
    text = node("n1") + pod("new", spec={"containers": [container], "resourceClaims": uses})
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    named = claim | {"metadata": {"name": "none", "namespace": "default"}}
    (change,) = explained(
        text + yaml.safe_dump(named | {"spec": {"devices": {"requests": requests}}})
    ).changes
    assert change.text == "drop claim gpus"
    assert change.pod.spec.containers[0].resources.claims == ()


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_fewer_replicas_leave_the_pod_with_a_node(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A StatefulSet keeps its first pod, which waits; of a ReplicaSet the pods without a node go first, which
    is known where too many pods wait for a run."""
    monkeypatch.setattr(PlayedChanges, "may_run", lambda *_: False)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": SELECTOR["matchLabels"]}, "spec": {"containers": [container]}}
    made = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x", "uid": "s"}}
    spec = {"replicas": 2, "selector": SELECTOR, "template": template}
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "s", "controller": True}
    meta = {"labels": SELECTOR["matchLabels"], "ownerReferences": [owner]}
    text = node("n1", allocatable={"cpu": "1"}) + yaml.safe_dump(made | {"spec": spec}) + "---\n"
    text += pod("x-0", cpu="1", metadata=meta | {"uid": "0"})
    text += pod("x-1", cpu="1", metadata=meta | {"uid": "1"}, spec={"nodeName": "n1"})
    offered = [change for change in texts(text, "default/x-0") if change.startswith("scale")]
    assert offered == (["scale replicaset/x to 1: 1 of 2 fit as it is"] if kind == "ReplicaSet" else [])
