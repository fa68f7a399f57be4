"""What EC2 says of its instance types: about an account, as ``aws ec2 describe-…`` prints it, and in the
catalogue with prices on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from moorage.errors import InputError, located, shorten
from moorage.kube.apiserver.decode import decode
from moorage.kube.strict_documents import parse_moment
from moorage.lazy import NamedTuple

from ..catalogues import read_catalogue
from ..prices import read_price
from .node_class import Reservation

# ---- what EC2 says of instance types, as ``aws ec2 describe-instance-types`` prints it ---------------------

ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
"""EC2's names of architectures that nodes can have, and the values of the label."""
_HVM = "hvm"


class _Info(msgspec.Struct, frozen=True, rename="pascal"):
    """Part of an answer of EC2. Fields that are not named are not read."""


class Processor(_Info, frozen=True):
    supported_architectures: tuple[str, ...] = ()
    supported_features: tuple[str, ...] = ()
    manufacturer: str = ""
    sustained_clock_speed_in_ghz: float = 0.0


class Cpus(_Info, frozen=True):
    default_vcpus: int = field(name="DefaultVCpus")


class MemoryInfo(_Info, frozen=True):
    mib: int = field(name="SizeInMiB")


class InstanceStorageInfo(_Info, frozen=True):
    gigabytes: int | None = field(default=None, name="TotalSizeInGB")
    nvme_support: str = ""


class EbsBandwidth(_Info, frozen=True):
    maximum: int = field(default=0, name="MaximumBandwidthInMbps")


class Ebs(_Info, frozen=True):
    ebs_optimized_support: str = ""
    bandwidth: EbsBandwidth | None = field(default=None, name="EbsOptimizedInfo")


class NetworkCard(_Info, frozen=True):
    network_card_index: int = 0
    maximum_network_interfaces: int = 0


class Efa(_Info, frozen=True):
    maximum_efa_interfaces: int | None = None


class Network(_Info, frozen=True):
    network_cards: tuple[NetworkCard, ...] = ()
    default_network_card_index: int = 0
    addresses: int = field(default=0, name="Ipv4AddressesPerInterface")
    encryption_in_transit_supported: bool = False
    ena_support: str = ""
    efa_info: Efa = Efa()

    @property
    def interfaces(self) -> int:
        """How many interfaces the default network card has: pods get addresses of it alone."""
        return self.network_cards[self.default_network_card_index].maximum_network_interfaces


class AcceleratorInfo(_Info, frozen=True):
    """GPUs or accelerators of one kind."""

    name: str = ""
    manufacturer: str = ""
    count: int = 0
    memory_info: MemoryInfo = MemoryInfo(0)


class Gpus(_Info, frozen=True):
    gpus: tuple[AcceleratorInfo, ...] = ()


class Accelerators(_Info, frozen=True):
    accelerators: tuple[AcceleratorInfo, ...] = ()


class Cores(_Info, frozen=True):
    count: int = 0


class NeuronDevice(_Info, frozen=True):
    name: str = ""
    count: int = 0
    core_info: Cores = Cores()


class Neuron(_Info, frozen=True):
    neuron_devices: tuple[NeuronDevice, ...] = ()


class Ec2Type(_Info, frozen=True):
    """An instance type as EC2 describes it."""

    instance_type: str
    processor_info: Processor
    cpus: Cpus = field(name="VCpuInfo")
    memory_info: MemoryInfo
    network_info: Network
    supported_usage_classes: tuple[str, ...] = ()
    supported_virtualization_types: tuple[str, ...] = (_HVM,)
    hypervisor: str = ""
    storage: InstanceStorageInfo = field(default=InstanceStorageInfo(), name="InstanceStorageInfo")
    ebs_info: Ebs = Ebs()
    gpu_info: Gpus = Gpus()
    neuron_info: Neuron | None = None
    accelerator_info: Accelerators = field(default=Accelerators(), name="InferenceAcceleratorInfo")
    nitro_enclaves_support: str = ""

    @property
    def architecture(self) -> str:
        """The value of the label: of the first architecture that nodes can have; "" for none."""
        named = self.processor_info.supported_architectures
        return next((ARCHITECTURES[each] for each in named if each in ARCHITECTURES), "")

    @property
    def is_usable(self) -> bool:
        """Whether the provider asks EC2 for the type, by architecture and virtualization."""
        return bool(self.architecture) and _HVM in self.supported_virtualization_types


