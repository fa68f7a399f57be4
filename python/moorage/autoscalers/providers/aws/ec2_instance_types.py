"""The instance types that Karpenter's provider for AWS lists for a pool: their labels, and where, how and
at what price each can be launched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import msgspec
from msgspec import Struct, structs

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError
from moorage.kube import NodeSelectorRequirement

from ..instance_type import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    RESERVED,
    ZONE,
    InstanceType,
    Offering,
    requirement,
    requirements,
)
from ..known_labels import EKS, RESERVATION_ID, ZONE_ID
from ..prices import NO_PRICES, OwnPrices
from .ec2_answers import Ec2Type, ProviderTables
from .node_capacity import EFA_ONLY, BadExpressionError, NodeCapacity
from .node_class import (
    BlockDevice,
    BlockDeviceVolume,
    CapacityReservation,
    NetworkInterface,
    NodeClass,
    NodeClassSpec,
    ProviderOptions,
)

# ---- the requirements of an instance type: its labels, and those that its nodes never have -----------------
# Rules: Karpenter's provider for AWS v1.15.0, pkg/providers/instancetype/types.go (computeRequirements).

DOMAIN = "karpenter.k8s.aws"
RESERVATION_TYPE = f"{DOMAIN}/capacity-reservation-type"
INTERRUPTIBLE = f"{DOMAIN}/capacity-reservation-interruptible"
TENANCY = f"{DOMAIN}/instance-tenancy"
TENANCIES = ("default", "dedicated")
_NAME = re.compile(r"([a-z]+)(-[0-9]+tb)?([0-9]+).*\.")
"""Category and generation in the name of a type."""


def reservation_labels(reservations: Iterable[CapacityReservation]) -> list[NodeSelectorRequirement]:
    """Return the requirements on labels of reserved capacity: absent where there is none."""
    reservations_there = list(reservations)
    values = {
        RESERVATION_ID: [each.id for each in reservations_there],
        RESERVATION_TYPE: [each.reservation_type for each in reservations_there],
        INTERRUPTIBLE: [_flag(each.interruptible) for each in reservations_there],
    }
    return [requirement(key, tuple(dict.fromkeys(texts))) for key, texts in values.items()]


def type_requirements(
    kind: Ec2Type,
    tables: ProviderTables,
    node_class: NodeClass,
    place: tuple[str, Sequence[str]],
    reservations: Sequence[CapacityReservation],
) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements of a type.

    Parameters
    ----------
    place : (str, sequence of str)
        The region, and the zones in which the type is sold and the node class has a subnet.
    reservations : sequence of CapacityReservation
        Those of the node class for the type.
    """
    region, zones = place
    zone_ids = node_class.zone_ids
    kinds = [
        usage_class for usage_class in kind.supported_usage_classes if usage_class in ("on-demand", "spot")
    ]
    labels: dict[str, Iterable[str]] = {
        INSTANCE_TYPE: [kind.instance_type],
        "kubernetes.io/arch": [kind.architecture],
        "topology.kubernetes.io/region": [region],
        ZONE: zones,
        CAPACITY_TYPE: [*kinds, *([RESERVED] if reservations else ())],
        TENANCY: TENANCIES,
        **_system(kind, node_class.family.build),
        **{f"{DOMAIN}/instance-{name}": values for name, values in _machine(kind, tables).items()},
        **{f"{DOMAIN}/instance-{name}": values for name, values in _devices(kind).items()},
    }
    if ids := [zone_ids[zone] for zone in zones if zone_ids[zone]]:
        labels[ZONE_ID] = ids
    return (*requirements(labels), *reservation_labels(reservations))


def _flag(value: bool) -> str:
    return str(value).lower()


def _kebab(text: str) -> str:
    return text.replace(" ", "-").lower()


def _system(kind: Ec2Type, build: str) -> Mapping[str, Iterable[str]]:
    """Labels of the operating system; Windows is there for amd64 alone."""
    if not build:
        return {"kubernetes.io/os": ["linux"], "node.kubernetes.io/windows-build": []}
    systems = ["windows"] if kind.architecture == "amd64" else []
    return {"kubernetes.io/os": systems, "node.kubernetes.io/windows-build": [build]}


