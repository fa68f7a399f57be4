"""Instance types from files, and those that nodes show; what is refused is in
`tests/cases/autoscalers/files_of_types.md`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from moorage.autoscalers import InstanceType, read_instance_types, seen_types
from moorage.kube import Node, NodeStatus, ObjectMeta

AWS = Path(__file__).parents[1] / "data/karpenter/aws_instance_types.json"
ZONE, KIND = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"


def offering(**changes: Any) -> dict[str, Any]:
    requirements = [
        {"key": KIND, "operator": "In", "values": ["spot"]},
        {"key": ZONE, "operator": "In", "values": ["z"]},
    ]
    return {"Price": 0.5, "Available": True, "Requirements": requirements} | changes


def instance_type(**changes: Any) -> dict[str, Any]:
    value = {"name": "m.large", "architecture": "amd64", "operatingSystems": ["linux"]}
    value |= {"resources": {"cpu": "2", "memory": "8Gi"}, "offerings": [offering()]}
    return value | changes


def labels(one: InstanceType) -> dict[str, tuple[str, ...]]:
    return {requirement.key: requirement.values for requirement in one.requirements}


def test_types_of_aws_are_read_as_the_provider_reads_them() -> None:
    types = read_instance_types(str(AWS))
    assert len(types) == 8
    large = types[0]
    assert large.name == "m5.large"
    assert str(large.capacity["memory"]) == "8Gi"
    assert {one.capacity_type for one in large.offerings} == {"spot", "on-demand"}
    assert {one.zone for one in large.offerings} == {"us-west-2a", "us-west-2b"}
    assert labels(large)["kubernetes.io/arch"] == ("amd64",)
    assert labels(large)["karpenter.kwok.sh/instance-family"] == ("m5",)
    assert labels(large)["karpenter.kwok.sh/instance-size"] == ("large",)
    assert str(large.allocatable({})["cpu"]) == "1900m"


def test_yaml_and_compressed_files_say_the_same(tmp_path: Path) -> None:
    text = "- {name: m.large, architecture: amd64, operatingSystems: [linux],\n"
    text += "   resources: {cpu: 2, memory: 8Gi},\n"
    text += f"   offerings: [{json.dumps(offering())}]}}\n"
    (tmp_path / "types.yaml").write_text(text)
    (tmp_path / "types.json.gz").write_bytes(gzip.compress(json.dumps([instance_type()]).encode()))
    one, other = (read_instance_types(str(tmp_path / name))[0] for name in ("types.yaml", "types.json.gz"))
    assert one.capacity == other.capacity
    assert one.offerings == other.offerings
    assert one.requirements == other.requirements
    assert str(one.capacity["pods"]) == "110"


def test_reserved_capacity_has_its_reservation(tmp_path: Path) -> None:
    path = tmp_path / "types.json"
    requirements = offering()["Requirements"]
    requirements[0]["values"] = ["reserved"]
    key = "karpenter.k8s.aws/capacity-reservation-id"
    requirements.append({"key": key, "operator": "In", "values": ["r1"]})
    path.write_text(
        json.dumps([instance_type(offerings=[offering(Requirements=requirements, ReservationCapacity=2)])])
    )
    (found,) = read_instance_types(str(path))[0].offerings
    assert (found.reservation_id, found.reservation_capacity, found.is_launchable) == ("r1", 2, True)


def node(name: str, cpu: str, **more: str) -> Node:
    own = {
        "karpenter.sh/nodepool": "p",
        "node.kubernetes.io/instance-type": "m.large",
        "kubernetes.io/os": "linux",
    }
    capacity = {"cpu": cpu, "memory": "8Gi"}
    status = NodeStatus(capacity=capacity, allocatable={"cpu": "1800m", "memory": "7Gi"})
    return Node(metadata=ObjectMeta(name=name, labels=own | more), status=status)


def test_nodes_show_types_without_prices() -> None:
    nodes = [node("a", "2", **{ZONE: "z1", KIND: "spot"}), node("b", "3", **{ZONE: "z2", "team": "x"})]
    (found,) = seen_types([*nodes, Node(metadata=ObjectMeta(name="c"))])["p"]
    assert (found.name, str(found.capacity["cpu"])) == ("m.large", "2")
    assert [(one.zone, one.capacity_type) for one in found.offerings] == [("z1", "spot"), ("z2", "on-demand")]
    assert labels(found) == {"kubernetes.io/os": ("linux",)}
    assert str(found.allocatable({})["cpu"]) == "1800m"


def test_labels_of_a_type_take_the_place_of_those_of_kwok(tmp_path: Path) -> None:
    path = tmp_path / "types.json"
    path.write_text(json.dumps([instance_type(labels={"karpenter.azure.com/sku-family": "D"})]))
    found = labels(read_instance_types(path)[0])
    assert found["karpenter.azure.com/sku-family"] == ("D",)
    assert sorted(found) == ["karpenter.azure.com/sku-family", "kubernetes.io/arch", "kubernetes.io/os"]
