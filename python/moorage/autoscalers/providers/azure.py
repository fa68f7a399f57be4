"""Sizes of Azure, as Karpenter's provider for Azure makes types of them: those of the catalogue, or of what
``az vm list-skus -o json`` prints.

Rules: karpenter-provider-azure 352646f5, pkg/providers/instancetype, pkg/providers/pricing and
pkg/utils/supported-gpus.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from math import ceil

import msgspec

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError, examples, located, number_of
from moorage.kube.apiserver.decode import decode
from moorage.lazy import NamedTuple

from ..hourly_cost import UNKNOWN
from .catalogues import read_catalogue
from .instance_type import (
    INSTANCE_TYPE,
    InstanceType,
    ListedTypes,
    Offering,
    only_region,
    read_items,
    requirements,
)
from .kept_by_kubelet import AZURE, GIB, MIB
from .known_labels import REGIONAL_ZONE

GROUP = "karpenter.azure.com"
COMMAND = "az vm list-skus -o json"
VM_SIZE_FIELD = "resourceType"
"""What each item of the list has."""
_MACHINES = "virtualMachines"
_AKS = "kubernetes.azure.com"
_PRIORITIES = f"{_AKS}/scalesetpriority", f"{_AKS}/priority"
_SCOPE = f"{GROUP}/placement-scope"
_GB = 10**9
_NAME = re.compile(
    r"(?P<family>[A-Z])(?P<subfamily>[A-Z]{0,2})\d+(?P<constrained>-\d+)?(?P<features>[a-zA-Z]*?)"
    r"(?:_(?:xl_)?(?P<accelerator>[A-UW-Z][A-Z0-9]*[0-9][A-Z0-9]*|V\d{3}))?(?:_\d+)?(?:_[vV](?P<version>\d))?(?:_Promo)?"
)
"""A size by Azure's conventions: NC24ads_A100_v4 has family N, subfamily C, features ads, version 4."""
DATE = "2026-06"
"""When the prices of the catalogue were made."""
_DEFAULT_REGION = "eastus"
"""Whose prices the provider takes for a region without any."""
_RESTRICTED = ("Standard_E64i_v3", "Standard_E64is_v3")
_PLAIN_HOSTS = 3
"""To which version hosts of sizes without premium disks do not encrypt."""
_BURSTABLE = "B"
"""A family that is not sold as spot."""
_CONFIDENTIAL = ("DC", "EC")
_LEAST_CPU, _LEAST_GIB = 2, 3.5
_ARCHITECTURES = {"x64": "amd64", "Arm64": "arm64"}


class _SkuPart(msgspec.Struct, frozen=True, rename="camel"):
    """Part of the list. Fields that are not named are not read."""


class _Capability(_SkuPart, frozen=True):
    name: str
    value: str = ""


class _ZoneDetails(_SkuPart, frozen=True):
    capabilities: tuple[_Capability, ...] | None = None


class _Location(_SkuPart, frozen=True):
    location: str
    zones: tuple[str, ...] | None = None
    zone_details: tuple[_ZoneDetails, ...] | None = None


class _Restricted(_SkuPart, frozen=True):
    zones: tuple[str, ...] | None = None


class _Restriction(_SkuPart, frozen=True):
    type: str = ""
    restriction_info: _Restricted | None = None


class _Sku(_SkuPart, frozen=True):
    name: str
    resource_type: str
    location_info: tuple[_Location, ...]
    capabilities: tuple[_Capability, ...] | None = None
    restrictions: tuple[_Restriction, ...] | None = None

    @property
    def place(self) -> _Location:
        return self.location_info[0]

    @property
    def values(self) -> dict[str, str]:
        """The capabilities, those of zones included."""
        details = self.place.zone_details or ()
        of_zones = [capability for zone in details for capability in zone.capabilities or ()]
        return {each.name: each.value for each in (*of_zones, *(self.capabilities or ()))}

    @property
    def is_sold(self) -> bool:
        """Whether the subscription may have it in the region."""
        return all(restriction.type != "Location" for restriction in self.restrictions or ())

    @property
    def zones(self) -> list[str]:
        info = [
            restriction.restriction_info
            for restriction in self.restrictions or ()
            if restriction.type == "Zone"
        ]
        closed = {zone for each in info if each for zone in each.zones or ()}
        return sorted({*(self.place.zones or ())} - closed)


class _Enabled(_SkuPart, frozen=True):
    enabled: bool = False


