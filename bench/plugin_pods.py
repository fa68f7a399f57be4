"""What the suite of plugins runs on: a cluster without pods, one with 5,000, and pods for each plugin."""

from __future__ import annotations

from random import Random

from bench.cluster import NODES
from msgspec.structs import replace

from moorage import Cluster, synthetic
from moorage.kube import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Service,
    ServiceSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
PODS = 5000
DISKS = ("ssd", "nvme", "hdd", "")
APPS = ("web", "api", "db", "shop")
PORTS = (8080, 9090, 9100)
IMAGES = tuple(f"registry.example.com/image-{n}:1" for n in range(20))
MIB = 2**20
SHOP = Service(metadata=ObjectMeta(name="shop", namespace="default"), spec=ServiceSpec({"app": "shop"}))

# Taints of a node and how many in a hundred have them.
TAINTS: dict[tuple[Taint, ...], int] = {
    (): 75,
    (Taint("dedicated", "batch", "NoSchedule"),): 10,
    (Taint("spot", "", "PreferNoSchedule"),): 10,
    (Taint("spot", "", "PreferNoSchedule"), Taint("old", "", "PreferNoSchedule")): 5,
}


def cluster(loaded: bool) -> Cluster:
    """5,000 nodes with zones, labels, taints, images and GPUs; with 5,000 pods on them, or without."""
    random = Random(7)
    nodes = [_node(random, node) for node in synthetic(nodes=NODES, seed=1).nodes]
    pods = [_bound_pod(random, number, nodes) for number in range(PODS)] if loaded else []
    return Cluster(nodes=nodes, pods=pods, others=[SHOP])


def _node(random: Random, node: Node) -> Node:
    disk, generation = random.choice(DISKS), str(random.randint(1, 8))
    labels = node.metadata.labels | {"generation": generation} | ({"disk": disk} if disk else {})
    taints = random.choices(list(TAINTS), list(TAINTS.values()))[0]
    images = tuple(
        ContainerImage((name,), 50 * MIB * (1 + IMAGES.index(name))) for name in random.sample(IMAGES, 6)
    )
    resources = node.status.allocatable | ({GPU: "8"} if random.random() < 0.2 else {})
    return replace(
        node,
        metadata=replace(node.metadata, labels=labels),
        spec=replace(node.spec, taints=taints, unschedulable=random.random() < 0.02),
        status=replace(node.status, capacity=resources, allocatable=resources, images=images),
    )


# ---- the pods there


def _bound_pod(random: Random, number: int, nodes: list[Node]) -> Pod:
    """A pod that takes 10 to 50 % of some node; four in ten have host ports or terms about others."""
    node = random.choice(nodes)
    cores = int(node.status.allocatable["cpu"])
    gib = int(str(node.status.allocatable["memory"]).removesuffix("Gi"))
    requests = {
        "cpu": f"{cores * random.randint(100, 500)}m",
        "memory": f"{gib * random.randint(100, 500)}Mi",
    }
    affinity, ports = None, ()
    kind = random.randrange(10)
    if kind == 0:
        ports = (ContainerPort(host_port=random.choice(PORTS)),)
    elif kind == 1:
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term(HOSTNAME, tier="lonely"),)))
    elif kind == 2:
        affinity = Affinity(pod_affinity=PodAffinity(required=(term(ZONE, app="friend"),)))
    elif kind == 3:
        preferred = (WeightedPodAffinityTerm(10, term(HOSTNAME, app="friend")),)
        affinity = Affinity(pod_affinity=PodAffinity(preferred=preferred))
    made = pod(f"bound-{number}", {"app": random.choice(APPS)}, requests=requests, ports=ports)
    return replace(made, spec=replace(made.spec, node_name=node.name, affinity=affinity))


def term(topology_key: str, **labels: str) -> PodAffinityTerm:
    return PodAffinityTerm(LabelSelector(match_labels=labels), topology_key=topology_key)


# ---- pods to place


