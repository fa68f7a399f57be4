"""What an EC2NodeClass says of its nodes, in so far as it changes what fits, where and at what price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec
from msgspec import field
from msgspec.structs import replace

from moorage.kube.apiserver.decode import decode
from moorage.kube.model.autoscaling import ProviderNodeClass
from moorage.lazy import NamedTuple

from ..kept_by_kubelet import AWS, KubeletSettings


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Part of a node class. Fields that are not named change nothing that counts."""


class BlockDeviceVolume(_Part, frozen=True):
    volume_size: str | int | None = None


class BlockDevice(_Part, frozen=True):
    device_name: str = ""
    ebs: BlockDeviceVolume = BlockDeviceVolume()
    root_volume: bool = False


class NetworkInterface(_Part, frozen=True):
    network_card_index: int = 0
    device_index: int = 0
    interface_type: str = ""
    secondary_ip_prefix_count: int = field(default=0, name="secondaryIPPrefixCount")
    secondary_ip_count: int = field(default=0, name="secondaryIPCount")


class ImageTerm(_Part, frozen=True):
    alias: str = ""


class CpuOptions(_Part, frozen=True):
    nested_virtualization: str = ""


class EnclaveOptions(_Part, frozen=True):
    enabled: bool = False


class _Tag(msgspec.Struct, frozen=True, rename="pascal"):
    key: str
    value: str = ""


class Reservation(msgspec.Struct, frozen=True, rename="pascal"):
    """Instances of a type that were paid for, in one zone, as EC2 describes them."""

    id: str = field(name="CapacityReservationId")
    instance_type: str
    availability_zone: str
    available_instance_count: int = 0
    state: str = "active"
    reservation_type: str = "default"
    interruptible: bool = False
    instance_match_criteria: str = "open"
    owner_id: str = ""
    tags: tuple[_Tag, ...] = ()


class ReservationTerm(_Part, frozen=True):
    """What a reservation has to have; what is left out may be anything."""

    id: str = ""
    tags: dict[str, str] = {}
    owner_id: str = field(default="", name="ownerID")
    instance_match_criteria: str = ""

    def selects(self, reservation: Reservation) -> bool:
        """Whether the term selects a reservation; the value ``*`` of a tag is any."""
        tags = {tag.key: tag.value for tag in reservation.tags}
        return (
            self.id in ("", reservation.id)
            and self.owner_id in ("", reservation.owner_id)
            and self.instance_match_criteria in ("", reservation.instance_match_criteria)
            and all(key in tags and value in ("*", tags[key]) for key, value in self.tags.items())
        )


class EphemeralStorage(_Part, frozen=True):
    """The disk of a node of EKS Auto Mode."""

    size: str = "80Gi"


class NodeClassSpec(_Part, frozen=True):
    ami_family: str = field(default="", name="amiFamily")
    ami_selector_terms: tuple[ImageTerm, ...] = field(default=(), name="amiSelectorTerms")
    capacity_reservation_selector_terms: tuple[ReservationTerm, ...] = ()
    kubelet: KubeletSettings = KubeletSettings()
    block_device_mappings: tuple[BlockDevice, ...] = ()
    instance_store_policy: str = ""
    network_interfaces: tuple[NetworkInterface, ...] | None = None
    connection_tracking: dict[str, object] | None = None
    cpu_options: CpuOptions = CpuOptions()
    enclave_options: EnclaveOptions = EnclaveOptions()
    ephemeral_storage: EphemeralStorage = EphemeralStorage()


class Subnet(_Part, frozen=True):
    zone: str = ""
    zone_id: str = field(default="", name="zoneID")


class CapacityReservation(_Part, frozen=True):
    """Instances of a type that were paid for, in one zone."""

    id: str = ""
    availability_zone: str = ""
    instance_type: str = ""
    reservation_type: str = "default"
    interruptible: bool = False
    state: str = "active"


class NodeClassStatus(_Part, frozen=True):
    subnets: tuple[Subnet, ...] = ()
    capacity_reservations: tuple[CapacityReservation, ...] = ()


