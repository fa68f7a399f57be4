"""Pods of virtual machines whose size is that of an instance type, and of sets of them."""

from __future__ import annotations

from pathlib import Path

from tests.objects.workloads.kinds.test_expand_kinds import load, new_pods, obj, requests

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