class ProviderTables(msgspec.Struct, frozen=True, rename="camel"):
    """What Karpenter's provider has tables for, by instance type: EC2 does not say it in this form.

    Attributes
    ----------
    bandwidth : int or None
        Baseline of the network in Mbit/s.
    branch_interfaces : int
        For pods with security groups of their own; 0 where the type has none.
    addresses : int
        IPv4 addresses of an interface; 0 for a type that the tables lack.
    """

    bandwidth: int | None = None
    branch_interfaces: int = 0
    addresses: int = 0


# ---- what EC2 answers about an account, as ``aws ec2 describe-…`` prints it --------------------------------

_PLACE = re.compile(r"([a-z]{2}(-[a-z]+)+-\d+)([a-z]?|-[a-z]+-\d+[a-z])")
"""A region, or a zone of one, a local zone such as us-west-2-lax-1a included."""
_TEXT = re.compile(
    r"(CAPACITYRESERVATIONS|INSTANCETYPES|INSTANCETYPEOFFERINGS|SPOTPRICEHISTORY|SUBNETS)\s|[-+]{4,}\n\|"
    r"|ResourceType +Locations|virtualMachines\s|NAME +ZONE +CPUS"
)
"""How the other formats of aws, az and gcloud begin: text and table."""
A = TypeVar("A")


class _Offered(msgspec.Struct, frozen=True, rename="pascal"):
    instance_type: str
    location: str


class _SpotPrice(msgspec.Struct, frozen=True, rename="pascal"):
    instance_type: str
    availability_zone: str
    spot_price: str
    timestamp: str
    product_description: str = "Linux/UNIX"


class _Subnet(msgspec.Struct, frozen=True, rename="pascal"):
    availability_zone: str
    availability_zone_id: str = ""


class Ec2Answers(Struct, frozen=True, eq=False):
    """What EC2 has answered.

    Attributes
    ----------
    types : tuple of Ec2Type
        Those that nodes can be; none if EC2 was not asked for types.
    zones_of : mapping of str to set of str, or None
        The zones in which a type is sold, or the region, for all its zones.
    zone_ids : mapping of str to str
        Zones with subnets, with their IDs.
    reservations : tuple of Reservation, or None
        None if EC2 was not asked for them.
    """

    types: tuple[Ec2Type, ...] = ()
    zones_of: Mapping[str, set[str]] | None = None
    spot_prices: Mapping[str, Mapping[str, float]] | None = None
    zone_ids: Mapping[str, str] = msgspec.field(default_factory=dict)
    reservations: tuple[Reservation, ...] | None = None

    @property
    def places(self) -> set[str]:
        """The regions and zones that the answers name."""
        sold = set().union(*(self.zones_of or {}).values())
        return sold.union(self.zone_ids, *(self.spot_prices or {}).values())


NO_ANSWERS = Ec2Answers()


def region_of(place: str) -> str:
    """Return the region of a zone or region, by its name; "" for another text."""
    matched = _PLACE.fullmatch(place)
    return matched[1] if matched is not None else ""


def refuse_other_formats(text: str) -> None:
    """Refuse what commands print as text or as a table: names of fields are lost there."""
    if _TEXT.match(text):
        raise InputError("output of aws, az or gcloud as text or table has no names of fields: ask for JSON")


def ec2_answers(pages: Iterable[tuple[str, Any]]) -> Ec2Answers:
    """Read answers.

    Parameters
    ----------
    pages : iterable of (str, object)
        Objects that the command printed, each with the name of its file.

    Raises
    ------
    InputError
        An object is no answer that is read here, or one of its fields is not as it should be.
    """
    types, offered = dict[str, Ec2Type](), list[_Offered]()
    spot, subnets, reservations = list[_SpotPrice](), list[_Subnet](), list[Reservation]()
    sources = dict[str, str]()
    for source, page in pages:
        with located(source=source):
            lists = {name: page[name] for name in _ANSWERS if isinstance(page.get(name), list)}
            if not lists:
                names = ", ".join(_ANSWERS)
                raise InputError(
                    f"expected {names}, as the commands aws ec2 describe-... print them, or a list of types"
                )
            sources |= dict.fromkeys(lists, source)
            types |= {item.instance_type: item for item in _items(lists, "InstanceTypes", Ec2Type)}
            offered += _items(lists, "InstanceTypeOfferings", _Offered)
            spot += _items(lists, "SpotPriceHistory", _SpotPrice)
            subnets += _items(lists, "Subnets", _Subnet)
            reservations += _items(lists, "CapacityReservations", Reservation)
    of_linux = [each for each in spot if each.product_description.startswith("Linux/UNIX")]
    usable = [kind for kind in types.values() if kind.is_usable]
    every = usable, offered, of_linux, subnets, reservations
    for name, items in zip(_ANSWERS, every, strict=True):
        if name in sources and not items and _ANSWERS[name]:
            raise InputError(f"{name} has {_ANSWERS[name]}", source=sources[name])
    return Ec2Answers(
        tuple(usable),
        _zones_of(offered) if offered else None,
        _newest(of_linux) if of_linux else None,
        {subnet.availability_zone: subnet.availability_zone_id for subnet in subnets},
        tuple(reservations) if "CapacityReservations" in sources else None,
    )


