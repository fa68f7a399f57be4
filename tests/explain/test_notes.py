"""What no filter compares, and decides whether a pod runs: rollouts, held devices, operating systems."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.explain.explain_world import document
from tests.explain.test_evidence_of_filters import HOST, LATE, USES, explained, node, pod

HASH = "pod-template-hash"
PORT = {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
TERM = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APART = {"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}
SURGE = "set maxSurge: 0 and maxUnavailable: 1 in the strategy of deployment/web: "
SURGE += "an old pod ends before a new one starts"
KEYS = f"set matchLabelKeys: [{HASH}] in "


def objects(*made: dict[str, Any]) -> str:
    return "".join(yaml.safe_dump(one) + "---\n" for one in made)


def meta(name: str, owner: tuple[str, str] | None = None, **more: Any) -> dict[str, Any]:
    made = {"name": name, "namespace": "default", "uid": name} | more
    if owner is not None:
        kind, of = owner
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": of, "uid": of, "controller": True}
        made["ownerReferences"] = [reference]
    return made


def rollout(old: list[str], spec: dict[str, Any], **strategy: Any) -> str:
    """A Deployment with a pod of the old revision on each of some nodes, and a new pod."""
    container = {"name": "c", "image": "i"}
    spec = {"containers": [container]} | spec
    made = []
    for revision, image, replicas in (("old", "i", len(old)), ("new", "i2", 1)):
        template = {"metadata": {"labels": {"app": "x", HASH: revision}}}
        template["spec"] = spec | {"containers": [one | {"image": image} for one in spec["containers"]]}
        selector = {"matchLabels": {"app": "x", HASH: revision}}
        sets = {"replicas": replicas, "selector": selector, "template": template}
        owner = ("Deployment", "web")
        kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta(f"web-{revision}", owner)}
        made.append(kind | {"spec": sets})
        template = template | {"metadata": {"labels": {"app": "x"}}}
    selector = {"matchLabels": {"app": "x"}}
    desired = {"replicas": len(old), "selector": selector, "template": template} | (
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": strategy}} if strategy else {}
    )
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("web"), "spec": desired}

    def of(name: str, revision: str, on: str = "") -> str:
        labels = {"app": "x", HASH: revision}
        controlled = meta(name, ("ReplicaSet", f"web-{revision}"), labels=labels, resourceVersion="1")
        return pod(name, on, spec=spec, metadata=controlled, status={"phase": "Running" if on else "Pending"})

    text = objects(deployment, *made) + of("new", "new")
    return text + "".join(of(f"web-{on}", "old", on) for on in old)


def changes(text: str) -> list[str]:
    return [change.text for change in explained(text).changes if change.kind == "change-rollout"]


def test_a_rollout_that_its_own_old_pods_block_says_so_and_what_helps() -> None:
    text = node("n1") + node("n2") + rollout(["n1", "n2"], APART)
    seen = explained(text)
    (note,) = seen.notes
    assert note.text == (
        "its rollout waits for its own old pods: it fits once one of 2 pods (default/web-n1, default/web-n2) "
        "ends, but deployment/web keeps those of its old revision until the new pod is available "
        "(maxSurge 25%)"
    )
    assert document(seen)["notes"] == [
        {
            "kind": "own-old-pods",
            "text": note.text,
            "pods": ["default/web-n1", "default/web-n2"],
            "nodes": [],
        }
    ]
    keys = f"{KEYS}pod-anti-affinity app=x per {HOST}, which helps once the old pods have it, too"
    assert [(one.text, one.feasible_nodes) for one in seen.changes if one.kind == "change-rollout"] == [
        (SURGE, 1),
        (keys, 2),
    ]
    surge = {"workload": "deployment/web", "field": "maxSurge", "from": "25%", "to": "0"}
    assert document(seen)["changes"][0] == {
        "kind": "change-rollout",
        "text": SURGE,
        "feasibleNodes": 1,
        **surge,
    }
    assert seen.raised_priority is None, "its own old pods are no victims to offer"


def test_labels_of_revisions_help_a_spread_constraint_at_once() -> None:
    """Old pods count for the constraint of the new one alone."""
    spread = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "x"}}
    text = node("n1") + node("n2", spec={"unschedulable": True})
    text += rollout(["n1"], {"topologySpreadConstraints": [spread]})
    assert changes(text) == [SURGE, f"{KEYS}topology-spread {HOST} (maxSkew 1)"]


def test_a_port_leaves_only_the_surge() -> None:
    assert changes(node("n1") + rollout(["n1"], PORT)) == [SURGE]


@pytest.mark.parametrize(
    "strategy", [{"maxSurge": 0, "maxUnavailable": 1}, {"maxSurge": 1, "maxUnavailable": 1}]
)
def test_a_rollout_that_ends_old_pods_first_does_not_wait_for_them(strategy: dict[str, int]) -> None:
    seen = explained(node("n1") + rollout(["n1"], PORT, **strategy))
    assert (seen.notes, [one for one in seen.changes if one.kind == "change-rollout"]) == ([], [])


def test_the_surge_is_offered_only_if_it_helps_whichever_old_pod_ends() -> None:
    text = node("n1") + node("n2", spec={"unschedulable": True}) + rollout(["n1", "n2"], PORT)
    seen = explained(text)
    (note,) = seen.notes
    assert note.pods == ("default/web-n1",)
    assert changes(text) == []


def test_old_pods_that_are_not_in_the_way_are_not_named() -> None:
    text = node("n1", allocatable={"cpu": "1"}) + pod("full", "n1", cpu="1")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    seen = explained(
        text + node("n2", allocatable={"cpu": "1"}) + rollout(["n2"], {"containers": [container]})
    )
    assert seen.notes == []


def test_a_claim_of_a_node_that_is_gone_is_provisioned_anew_without_its_annotation() -> None:
    selected = "annotations: {volume.kubernetes.io/selected-node: gone}"
    text = node("n1") + LATE.replace("name: data", f"name: data, {selected}") + "}\n---\n"
    text = text.replace("storageCapacity: true", "storageCapacity: false") + pod("new", spec=USES)
    (change,) = explained(text).changes
    claim = "of claim default/data"
    assert change.text == f"remove the annotation volume.kubernetes.io/selected-node (gone) {claim}"
    assert (change.values["claim"], change.values["from"], change.feasible_nodes) == (
        "default/data",
        "gone",
        1,
    )
    assert explained(text + node("gone", spec={"unschedulable": True})).changes == []


def test_pods_for_another_operating_system_are_told() -> None:
    text = "".join(node(name, {"kubernetes.io/os": name}) for name in ("linux", "windows")) + node("any")
    (note,) = explained(text + pod("new", spec={"os": {"name": "windows"}})).notes
    assert (note.kind, note.nodes) == ("other-os", ("linux",))
    assert note.text == (
        "the pod is for windows, and 1 node that fits has another kubernetes.io/os (linux): the scheduler "
        "does not look at spec.os, and the kubelet there refuses the pod; select kubernetes.io/os=windows"
    )
    selected = {"os": {"name": "windows"}, "nodeSelector": {"kubernetes.io/os": "windows"}}
    assert explained(text + pod("new", spec=selected)).notes == []
    assert explained(text + pod("new")).notes == []


DEVICES = """
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec: {driver: gpu.example.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1},
  devices: [{name: gpu0}]}
---
"""


def claim(name: str, user: str = "") -> str:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    made = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta(name)}
    made["spec"] = {"devices": {"requests": requests}}
    if user:
        device = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu0"}
        reserved = [{"resource": "pods", "name": user, "uid": user}]
        made["status"] = {"allocation": {"devices": {"results": [device]}}, "reservedFor": reserved}
    return objects(made)


def test_devices_that_preemption_does_not_free_are_named_with_their_users() -> None:
    def using(name: str, on: str = "", **more: Any) -> str:
        uses = {"resourceClaims": [{"name": "g", "resourceClaimName": f"of-{name}"}]}
        return pod(name, on, metadata=meta(name), spec=uses | more)

    text = node("n1") + DEVICES + claim("of-low", "low") + claim("of-new") + using("low", "n1")
    seen = explained(text + using("new", priority=100))
    (note,) = seen.notes
    assert note.text == "preemption does not free devices: claim default/of-low of low would keep them"
    assert (note.kind, note.pods) == ("held-devices", ("default/low",))
