"""Which of the groups that could help grows, and among which groups with such nodes new ones are spread."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from msgspec import Struct

from moorage._core.base.resources import pod_requests
from moorage.kube import Node, Pod, Quantity, parse_milli
from moorage.kube.model.node import AGENT_POOLS, EKS_GROUP, HOSTNAME, MACHINE

from .estimator import amounts, capacity, requests
from .flags import GPUS, Flags, ScaledGroup
from .group_states import NodeTemplate

# ---- expanders: which of the groups that could help grows --------------------------------------------------

GIB = 1 << 30
STABILIZATION = 500, 500 << 20
"""Millicores and bytes of a pod whose price is added to both sides of the ratio of prices."""
PREFERRED_CPU = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
"""Up to how many nodes of the cluster which number of cpu is preferred; 32 beyond."""
GPU_UNFITNESS = 1000.0


class Option(Struct, frozen=True):
    """A way to grow: new nodes of a group, and the pods that fit on them.

    Attributes
    ----------
    runs : sequence of sequence of Pod
        The pods: runs of equal ones.
    similar : tuple of str
        Groups among which the nodes are spread.
    """

    group: ScaledGroup
    template: NodeTemplate
    nodes: int
    runs: Sequence[Sequence[Pod]]
    similar: tuple[str, ...] = ()


def narrow(flags: Flags, options: Sequence[Option], cluster: int) -> list[list[Option]]:
    """Return the options, and what each expander leaves of them, until one is left.

    Parameters
    ----------
    cluster : int
        Number of nodes in the cluster.
    """
    out = [list(options)]
    for name in flags.expanders:
        if name == "priority":
            out.append(_priority(flags, out[-1]))
        elif name != "random":
            scores = [_SCORES[name](flags, each, cluster) for each in out[-1]]
            out.append(
                [option for option, each in zip(out[-1], scores, strict=True) if each == min(scores)]
                or out[-1]
            )
        if len(out[-1]) == 1:
            break
    return out


def _waste(option: Option) -> float:
    """The sum of the parts of cpu and memory that stay free on the new nodes."""
    total, needs = 0.0, [0, 0]
    for run in option.runs:
        for at, each in enumerate(requests(run[0])):
            needs[at] += each * len(run)
    for amount, need in zip(amounts(capacity(option.template.node)), needs, strict=True):
        if amount:
            total += float(amount * option.nodes - need) / float(amount * option.nodes)
    return total


def _price_score(flags: Flags, option: Option, cluster: int) -> float:
    """The price of the nodes by that of the pods, times the unfitness of the size of the nodes."""
    stabilization = _pod_price(flags, *STABILIZATION)
    nodes = (option.group.price or 0.0) * option.nodes
    prices = (repeat(_pod_price(flags, *requests(run[0])), len(run)) for run in option.runs)
    pods = sum(chain.from_iterable(prices), start=0.0)
    has = capacity(option.template.node)
    preferred = next((cpu for most, cpu in PREFERRED_CPU if cluster <= most), 32) * 1000
    cpu = parse_milli(has.get("cpu", "0"))
    unfitness = max(preferred / cpu, cpu / preferred) if cpu else math.inf
    suppressed = (unfitness - 1.0) * (1.0 - math.tanh((option.nodes - 1) / 15.0)) + 1.0
    if any(parse_milli(has.get(name, "0")) for name in GPUS):
        suppressed = GPU_UNFITNESS
    return suppressed * ((nodes + stabilization) / (pods + stabilization))


def _pod_price(flags: Flags, cpu: int, memory: int) -> float:
    return flags.pod_prices.cpu * cpu / 1000 + flags.pod_prices.memory * memory / GIB


def _priority(flags: Flags, options: list[Option]) -> list[Option]:
    """The groups of the greatest priority; all where none has one."""
    for priority in sorted(flags.priorities, reverse=True):
        patterns = flags.priorities[priority]
        best = [option for option in options if any(re.search(each, option.group.name) for each in patterns)]
        if best and priority >= -1:  # as upstream begins to compare
            return best
    return options


_SCORES: dict[str, Callable[[Flags, Option, int], float]] = {
    "most-pods": lambda flags, option, cluster: -sum(map(len, option.runs)),
    "least-nodes": lambda flags, option, cluster: option.nodes,
    "least-waste": lambda flags, option, cluster: _waste(option),
    "price": _price_score,
}
"""The options of the least score are left."""


# ---- labels that do not make node groups different, by the provider that cluster-autoscaler runs with ------
# Rules: cluster-autoscaler 1.36.1, processors/nodegroupset/PROVIDER_nodegroups.go.

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


# ---- groups whose nodes are about the same, among which new nodes are spread -------------------------------

MEMORY_TOLERANCE, TOLERANCE = 0.015, 0.05
_COUNTED = ("cpu", "memory", "pods", "ephemeral-storage")


def are_similar(template: NodeTemplate, other: NodeTemplate, flags: Flags) -> bool:
    """Whether new nodes of two groups are alike, but for their zone, as the provider compares them. Without
    the flag, the nodes show which provider that is."""
    mine, its = template.node.metadata.labels, other.node.metadata.labels
    if flags.balancing_labels:
        return all(key in mine and mine[key] == its.get(key) for key in flags.balancing_labels)
    provider = flags.cloud_provider or provider_of(template.node) or provider_of(other.node)
    if provider == "azure" and any(key in mine and mine[key] == its.get(key) for key in AGENT_POOLS):
        return True
    ignored = ignored_labels(provider).union(flags.balancing_ignore_labels)
    return (
        _is_same_capacity(_nanos(capacity(template.node)), _nanos(capacity(other.node)))
        and _are_close(
            _nanos(template.node.status.allocatable), _nanos(other.node.status.allocatable), TOLERANCE
        )
        and _are_close(_free(template), _free(other), TOLERANCE)
        and {key: value for key, value in mine.items() if key not in ignored}
        == {key: value for key, value in its.items() if key not in ignored}
    )


def _nanos(amounts: Mapping[str, object]) -> dict[str, int]:
    return {name: Quantity(str(amount)).nanos() for name, amount in amounts.items()}


def _is_same_capacity(own: dict[str, int], other: dict[str, int]) -> bool:
    rest = own | other
    rest.pop("memory", None)
    same = own.keys() == other.keys() and all(own[name] == other[name] for name in rest)
    mine, its = own.get("memory", 0), other.get("memory", 0)
    return same and _are_close({"memory": mine}, {"memory": its}, MEMORY_TOLERANCE)


def _are_close(own: dict[str, int], other: dict[str, int], tolerance: float) -> bool:
    if own.keys() != other.keys():
        return False
    for name, amount in own.items():
        low, high = sorted((amount, other[name]))
        if high - low > high * tolerance:
            return False
    return True


def _free(template: NodeTemplate) -> dict[str, int]:
    """What the pods of a new node leave of each resource that is counted."""
    used: dict[str, int] = dict.fromkeys(_COUNTED, 0)
    for pod in template.pods:
        for name, amount in pod_requests(pod).items():
            used[name] = used.get(name, 0) + amount.nanos()
    has = _nanos(template.node.status.allocatable)
    return {name: has.get(name, 0) - amount for name, amount in used.items()}


@dataclass
class GroupSize:
    """The size that a group has and that it gets."""

    group: str
    size: int
    most: int
    new_size: int


def spread(groups: Iterable[tuple[str, int, int]], nodes: int) -> list[GroupSize]:
    """Spread new nodes over groups (name, size, greatest size): each goes to the smallest that is not full.

    Returns
    -------
    list of GroupSize
        Of the groups that grow.
    """
    sizes = [GroupSize(name, size, most, size) for name, size, most in groups if size != most]
    sizes.sort(key=lambda each: each.size)
    for _ in range(nodes):
        open_groups = [each for each in sizes if each.new_size < each.most]
        if not open_groups:
            break
        min(open_groups, key=lambda each: each.new_size).new_size += 1
    return [each for each in sizes if each.new_size != each.size]
