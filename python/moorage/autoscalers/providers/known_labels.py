"""What a cloud provider tells Karpenter when it starts: labels, domains, values and names of keys.

Rules: Karpenter v1.15.0, pkg/apis/v1/labels.go, and the ``init`` functions of each provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_

from moorage.kube import NodePool, NodeSelectorRequirement
from moorage.kube.model.autoscaling import NodeRequirement

ZONE = "topology.kubernetes.io/zone"
ZONE_ID = "topology.k8s.aws/zone-id"
RESERVATION_ID = "karpenter.k8s.aws/capacity-reservation-id"


def domain_of(key: str) -> str:
    """Return what stands before the slash of a label; "" if there is none."""
    return key.partition("/")[0] if "/" in key else ""


@dataclass(frozen=True)
class KnownLabels:
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
    normalized_values : mapping of str to mapping
        By key, values that are read as another value.
    reservation_labels : tuple of str
        Labels of reserved capacity. The first has the ID of the reservation.
    domains : frozenset of str
        Domains of the labels that say what an instance type is. Where no known label of a type is below
        such a domain, it is unknown whether it has one.
    labels : mapping of str to str
        What every node of the provider has.
    beside : mapping of str to str
        Labels of types below other domains, by the domain beside whose labels they stand.
    """

    well_known: frozenset[str] = frozenset()
    restricted: frozenset[str] = frozenset()
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    normalized: Mapping[str, str] = field(default_factory=dict)
    normalized_values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reservation_labels: tuple[str, ...] = ()
    domains: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)

    def __or__(self, other: KnownLabels) -> KnownLabels:
        return KnownLabels(
            self.well_known | other.well_known,
            self.restricted | other.restricted,
            {**self.values, **other.values},
            {**self.normalized, **other.normalized},
            {**self.normalized_values, **other.normalized_values},
            other.reservation_labels or self.reservation_labels,
            self.domains | other.domains,
            {**self.labels, **other.labels},
            {**self.beside, **other.beside},
        )

    def key(self, name: str) -> str:
        """Return the key as which a key is read."""
        return self.normalized.get(name, name)

    def of_drivers(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels that are read as others, with the values that these have."""
        written = {
            key: {value: own for own, value in values.items()}
            for key, values in self.normalized_values.items()
        }
        every = ((own, key, labels.get(key, "")) for own, key in self.normalized.items())
        return {own: written.get(key, {}).get(value, value) for own, key, value in every if value}

    @cached_property
    def known(self) -> frozenset[str]:
        """The well known labels, those of reservations included."""
        return self.well_known.union(self.reservation_labels)

    def values_of(
        self, key: str, requirements: Iterable[NodeSelectorRequirement | NodeRequirement]
    ) -> set[str]:
        """Return the values of a label that requirements name with the operator In."""
        named = [
            requirement
            for requirement in requirements
            if (self.key(requirement.key), requirement.operator) == (key, "In")
        ]
        return {value for each in named for value in each.values}

    def restricts(self, key: str) -> bool:
        """Whether a key is below a restricted domain and is not well known."""
        domain = domain_of(key)
        below = any(domain == each or domain.endswith(f".{each}") for each in self.restricted)
        return below and key not in self.known

    @cached_property
    def of_types(self) -> frozenset[str]:
        """The labels that say what an instance type is."""
        every = frozenset(key for key in self.known if self.domain_of(key) in self.domains)
        return every - self.labels.keys()

    def beside_those_of(self, named: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Return the labels that a type with some labels lacks, and those of which that is unknown.

        Most types have the labels of others, so it is found once for each set of them.
        """
        if named not in self._beside:
            others = self.of_types - named
            shown = {domain_of(key) for key in named if key != self.reservation_labels[0]}
            unknown = frozenset(key for key in others if self.domain_of(key) not in shown)
            self._beside[named] = others - unknown, unknown
        return self._beside[named]

    @cached_property
    def _beside(self) -> dict[frozenset[str], tuple[frozenset[str], frozenset[str]]]:
        return {}

    def domain_of(self, key: str) -> str:
        """Return the domain with whose labels one of a type is known, or not."""
        return self.beside.get(key) or domain_of(key)


NOTHING = KnownLabels()
"""For a provider of which nothing is known."""
CORE = KnownLabels(
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
    reservation_labels=(RESERVATION_ID,),
)
"""What Karpenter knows whatever the provider."""

_AWS_INSTANCE = (
    *("category", "generation", "family", "size", "cpu", "cpu-manufacturer", "cpu-sustained-clock-speed-mhz"),
    *("memory", "ebs-bandwidth", "network-bandwidth", "hypervisor", "encryption-in-transit-supported"),
    *("capability-flex", "local-nvme", "gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory"),
    *("accelerator-name", "accelerator-manufacturer", "accelerator-count", "tenancy"),
)
AWS = KnownLabels(
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
    reservation_labels=(RESERVATION_ID, "karpenter.k8s.aws/capacity-reservation-type"),
    domains=frozenset({"karpenter.k8s.aws", domain_of(ZONE_ID)}),
)
"""Karpenter's provider for AWS v1.15.0, pkg/apis/v1/labels.go and pkg/operator/operator.go."""

_EKS = "eks.amazonaws.com"
EKS = KnownLabels(
    frozenset(
        {
            *(f"{_EKS}/instance-{name}" for name in _AWS_INSTANCE if not name.startswith("accelerator-")),
            *(ZONE_ID, f"{_EKS}/compute-type"),
        }
    ),
    normalized={"topology.ebs.csi.eks.amazonaws.com/zone": ZONE},
    domains=frozenset({_EKS, domain_of(ZONE_ID)}),
    labels={f"{_EKS}/compute-type": "auto"},
)
"""EKS Auto Mode, as its documentation and the labels of its nodes show it: its code is not public."""
_AZURE, _AKS = "karpenter.azure.com", "kubernetes.azure.com"
REGIONAL_ZONE = "0"
"""The zone of nodes that are in none; the CSI driver says ""."""
_SKU = (
    *("name", "family", "series", "version", "cpu", "memory", "networking-accelerated"),
    *("storage-premium-capable", "storage-ephemeralos-maxsize", "storage-ultra-ssd"),
    *("gpu-name", "gpu-manufacturer", "gpu-count"),
)
INTERNAL = frozenset({f"{_AZURE}/sku-hyperv-generation"})
"""Labels of types that pools and pods may not name."""
_FLAG = frozenset({"false", "true"})
AZURE = KnownLabels(
    frozenset(
        {
            *(f"{_AZURE}/sku-{name}" for name in _SKU),
            f"{_AZURE}/placement-scope",
            *(f"{_AKS}/{name}" for name in ("sku-cpu", "sku-memory", "cluster", "mode", "scalesetpriority")),
            *(f"{_AKS}/{name}" for name in ("priority", "os-sku", "fips_enabled")),
        }
    ),
    frozenset({_AZURE}),
    {
        "karpenter.sh/capacity-type": frozenset({"on-demand", "spot"}),
        f"{_AZURE}/sku-networking-accelerated": _FLAG,
        f"{_AZURE}/sku-storage-premium-capable": _FLAG,
        f"{_AZURE}/sku-storage-ultra-ssd": _FLAG,
        f"{_AZURE}/sku-gpu-manufacturer": frozenset({"amd", "nvidia"}),
        f"{_AZURE}/placement-scope": frozenset({"regional", "zonal"}),
        f"{_AKS}/mode": frozenset({"system", "user"}),
        f"{_AKS}/scalesetpriority": frozenset({"regular", "spot"}),
        f"{_AKS}/priority": frozenset({"regular", "spot"}),
        f"{_AKS}/os-sku": frozenset({"AzureLinux", "Ubuntu"}),
        f"{_AKS}/fips_enabled": frozenset({"true"}),
    },
    {"topology.disk.csi.azure.com/zone": ZONE},
    {ZONE: {"": REGIONAL_ZONE}},
    domains=frozenset({_AZURE, _AKS}),
)
"""Karpenter's provider for Azure (352646f5), pkg/apis/v1beta1/labels.go and pkg/utils/zones."""
_GCP = "karpenter.k8s.gcp"
_MACHINE = (
    *("family", "shape", "generation", "size", "cpu", "memory"),
    *("gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory"),
)
GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
DISK_TYPE = "disk-type.gke.io/"
DISK_TYPES = (
    *("pd-balanced", "pd-extreme", "pd-ssd", "pd-standard", "hyperdisk-balanced"),
    *("hyperdisk-balanced-high-availability", "hyperdisk-extreme", "hyperdisk-ml", "hyperdisk-throughput"),
)
"""Of labels that say which disks a type takes."""
_GKE = ("gke-cpu-scaling-level", "gke-netd-ready")
GCP = KnownLabels(
    frozenset(
        {
            *(f"{_GCP}/instance-{name}" for name in _MACHINE),
            *("topology.k8s.gcp/zone-id", "projectcalico.org/ds-ready", GKE_ACCELERATOR),
            *(f"cloud.google.com/{name}" for name in _GKE),
            *("iam.gke.io/gke-metadata-server-enabled", "addon.gke.io/node-local-dns-ds-ready"),
            "node.kubernetes.io/masq-agent-ds-ready",
            *(f"{DISK_TYPE}{name}" for name in DISK_TYPES),
        }
    ),
    frozenset({_GCP}),
    normalized={"topology.gke.io/zone": ZONE},
    domains=frozenset({_GCP, "topology.k8s.gcp", domain_of(DISK_TYPE)}),
    beside={GKE_ACCELERATOR: _GCP},
)
"""Karpenter's provider for GCP (417f047b), pkg/apis/v1alpha1/labels.go and pkg/operator/operator.go."""
_KWOK = "karpenter.kwok.sh"
KWOK = KnownLabels(
    frozenset(f"{_KWOK}/instance-{name}" for name in ("cpu", "family", "memory", "size")),
    frozenset({_KWOK}),
    domains=frozenset({_KWOK}),
)
"""Karpenter's provider for kwok."""

PROVIDERS: Mapping[str, KnownLabels] = {
    "karpenter.k8s.aws": AWS,
    _EKS: EKS,
    _AZURE: AZURE,
    _GCP: GCP,
    _KWOK: KWOK,
}
"""Registrations by the API group of the provider's node classes."""
DOMAINS = frozenset().union(*[each.domains for each in PROVIDERS.values()])
"""The domains of labels that say what an instance type of a known provider is."""


def known_labels_of(pools: Iterable[NodePool]) -> KnownLabels:
    """Return what the providers of pools register. Of a provider that is not known the group of its node
    classes is the domain of its labels."""
    return reduce(or_, map(_of_pool, pools), NOTHING)


def _of_pool(pool: NodePool) -> KnownLabels:
    """What the provider of a pool registers, and the labels of providers that the pool names besides."""
    spec = pool.spec.template.spec
    group = spec.node_class_ref.group
    own = PROVIDERS.get(group) or KnownLabels(domains=frozenset({group}))
    domains, known = DOMAINS | own.domains, CORE | own
    named = [known.key(requirement.key) for requirement in spec.requirements or ()]
    more = frozenset(key for key in named if domain_of(key) in domains and not known.restricts(key))
    return own | KnownLabels(more, domains=frozenset(map(domain_of, more)))
