"""Made-up nodes and pod templates, as manifests."""

from __future__ import annotations

from random import Random
from typing import Any

from moorage.kube import decode_object

Manifest = dict[str, Any]
IMAGES = {"example.com/a:1": 400 * 2**20, "example.com/b:1": 90 * 2**20}


def make_node(random: Random, index: int) -> Manifest:
    labels = (
        {"zone-less": "x"}
        if random.random() < 0.1
        else {"topology.kubernetes.io/zone": f"z{random.randrange(3)}"}
    )
    labels |= {"kind": random.choice(["big", "small"])} if random.random() < 0.8 else {}
    labels |= {"rank": str(random.randrange(10))} if random.random() < 0.5 else {}
    taints = [
        {"key": random.choice("ab"), "value": random.choice(["", "v"]), "effect": effect}
        for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule")
        if random.random() < 0.06
    ]
    allocatable = {
        "cpu": random.choice(["1", "2", "4", "4500m"]),
        "memory": random.choice(["2Gi", "4Gi", "9000Mi"]),
        "pods": random.choice(["0", "2", "5", "110", "110", "110"]),
    }
    if random.random() < 0.3:
        allocatable |= {"example.com/gpu": "4", "ephemeral-storage": "10Gi"}
    held = random.sample(list(IMAGES), random.randrange(len(IMAGES) + 1))
    declared = ["UserNamespacesHostNetworkSupport"] if random.random() < 0.5 else []
    return {
        "kind": "Node",
        "metadata": {"name": f"n{index:03}", "labels": labels},
        "spec": {"unschedulable": random.random() < 0.05, "taints": taints},
        "status": {
            "allocatable": allocatable,
            "images": [{"names": [name], "sizeBytes": IMAGES[name]} for name in held],
            "declaredFeatures": [*declared, "Unknown"],
        },
    }


def make_container(random: Random) -> Manifest:
    requests: dict[str, str] = {}
    if random.random() < 0.8:
        requests |= {"cpu": random.choice(["100m", "250m", "1", "3"])}
    if random.random() < 0.8:
        requests |= {"memory": random.choice(["100Mi", "512Mi", "1Gi"])}
    if random.random() < 0.1:
        requests |= {"example.com/gpu": "1"}
    if random.random() < 0.1:
        requests |= {"ephemeral-storage": "3Gi"}
    container: Manifest = {"name": "c", "resources": {"requests": requests}}
    if random.random() < 0.4:
        container["image"] = random.choice([*IMAGES, "example.com/unknown:1"])
    if random.random() < 0.15:
        container["ports"] = [
            {"hostPort": random.choice([80, 81]), "protocol": random.choice(["TCP", "UDP"])}
        ]
        if random.random() < 0.5:
            container["ports"][0]["hostIP"] = random.choice(["0.0.0.0", "10.0.0.1"])
    return container


def make_term(random: Random) -> Manifest:
    choices = [
        {"key": "kind", "operator": "In", "values": ["big"]},
        {"key": "kind", "operator": "NotIn", "values": ["big"]},
        {"key": "rank", "operator": "Exists"},
        {"key": "rank", "operator": "DoesNotExist"},
        {"key": "rank", "operator": "Gt", "values": ["4"]},
        {"key": "rank", "operator": "Lt", "values": ["6"]},
    ]
    return {"matchExpressions": random.sample(choices, random.choice([0, 1, 1, 2]))}


def make_affinity(random: Random, nodes: int) -> Manifest:
    affinity: Manifest = {}
    terms = [make_term(random) for _ in range(random.randrange(3))]
    if random.random() < 0.3:  # names: one node, or some, of which not all exist
        names = [f"n{random.randrange(nodes + 1):03}" for _ in range(random.choice([1, 1, 3]))]
        terms = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names
        ]
    if terms:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if random.random() < 0.7:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": random.choice([1, 30, 100]), "preference": make_term(random)}
            for _ in range(random.randrange(4))
        ]
    return {"nodeAffinity": affinity}


def make_spec(random: Random, nodes: int) -> Manifest:
    """A pod template: half of them are plain."""
    spec: Manifest = {"containers": [make_container(random) for _ in range(random.choice([1, 1, 2]))]}
    if random.random() < 0.4:
        spec["tolerations"] = [
            random.choice(
                [
                    {"operator": "Exists"},
                    {"key": "a", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "b", "value": "v"},
                    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
                ]
            )
        ]
    if random.random() < 0.15:
        spec["nodeSelector"] = {"kind": random.choice(["big", "small"])}
    if random.random() < 0.1:
        spec |= {"hostNetwork": True, "hostUsers": False}
    if random.random() < 0.4:
        spec["affinity"] = make_affinity(random, nodes)
    return spec


def make_pod(name: str, spec: Manifest, **metadata: str) -> Manifest:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
        "spec": spec,
    }


def decoded(manifests: list[Manifest]) -> list[Any]:
    return [decode_object(manifest) for manifest in manifests]
