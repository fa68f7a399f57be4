"""Changes that the API server, a controller or a webhook would undo are not offered."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.doors.cluster import PlayedChanges
from tests.explain.test_evidence import HOST
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


def controlled(template: dict[str, Any], running: dict[str, Any]) -> str:
    """A ReplicaSet with a template, and its pod, which webhooks may have changed."""
    meta = {"name": "set", "namespace": "default", "uid": "s"}
    spec = {
        "replicas": 1,
        "selector": SELECTOR,
        "template": {"metadata": {"labels": {"app": "x"}}} | template,
    }
    made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "s", "controller": True}
    own = {"labels": {"app": "x"}, "ownerReferences": [owner], "uid": "p", "resourceVersion": "1"}
    return yaml.safe_dump(made) + "---\n" + pod("new", metadata=own, status={"phase": "Pending"}, **running)


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


def test_a_node_selector_of_the_pod_itself_is_dropped_as_before() -> None:
    text = node("a", {"pool": "x"}, allocatable={"cpu": "100m"}) + node("b")
    text += pod("new", cpu="1", spec={"nodeSelector": {"pool": "x"}})
    assert "drop node-selector pool=x" in texts(text)
    assert "label node b with pool=x" in texts(text)


@pytest.mark.parametrize("label", [HOST, "kubernetes.io/os", "kubernetes.io/arch"])
def test_labels_that_the_kubelet_sets_are_not_offered(label: str) -> None:
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    text += "status: {allocatable: {cpu: 4, pods: 110}}\n---\n"
    text += pod("new", spec={"nodeSelector": {label: "x"}})
    assert texts(text) == [f"drop node-selector {label}=x"]


def test_requests_are_not_lowered_below_a_limit_range() -> None:
    text = node("n1", allocatable={"cpu": "300m"}) + pod("new", cpu="500m")
    lower = "lower the cpu request of container c from 500m to 300m"
    assert texts(text + limits(min={"cpu": "300m"})) == [lower]
    assert texts(text + limits(min={"cpu": "400m"})) == []


def test_rules_that_are_newer_than_the_pod_hide_no_change() -> None:
    """The API server would refuse the pod as it is, so nothing can be told of its changes."""
    text = node("n1", allocatable={"cpu": "300m"}) + limits(min={"cpu": "1"})
    meta = {"uid": "p", "resourceVersion": "1"}
    text += pod("new", cpu="500m", metadata=meta | {"namespace": "default"}, status={"phase": "Pending"})
    assert texts(text) == ["lower the cpu request of container c from 500m to 300m"]


def test_a_pair_of_changes_is_none_that_the_api_server_refuses() -> None:
    text = node("n1", {"pool": "a"}, allocatable={"cpu": "300m"}) + limits(min={"cpu": "400m"})
    text += pod("new", cpu="500m", spec={"nodeSelector": {"pool": "b"}})
    assert explained(text).pairs == []
    told = [pair.text for pair in explained(text.replace("400m", "200m")).pairs]
    assert "lower the cpu request of container c from 500m to 300m, and drop node-selector pool=b" in told


def test_what_the_template_does_not_have_is_not_dropped() -> None:
    """A webhook has added the selector, and would add it to the next pod."""
    text = node("n1", {"pool": "x"}, allocatable={"cpu": "100m"}) + node("n2")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    plain: dict[str, Any] = {"containers": [container]}
    selected = plain | {"nodeSelector": {"pool": "x"}}
    assert "drop node-selector pool=x" in texts(text + controlled({"spec": selected}, {"spec": selected}))
    assert "drop node-selector pool=x" not in texts(text + controlled({"spec": plain}, {"spec": selected}))


def test_a_request_that_the_template_does_not_have_is_not_lowered() -> None:
    """An autoscaler sets the request of one container, and a webhook has added the other."""
    text = node("n1", allocatable={"cpu": "1"})

    def containers(**amounts: str) -> dict[str, Any]:
        listed = [
            {"name": name, "image": "i", "resources": {"requests": {"cpu": amount}}}
            for name, amount in amounts.items()
        ]
        return {"spec": {"containers": listed}}

    running = containers(main="1500m", proxy="100m")
    lower = "lower the cpu request of container main from 1500m to 900m"
    assert lower in texts(text + controlled(containers(main="1500m"), running))
    assert lower not in texts(text + controlled(containers(main="100m"), running))
    assert texts(text + controlled(containers(proxy="100m"), running)) == []


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