class Family(NamedTuple):
    """What a family of machine images is like.

    Attributes
    ----------
    counts_interfaces : bool
        Whether pods are as many as the network interfaces have addresses for; else 110.
    reserves_by_interfaces : bool
        Whether the kubelet's memory is reserved for so many pods, whatever maxPods says.
    device, size : str
        The block device with the pods' storage, and its size.
    build : str
        Of Windows; "" for Linux.
    """

    counts_interfaces: bool = True
    reserves_by_interfaces: bool = True
    has_pods_per_core: bool = True
    device: str = "/dev/xvda"
    size: str = "20Gi"
    build: str = ""


CUSTOM = "Custom"
_LINUX = Family()
_WINDOWS = Family(False, False, True, "/dev/sda1", "50Gi")
_FAMILIES = {
    "Bottlerocket": Family(True, False, False, "/dev/xvdb"),
    "Windows2019": _WINDOWS._replace(build="10.0.17763"),
    "Windows2022": _WINDOWS._replace(build="10.0.20348"),
    "Windows2025": _WINDOWS._replace(build="10.0.26100"),
    CUSTOM: Family(device=""),
}
_ALIASES = {
    each.lower(): each
    for each in ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025")
}


class NodeClass(msgspec.Struct, frozen=True, dict=True):
    """An EC2NodeClass as the provider reads it."""

    name: str
    spec: NodeClassSpec = NodeClassSpec()
    status: NodeClassStatus = NodeClassStatus()
    assumed: dict[str, str] = {}

    @classmethod
    def of(cls, stored: ProviderNodeClass) -> NodeClass:
        """Read an object.

        Raises
        ------
        InputError
            A field has another type than in the provider's CRD.
        """
        return cls(
            stored.name,
            decode(dict(stored.spec), NodeClassSpec),
            decode(dict(stored.status), NodeClassStatus),
        )

    @cached_property
    def family_name(self) -> str:
        """The family of its images: as it says, else that of the first alias."""
        alias = next(
            (
                ami_selector_term.alias
                for ami_selector_term in self.spec.ami_selector_terms
                if ami_selector_term.alias
            ),
            "",
        )
        return self.spec.ami_family or _ALIASES.get(alias.partition("@")[0].lower(), CUSTOM)

    @cached_property
    def family(self) -> Family:
        return _FAMILIES.get(self.family_name, _LINUX)

    @cached_property
    def zone_ids(self) -> Mapping[str, str]:
        """The ID of each zone with a subnet, "" for one that is not known.

        The provider takes subnets without an ID for those of one zone, that of the first.
        """
        if self.assumed:
            return self.assumed
        by_id: dict[str, str] = {}
        for subnet in self.status.subnets:
            by_id.setdefault(subnet.zone_id, subnet.zone)
        return {zone: zone_id for zone_id, zone in by_id.items()}

    def with_reservations(self, known: Iterable[Reservation]) -> NodeClass:
        """Return the class with those of some reservations that it selects, unless its status has some."""
        terms = self.spec.capacity_reservation_selector_terms
        selected = [
            CapacityReservation(
                each.id,
                each.availability_zone,
                each.instance_type,
                each.reservation_type,
                each.interruptible,
                each.state,
            )
            for each in known
            if each.state == "active" and any(term.selects(each) for term in terms)
        ]
        if self.status.capacity_reservations or not selected:
            return self
        return replace(self, status=replace(self.status, capacity_reservations=tuple(selected)))

    def within(self, zones: Mapping[str, str]) -> NodeClass:
        """Return the class with subnets in zones, given with their IDs."""
        return replace(self, assumed=dict(zones))


class ProviderOptions(NamedTuple):
    """Flags of the provider.

    Attributes
    ----------
    vm_memory_overhead : float
        ``--vm-memory-overhead-percent``: the share of the memory sold that nodes never see.
    reserved_enis : int
        ``--reserved-enis``: network interfaces that pods do not get.
    """

    vm_memory_overhead: float = AWS.unseen
    reserved_enis: int = 0
    cel: bool = False


DEFAULTS = ProviderOptions()
