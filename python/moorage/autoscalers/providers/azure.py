"""Types from what ``az vm list-skus -o json`` prints, as Karpenter's provider for Azure makes them.

Rules: karpenter-provider-azure 352646f5, pkg/providers/instancetype. Prices are not in the list, and which
GPU a size has is in its name alone; AKSNodeClasses are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError, examples, located, number_of

from ..hourly_cost import UNKNOWN
from .instance_type import (
    INSTANCE_TYPE,
    InstanceType,
    ListedTypes,
    Offering,
    only_region,
    read_items,
    requirements,
)

GROUP = "karpenter.azure.com"
COMMAND = "az vm list-skus -o json"
VM_SIZE_FIELD = "resourceType"
"""What each item of the list has."""
_MACHINES = "virtualMachines"
_AKS = "kubernetes.azure.com"
_PRIORITIES = f"{_AKS}/scalesetpriority", f"{_AKS}/priority"
_SCOPE = f"{GROUP}/placement-scope"
REGIONAL_ZONE = "0"
_GIB, _MIB, _GB = 1 << 30, 1 << 20, 10**9
_NAME = re.compile(
    r"(?P<family>[A-Z])(?P<subfamily>[A-Z]{0,2})\d+(?P<constrained>-\d+)?(?P<features>[a-zA-Z]*?)"
    r"(?:_(?:xl_)?(?P<accelerator>[A-UW-Z][A-Z0-9]*[0-9][A-Z0-9]*|V\d{3}))?(?:_\d+)?(?:_[vV](?P<version>\d))?(?:_Promo)?"
)
"""A size by Azure's conventions: NC24ads_A100_v4 has family N, subfamily C, features ads, version 4."""
_OF_AMD = ("MI", "V620", "V710")
"""How the names of accelerators by AMD begin; the others are by NVIDIA."""
_CONFIDENTIAL = ("DC", "EC")
_LEAST_CPU, _LEAST_GIB = 2, 3.5
_CPU_SHARES = ((0, 1, 0.06), (1, 2, 0.04), (2, 4, 0.02), (4, 1 << 31, 0.01))
_GIB_SHARES = ((0, 4, 0.25), (4, 8, 0.2), (8, 16, 0.1), (16, 128, 0.06), (128, 1 << 31, 0.02))
_MEMORY_OVERHEAD = 0.075
_USUAL_PODS = 250
_ARCHITECTURES = {"x64": "amd64", "Arm64": "arm64"}


class _Item(msgspec.Struct, frozen=True, rename="camel"):
    """Part of the list. Fields that are not named are not read."""


class _Capability(_Item, frozen=True):
    name: str
    value: str = ""


class _ZoneDetails(_Item, frozen=True):
    capabilities: tuple[_Capability, ...] | None = None


class _Location(_Item, frozen=True):
    location: str
    zones: tuple[str, ...] | None = None
    zone_details: tuple[_ZoneDetails, ...] | None = None


class _Restricted(_Item, frozen=True):
    zones: tuple[str, ...] | None = None


class _Restriction(_Item, frozen=True):
    type: str = ""
    restriction_info: _Restricted | None = None


class _Sku(_Item, frozen=True):
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
    def size(self) -> re.Match[str] | None:
        return _NAME.fullmatch(self.name.removeprefix("Standard_"))

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


class _Machine(NamedTuple):
    """A size, its name in parts, and its numbers."""

    sku: _Sku
    size: re.Match[str]
    cpu: int
    gib: float
    gpus: int

    @property
    def maker(self) -> str:
        """Who made its GPUs, as the label has it; "" if it has none, or its name does not say."""
        accelerator = self.size["accelerator"] or ""
        return ("amd" if accelerator.startswith(_OF_AMD) else "nvidia") if self.gpus and accelerator else ""


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
    machines = [each for sku in placed if (each := _machine(sku)) is not None]
    unnamed = sorted(machine.sku.name for machine in machines if machine.gpus and not machine.maker)
    usable = [machine for machine in machines if not machine.gpus or machine.maker]
    if not usable:
        raise InputError(f"has no size that nodes of {region} can be")
    parts = [f"azure {region}, {number_of(len(usable), 'size', 'sizes')} of {COMMAND.rpartition(' -o')[0]}"]
    if unnamed:
        parts.append(f"left out, as their names do not say which GPU they have: {examples(unnamed, 3)}")
    parts.append("OS disks of 128 GB assumed")
    return ListedTypes(GROUP, tuple([_type(each, region) for each in usable]), "; ".join(parts))


