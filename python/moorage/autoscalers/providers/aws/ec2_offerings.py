"""Where, how and at what price an instance type can be launched.

Rules: Karpenter's provider for AWS v1.15.0, pkg/providers/instancetype/offering and compatibility.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from moorage.autoscalers.instance_types.instance_type import Offering
from moorage.autoscalers.instance_types.labels import RESERVED, requirement
from moorage.autoscalers.instance_types.own_prices import NO_PRICES, OwnPrices

from ..registrations import ZONE_ID
from .ec2_types import Ec2Type
from .node_capacity import EFA_ONLY
from .node_class import NetworkInterface, NodeClass, Reservation
from .type_labels import reservation_labels

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
    kind: Ec2Type, node_class: NodeClass, market: Market, reservations: Sequence[Reservation]
) -> Iterator[Offering]:
    """Yield the offerings of a type, by zone and capacity type, then the reserved ones.

    Each zone of the region has one, also where the class has no subnet: it is not available then.
    """
    is_compatible, own = suits(kind, node_class), market.zones_for(kind, node_class)
    zone_ids = node_class.zone_ids
    absent = reservation_labels(())
    for zone in market.zones:
        more = [*absent, *([requirement(ZONE_ID, (zone_ids[zone],))] if zone_ids.get(zone) else ())]
        for capacity_type in sorted({*kind.supported_usage_classes} & {"on-demand", "spot"}):
            price = market.price(kind, zone, capacity_type)
            is_gone = (kind.instance_type, zone, capacity_type) in market.unavailable
            is_available = is_compatible and price is not None and zone in own and not is_gone
            bound = capacity_type == "spot" and market.spot_prices is None
            bound = bound and market.own_prices.of(kind.instance_type, zone, capacity_type) is None
            yield Offering(
                zone, capacity_type, price or 0.0, is_available, requirements=tuple(more), is_bound=bound
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
    cards = {one.network_card_index: one.maximum_network_interfaces for one in network.network_cards}
    if not cards or network.ena_support == "unsupported":
        return False
    for one in wanted:
        index, more = one.network_card_index, max(one.secondary_ip_prefix_count, one.secondary_ip_count)
        if len(cards) <= index or cards.get(index, 0) <= one.device_index:
            return False
        if more and more + 1 > network.addresses:
            return False
    adapters = sum(one.interface_type == EFA_ONLY for one in wanted)
    return adapters <= (network.efa_info.maximum_efa_interfaces or 0)
