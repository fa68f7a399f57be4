"""A small cluster whose operations are repeated: nodes with images and taints, pods of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moorage import Profile, Scheduler, default_profile
from moorage.framework import Plugin
from moorage.objects import Cluster, Node, Pod, decode_object


def node(name: str, cpu: int = 8, **metadata: Any) -> Node:
    """A node with a label, a taint, an image and an extended resource."""
    document = {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": name[-1], "disk": "ssd"}} | metadata,
        "spec": {"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": 20, "example.com/gpu": 4},
            "images": [{"names": [f"image-{name}", "image"], "sizeBytes": 100_000_000}],
        },
    }
    made = decode_object(document)
    if not isinstance(made, Node):
        raise TypeError(made)
    return made


def pod(name: str, node_name: str = "", **spec: Any) -> Pod:
    """A pod with a UID and a container that asks for cpu, memory, a GPU and a host port."""
    container = {
        "name": "c",
        "image": "image",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi", "example.com/gpu": 1}},
        "ports": [{"containerPort": 80, "hostPort": 8080}],
    }
    document = {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [container], "nodeName": node_name} | spec,
    }
    made = decode_object(document)
    if not isinstance(made, Pod):
        raise TypeError(made)
    return made


def plain(name: str, cpu: str = "500m", node_name: str = "", **spec: Any) -> Pod:
    """A pod that only asks for cpu and memory, and selects the nodes with a label."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    containers = [{"name": "c", "image": "image", "resources": resources}]
    return pod(name, node_name, containers=containers, nodeSelector={"disk": "ssd"}, **spec)


def terms(name: str, node_name: str = "") -> Pod:
    """A pod that spreads, and that seeks and avoids others of its kind."""
    selector = {"matchLabels": {"app": "web"}}
    term = {"topologyKey": "zone", "labelSelector": selector}
    spread = {"maxSkew": 2, "topologyKey": "zone", "labelSelector": selector}
    weighted = [{"weight": 3, "podAffinityTerm": term}]
    apart = {"topologyKey": "disk", "labelSelector": {"matchLabels": {"app": "other"}}}
    return plain(
        name,
        node_name=node_name,
        topologySpreadConstraints=[
            spread | {"whenUnsatisfiable": action} for action in ("DoNotSchedule", "ScheduleAnyway")
        ],
        affinity={
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
        },
    )


def scheduler(nodes: int = 3, plugins: Sequence[Plugin] = ()) -> Scheduler:
    profile = Profile((*default_profile().plugins, *plugins))
    return Scheduler(Cluster(nodes=[node(f"n{index}") for index in range(nodes)]), profile=profile)


def place(made: Scheduler, pods: list[Pod]) -> list[str]:
    """Run pods of one class; the nodes of those that fit."""
    return [made.table.row_name(row) for row in made.schedule_pods(pods).rows.tolist() if row >= 0]
