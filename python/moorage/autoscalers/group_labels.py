"""How nodes are known to be of a node group: labels of providers, and machines of OpenShift."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from moorage.kube import Node

EKS_GROUP, GKE_POOL, AKS_POOL = (
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
AGENT_POOLS = (AKS_POOL, "agentpool")
"""Labels that have the agent pool of a node; groups of one pool are similar whatever else differs."""
MACHINE = "machine.openshift.io/machine"
PROVIDER_LABELS = (
    *(EKS_GROUP, GKE_POOL, *AGENT_POOLS, "doks.digitalocean.com/node-pool"),
    *("kops.k8s.io/instancegroup", "alpha.eksctl.io/nodegroup-name", MACHINE),
)
"""Labels in which the nodes of EKS, GKE, AKS, DigitalOcean, kOps and eksctl have the name of their group, and
OpenShift's annotation of their machine, whose name begins with that of its MachineSet."""
_OF_MACHINE_SET = re.compile(r"(?:.*/)?(.+)-[bcdf-hj-np-tv-xz2-9]{5}")


def marks_of(node: Node) -> Mapping[str, str]:
    """Return what groups may be known by: labels, and the MachineSet of a machine of OpenShift."""
    machine = _OF_MACHINE_SET.fullmatch(node.metadata.annotations.get(MACHINE, ""))
    return {**node.metadata.labels, MACHINE: machine[1]} if machine else node.metadata.labels


def group_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the labels that nodes have the names of their groups in, by name."""
    labels = [marks_of(node) for node in nodes]
    return {label[key]: key for key in reversed(PROVIDER_LABELS) for label in labels if key in label}