def pod(
    name: str,
    labels: dict[str, str],
    *,
    requests: dict[str, str | int | float] | None = None,
    ports: tuple[ContainerPort, ...] = (),
    images: tuple[str, ...] = ("registry.example.com/other:1",),
    **spec: object,
) -> Pod:
    """A pod with a little cpu and memory, and what else is given."""
    resources = ResourceRequirements(requests=requests or {"cpu": "250m", "memory": "512Mi"})
    containers = tuple(
        Container(name=f"c{at}", image=image, resources=resources, ports=ports if at == 0 else ())
        for at, image in enumerate(images)
    )
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"pod/{name}", labels=labels),
        spec=PodSpec(scheduler_name="default-scheduler", containers=containers, **spec),  # type: ignore[arg-type]
    )


def copies(of: Pod, count: int) -> list[Pod]:
    """Equal pods by other names."""
    names = [f"{of.name}-{number}" for number in range(count)]
    return [replace(of, metadata=replace(of.metadata, name=name, uid=f"pod/{name}")) for name in names]


def plain() -> Pod:
    return pod("plain", {"app": "other"})


def on_a_node() -> Pod:
    return pod("named", {"app": "other"}, node_name="node-02500")


def tolerant() -> Pod:
    return pod("tolerant", {"app": "other"}, tolerations=(Toleration("dedicated", "Equal", "batch"),))


FAST = NodeSelectorRequirement("disk", "In", ("ssd", "nvme"))
NEW = NodeSelectorRequirement("generation", "Gt", ("3",))
IN_ZONE_1 = NodeSelectorRequirement(ZONE, "In", ("zone-1",))


def affine_to_nodes() -> Pod:
    """(disk in ssd, nvme and generation > 3) or zone-1; besides, a node selector."""
    terms = NodeSelectorTerm((FAST, NEW)), NodeSelectorTerm((IN_ZONE_1,))
    affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector(terms)))
    selector = {"topology.kubernetes.io/region": "region-0"}
    return pod("affine-to-nodes", {"app": "other"}, affinity=affinity, node_selector=selector)


def preferring_nodes() -> Pod:
    terms = (
        PreferredSchedulingTerm(30, NodeSelectorTerm((FAST, NEW))),
        PreferredSchedulingTerm(70, NodeSelectorTerm((IN_ZONE_1,))),
    )
    affinity = Affinity(node_affinity=NodeAffinity(preferred=terms))
    return pod("preferring-nodes", {"app": "other"}, affinity=affinity)


def with_ports() -> Pod:
    ports = ContainerPort(host_port=PORTS[0]), ContainerPort(host_port=PORTS[1])
    return pod("ports", {"app": "other"}, ports=ports)


def with_images() -> Pod:
    return pod("images", {"app": "other"}, images=(IMAGES[5], IMAGES[15]))


def spread(app: str, when: str, **skews: int) -> Pod:
    """Spread over zones or hosts: `zone=5`, `hostname=1` by maxSkew, in that order."""
    keys = {"zone": ZONE, "hostname": HOSTNAME}
    selector = LabelSelector(match_labels={"app": app})
    constraints = tuple(
        TopologySpreadConstraint(skew, keys[key], when, selector) for key, skew in skews.items()
    )
    return pod(
        "-".join(("spread", when.lower(), *skews)), {"app": app}, topology_spread_constraints=constraints
    )


def spread_by_default() -> Pod:
    """A Service selects the pod: the system's default constraints hold."""
    return pod("shop", {"app": "shop"})


def affine_to_pods() -> Pod:
    """In a zone with pods of its own kind, on a host without."""
    affinity = Affinity(
        pod_affinity=PodAffinity(required=(term(ZONE, app="db"),)),
        pod_anti_affinity=PodAffinity(required=(term(HOSTNAME, app="db"),)),
    )
    return pod("affine-to-pods", {"app": "db"}, affinity=affinity)


def preferring_pods() -> Pod:
    """Rather in a zone with pods of its own kind, rather not on a host with such."""
    affinity = Affinity(
        pod_affinity=PodAffinity(preferred=(WeightedPodAffinityTerm(50, term(ZONE, app="api")),)),
        pod_anti_affinity=PodAffinity(preferred=(WeightedPodAffinityTerm(100, term(HOSTNAME, app="api")),)),
    )
    return pod("preferring-pods", {"app": "api"}, affinity=affinity)


def subject_to_pods() -> Pod:
    """Without terms of its own; those of the pods there are about it."""
    return pod("subject", {"app": "friend", "tier": "lonely"})
