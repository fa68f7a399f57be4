"""The table of field names, and what is found by it."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import fields
from tests.doors.kube import _KINDS, Struct, unknown_fields
from tests.objects.validate.make_field_names import spans, table, text

POD = unknown_fields.struct_of("Pod", "v1")


def found(value: Any, struct: str = POD) -> list[str]:
    paths = unknown_fields.unknown_fields(value, struct)
    assert unknown_fields.has_only_known_fields(json.dumps(value).encode(), struct) == (not paths)
    return [unknown_fields.path_text(path) for path in paths]


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({}, []),
        ({"spec": {"nodeSelektor": {"a": "b"}, "nodeName": "n"}}, ["spec.nodeSelektor"]),
        (
            {"spec": {"containers": [{"name": "a"}, {"resources": {"request": {"cpu": "1"}}, "Image": "x"}]}},
            ["spec.containers[1].Image", "spec.containers[1].resources.request"],
        ),
        ({"zzz": 1, "aaa": {}, "metadata": {"label": {}}}, ["aaa", "metadata.label", "zzz"]),
        ({"metadata": {"labels": {"any": "x"}, "managedFields": [{"fieldsV1": {"f:x": {}}}]}}, []),
        ({"spec": {"containers": None, "affinity": None}}, []),
    ],
)
def test_each_unknown_field_is_found_with_its_path(value: Any, paths: list[str]) -> None:
    assert found(value) == paths


def test_maps_of_structs() -> None:
    slices = unknown_fields.struct_of("ResourceSlice", "resource.k8s.io/v1")
    device = {"name": "d", "capacity": {"memory": {"value": "1Gi", "values": "2Gi"}}}
    assert found({"spec": {"devices": [device]}}, slices) == ["spec.devices[0].capacity.memory.values"]


@pytest.mark.parametrize("value", [7, "x", [1], {"spec": 7}, {"spec": {"containers": {"a": 1}}}])
def test_wrong_types_have_no_fields(value: Any) -> None:
    assert unknown_fields.unknown_fields(value, POD) == []


@pytest.mark.parametrize(
    ("kind", "api_version", "struct"),
    [
        ("Deployment", "apps/v1", "apps.v1.Deployment"),
        ("Deployment", "apps/v1beta1", "apps.v1.Deployment"),
        ("DeviceClass", "resource.k8s.io/v1alpha2", "resource.v1.DeviceClass"),
        ("Deployment", "example.com/v1", ""),
        ("Rollout", "argoproj.io/v1alpha1", ""),
        ("PodGroup", "scheduling.k8s.io/v1alpha2", "scheduling.v1alpha2.PodGroup"),
    ],
)
def test_a_kind_has_the_fields_of_its_version(kind: str, api_version: str, struct: str) -> None:
    assert unknown_fields.struct_of(kind, api_version) == struct


def names(struct: type[Struct], path: str) -> dict[str, type[Struct] | None]:
    """The fields of a struct and of those below it."""
    inner: dict[str, type[Struct] | None] = {}
    for field in fields(struct):
        if field.encode_name.startswith("$"):  # what is kept of fields that are not read
            continue
        inner[f"{path}{field.encode_name}"] = None
        for part in _structs(field.type):
            inner |= names(part, f"{path}{field.encode_name}.")
    return inner


def _structs(type_: Any) -> list[type[Struct]]:
    if isinstance(type_, type) and issubclass(type_, Struct):
        return [type_]
    return [struct for argument in get_args(type_) for struct in _structs(argument)]


OF_OTHERS = {
    *("CloneSet", "DeploymentConfig", "LeaderWorkerSet", "Rollout", "ScaledObject"),
    *("AdmissionPlugins", "Scheduler", "VerticalPodAutoscaler"),
    *("AutoscalerFlags", "KarpenterSettings", "MachineGroup", "NodeClass"),
}
"""Kinds that are not Kubernetes' own: the table does not have their fields."""


def test_kinds_of_other_projects_have_no_known_fields() -> None:
    assert {
        kind for kind, struct in _KINDS.items() if not unknown_fields.struct_of(kind, struct().api_version)
    } == OF_OTHERS


