"""What the API server does not let change is refused with its text."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from moorage.errors import InputError
from moorage.objects import Cluster, load

CONTAINERS = [{"name": "c", "image": "i"}]
TEMPLATE = {"metadata": {"labels": {"app": "web", "v": "1"}}, "spec": {"containers": CONTAINERS}}
SELECTOR = {"matchLabels": {"app": "web"}}
CLAIMS = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
TOLERATION = {"key": "a", "operator": "Exists"}
OF_STATEFUL_SET = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals'"
OF_POD = r"spec: Forbidden: pod updates may not change fields other than `spec.containers\[\*\].image`"
OF_CLAIM = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttr"


def manifest(kind: str, **fields: Any) -> dict[str, Any]:
    versions = {"Job": "batch/v1", "Pod": "v1", "PersistentVolumeClaim": "v1", "PersistentVolume": "v1"}
    versions |= {"PriorityClass": "scheduling.k8s.io/v1", "StorageClass": "storage.k8s.io/v1"}
    versions |= {"RuntimeClass": "node.k8s.io/v1", "ResourceClaim": "resource.k8s.io/v1"}
    return {"apiVersion": versions.get(kind, "apps/v1"), "kind": kind, "metadata": {"name": "x"}, **fields}


OBJECTS: dict[str, dict[str, Any]] = {
    **{
        kind: {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
        for kind in ("Deployment", "ReplicaSet", "DaemonSet")
    },
    "StatefulSet": {
        "spec": {
            "selector": SELECTOR,
            "template": TEMPLATE,
            "serviceName": "s",
            "volumeClaimTemplates": CLAIMS,
        }
    },
    "Job": {
        "spec": {
            "completions": 3,
            "parallelism": 1,
            "template": {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}},
        }
    },
    "Pod": {"spec": {"containers": CONTAINERS, "tolerations": [TOLERATION]}},
    "PersistentVolumeClaim": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "a",
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    "PersistentVolume": {
        "spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": "h"}}
    },
    "PriorityClass": {"value": 5},
    "StorageClass": {"provisioner": "p", "parameters": {"a": "b"}},
    "RuntimeClass": {"handler": "h"},
    "ResourceClaim": {
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "d"}}]}}
    },
}


def changed(kind: str, changes: dict[str, Any]) -> dict[str, Any]:
    """A manifest with values set by paths such as ``spec.replicas``."""
    obj = copy.deepcopy(manifest(kind, **OBJECTS[kind]))
    for path, value in changes.items():
        part: Any = obj
        *steps, last = path.split(".")
        for step in steps:
            part = part[int(step)] if isinstance(part, list) else part.setdefault(step, {})
        part[last] = value
    return obj


def applied(tmp_path: Path, before: dict[str, Any], after: dict[str, Any]) -> Cluster:
    for at, obj in enumerate((before, after)):
        (tmp_path / f"{at}.json").write_text(json.dumps(obj))
    cluster = load(tmp_path / "0.json", tmp_path / "1.json")
    for one in cluster.refused_objects:
        raise InputError(one.message, source=one.source)
    return cluster


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *(
        (
            kind,
            {"spec.selector.matchLabels": {"v": "1"}},
            r'spec.selector: Invalid value: {"matchLabels":{"v":"1"}}: field is immutable',
        )
        for kind in ("Deployment", "ReplicaSet", "DaemonSet")
    ),
    ("StatefulSet", {"spec.serviceName": "t"}, OF_STATEFUL_SET),
    ("StatefulSet", {"spec.podManagementPolicy": "Parallel"}, OF_STATEFUL_SET),
    ("StatefulSet", {"spec.selector.matchLabels": {"v": "1"}}, OF_STATEFUL_SET),
    ("StatefulSet", {"spec.volumeClaimTemplates": []}, OF_STATEFUL_SET),
    (
        "Job",
        {"spec.template.spec.containers": [{"name": "c", "image": "j"}]},
        "spec.template: .*field is immutable",
    ),
    (
        "Job",
        {"spec.template.spec.containers": [*CONTAINERS[:0], CONTAINERS[0] | {"args": ["x"]}]},
        "spec.template: ",
    ),
    ("Job", {"spec.completions": 4}, "spec.completions: Invalid value: 4: field is immutable"),
    (
        "Job",
        {"spec.completionMode": "Indexed"},
        'spec.completionMode: Invalid value: "Indexed": field is imm',
    ),
    ("Job", {"spec.managedBy": "a.b/c"}, "spec.managedBy: "),
    ("Pod", {"spec.nodeSelector": {"a": "b"}}, OF_POD),
    ("Pod", {"spec.tolerations": []}, OF_POD),
    ("Pod", {"spec.containers.0.resources": {"requests": {"cpu": "1"}}}, OF_POD),
    ("Pod", {"spec.containers": [*CONTAINERS, {"name": "d", "image": "i"}]}, OF_POD),
    ("PersistentVolumeClaim", {"spec.storageClassName": "b"}, OF_CLAIM),
    ("PersistentVolumeClaim", {"spec.volumeMode": "Block"}, OF_CLAIM),
    (
        "PersistentVolume",
        {"spec.csi.volumeHandle": "i"},
        "spec.persistentvolumesource: Forbidden: spec.persist",
    ),
    (
        "PersistentVolume",
        {"spec.volumeMode": "Block"},
        'spec.volumeMode: Invalid value: "Block": field is imm',
    ),
    ("PriorityClass", {"value": 6}, "value: Forbidden: may not be changed in an update."),
    (
        "PriorityClass",
        {"preemptionPolicy": "Never"},
        'preemptionPolicy: Invalid value: "Never": field is imm',
    ),
    ("StorageClass", {"provisioner": "q"}, "provisioner: Forbidden: updates to provisioner are forbidden."),
    (
        "StorageClass",
        {"parameters": {"a": "c"}},
        "parameters: Forbidden: updates to parameters are forbidden.",
    ),
    ("StorageClass", {"reclaimPolicy": "Retain"}, "reclaimPolicy: Forbidden: updates to reclaimPolicy are"),
    ("StorageClass", {"volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode: Invalid value: "),
    ("RuntimeClass", {"handler": "i"}, 'handler: Invalid value: "i": field is immutable'),
    (
        "ResourceClaim",
        {"spec.devices.requests.0.exactly.count": 2},
        "spec: Invalid value: .*: field is immutable",
    ),
]


@pytest.mark.parametrize(("kind", "changes", "text"), REFUSED)
def test_a_change_of_an_immutable_field_is_refused(
    tmp_path: Path, kind: str, changes: dict[str, Any], text: str
) -> None:
    before, after = manifest(kind, **OBJECTS[kind]), changed(kind, changes)
    with pytest.raises(InputError, match=rf'/1.json: {kind}[a-z.0-9]* "x" is invalid: {text}'):
        applied(tmp_path, before, after)


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("Deployment", {"spec.replicas": 3, "spec.template.spec.nodeSelector": {"a": "b"}}),
    ("Deployment", {"spec.selector.matchExpressions": []}),
    (
        "StatefulSet",
        {"spec.replicas": 3, "spec.template.spec.nodeSelector": {"a": "b"}, "spec.minReadySeconds": 1},
    ),
    ("StatefulSet", {"spec.podManagementPolicy": "OrderedReady", "spec.ordinals": {"start": 1}}),
    ("StatefulSet", {"spec.volumeClaimTemplates.0.spec.volumeMode": "Filesystem"}),
    ("Job", {"spec.parallelism": 2, "spec.suspend": True, "spec.backoffLimit": 1}),
    ("Job", {"spec.completionMode": "NonIndexed", "spec.template.spec.dnsPolicy": "ClusterFirst"}),
    ("Pod", {"spec.containers.0.image": "j", "spec.activeDeadlineSeconds": 5}),
    ("Pod", {"spec.tolerations": [TOLERATION, {"key": "b", "operator": "Exists"}]}),
    ("Pod", {"metadata.labels": {"a": "b"}}),
    ("PersistentVolumeClaim", {"spec.resources.requests.storage": "2Gi", "spec.volumeMode": "Filesystem"}),
    ("PersistentVolume", {"spec.capacity.storage": "2Gi", "spec.persistentVolumeReclaimPolicy": "Delete"}),
    ("PriorityClass", {"globalDefault": True, "preemptionPolicy": "PreemptLowerPriority"}),
    ("StorageClass", {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    ("RuntimeClass", {"scheduling": {"nodeSelector": {"a": "b"}}}),
    ("ResourceClaim", {"spec.devices.requests.0.exactly.count": 1, "metadata.labels": {"a": "b"}}),
]


@pytest.mark.parametrize(("kind", "changes"), ACCEPTED)
def test_other_changes_and_explicit_defaults_are_accepted(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    applied(tmp_path, manifest(kind, **OBJECTS[kind]), changed(kind, changes))


def only_for(zone: str) -> dict[str, Any]:
    requirement = {"key": "zone", "operator": "In", "values": [zone]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


def test_a_volume_stays_where_it_is(tmp_path: Path) -> None:
    """It may get a place that it did not have."""
    kind, plain = "PersistentVolume", changed("PersistentVolume", {})
    here, there = (changed(kind, {"spec.nodeAffinity": only_for(zone)}) for zone in "ab")
    applied(tmp_path, plain, here)
    with pytest.raises(InputError, match=r"spec\.nodeAffinity: .*field is immutable"):
        applied(tmp_path, here, there)


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_claim_without_a_class_gets_one_until_it_is_bound(is_bound: bool, tmp_path: Path) -> None:
    volume = {"spec.volumeName": "v"} if is_bound else {}
    after = changed("PersistentVolumeClaim", volume)
    before = copy.deepcopy(after)
    del before["spec"]["storageClassName"]
    if is_bound:
        with pytest.raises(InputError, match=OF_CLAIM):
            applied(tmp_path, before, after)
    else:
        applied(tmp_path, before, after)


def test_a_suspended_job_may_run_elsewhere(tmp_path: Path) -> None:
    before = changed("Job", {"spec.suspend": True})
    request = {"spec.template.spec.containers.0.resources": {"requests": {"cpu": "1"}}}
    where = {"spec.suspend": True, "spec.template.spec.nodeSelector": {"a": "b"}}
    applied(tmp_path, before, changed("Job", where | request))
    with pytest.raises(InputError, match=r"spec.template: "):
        applied(tmp_path, before, changed("Job", {"spec.template.spec.containers.0.image": "j"}))


def test_an_elastic_job_may_grow(tmp_path: Path) -> None:
    applied(
        tmp_path,
        changed("Job", {"spec.completionMode": "Indexed"}),
        changed("Job", {"spec.completionMode": "Indexed", "spec.completions": 5, "spec.parallelism": 5}),
    )


def test_a_gated_pod_may_lose_its_gates_and_gain_selectors(tmp_path: Path) -> None:
    gated = changed("Pod", {"spec.schedulingGates": [{"name": "a.b/c"}]})
    applied(tmp_path, gated, changed("Pod", {"spec.nodeSelector": {"a": "b"}}))
    with pytest.raises(InputError, match=OF_POD):
        applied(tmp_path, changed("Pod", {}), gated)


def test_a_newer_reading_of_a_server_may_say_anything(tmp_path: Path) -> None:
    before, after = changed("PriorityClass", {}), changed("PriorityClass", {"value": 6})
    for version, obj in (("9", before), ("10", after)):
        obj["metadata"] |= {"uid": "u", "resourceVersion": version}
    applied(tmp_path, before, after)


# ---- namespaces --------------------------------------------------------------------------------------------


def space(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **meta}}


def in_shop(**meta: Any) -> dict[str, Any]:
    return manifest("Pod", **OBJECTS["Pod"]) | {"metadata": {"name": "x", "namespace": "shop", **meta}}


def listed(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def test_a_manifest_in_a_missing_namespace_is_refused(tmp_path: Path) -> None:
    whole = space("default", uid="u")
    with pytest.raises(InputError, match=r'/1.json: namespaces "shop" not found'):
        applied(tmp_path, whole, in_shop())
    applied(tmp_path, listed(whole, space("shop", uid="v")), in_shop())
    applied(tmp_path, whole, listed(space("shop"), in_shop()))


@pytest.mark.parametrize(
    "dump", [space("default"), space("other", uid="u"), listed(space("default", uid="u"), in_shop(uid="p"))]
)
def test_nothing_is_refused_where_not_all_namespaces_of_a_server_are_listed(
    tmp_path: Path, dump: dict[str, Any]
) -> None:
    applied(tmp_path, dump, in_shop() if "items" not in dump else space("more"))