def _machine(kind: Ec2Type, tables: ProviderTables) -> Mapping[str, Iterable[str]]:
    """Labels below ``instance-`` of the machine, without devices; no value for one that it has not."""
    name, processor, ebs, disks = kind.instance_type, kind.processor_info, kind.ebs_info, kind.storage
    matched = _NAME.match(name)
    family, dot, size = name.partition(".")
    is_split = bool(dot) and "." not in size
    has_nvme = disks.gigabytes is not None and disks.nvme_support != "unsupported"
    is_optimized = ebs.ebs_optimized_support == "default"
    mhz = int(processor.sustained_clock_speed_in_ghz * 1000 + 0.5)
    return {
        "category": [matched[1]] if matched else [],
        "generation": [matched[3]] if matched else [],
        "family": [family] if is_split else [],
        "size": [size] if is_split else [],
        "capability-flex": [_flag("-flex" in family)],
        "cpu": [str(kind.cpus.default_vcpus)],
        "memory": [str(kind.memory_info.mib)],
        "cpu-manufacturer": [_kebab(processor.manufacturer)],
        "cpu-sustained-clock-speed-mhz": [str(mhz)],
        "ebs-bandwidth": [str(ebs.bandwidth.maximum)] if is_optimized and ebs.bandwidth else [],
        "network-bandwidth": [] if tables.bandwidth is None else [str(tables.bandwidth)],
        "hypervisor": [kind.hypervisor],
        "encryption-in-transit-supported": [_flag(kind.network_info.encryption_in_transit_supported)],
        "local-nvme": [str(disks.gigabytes)] if has_nvme else [],
    }


def _devices(kind: Ec2Type) -> Mapping[str, Iterable[str]]:
    """Labels of GPUs and of accelerators; none where there are several kinds of them."""
    labels: dict[str, Iterable[str]] = dict.fromkeys(
        [f"gpu-{part}" for part in ("name", "manufacturer", "count", "memory")]
        + [f"accelerator-{part}" for part in ("name", "manufacturer", "count")],
        (),
    )
    if len(kind.gpu_info.gpus) == 1:
        gpu = kind.gpu_info.gpus[0]
        labels["gpu-name"], labels["gpu-manufacturer"] = [_kebab(gpu.name)], [_kebab(gpu.manufacturer)]
        labels["gpu-count"], labels["gpu-memory"] = [str(gpu.count)], [str(gpu.memory_info.mib)]
    devices = (
        [
            (neuron_device.name, "aws", neuron_device.count)
            for neuron_device in kind.neuron_info.neuron_devices
        ]
        if kind.neuron_info
        else []
    )
    if kind.neuron_info is None:
        devices = [
            (accelerator.name, accelerator.manufacturer, accelerator.count)
            for accelerator in kind.accelerator_info.accelerators
        ]
    if len(devices) == 1:
        (name, maker, count) = devices[0]
        labels["accelerator-name"], labels["accelerator-manufacturer"] = [_kebab(name)], [_kebab(maker)]
        labels["accelerator-count"] = [str(count)]
    return labels


# ---- where, how and at what price an instance type can be launched -----------------------------------------
# Rules: Karpenter's provider for AWS v1.15.0, pkg/providers/instancetype/offering and compatibility.

_SHARE_OF_RESERVED = 10_000_000.0
"""Reserved capacity is as good as free, but the dearer type still costs more."""


