"""PodGroups: what is read, what is filled in, and whose group a pod is in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import disrupted_whole
from tests.make import cluster, make

from moorage.kube import (
    Cluster,
    CompositePodGroup,
    Pod,
    PodGroup,
    decode_object,
    group_of,
    load,
    write_cluster,
)

GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}
GODEL = "scheduling.godel.kubewharf.io/v1alpha1"


def group(spec: dict[str, Any], version: str = "scheduling.k8s.io/v1beta1", **rest: Any) -> PodGroup:
    obj = make("PodGroup", "g", spec, apiVersion=version, **rest)
    assert isinstance(obj, PodGroup)
    return obj


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
def test_groups_of_each_version_are_read(version: str) -> None:
    constraints = {"topology": [{"key": "rack"}]}
    ref = {"workloadName": "w", "templateName": "t"}
    spec = GANG | {"schedulingConstraints": constraints, "priority": 7}
    spec |= {"parentCompositePodGroupName": "c", "workloadRef": ref}
    found = group(spec, f"scheduling.k8s.io/{version}")
    assert (found.min_count, found.topology_keys, found.is_godel) == (3, ("rack",), False)
    assert found.spec.parent_composite_pod_group_name == "c"
    assert group({"schedulingPolicy": {"basic": {}}}).min_count == 0
    assert group({"schedulingPolicy": {"basic": {}}}).topology_keys == ()


def test_groups_of_godel_are_read() -> None:
    found = group({"minMember": 4, "scheduleTimeoutSeconds": 60}, GODEL, status={"phase": "Scheduled"})
    assert (found.min_count, found.is_godel, found.status.phase) == (4, True, "Scheduled")
    assert found.spec.schedule_timeout_seconds == 60


@pytest.mark.parametrize(
    ("mode", "whole"),
    [(None, False), ({"all": {}}, True), ({"single": {}}, False)],
)
def test_the_disruption_mode_decides_who_leaves_whole(mode: object, whole: bool) -> None:
    one = group(GANG | {"disruptionMode": mode})
    assert disrupted_whole([one]) == ([one] if whole else [], 0)


def test_the_priority_of_a_group_comes_from_its_class() -> None:
    value = make("PriorityClass", "high", value=9)
    named = group(GANG | {"priorityClassName": "high"})
    (found,) = [one for one in cluster(named, value).others if isinstance(one, PodGroup)]
    assert found.spec.priority == 9
    (found,) = [one for one in cluster(group(GANG)).others if isinstance(one, PodGroup)]
    assert found.spec.priority == 0
    assert (found.namespace, bool(found.metadata.uid)) == ("default", True)


def test_the_group_of_a_pod_is_named_by_field_or_annotation() -> None:
    def of(spec: dict[str, Any], **metadata: Any) -> tuple[str, str] | None:
        obj = decode_object(
            {"kind": "Pod", "metadata": {"name": "p", "namespace": "d"} | metadata, "spec": spec}
        )
        assert isinstance(obj, Pod)
        return group_of(obj)

    annotations = {"godel.bytedance.com/pod-group-name": "a"}
    assert of({}) is None
    assert of({"schedulingGroup": {"podGroupName": "g"}}) == ("d", "g")
    assert of({}, annotations=annotations) == ("d", "a")
    assert of({"schedulingGroup": {"podGroupName": "g"}}, annotations=annotations) == ("d", "g")


REF = {"workloadName": "w", "templateName": "t"}


def test_composite_groups_are_read(tmp_path: Path) -> None:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": REF}
    spec |= {"schedulingConstraints": {"topology": [{"key": "zone"}]}, "disruptionMode": {"all": {}}}
    spec |= {"priorityClassName": "high", "parentCompositePodGroupName": "top"}
    found = make("CompositePodGroup", "c", spec, apiVersion="scheduling.k8s.io/v1alpha3")
    assert isinstance(found, CompositePodGroup)
    assert (found.min_count, found.topology_keys, disrupted_whole([found])) == (2, ("zone",), ([found], 0))
    assert (found.unit, found.parent) == (
        (found.namespace, "CompositePodGroup/c"),
        (found.namespace, "CompositePodGroup/top"),
    )
    high = make("PriorityClass", "high", None, value=7)
    write_cluster(tmp_path / "c.yaml", Cluster(others=[found, high]))
    (read,) = [one for one in load(str(tmp_path / "c.yaml")).others if isinstance(one, CompositePodGroup)]
    assert read.spec == replace(found.spec, priority=7)
