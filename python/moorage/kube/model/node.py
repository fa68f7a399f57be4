"""Node and Namespace."""

import re
from collections.abc import Iterable, Mapping

from msgspec import field

from .meta import Condition, Int64, Object, Resources, Struct

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
REJECTING_EFFECTS = ("NoSchedule", "NoExecute")
HOSTNAME = "kubernetes.io/hostname"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
EKS_GROUP, GKE_POOL, AKS_POOL = (
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
AGENT_POOLS = (AKS_POOL, "agentpool")
"""Labels that have the agent pool of a node; groups of one pool are similar whatever else differs."""
MACHINE = "machine.openshift.io/machine"
OWNER, OWNER_KIND = "cluster.x-k8s.io/owner-name", "cluster.x-k8s.io/owner-kind"
PROVIDER_LABELS = (
    *(EKS_GROUP, GKE_POOL, *AGENT_POOLS, "doks.digitalocean.com/node-pool"),
    *("kops.k8s.io/instancegroup", "alpha.eksctl.io/nodegroup-name", MACHINE, OWNER),
)
"""Labels in which the nodes of EKS, GKE, AKS, DigitalOcean, kOps and eksctl have the name of their group, and
OpenShift's annotation of their machine, whose name begins with that of its MachineSet; and Cluster API's of
the MachineSet or MachinePool of their machine, or of the MachineDeployment of it."""
_OF_DEPLOYMENT = re.compile(r"(.+)-[bcdf-hj-np-tv-xz2-9]{5,10}")
_OF_MACHINE_SET = re.compile(r"(?:.*/)?(.+)-[bcdf-hj-np-tv-xz2-9]{5}")
INSTANCE_TYPE, POOL = "node.kubernetes.io/instance-type", "karpenter.sh/nodepool"
SHORT_LABELS = {
    "zone": (ZONE,),
    "region": (REGION,),
    "type": (INSTANCE_TYPE,),
    "pool": (POOL, *PROVIDER_LABELS),
}
"""What people call labels of nodes."""


class Taint(Struct, frozen=True):
    """A taint of a node (core/v1)."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None

    @property
    def text(self) -> str:
        """The taint as kubectl writes it."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


class NodePodPreemptionPolicy(Struct, frozen=True):
    """What a node says of preemption for its pods (core/v1, from v1.37)."""

    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(Struct, frozen=True):
    """Spec of a node (core/v1)."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class ContainerImage(Struct, frozen=True):
    """A container image on a node (core/v1)."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class AttachedVolume(Struct, frozen=True):
    """A volume attached to a node (core/v1)."""

    name: str = ""
    device_path: str = ""


class NodeSystemInfo(Struct, frozen=True):
    """What a node says of its software (core/v1)."""

    kubelet_version: str = ""


class NodeStatus(Struct, frozen=True):
    """Status of a node (core/v1)."""

    capacity: Resources = {}
    allocatable: Resources = {}
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[Condition, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    declared_features: tuple[str, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(Object, frozen=True):
    """A node (core/v1)."""

    kind: str = "Node"
    api_version: str = "v1"
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


SECURITY_LABELS = "pod-security.kubernetes.io/"
"""How the labels of a namespace begin that say which pods it takes."""


class Namespace(Object, frozen=True):
    """A namespace (core/v1)."""

    kind: str = "Namespace"
    api_version: str = "v1"


class LocalObjectReference(Struct, frozen=True):
    """The name of an object in the same namespace."""

    name: str = ""


class ServiceAccount(Object, frozen=True):
    """A service account (core/v1): what the API server gives the pods that run as it."""

    kind: str = "ServiceAccount"
    api_version: str = "v1"
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    automount_service_account_token: bool | None = None


KINDS = (Node, Namespace, ServiceAccount)
"""The kinds of this module that files are decoded to."""


# ---- what taints tell of nodes -----------------------------------------------------------------------------

_LEAVING = (
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "cloud.google.com/impending-node-termination",
    "aws-node-termination-handler/",
)
"""Taints of nodes that will go; those that end with a slash are prefixes."""
_OF_A_MOMENT = (
    *_LEAVING,
    "DeletionCandidateOfClusterAutoscaler",
    "NodeWithImpairedVolumes",
    "karpenter.sh/unregistered",
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "readiness.k8s.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
)
_OF_STARTS = ("/agent-not-ready", "/not-ready", "/uninitialized")
"""Endings of taints that a driver, a network or a cloud removes once the node has started."""


def is_of_a_moment(taint: Taint) -> bool:
    """Whether a taint tells what a node is going through: it starts, is in trouble, or will go.

    A new node that is ready has none of these, as in the templates of cluster-autoscaler (utils/taints) and
    Karpenter (scheduling/taints).
    """
    return _is_one_of(taint, _OF_A_MOMENT) or taint.key.endswith(_OF_STARTS)


def is_leaving(taint: Taint) -> bool:
    """Whether a taint tells that its node will go."""
    return _is_one_of(taint, _LEAVING)


def _is_one_of(taint: Taint, keys: tuple[str, ...]) -> bool:
    return any(taint.key == key or (key.endswith("/") and taint.key.startswith(key)) for key in keys)


def marks_of(node: Node) -> Mapping[str, str]:
    """Return what groups may be known by: labels, and the owners of machines of OpenShift and Cluster API."""
    annotations = node.metadata.annotations
    machine = _OF_MACHINE_SET.fullmatch(annotations.get(MACHINE, ""))
    owners = {MACHINE: machine[1]} if machine else {}
    if owner := annotations.get(OWNER):
        is_of_set = annotations.get(OWNER_KIND) == "MachineSet"
        of_deployment = _OF_DEPLOYMENT.fullmatch(owner) if is_of_set else None
        owners[OWNER] = of_deployment[1] if of_deployment else owner
    return {**node.metadata.labels, **owners} if owners else node.metadata.labels


def group_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the labels that nodes have the names of their groups in, by name."""
    marks = [marks_of(node) for node in nodes]
    return {label[key]: key for key in reversed(PROVIDER_LABELS) for label in marks if key in label}
