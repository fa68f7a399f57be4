"""Labels that do not make node groups different, by the provider that cluster-autoscaler runs with.

Rules: cluster-autoscaler 1.36.1, processors/nodegroupset/PROVIDER_nodegroups.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from moorage.kube import Node
from moorage.kube.model.node import HOSTNAME

EKS_GROUP, GKE_POOL, AKS_POOL = (
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
AGENT_POOLS = (AKS_POOL, "agentpool")
"""Labels that have the agent pool of a node; groups of one pool are similar whatever else differs."""
_BASIC = frozenset(
    (
        *(HOSTNAME, "beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
    )
)
_AWS = frozenset(
    (
        *("alpha.eksctl.io/instance-id", "alpha.eksctl.io/nodegroup-name", EKS_GROUP),
        *("k8s.amazonaws.com/eniConfig", "lifecycle", "topology.ebs.csi.aws.com/zone"),
    )
)
_DISK, _GKE_ZONE = "topology.disk.csi.azure.com/zone", "topology.gke.io/zone"
_IBM = ("ibm-cloud.kubernetes.io/worker-id", "ibm-cloud.kubernetes.io/vpc-instance-id")
_IGNORED: Mapping[str, frozenset[str]] = {
    "aws": _AWS,
    "azure": frozenset(
        (
            *(*AGENT_POOLS, _DISK, "aksEngineVersion", "creationSource", "poolName", "resourceNameSuffix"),
            "kubernetes.azure.com/consolidated-additional-properties",
            "kubernetes.azure.com/node-image-version",
        )
    ),
    "gce": frozenset((_GKE_ZONE,)),
    "clusterapi": _AWS.union(
        (*AGENT_POOLS, _DISK, _GKE_ZONE, *_IBM, "vpc-block-csi-driver-labels"),
        ("topology.diskplugin.csi.alibabacloud.com/zone",),
    ),
}
MACHINE = "machine.openshift.io/machine"
_MACHINES = (MACHINE, "cluster.x-k8s.io/machine")
"""Annotations of nodes that are made of machines of the Cluster API or of OpenShift."""
_DOMAINS = {
    "eks.amazonaws.com": "aws",
    "alpha.eksctl.io": "aws",
    "k8s.amazonaws.com": "aws",
    "topology.ebs.csi.aws.com": "aws",
    "kubernetes.azure.com": "azure",
    "topology.disk.csi.azure.com": "azure",
    "cloud.google.com": "gce",
    "topology.gke.io": "gce",
}


def provider_of(node: Node) -> str:
    """Return the value of --cloud-provider that a node shows by its machine, providerID or labels; ""
    if it shows none."""
    if any(key in node.metadata.annotations for key in _MACHINES):
        return "clusterapi"
    scheme = node.spec.provider_id.partition("://")[0]
    if scheme in _IGNORED:
        return scheme
    domains = (key.partition("/")[0] for key in sorted(node.metadata.labels))
    return next((_DOMAINS[domain] for domain in domains if domain in _DOMAINS), "")


def ignored_labels(provider: str) -> frozenset[str]:
    """Return the labels that are not compared at a provider, those of places among them."""
    return _BASIC | _IGNORED.get(provider, frozenset())
