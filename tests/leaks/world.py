"""A small cluster whose operations are repeated: nodes with images and taints, pods of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moorage import Profile, Scheduler, default_profile
from moorage.engine.framework import Plugin
from moorage.kube import Cluster, Node, Pod
from tests import make


def node(name: str, cpu: int = 8, **metadata: Any) -> Node:
    """A node with a label, a taint, an image and an extended resource."""
    return make.node(
        name,
        labels={"zone": name[-1], "disk": "ssd"},
        taints=[{"key": "soft", "effect": "PreferNoSchedule"}],
        images=[([f"image-{name}", "image"], 100_000_000)],
        metadata=metadata,
        **{"cpu": cpu, "memory": "32Gi", "pods": 20, "example.com/gpu": 4},
    )


def pod(name: str, node_name: str = "", **spec: Any) -> Pod:
    """A pod with a container that asks for cpu, memory, a GPU and a host port."""
    requests = {"cpu": "500m", "memory": "1Gi", "example.com/gpu": 1}
    containers = [make.container("c", requests, image="image", ports=(make.port(8080),))]
    return make.pod(name, node_name, labels={"app": "web"}, **{"containers": containers} | spec)


def plain(name: str, cpu: str = "500m", node_name: str = "", **spec: Any) -> Pod:
    """A pod that only asks for cpu and memory, and selects the nodes with a label."""
    containers = [make.container("c", {"cpu": cpu, "memory": "1Gi"}, image="image")]
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