class _Gpu(_SkuPart, frozen=True):
    mode: str = "Driver"


class _TrustedLaunch(_SkuPart, frozen=True):
    vtpm: bool = False
    secure_boot: bool = False


class _Security(_SkuPart, frozen=True):
    encryption_at_host: bool = False
    trusted_launch: _TrustedLaunch = _TrustedLaunch()


class _AksSpec(_SkuPart, frozen=True):
    """What the spec of an AKSNodeClass says of its nodes, in so far as it changes which sizes they can be and
    what fits. Settings of the kubelet do not.

    Attributes
    ----------
    image_family : str
        "" for a node class that is not known.
    """

    image_family: str = ""
    max_pods: int = AZURE.pods
    os_disk_gb: int = msgspec.field(default=128, name="osDiskSizeGB")
    fips_mode: str = ""
    gpu: _Gpu = _Gpu()
    security: _Security = _Security()
    artifact_streaming: _Enabled = _Enabled()

    def takes(self, machine: _Machine) -> bool:
        """Whether its nodes can be of a size."""
        values, launch = machine.values, self.security.trusted_launch
        is_open = "V2" in values.get("HyperVGenerations", "V2") and not _is(values, "TrustedLaunchDisabled")
        is_arm = values.get("CpuArchitectureType") == "Arm64"
        name = machine.name.lower().removesuffix("_promo")
        return (
            not (self.gpu.mode == "Driver" and catalogue().gpus.get(name, "nvidia") != "nvidia")
            and not (self.image_family == _AZURE_LINUX and name in catalogue().ubuntu_only)
            and not (self.security.encryption_at_host and not _is(values, "EncryptionAtHostSupported"))
            and not ((launch.vtpm or launch.secure_boot) and not is_open)
            and not (self.artifact_streaming.enabled and is_arm)
        )


_AZURE_LINUX = "AzureLinux"


class _Machine(NamedTuple):
    """A size: its name in parts, its numbers, what it can, who made its GPUs ("" without any), and the zones
    in which it is sold."""

    name: str
    size: re.Match[str]
    cpu: int
    gib: float
    gpus: int
    values: Mapping[str, str]
    maker: str
    zones: Sequence[str]


class _Sizes(msgspec.Struct, frozen=True):
    """Sizes with vCPUs, MiB, GPUs and architecture; prices on demand in their order by region, 0 for none;
    zones of regions that have some; who made the GPUs of sizes that nodes can have, and which of these sizes
    AzureLinux does not know."""

    sizes: tuple[tuple[str, int, int, int, str], ...]
    prices: dict[str, tuple[float, ...]]
    zones: dict[str, tuple[str, ...]]
    gpus: dict[str, str]
    ubuntu_only: frozenset[str]


@cache
def catalogue() -> _Sizes:
    """Return the catalogue; it is read once."""
    return read_catalogue("azure", _Sizes)


@cache
def prices_of(region: str) -> Mapping[str, float]:
    """Return the prices of sizes on demand, per hour."""
    known = catalogue()
    prices = known.prices.get(region) or known.prices[_DEFAULT_REGION]
    return {row[0]: price for row, price in zip(known.sizes, prices, strict=True) if price}


def zones_of(region: str) -> list[str]:
    """Return the zones of a region."""
    return [f"{region}-{zone}" for zone in catalogue().zones.get(region, ())]


def types_of(region: str, zones: Collection[str]) -> ListedTypes:
    """Return the sizes that a region has a price for, in some zones: no public table says in which each is
    sold, what its disks are, and whether its host encrypts."""
    prices, own = prices_of(region), [zone.rpartition("-")[2] for zone in sorted(zones)]
    machines = []
    for name, cpu, mib, gpus, architecture in catalogue().sizes:
        size = _NAME.fullmatch(name.removeprefix("Standard_"))
        if size is None or name not in prices:
            continue
        is_premium = "s" in size["features"] or "S" in size["subfamily"]
        can = {
            "AcceleratedNetworkingEnabled": True,
            "PremiumIO": is_premium,
            "LowPriorityCapable": size["family"] != _BURSTABLE,
            "EncryptionAtHostSupported": is_premium or int(size["version"] or 1) > _PLAIN_HOSTS,
        }
        values = {key: str(value) for key, value in can.items()}
        values["CpuArchitectureType"] = "Arm64" if architecture == "arm64" else "x64"
        machines.append(_Machine(name, size, cpu, mib / 1024, gpus, values, _maker(name, gpus), own))
    about = f"{DATE}{_elsewhere(region)}; all sizes taken to be sold in all zones"
    return _listed([each for each in machines if _is_usable(each)], region, about)


