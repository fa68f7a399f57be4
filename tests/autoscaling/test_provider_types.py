"""Types of each provider's catalogue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moorage import Scheduler, load
from moorage.autoscalers import InstanceType, KarpenterOptions
from moorage.kube import EC2NodeClass, Node, NodePool
from tests.doors.autoscalers import CORE, PROVIDERS, Catalogue, given_types, types_of_objects

KINDS = {
    "karpenter.k8s.aws": ("EC2NodeClass", "aws:us-east-1"),
    "eks.amazonaws.com": ("NodeClass", "aws:us-east-1"),
    "karpenter.k8s.gcp": ("GCENodeClass", "gcp:us-central1"),
    "karpenter.azure.com": ("AKSNodeClass", "azure:westus2"),
}
OPEN = {
    "cloud.google.com/gke-cpu-scaling-level",
    "cloud.google.com/gke-netd-ready",
    "iam.gke.io/gke-metadata-server-enabled",
    "addon.gke.io/node-local-dns-ds-ready",
    "node.kubernetes.io/masq-agent-ds-ready",
    "projectcalico.org/ds-ready",
}
"""Labels of GKE's features: the provider leaves them open, so that DaemonSets that wait for them count."""


def types_of(group: str, *more: Mapping[str, object], given: str = "") -> list[InstanceType]:
    """The types of a pool with a node class of a group."""
    kind, usual = KINDS[group]
    reference = {"group": group, "kind": kind, "name": "default"}
    spec = {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": spec}
    client = Scheduler(load([pool, *more])).client
    objects = [*client.list(NodePool)[0], *client.list(EC2NodeClass)[0]]
    return [*types_of_objects(given_types(given or usual), client.list(Node)[0], objects).by_pool["p"]]


@pytest.mark.parametrize("group", KINDS)
def test_no_well_known_label_of_a_type_is_left_open(group: str) -> None:
    own = PROVIDERS[group]
    types = types_of(group)
    open_keys = set[str]()
    for known in Catalogue(KarpenterOptions(provider=own)).known(types):
        named = {*known.requirements.by_key, *known.unknown}
        for offering in known.offerings:
            named.update(offering.requirements.by_key)
        open_keys |= own.well_known - named - own.labels.keys()
    assert open_keys - OPEN == set()
    assert len(types) > 400
    assert own.values.keys() <= CORE.known | own.known


def test_a_node_shows_what_accelerator_its_type_has() -> None:
    labels = {"karpenter.sh/nodepool": "p", "karpenter.sh/capacity-type": "on-demand"}
    labels |= {"node.kubernetes.io/instance-type": "x9-gpu-1", "topology.kubernetes.io/zone": "us-central1-a"}
    labels |= {"cloud.google.com/gke-accelerator": "nvidia-new", "karpenter.k8s.gcp/instance-family": "x9"}
    status = {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "9"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": status}
    (new,) = [kind for kind in types_of("karpenter.k8s.gcp", node) if kind.name == "x9-gpu-1"]
    shown = {requirement.key: requirement.values for requirement in new.requirements}
    assert shown["cloud.google.com/gke-accelerator"] == ("nvidia-new",)


@pytest.mark.parametrize(
    ("group", "name", "left"),
    [
        # karpenter-provider-gcp: ResolveReservedResource and localssd.TotalGiB
        ("karpenter.k8s.gcp", "n2-standard-8", {"cpu": "7810m", "ephemeral-storage": "49Gi"}),
        ("karpenter.k8s.gcp", "c4d-highmem-8-lssd", {"cpu": "7810m", "ephemeral-storage": "1975Gi"}),
        ("karpenter.k8s.gcp", "z3-highmem-14-standardlssd", {"ephemeral-storage": "2650Gi"}),
        ("karpenter.k8s.gcp", "a3-highgpu-8g", {"nvidia.com/gpu": "1", "ephemeral-storage": "5300Gi"}),
        ("karpenter.k8s.gcp", "e2-medium", {"cpu": "-160m"}),
        # karpenter-provider-azure: KubeReservedResources
        ("karpenter.azure.com", "Standard_D4s_v5", {"cpu": "3860m", "nvidia.com/gpu": "0"}),
        ("karpenter.azure.com", "Standard_NC24ads_A100_v4", {"nvidia.com/gpu": "1"}),
    ],
)
def test_what_pods_can_have(group: str, name: str, left: dict[str, str]) -> None:
    found = {kind.name: kind for kind in types_of(group)}
    amounts = {key: str(amount) for key, amount in found[name].allocatable({}).items()}
    assert {key: amounts[key] for key in left} == left


def test_a_node_has_the_gpus_that_the_provider_does_not_count() -> None:
    (kind,) = [each for each in types_of("karpenter.k8s.gcp") if each.name == "a2-highgpu-8g"]
    assert str(kind.capacity["nvidia.com/gpu"]) == "1"
    assert kind.shown is not None
    assert str(kind.shown.allocatable["nvidia.com/gpu"]) == "8"