class Market(Struct, frozen=True):
    """What a region sells, and for how much.

    Attributes
    ----------
    zones : tuple of str
        Those in which it sells anything.
    prices : mapping of str to float
        On demand per hour, by type.
    spot_prices : mapping or None
        By type and zone; None before the provider has asked for them: then the price on demand is taken.
    zones_of : mapping of str to collection of str
        The zones of types that are not sold in all.
    unavailable : frozenset of (str, str, str)
        Type, zone and capacity type of what EC2 had none of lately.
    free_reserved : mapping of str to int
        Free instances by the ID of a reservation.
    own_prices : OwnPrices
        They win over the others.
    """

    region: str
    zones: tuple[str, ...]
    prices: Mapping[str, float]
    spot_prices: Mapping[str, Mapping[str, float]] | None = None
    zones_of: Mapping[str, Collection[str]] = msgspec.field(default_factory=dict)
    unavailable: frozenset[tuple[str, str, str]] = frozenset()
    free_reserved: Mapping[str, int] = msgspec.field(default_factory=dict)
    own_prices: OwnPrices = NO_PRICES

    def zones_for(self, kind: Ec2Type, node_class: NodeClass) -> list[str]:
        """Return the zones in which a type is sold and a node class has a subnet, by name."""
        return sorted({*self.zones_of.get(kind.instance_type, self.zones)} & node_class.zone_ids.keys())

    def price(self, kind: Ec2Type, zone: str, capacity_type: str) -> float | None:
        """Return the price per hour that the provider knows."""
        name = kind.instance_type
        if (own := self.own_prices.of(name, zone, capacity_type)) is not None:
            return own
        if capacity_type == RESERVED:
            return self.prices.get(name, 0.0) / _SHARE_OF_RESERVED
        if capacity_type == "spot" and self.spot_prices is not None:
            return self.spot_prices.get(name, {}).get(zone)
        return self.prices.get(name)


def offerings(
    kind: Ec2Type, node_class: NodeClass, market: Market, reservations: Sequence[CapacityReservation]
) -> Iterator[Offering]:
    """Yield the offerings of a type, by zone and capacity type, then the reserved ones.

    Each zone of the region has one, also where the class has no subnet: it is not available then.
    """
    is_compatible, own = suits(kind, node_class), market.zones_for(kind, node_class)
    # Of AL2 there is no image for GPUs beside arm64 (pkg/providers/amifamily/al2.go). Karpenter offers such a
    # type, and asks EC2 for others.
    is_arm = kind.processor_info.supported_architectures[:1] == ("arm64",)
    has_image = not (node_class.family_name == "AL2" and is_arm and kind.gpu_info.gpus)
    zone_ids = node_class.zone_ids
    absent = reservation_labels(())
    for zone in market.zones:
        more = [*absent, *([requirement(ZONE_ID, (zone_ids[zone],))] if zone_ids.get(zone) else ())]
        for capacity_type in sorted({*kind.supported_usage_classes} & {"on-demand", "spot"}):
            price = market.price(kind, zone, capacity_type)
            is_gone = (kind.instance_type, zone, capacity_type) in market.unavailable
            is_sold = is_compatible and price is not None and zone in own
            bound = capacity_type == "spot" and market.spot_prices is None
            bound = bound and market.own_prices.of(kind.instance_type, zone, capacity_type) is None
            yield Offering(
                zone,
                capacity_type,
                price or 0.0,
                is_sold and not is_gone,
                requirements=tuple(more),
                is_bound=bound,
                may_come=is_sold and has_image,
            )
    for reservation in reservations:
        zone, free = reservation.availability_zone, market.free_reserved.get(reservation.id, 0)
        labels = reservation_labels([reservation])
        if zone_ids.get(zone):
            labels.append(requirement(ZONE_ID, (zone_ids[zone],)))
        yield Offering(
            zone,
            RESERVED,
            market.price(kind, zone, RESERVED) or 0.0,
            is_compatible and zone in own and reservation.state != "expiring",
            reservation.id,
            free,
            tuple(labels),
            is_paid=market.own_prices.of(kind.instance_type, zone, RESERVED) is None,
            may_come=is_compatible and zone in own and has_image,
        )


def suits(kind: Ec2Type, node_class: NodeClass) -> bool:
    """Whether a type can be launched as a node class wants it."""
    spec = node_class.spec
    if node_class.family_name == "AL2023" and kind.instance_type.startswith("a1."):
        return False
    if spec.connection_tracking is not None and kind.hypervisor != "nitro":
        return False
    if spec.enclave_options.enabled and kind.nitro_enclaves_support != "supported":
        return False
    nested = spec.cpu_options.nested_virtualization == "enabled"
    if nested and "nested-virtualization" not in kind.processor_info.supported_features:
        return False
    return spec.network_interfaces is None or _has_interfaces(kind, spec.network_interfaces)


