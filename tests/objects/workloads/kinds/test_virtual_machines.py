"""Pods of virtual machines whose size is that of an instance type, and of sets of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.objects.workloads.kinds.test_expand_kinds import load, new_pods, obj, requests

from moorage.errors import InputError
from moorage.objects import Cluster, Pod

TYPES = "instancetype.kubevirt.io/v1beta1"
BIG = "{cpu: {guest: 4}, memory: {guest: 4Gi}, nodeSelector: {size: big}}"
PLAIN = "{domain: {cpu: {cores: 4}, memory: {guest: 4Gi}}, nodeSelector: {size: big}}"


def machine(chosen: str, template: str = "{domain: {}}", runs: str = "Always") -> str:
    instance = f"instancetype: {chosen}, " if chosen else ""
    spec = f"{{runStrategy: {runs}, {instance}template: {{spec: {template}}}}}"
    return obj("kubevirt.io/v1", "VirtualMachine", spec)


def launcher(cluster: Cluster) -> Pod:
    (pod,) = cluster.pods
    return pod


def test_an_instance_type_gives_a_machine_its_size(tmp_path: Path) -> None:
    typed = obj(TYPES, "VirtualMachineClusterInstancetype", BIG, name="big")
    pod = launcher(load(tmp_path, typed, machine("{name: big}")))
    plain = launcher(load(tmp_path, machine("", PLAIN)))
    assert requests(pod) == requests(plain)
    assert requests(pod)["cpu"] == 400
    assert pod.spec.node_selector == plain.spec.node_selector


def test_a_type_of_the_namespace_may_overcommit_memory_and_have_gpus(tmp_path: Path) -> None:
    gpus = "[{name: g, deviceName: x.io/g}]"
    spec = f"{{cpu: {{guest: 1}}, memory: {{guest: 4Gi, overcommitPercent: 50}}, gpus: {gpus}}}"
    typed = obj(TYPES, "VirtualMachineInstancetype", spec, name="half")
    pod = launcher(load(tmp_path, typed, machine("{name: half, kind: virtualmachineinstancetype}")))
    assert 2 << 30 < requests(pod)["memory"] < 4 << 30
    assert requests(pod)["x.io/g"] == 1


def test_a_halted_machine_needs_no_instance_type(tmp_path: Path) -> None:
    cluster = load(tmp_path, machine("{name: big}", runs="Halted"))
    assert (cluster.pods, cluster.left_out) == ([], [])


def test_a_set_of_instances_has_its_replicas(tmp_path: Path) -> None:
    spec = f"{{replicas: 3, selector: {{}}, template: {{spec: {PLAIN}}}}}"
    cluster = load(tmp_path, obj("kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", spec))
    assert new_pods(cluster) == {"virt-launcher-x-": 3}


TABLES = 1 << 21
"""The page tables of 1Gi."""
OVERHEAD = (25 + 100 + 25 + 40 + 30 + 8 + 8 + 32 << 20) + TABLES
"""Of a guest with one virtual CPU, 1Gi of memory and graphics."""
GIBI = "memory: {guest: 1Gi}"


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (f"{{{GIBI}}}", {"cpu": 100, "memory": (1 << 30) + OVERHEAD, "devices.kubevirt.io/tun": 1}),
        (
            f"{{{GIBI}, cpu: {{sockets: 1, dedicatedCpuPlacement: true, isolateEmulatorThread: true}}}}",
            {"cpu": 2000},
        ),
        (f"{{{GIBI}, resources: {{requests: {{cpu: 3}}}}}}", {"cpu": 3000}),
        (f"{{{GIBI}, resources: {{overcommitGuestOverhead: true}}}}", {"memory": 1 << 30}),
        (f"{{{GIBI}, devices: {{autoattachPodInterface: false}}}}", {"devices.kubevirt.io/tun": 0}),
        (
            "{memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}, resources: {overcommitGuestOverhead: true}}",
            {"hugepages-2Mi": 1 << 30, "memory": OVERHEAD},
        ),
        (
            "{memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 3Gi}}}",
            {"hugepages-2Mi": 1 << 30, "memory": (2 << 30) + OVERHEAD + 2 * TABLES},
        ),
        (
            "{memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 512Mi}}}",
            {"hugepages-2Mi": 1 << 29, "memory": OVERHEAD - TABLES // 2},
        ),
        (f"{{{GIBI}, resources: {{limits: {{memory: 2Gi}}}}}}", {"memory": (2 << 30) + OVERHEAD + TABLES}),
        (
            "{memory: {hugepages: {pageSize: 1Gi}}}",
            {"hugepages-1Gi": 1 << 30, "memory": OVERHEAD},
        ),
        (
            "{memory: {hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 1Gi}}}",
            {"hugepages-2Mi": 1 << 30, "memory": OVERHEAD},
        ),
    ],
)
def test_an_instance_requests_what_its_domain_says(
    domain: str, expected: dict[str, int], tmp_path: Path
) -> None:
    pod = launcher(load(tmp_path, obj("kubevirt.io/v1", "VirtualMachineInstance", f"{{domain: {domain}}}")))
    asked = requests(pod)
    assert {name: asked.get(name, 0) for name in expected} == expected


@pytest.mark.parametrize(
    ("hugepages", "limit", "left"),
    [
        ("", "2Gi", 2 << 30),
        (", hugepages: {pageSize: 2Mi}", "2Gi", 1 << 30),
        (", hugepages: {pageSize: 2Mi}", "512Mi", 0),
    ],
)
def test_a_limit_of_memory_grows_by_the_overhead_and_lacks_huge_pages(
    hugepages: str, limit: str, left: int, tmp_path: Path
) -> None:
    memory = f"{{guest: 1Gi{hugepages}}}"
    resources = f"{{requests: {{memory: 1Gi}}, limits: {{memory: {limit}}}}}"
    domain = f"{{domain: {{memory: {memory}, resources: {resources}}}}}"
    pod = launcher(load(tmp_path, obj("kubevirt.io/v1", "VirtualMachineInstance", domain)))
    assert pod.spec.containers[0].resources.limits["memory"] == str(left + OVERHEAD)


@pytest.mark.parametrize(
    ("domain", "path"),
    [
        ("{resources: {requests: {memory: x}}}", "resources.requests.memory"),
        ("{resources: {limits: {memory: x}}}", "resources.limits.memory"),
        (
            f"{{{GIBI}, resources: {{requests: {{memory: 1Gi}}, limits: {{memory: x}}}}}}",
            "resources.limits.memory",
        ),
        ("{memory: {guest: x}}", "memory.guest"),
        ("{memory: {guest: x}, resources: {requests: {memory: 1Gi}}}", "memory.guest"),
        ("{memory: {hugepages: {pageSize: x}}}", "memory.hugepages.pageSize"),
    ],
)
def test_a_size_that_is_no_quantity_names_its_field(domain: str, path: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"VirtualMachineInstance x: spec\.domain\.{re.escape(path)}: "):
        load(tmp_path, obj("kubevirt.io/v1", "VirtualMachineInstance", f"{{domain: {domain}}}"))


def test_the_size_of_an_instance_type_that_is_no_quantity_names_the_type_field(tmp_path: Path) -> None:
    spec = "{cpu: {guest: 1}, memory: {guest: x, overcommitPercent: 50}}"
    typed = obj(TYPES, "VirtualMachineClusterInstancetype", spec, name="half")
    with pytest.raises(InputError, match=r"VirtualMachine x: spec\.instancetype: "):
        load(tmp_path, typed, machine("{name: half}"))
