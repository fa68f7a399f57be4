"""Synthetic clusters, determined by their arguments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from moorage.errors import InputError
from moorage.kube import Cluster, Container, Node, ObjectMeta, Pod, PodSpec, Resources
from moorage.kube.model.node import HOSTNAME, ZONE, NodeStatus
from moorage.kube.model.pod import ResourceRequirements

# Cores of a node and percentage of such nodes; three ratios of memory per core are equally frequent.
CORES = {4: 30, 8: 30, 16: 20, 32: 15, 64: 5}
GIB_PER_CORE = (2, 4, 8)

# Application: cpu, memory, and percentage of its pods.
TEMPLATES = {
    "web": ("250m", "512Mi", 34),
    "api": ("500m", "1Gi", 25),
    "cache": ("1", "8Gi", 15),
    "worker": ("2", "4Gi", 15),
    "batch": ("4", "16Gi", 8),
    "train": ("8", "32Gi", 3),
}

MOST_NODES, MOST_PODS = 1_000_000, 10_000_000
"""Larger numbers are refused, because they exceed the memory."""
START = datetime(2026, 1, 1, tzinfo=UTC)


def synthetic(nodes: int = 5000, zones: int = 3, pods: int = 0, seed: int = 0) -> Cluster:
    """Make a synthetic cluster: nodes of several sizes, and pending pods of a few templates.

    Parameters
    ----------
    nodes : int
        Number of nodes: 4 to 64 cores with 2, 4 or 8 GiB per core, and room for 110 pods each.
    zones : int
        Number of zones, to which nodes are assigned in turn.
    pods : int
        Number of pending pods, with creation times one second apart.
    seed : int
        Seed of the random sizes; equal arguments give equal clusters.

    Raises
    ------
    InputError
        A number is too small, or there are more than a million nodes or zones or more than ten million pods.
    """
    bounds = (("nodes", nodes, 0, MOST_NODES), ("zones", zones, 1, MOST_NODES), ("pods", pods, 0, MOST_PODS))
    for name, value, least, most in bounds:
        if not least <= value <= most:
            bound = f"at least {least}" if value < least else f"at most {most}"
            raise InputError(f"must be {bound}, not {value}", obj="synthetic", path=name)
    random = Random(seed)
    return Cluster(nodes=_nodes(random, nodes, zones), pods=_pods(random, pods))


def _nodes(random: Random, count: int, zones: int) -> list[Node]:
    cores = random.choices(list(CORES), list(CORES.values()), k=count)
    ratios = random.choices(GIB_PER_CORE, k=count)
    sizes = zip(cores, ratios, strict=True)
    return [_node(f"node-{index:05d}", index % zones, *size) for index, size in enumerate(sizes)]


def _node(name: str, zone: int, cores: int, gib_per_core: int) -> Node:
    resources: Resources = {"cpu": str(cores), "memory": f"{cores * gib_per_core}Gi", "pods": "110"}
    labels = {
        HOSTNAME: name,
        "topology.kubernetes.io/region": "region-0",
        ZONE: f"zone-{zone}",
    }
    metadata = ObjectMeta(name=name, uid=f"node/{name}", labels=labels)
    return Node(metadata=metadata, status=NodeStatus(capacity=resources, allocatable=resources))


def _pods(random: Random, count: int) -> list[Pod]:
    """Pending pods; those of one template share spec and labels."""
    weights = [weight for *_, weight in TEMPLATES.values()]
    labels = {app: {"app": app} for app in TEMPLATES}
    specs = {app: _spec(app, cpu, memory) for app, (cpu, memory, _) in TEMPLATES.items()}
    pods = []
    for index, app in enumerate(random.choices(list(TEMPLATES), weights, k=count)):
        name = f"{app}-{index:06d}"
        metadata = ObjectMeta(
            name=name,
            namespace="default",
            uid=f"pod/{name}",
            labels=labels[app],
            creation_timestamp=f"{START + timedelta(seconds=index):%Y-%m-%dT%H:%M:%SZ}",
        )
        pods.append(Pod(metadata=metadata, spec=specs[app]))
    return pods


def _spec(app: str, cpu: str, memory: str) -> PodSpec:
    resources = ResourceRequirements(requests={"cpu": cpu, "memory": memory})
    container = Container(name=app, image=f"example.com/{app}:1", resources=resources)
    return PodSpec(scheduler_name="default-scheduler", containers=(container,))