_ANSWERS = {
    "InstanceTypes": "no type that a node can be: with virtualization hvm, of x86_64 or arm64",
    "InstanceTypeOfferings": "no offering",
    "SpotPriceHistory": "no price of Linux/UNIX: ask for this product from now on, or leave the file out",
    "Subnets": "no subnet",
    "CapacityReservations": "",
}
"""Fields of the answers, and what they have if they are of no use; "" where none is an answer, too."""


def _items(lists: Mapping[str, list[Any]], name: str, kind: type[A]) -> list[A]:
    """Decode the items of an answer; an error names the type of the item."""
    items = []
    for at, item in enumerate(lists.get(name, ())):
        type_name = item.get("InstanceType") if isinstance(item, dict) else None
        about = f"instance type {shorten(type_name)}" if isinstance(type_name, str) else ""
        with located(obj=about, path=f"{name}[{at}]"):
            each = decode(item, kind)
            _check(each)
            items.append(each)
    return items


def _check(item: object) -> None:
    """Refuse an item that no rule can work with."""
    if isinstance(item, Ec2Type):
        network = item.network_info
        if item.is_usable and not 0 <= network.default_network_card_index < len(network.network_cards):
            raise InputError("the default network card is required", path="NetworkInfo.NetworkCards")
        sizes = {
            "VCpuInfo.DefaultVCpus": item.cpus.default_vcpus,
            "MemoryInfo.SizeInMiB": item.memory_info.mib,
        }
        for path, amount in sizes.items():
            if amount <= 0:
                raise InputError(f"must be more than 0, not {amount}", path=path)
    elif isinstance(item, _Offered):
        _check_place(item.location, "Location")
    elif isinstance(item, _SpotPrice | _Subnet | Reservation):
        _check_place(item.availability_zone, "AvailabilityZone")
    if isinstance(item, _SpotPrice):
        read_price(item.spot_price, "SpotPrice")
        parse_moment(item.timestamp, "Timestamp")


def _check_place(place: str, path: str) -> None:
    if not region_of(place):
        how = "; ask with --location-type availability-zone" if path == "Location" else ""
        raise InputError(f'must be a zone such as us-east-1a, not "{shorten(place)}"{how}', path=path)


def _zones_of(offered: Iterable[_Offered]) -> Mapping[str, set[str]]:
    zones = dict[str, set[str]]()
    for each in offered:
        zones.setdefault(each.instance_type, set()).add(each.location)
    return zones


def _newest(prices: Iterable[_SpotPrice]) -> Mapping[str, Mapping[str, float]]:
    """The newest price of each type and zone."""
    by_zone = dict[str, dict[str, float]]()
    for price in sorted(prices, key=lambda price: parse_moment(price.timestamp, "Timestamp")):
        by_zone.setdefault(price.instance_type, {})[price.availability_zone] = float(price.spot_price)
    return by_zone


# ---- the catalogue of EC2's instance types, with prices on demand; ``catalogues/README.md`` has its source

DATE = "2026-08"
"""When the catalogue was made."""
_DEFAULT_REGION, _YUAN = "us-east-1", "cn-north-1"


class Ec2Catalogue(msgspec.Struct, frozen=True):
    """All types, the provider's tables by type, and prices on demand by region and type."""

    types: tuple[Ec2Type, ...] = field(name="InstanceTypes")
    tables: dict[str, ProviderTables]
    prices: dict[str, dict[str, float]]


class PriceList(NamedTuple):
    """Prices on demand per hour by type, the region of which they are, and their currency."""

    prices: Mapping[str, float]
    region: str
    currency: str


@cache
def catalogue() -> Ec2Catalogue:
    """Return the catalogue; it is read once."""
    return read_catalogue("ec2", Ec2Catalogue)


def price_list(region: str) -> PriceList:
    """Return prices as the provider has them before its first update: those of us-east-1 in most regions.

    In China, where spot prices are in yuan, it is those of cn-north-1: currencies are never added.
    """
    tables = catalogue().prices
    usual = _YUAN if region.startswith("cn-") else _DEFAULT_REGION
    priced = region if region in tables else usual
    return PriceList(tables[priced], priced, "CNY" if priced == _YUAN else "USD")
