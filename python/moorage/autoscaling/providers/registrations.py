"""What a cloud provider tells Karpenter when it starts: labels, domains, values and names of keys.

Rules: Karpenter v1.15.0, pkg/apis/v1/labels.go, and the ``init`` functions of each provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from moorage.objects import NodePool

ZONE = "topology.kubernetes.io/zone"
ZONE_ID = "topology.k8s.aws/zone-id"
RESERVATION_ID = "karpenter.k8s.aws/capacity-reservation-id"


@dataclass(frozen=True)
class Registration:
    """What Karpenter knows of labels; two are joined with ``|``.

    Attributes
    ----------
    well_known : frozenset of str
        Labels that types may have, so that a pool or claim need not name them.
    restricted : frozenset of str
        Domains below which nobody may make up a label; domains below them count, too.
    values : mapping of str to frozenset of str
        Labels that have these values alone.
    normalized : mapping of str to str
        Keys, such as the topology keys of CSI drivers, that are read as another key. kube-scheduler does not
        do that: a node has both.
    reservation_labels : tuple of str
        Labels of reserved capacity. The first has the ID of the reservation.
    """

    well_known: frozenset[str] = frozenset()
    restricted: frozenset[str] = frozenset()
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    normalized: Mapping[str, str] = field(default_factory=dict)
    reservation_labels: tuple[str, ...] = ()

    def __or__(self, other: Registration) -> Registration:
        return Registration(
            self.well_known | other.well_known,
            self.restricted | other.restricted,
            {**self.values, **other.values},
            {**self.normalized, **other.normalized},
            other.reservation_labels or self.reservation_labels,
        )

    def key(self, name: str) -> str:
        """Return the key as which a key is read."""
        return self.normalized.get(name, name)

    @property
    def known(self) -> frozenset[str]:
        """The well known labels, those of reservations included."""
        return self.well_known.union(self.reservation_labels)

    def restricts(self, key: str) -> bool:
        """Whether a key is below a restricted domain and is not well known."""
        domain = key.partition("/")[0] if "/" in key else ""
        below = any(domain == one or domain.endswith(f".{one}") for one in self.restricted)
        return below and key not in self.known


NOTHING = Registration()
"""For a provider of which nothing is known."""
CORE = Registration(
    frozenset(
        {
            *(
                "karpenter.sh/nodepool",
                "karpenter.sh/capacity-type",
                "kubernetes.io/arch",
                "kubernetes.io/os",
            ),
            *(ZONE, "topology.kubernetes.io/region"),
            *("node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build"),
        }
    ),
    frozenset({"karpenter.sh"}),
    {"karpenter.sh/capacity-type": frozenset({"on-demand", "reserved", "spot"})},
    {
        "failure-domain.beta.kubernetes.io/zone": ZONE,
        "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
        "beta.kubernetes.io/arch": "kubernetes.io/arch",
        "beta.kubernetes.io/os": "kubernetes.io/os",
        "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    },
    (RESERVATION_ID,),
)
"""What Karpenter knows whatever the provider."""

_AWS_INSTANCE = (
    *("category", "generation", "family", "size", "cpu", "cpu-manufacturer", "cpu-sustained-clock-speed-mhz"),
    *("memory", "ebs-bandwidth", "network-bandwidth", "hypervisor", "encryption-in-transit-supported"),
    *("capability-flex", "local-nvme", "gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory"),
    *("accelerator-name", "accelerator-manufacturer", "accelerator-count", "tenancy"),
)
AWS = Registration(
    frozenset(
        {
            *(f"karpenter.k8s.aws/instance-{name}" for name in _AWS_INSTANCE),
            *(RESERVATION_ID, "karpenter.k8s.aws/capacity-reservation-type"),
            *("karpenter.k8s.aws/capacity-reservation-interruptible", ZONE_ID),
            *("karpenter.k8s.aws/placement-group-id", "karpenter.k8s.aws/placement-group-partition"),
        }
    ),
    frozenset({"karpenter.k8s.aws"}),
    {"karpenter.k8s.aws/instance-tenancy": frozenset({"dedicated", "default"})},
    {"topology.ebs.csi.aws.com/zone": ZONE},
    (RESERVATION_ID, "karpenter.k8s.aws/capacity-reservation-type"),
)
"""Karpenter's provider for AWS v1.15.0, pkg/apis/v1/labels.go and pkg/operator/operator.go."""

PROVIDERS: Mapping[str, Registration] = {"karpenter.k8s.aws": AWS}
"""Registrations by the API group of the provider's node classes."""


def registration_of(pools: Iterable[NodePool]) -> Registration:
    """Return what the providers of pools register; nothing for a provider that is not known."""
    groups = {pool.spec.template.spec.node_class_ref.group for pool in pools}
    found = [PROVIDERS[group] for group in sorted(groups & PROVIDERS.keys())]
    return reduce(or_, found, NOTHING)
