"""Synthetic clusters, reproducible by their arguments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from moorage.errors import InputError
from moorage.objects import Cluster, Container, Node, ObjectMeta, Pod, PodSpec, Resources
from moorage.objects.model.node import NodeStatus
from moorage.objects.model.pod import ResourceRequirements

# Cores of a node and how many in a hundred have them; memory per core comes in three ratios, equally often.
CORES = {4: 30, 8: 30, 16: 20, 32: 15, 64: 5}
GIB_PER_CORE = (2, 4, 8)

# Application: cpu, memory, and how many pods in a hundred are of it.
TEMPLATES = {
    "web": ("250m", "512Mi", 34),
    "api": ("500m", "1Gi", 25),
    "cache": ("1", "8Gi", 15),
    "worker": ("2", "4Gi", 15),
    "batch": ("4", "16Gi", 8),
    "train": ("8", "32Gi", 3),
}

MOST_NODES, MOST_PODS = 1_000_000, 10_000_000
"""Larger numbers are refused: there is no memory for them."""
START = datetime(2026, 1, 1, tzinfo=UTC)


def synthetic(nodes: int = 5000, zones: int = 3, pods: int = 0, seed: int = 0) -> Cluster:
    """Make a synthetic cluster: nodes of several sizes, and pending pods of a few templates.

    Parameters
    ----------
    nodes : int
        Number of nodes: 4 to 64 cores with 2, 4 or 8 GiB per core, room for 110 pods each.
    zones : int
        Number of zones; the nodes go round them.
    pods : int
        Number of pending pods, created one second apart.
    seed : int
        Seed of the random sizes; equal arguments give equal clusters.

    Returns
    -------
    Cluster

    Raises
    ------
    InputError
        For a number that is too small, more than a million nodes or zones, more than ten million pods.
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
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/region": "region-0",
        "topology.kubernetes.io/zone": f"zone-{zone}",
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