def _elsewhere(region: str) -> str:
    return "" if region in catalogue().prices else f", those of {_DEFAULT_REGION}"


def _listed(machines: Sequence[_Machine], region: str, about: str) -> ListedTypes:
    def of_spec(spec: bytes | None) -> Sequence[InstanceType]:
        node_class = _AksSpec()
        if spec is not None:
            node_class = decode({"imageFamily": "Ubuntu"} | msgspec.json.decode(spec), _AksSpec)
        return [_type(machine, node_class, region) for machine in machines if node_class.takes(machine)]

    assumed = f"OS disks of {_AksSpec().os_disk_gb} GB assumed"
    return ListedTypes(GROUP, cache(of_spec), f"azure {region}, {about}", assumed)


def read_sizes(items: Sequence[object]) -> ListedTypes:
    """Return the types of a list.

    Raises
    ------
    InputError
        An item is not as the command prints it, or the list has several regions, or no size for nodes.
    """
    every = [each for each in read_items(items, _Sku, COMMAND) if each.resource_type == _MACHINES]
    placed = [each for each in every if each.location_info]
    if not placed:
        raise InputError(f"has no virtual machine: ask with {COMMAND} --resource-type {_MACHINES}")
    region = only_region([each.place.location.lower() for each in placed], "ask with --location REGION")
    machines = [each for sku in placed if sku.is_sold and (each := _machine(sku)) is not None]
    unknown = sorted(each.name for each in machines if each.gpus and not each.maker)
    usable = [each for each in machines if _is_usable(each)]
    if not usable:
        raise InputError(f"has no size that nodes of {region} can be")
    parts = [f"{number_of(len(usable), 'size', 'sizes')} of {COMMAND.rpartition(' -o')[0]}"]
    parts.append(f"prices of {DATE}{_elsewhere(region)}")
    if unknown:
        parts.append(f"left out, as AKS does not know their GPUs: {examples(unknown, 3)}")
    return _listed(usable, region, "; ".join(parts))


def _machine(sku: _Sku) -> _Machine | None:
    size, values = _NAME.fullmatch(sku.name.removeprefix("Standard_")), sku.values
    if size is None:
        return None
    with located(obj=sku.name):
        cpu, gib = int(_number(values, "vCPUs")), _number(values, "MemoryGB")
        gpus = int(_number({"GPUs": "0"} | values, "GPUs"))
    return _Machine(sku.name, size, cpu, gib, gpus, values, _maker(sku.name, gpus), sku.zones)


def _maker(name: str, gpus: int) -> str:
    return catalogue().gpus.get(name.lower().removesuffix("_promo"), "") if gpus else ""


def _is_usable(machine: _Machine) -> bool:
    """Whether nodes of the provider can be of a size."""
    size = machine.size
    is_large = machine.cpu >= _LEAST_CPU and machine.gib >= _LEAST_GIB
    is_open = not f"{size['family']}{size['subfamily']}".startswith(_CONFIDENTIAL)
    has_known_gpus = not machine.gpus or bool(machine.maker)
    is_allowed = machine.name not in _RESTRICTED and not size["constrained"]
    return is_large and is_open and has_known_gpus and is_allowed


def _number(values: Mapping[str, str], name: str) -> float:
    try:
        return float(values[name])
    except KeyError:
        raise InputError("required", path=f"capabilities[{name}]") from None
    except ValueError:
        raise InputError("must be a number", path=f"capabilities[{name}]") from None


def _type(machine: _Machine, node_class: _AksSpec, region: str) -> InstanceType:
    memory = int(machine.gib) * GIB
    capacity = {
        "cpu": machine.cpu,
        "memory": memory - ceil(memory * AZURE.unseen),
        "ephemeral-storage": node_class.os_disk_gb * _GB,
        "pods": node_class.max_pods,
        "nvidia.com/gpu": machine.gpus if machine.maker == "nvidia" else 0,
        "amd.com/gpu": machine.gpus if machine.maker == "amd" else 0,
    }
    kept = {
        "cpu": Quantity(f"{AZURE.cpu.of(machine.cpu)}m"),
        "memory": Quantity(f"{AZURE.memory.of(machine.gib)}Mi"),
    }
    return InstanceType(
        machine.name,
        {name: Quantity(str(amount)) for name, amount in capacity.items()},
        tuple(_offerings(machine, region)),
        requirements(_labels(machine, region) | _image_labels(node_class)),
        (kept, AZURE.eviction),
    )