def _machine(sku: _Sku) -> _Machine | None:
    """A size that nodes of the provider can be; None for another."""
    size, values = sku.size, sku.values
    if size is None or size["constrained"] or not sku.is_sold:
        return None
    with located(obj=sku.name):
        cpu, gib = int(_number(values, "vCPUs")), _number(values, "MemoryGB")
        gpus = int(_number({"GPUs": "0"} | values, "GPUs"))
    is_large = cpu >= _LEAST_CPU and gib >= _LEAST_GIB
    is_open = not f"{size['family']}{size['subfamily']}".startswith(_CONFIDENTIAL)
    return _Machine(sku, size, cpu, gib, gpus) if is_large and is_open else None


def _number(values: Mapping[str, str], name: str) -> float:
    try:
        return float(values[name])
    except KeyError:
        raise InputError("required", path=f"capabilities[{name}]") from None
    except ValueError:
        raise InputError("must be a number", path=f"capabilities[{name}]") from None


def _type(machine: _Machine, region: str) -> InstanceType:
    cpu, gib = machine.cpu, machine.gib
    memory = int(gib) * _GIB
    capacity = {
        "cpu": cpu,
        "memory": memory - ceil(memory * _MEMORY_OVERHEAD),
        "ephemeral-storage": 128 * _GB,
        "pods": _USUAL_PODS,
        "nvidia.com/gpu": machine.gpus if machine.maker == "nvidia" else 0,
        "amd.com/gpu": machine.gpus if machine.maker == "amd" else 0,
    }
    kept = {
        "cpu": Quantity(f"{int(1000 * _shares(cpu, _CPU_SHARES))}m"),
        "memory": Quantity(f"{int(1024 * _shares(gib, _GIB_SHARES))}Mi"),
    }
    return InstanceType(
        machine.sku.name,
        {name: Quantity(str(amount)) for name, amount in capacity.items()},
        tuple(_offerings(machine.sku, region)),
        requirements(_labels(machine, region)),
        (kept, {"memory": Quantity("750Mi")}),
    )


def _shares(amount: float, ranges: Sequence[tuple[int, int, float]]) -> float:
    """A sum of shares, each of a range; unlike elsewhere cut at the end alone."""
    return sum((min(amount, end) - start) * share for start, end, share in ranges if start <= amount)


def _offerings(sku: _Sku, region: str) -> Iterator[Offering]:
    kinds = ["on-demand", *(["spot"] if _is(sku.values, "LowPriorityCapable") else ())]
    zonal = [(f"{region}-{zone}", "zonal") for zone in sku.zones]
    for zone, scope in (*zonal, (REGIONAL_ZONE, "regional")):
        for kind in kinds:
            priority = "spot" if kind == "spot" else "regular"
            labels = {_SCOPE: [scope], **dict.fromkeys(_PRIORITIES, (priority,))}
            yield Offering(zone, kind, UNKNOWN, requirements=requirements(labels))


def _labels(machine: _Machine, region: str) -> dict[str, Sequence[object]]:
    """The labels of a type; os-sku, cluster and FIPS are not known."""
    sku, size, values = machine.sku, machine.size, machine.sku.values
    version, mib = size["version"], int(machine.gib * 1024)
    series = f"{size['family']}{size['subfamily']}{size['features']}" + (f"_v{version}" if version else "")
    disk = _ephemeral_disk(values)
    of_sku: dict[str, Sequence[object]] = {
        "name": [sku.name],
        "family": [size["family"]],
        "series": [series],
        "version": [version or "1"],
        "cpu": [machine.cpu],
        "memory": [mib],
        "networking-accelerated": [_flag(values, "AcceleratedNetworkingEnabled")],
        "storage-premium-capable": [_flag(values, "PremiumIO")],
        "storage-ultra-ssd": [_flag(values, "UltraSSDAvailable")],
        "storage-ephemeralos-maxsize": [disk] if disk else [],
        "gpu-count": [machine.gpus],
        "gpu-manufacturer": [machine.maker] if machine.maker else [],
        "gpu-name": [size["accelerator"]] if machine.maker else [],
    }
    architecture = values.get("CpuArchitectureType", "x64")
    return {
        INSTANCE_TYPE: [sku.name],
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
        ("NvmeDiskSizeInMiB", _MIB if on_nvme else 0),
        ("CachedDiskBytes", 1),
        ("MaxResourceVolumeMB", _MIB),
    )
    return next((gb for name, unit in sizes if (gb := int(values.get(name, "0")) * unit // _GB)), 0)