@pytest.mark.parametrize("kind", [kind for kind in _KINDS if kind not in {"PodGroup", *OF_OTHERS}])
def test_each_field_that_is_read_is_known(kind: str) -> None:
    """Of the built-in kinds; disks and resources are read by structs that have the fields of several."""
    struct = _KINDS[kind]
    known = unknown_fields.struct_of(kind, struct().api_version)
    for path in names(struct, ""):
        if any(disk in path for disk in DISKS) or ".spec.resources.claims" in f".{path}":
            continue
        assert not missing(known, path.split(".")), f"{kind}: {path}"


DISKS = ("gcePersistentDisk.", "awsElasticBlockStore.", "azureDisk.", "cinder.", "portworxVolume.")
DISKS += ("azureFile.", "vsphereVolume.", "iscsi.", "rbd.", "fc.", "csi.")


def missing(struct: str, path: list[str]) -> bool:
    for name in path:
        if not struct:
            return False
        members = unknown_fields.fields_of(struct)
        if name not in members:
            return True
        struct = members[name].rstrip("[]{}")
    return False


def test_the_table_is_made_of_a_schema() -> None:
    definitions = {
        "io.k8s.api.core.v1.Thing": {
            "properties": {
                "metadata": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
                "spec": {"type": "object"},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/io.k8s.api.core.v1.Part"}},
                "size": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            },
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Thing"}],
        },
        "io.k8s.api.core.v1.ThingList": {
            "properties": {"metadata": {}, "items": {}},
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ThingList"}],
        },
        "io.k8s.api.core.v1.Part": {
            "properties": {
                "by": {"type": "object", "additionalProperties": {"$ref": "#/$defs/io.k8s.api.core.v1.Part2"}}
            }
        },
        "io.k8s.api.core.v1.Part2": {"properties": {"x": {"type": "string"}}},
        "io.k8s.api.core.v1.Unused": {"properties": {"x": {"type": "string"}}},
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"properties": {"name": {"type": "string"}}},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    }
    made = msgspec.json.decode(text(table(definitions)))
    assert made["kinds"] == {"v1/Thing": "core.v1.Thing"}
    assert made["structs"] == {
        "core.v1.Part": {"by": "core.v1.Part2{}"},
        "core.v1.Part2": {"x": ""},
        "core.v1.Thing": {
            "metadata": "meta.v1.ObjectMeta",
            "parts": "core.v1.Part[]",
            "size": "",
            "spec": "",
        },
        "meta.v1.ObjectMeta": {"name": ""},
    }
    assert {"source", "licence"} <= made.keys()


def test_the_releases_of_a_field_are_those_whose_struct_has_it() -> None:
    fields = {
        "1.34": {"A": {"a", "old"}},
        "1.35": {"A": {"a", "b", "old"}},
        "1.36": {"A": {"a", "b"}, "B": {"x"}},
        "1.37": {"A": {"a", "b"}, "B": {"x", "y"}},
    }
    assert spans({release: {"structs": structs} for release, structs in fields.items()}) == {
        "A": {"b": ["1.35", ""], "old": ["1.34", "1.35"]},
        "B": {"y": ["1.37", ""]},
    }


@pytest.mark.parametrize(
    ("release", "paths"),
    [
        ("1.34", ["hostUsersx", "schedulingGroup", "volumes[0].emptyDir.mode", "workloadRef"]),
        ("1.35", ["hostUsersx", "schedulingGroup", "volumes[0].emptyDir.mode"]),
        ("1.36", ["hostUsersx", "volumes[0].emptyDir.mode", "workloadRef"]),
        ("1.38", ["hostUsersx", "workloadRef"]),
        (unknown_fields.ANY, ["hostUsersx"]),
        (unknown_fields.EVERY, ["hostUsersx", "schedulingGroup", "volumes[0].emptyDir.mode", "workloadRef"]),
    ],
)
def test_a_release_knows_its_own_fields(release: str, paths: list[str]) -> None:
    spec = {
        "schedulingGroup": {},
        "workloadRef": {},
        "volumes": [{"emptyDir": {"mode": 448}}],
        "hostUsersx": 1,
    }
    unknown = unknown_fields.unknown_fields(spec, "core.v1.PodSpec", release)
    assert [unknown_fields.path_text(path) for path in unknown] == paths