def _offerings(machine: _Machine, region: str) -> Iterator[Offering]:
    """Offerings in zones and without one. Before it has asked for them, the provider takes prices of spot to
    be those on demand."""
    kinds = ["on-demand", *(["spot"] if _is(machine.values, "LowPriorityCapable") else ())]
    price = prices_of(region).get(machine.name, UNKNOWN)
    zonal = [(f"{region}-{zone}", "zonal") for zone in machine.zones]
    for zone, scope in (*zonal, (REGIONAL_ZONE, "regional")):
        for kind in kinds:
            priority = "spot" if kind == "spot" else "regular"
            labels = {_SCOPE: [scope], **dict.fromkeys(_PRIORITIES, (priority,))}
            bound = kind == "spot" and price < UNKNOWN
            yield Offering(zone, kind, price, requirements=requirements(labels), is_bound=bound)


def _image_labels(node_class: _AksSpec) -> dict[str, Sequence[object]]:
    """The labels of an image, where the node class is known."""
    family = node_class.image_family
    if not family:
        return {}
    fips = ["true"] if node_class.fips_mode == "FIPS" else []
    return {f"{_AKS}/os-sku": ["Ubuntu" if "Ubuntu" in family else family], f"{_AKS}/fips_enabled": fips}


def _labels(machine: _Machine, region: str) -> dict[str, Sequence[object]]:
    """The labels of a type; that of the cluster is not known."""
    size, values = machine.size, machine.values
    version, mib = size["version"], int(machine.gib * 1024)
    series = f"{size['family']}{size['subfamily']}{size['features']}" + (f"_v{version}" if version else "")
    disk = _ephemeral_disk(values)
    of_sku: dict[str, Sequence[object]] = {
        "name": [machine.name],
        "family": [size["family"]],
        "series": [series],
        "version": [version or "1"],
        "cpu": [machine.cpu],
        "memory": [mib],
        "networking-accelerated": [_flag(values, "AcceleratedNetworkingEnabled")],
        "storage-premium-capable": [_flag(values, "PremiumIO")],
        "storage-ultra-ssd": [_flag(values, "UltraSSDAvailable")],
        "storage-ephemeralos-maxsize": [disk] if disk else [],
        "gpu-count": [machine.gpus if machine.maker else 0],
        "gpu-manufacturer": [machine.maker] if machine.maker else [],
        "gpu-name": [size["accelerator"]] if machine.maker and size["accelerator"] else [],
        "hyperv-generation": [part[1:] for part in values.get("HyperVGenerations", "").split(",") if part],
    }
    architecture = values.get("CpuArchitectureType", "x64")
    return {
        INSTANCE_TYPE: [machine.name],
        "kubernetes.io/arch": [_ARCHITECTURES.get(architecture, architecture)],
        "kubernetes.io/os": ["linux"],
        "topology.kubernetes.io/region": [region],
        **{f"{GROUP}/sku-{name}": value for name, value in of_sku.items()},
        f"{_AKS}/sku-cpu": [machine.cpu],
        f"{_AKS}/sku-memory": [mib],
        f"{_AKS}/mode": ["system", "user"],
        **dict.fromkeys(_PRIORITIES, ("regular", "spot")),
    }


def _is(values: Mapping[str, str], name: str) -> bool:
    return values.get(name, "").lower() == "true"


def _flag(values: Mapping[str, str], name: str) -> str:
    return str(_is(values, name)).lower()


def _ephemeral_disk(values: Mapping[str, str]) -> int:
    """GB of the largest OS disk on local storage; 0 for none."""
    if not _is(values, "EphemeralOSDiskSupported"):
        return 0
    on_nvme = "NvmeDisk" in values.get("SupportedEphemeralOSDiskPlacements", "")
    sizes = (
        ("NvmeDiskSizeInMiB", MIB if on_nvme else 0),
        ("CachedDiskBytes", 1),
        ("MaxResourceVolumeMB", MIB),
    )
    return next((gb for name, unit in sizes if (gb := int(values.get(name, "0")) * unit // _GB)), 0)