def _has_interfaces(kind: Ec2Type, wanted: Sequence[NetworkInterface]) -> bool:
    """Whether a type has the cards, the places on them, the addresses and the fabric adapters."""
    network = kind.network_info
    cards = {
        network_card.network_card_index: network_card.maximum_network_interfaces
        for network_card in network.network_cards
    }
    if not cards or network.ena_support == "unsupported":
        return False
    for each in wanted:
        index, more = each.network_card_index, max(each.secondary_ip_prefix_count, each.secondary_ip_count)
        if len(cards) <= index or cards.get(index, 0) <= each.device_index:
            return False
        if more and more + 1 > network.addresses:
            return False
    adapters = sum(each.interface_type == EFA_ONLY for each in wanted)
    return adapters <= (network.efa_info.maximum_efa_interfaces or 0)


# ---- the instance types that Karpenter's provider for AWS lists for a pool with an EC2NodeClass ------------

_NO_TABLES = ProviderTables()


def instance_types(
    kinds: Iterable[Ec2Type],
    tables: Mapping[str, ProviderTables],
    node_class: NodeClass,
    market: Market,
    options: ProviderOptions,
) -> Iterator[InstanceType]:
    """Yield what types are under a node class; not those without an architecture that nodes can have."""
    for kind in kinds:
        name = kind.instance_type
        own_tables = tables.get(name, _NO_TABLES)
        reserved = [
            capacity_reservation
            for capacity_reservation in node_class.status.capacity_reservations
            if capacity_reservation.instance_type == name
        ]
        place = market.region, market.zones_for(kind, node_class)
        rules = NodeCapacity(kind, own_tables, node_class, options)
        if not kind.architecture:
            continue
        try:
            capacity, overhead = rules.capacity(), rules.overhead()
        except BadExpressionError:
            continue
        yield InstanceType(
            name,
            capacity,
            tuple(offerings(kind, node_class, market, reserved)),
            type_requirements(kind, own_tables, node_class, place, reserved),
            overhead,
        )


# ---- types of EKS Auto Mode: those of AWS, with labels of its own ------------------------------------------
# Its code is not public. Labels and sizes are as its documentation has them; what nodes keep for themselves
# is estimated.

AUTO_MODE_DOMAIN = "eks.amazonaws.com"
NOT_LAUNCHED = "EKS Auto Mode launches no nano, micro or small size, and none of 1 vCPU"
_TOO_SMALL = ("nano", "micro", "small")
_LEAST_CPU = Quantity("2")


def auto_mode_spec(disk: str) -> NodeClassSpec:
    """Return what nodes of Auto Mode are taken to be, with a disk of some size.

    Raises
    ------
    InputError
        The size is no quantity.
    """
    try:
        Quantity(disk)
    except ValueError as error:
        raise InputError(f"{disk[:80]}: {error}") from None
    volume = BlockDevice(device_name="/dev/xvdb", ebs=BlockDeviceVolume(volume_size=disk))
    return NodeClassSpec(ami_family="Bottlerocket", block_device_mappings=(volume,))


def of_auto_mode(types: Iterable[InstanceType]) -> Iterator[InstanceType]:
    """Yield the types that Auto Mode launches, with its labels in place of those of Karpenter's provider."""
    for kind in types:
        if kind.name.rpartition(".")[2] in _TOO_SMALL or kind.capacity["cpu"] < _LEAST_CPU:
            continue
        offerings = [replace(each, requirements=_renamed(each.requirements)) for each in kind.offerings]
        yield replace(kind, requirements=_renamed(kind.requirements), offerings=tuple(offerings))


@cache
def _renamed(requirements: tuple[NodeSelectorRequirement, ...]) -> tuple[NodeSelectorRequirement, ...]:
    renamed = []
    for rule in requirements:
        domain, slash, name = rule.key.partition("/")
        key = f"{AUTO_MODE_DOMAIN}/{name}" if slash and domain == DOMAIN else rule.key
        if not key.startswith(f"{AUTO_MODE_DOMAIN}/instance-") or key in EKS.well_known:
            renamed.append(structs.replace(rule, key=key))
    return tuple(renamed)
