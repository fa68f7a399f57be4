"""Machine types of GCE, as Karpenter's provider for GCP makes types of them: those of the catalogue, or of
what ``gcloud compute machine-types list --format json`` prints.

Rules: karpenter-provider-gcp 417f047b, pkg/providers/instancetype, pkg/providers/pricing and pkg/utils.
GCENodeClasses are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import msgspec

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError, number_of

from ..hourly_cost import UNKNOWN
from .catalogues import read_catalogue
from .instance_type import (
    INSTANCE_TYPE,
    InstanceType,
    ListedTypes,
    Offering,
    ShownSizes,
    only_region,
    read_items,
    requirements,
)
from .kept_by_kubelet import GCP, MIB
from .known_labels import DISK_TYPE, DISK_TYPES, GKE_ACCELERATOR

GROUP = "karpenter.k8s.gcp"
COMMAND = "gcloud compute machine-types list --format json"
MACHINE_TYPE_FIELD = "guestCpus"
DATE = "2026-08"
"""When the catalogue was made."""
_SHARED = ("e2-micro", "e2-small", "e2-medium")
_ARM = ("a4x", "c4a", "n4a", "t2a")
"""Families with ARM processors, where nothing says the architecture."""
_SPOT_SHARE = 0.4
"""What the provider takes for the price of spot of that on demand, where it knows none."""
_BOOT_DISK_GIB = 100
_PARTITION_GIB = {"z3": 3000}
_SSD_GIB = {
    "c4d-highmem-8-lssd": 2250,
    "c4d-highmem-16-lssd": 3000,
    "c4-highmem-288-lssd-metal": 18000,
    "c4-standard-288-lssd-metal": 18000,
    "z3-highmem-192-highlssd-metal": 72000,
}
"""Where GCE says another number of partitions than there are."""
_GPU = "nvidia.com/gpu"


class _MachinePart(msgspec.Struct, frozen=True, rename="camel"):
    """Part of a list. Fields that are not named are not read."""


class _Accelerator(_MachinePart, frozen=True):
    guest_accelerator_type: str
    guest_accelerator_count: int = 0


class _LocalSsds(_MachinePart, frozen=True):
    partition_count: int = 0


class _MachineType(_MachinePart, frozen=True):
    """A machine type; of a list also its zone, which may be written as an address."""

    name: str
    guest_cpus: int
    memory_mb: int
    zone: str = ""
    architecture: str = ""
    accelerators: tuple[_Accelerator, ...] = ()
    bundled_local_ssds: _LocalSsds = _LocalSsds()

    @property
    def family(self) -> str:
        return self.name.partition("-")[0]


class _MachineTypes(_MachinePart, frozen=True):
    """Types by name; which of them a zone has, each a digit; prices on demand and of spot by region, 0 for
    none; and which disks a family takes."""

    types: tuple[_MachineType, ...]
    zones: dict[str, str]
    prices: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]
    disk_types: dict[str, tuple[str, ...]]


@cache
def catalogue() -> _MachineTypes:
    """Return the catalogue; it is read once."""
    return read_catalogue("gce", _MachineTypes)


@cache
def prices_of(region: str) -> Mapping[str, tuple[float, float]]:
    """Return the prices of types on demand and of spot, per hour; without any of a region that is not
    known."""
    known = catalogue()
    rows = zip(known.types, *known.prices.get(region, ((), ())), strict=False)
    return {kind.name: (usual, spot or usual * _SPOT_SHARE) for kind, usual, spot in rows if usual}


def zones_of(region: str) -> list[str]:
    """Return the zones of a region that have types."""
    return [zone for zone in catalogue().zones if zone.rpartition("-")[0] == region]


def types_of(region: str, zones: Collection[str]) -> ListedTypes:
    """Return the types that zones of a region have."""
    known = catalogue()
    prices, sold = prices_of(region), {zone: known.zones.get(zone, "") for zone in sorted(zones)}
    types = []
    for at, machine in enumerate(known.types):
        of_type = [zone for zone, digits in sold.items() if digits[at : at + 1] == "1"]
        if of_type and machine.name in prices:
            types.append(_type(machine, region, of_type))
    return ListedTypes(GROUP, tuple(types), f"gcp {region}, {DATE}; {_assumed(types)}{_NEWER}")


def read_machine_types(items: Sequence[object]) -> ListedTypes:
    """Return the types of a list.

    Raises
    ------
    InputError
        An item is not as the command prints it, or the list has several regions.
    """
    machines = read_items(items, _MachineType, COMMAND)
    zones = dict[str, set[str]]()
    for machine in machines:
        place = machine.zone.rpartition("/")[2]
        if "-" not in place:
            raise InputError(f'must be a zone such as us-central1-a, not "{place[:40]}"', path="zone")
        zones.setdefault(machine.name, set()).add(place)
    region = only_region(
        [zone.rpartition("-")[0] for of_type in zones.values() for zone in of_type],
        'ask with --filter="zone~^REGION"',
    )
    by_name = {
        machine.name: machine for machine in machines if machine.guest_cpus > 0 and machine.memory_mb > 0
    }
    types = [_type(each, region, sorted(zones[name])) for name, each in sorted(by_name.items())]
    about = f"{number_of(len(types), 'type', 'types')} of {COMMAND.rpartition(' --')[0]}"
    about += f"; prices of {DATE}" if region in catalogue().prices else ""
    return ListedTypes(GROUP, tuple(types), f"gcp {region}, {about}; {_assumed(types)}")


_NEWER = "; types newer than 2023 taken to be in all zones of the region"


def _assumed(types: Iterable[InstanceType]) -> str:
    """What is not known of types, or is otherwise than one would think."""
    counted = "; of several GPUs of a type the provider counts one"
    counted *= any(kind.shown is not None for kind in types)
    return f"boot disks of {_BOOT_DISK_GIB} GiB assumed{counted}"


def _type(machine: _MachineType, region: str, zones: Sequence[str]) -> InstanceType:
    """A type as the provider has it, which counts the entries of the list of accelerators, not the cards: of
    several cards it believes one, and nodes have them all."""
    memory, mib = machine.memory_mb * MIB, machine.memory_mb
    disk, kept_of_disk, evicted = _storage(machine)
    cards = sum(accelerator.guest_accelerator_count for accelerator in machine.accelerators)
    capacity = {
        "cpu": Quantity(str(machine.guest_cpus)),
        "memory": Quantity(str(memory - int(memory * GCP.unseen))),
        "ephemeral-storage": Quantity(f"{disk}Gi"),
        "pods": Quantity(str(GCP.pods)),
        _GPU: Quantity(str(len(machine.accelerators))),
    }
    kept_cpu = 1060 if machine.name in _SHARED else GCP.cpu.of(machine.guest_cpus * 1000)
    overhead = (
        {
            "cpu": Quantity(f"{kept_cpu}m"),
            "memory": Quantity(f"{255 if mib <= 1024 else GCP.memory.of(mib)}Mi"),
            "ephemeral-storage": Quantity(f"{kept_of_disk}Gi"),
        },
        GCP.system,
        {**GCP.eviction, "ephemeral-storage": Quantity(f"{evicted}Gi")},
    )
    machine_type = InstanceType(
        machine.name,
        capacity,
        tuple(_offerings(machine.name, region, zones)),
        requirements(_labels(machine, region)),
        overhead,
    )
    if cards <= len(machine.accelerators):
        return machine_type
    real = {_GPU: Quantity(str(cards))}
    return replace(
        machine_type, shown=ShownSizes({**capacity, **real}, {**machine_type.allocatable({}), **real})
    )


def _storage(machine: _MachineType) -> tuple[int, int, int]:
    """GiB for pods, of which the kubelet keeps so many, and so many for evictions: of the local SSDs that
    come with the type, else of the boot disk."""
    count = machine.bundled_local_ssds.partition_count
    if count > 0:
        size = _SSD_GIB.get(machine.name, count * _PARTITION_GIB.get(machine.family, 375))
        return size, {1: 50, 2: 75}.get(count, 100), size // 10
    kept = min(round(_BOOT_DISK_GIB * 0.5), round(_BOOT_DISK_GIB * 0.35 + 6), 100)
    return _BOOT_DISK_GIB, kept, _BOOT_DISK_GIB // 10


def _offerings(name: str, region: str, zones: Iterable[str]) -> Iterator[Offering]:
    prices = dict(zip(("on-demand", "spot"), prices_of(region).get(name, (UNKNOWN, UNKNOWN)), strict=True))
    for zone in zones:
        placed = requirements({"topology.k8s.gcp/zone-id": [zone]})
        for kind, price in prices.items():
            yield Offering(zone, kind, price, requirements=placed)


def _labels(machine: _MachineType, region: str) -> dict[str, Sequence[object]]:
    """The labels of a type. Those of GKE's features the provider leaves open, too."""
    family, *parts = machine.name.split("-")
    architecture = {"ARM64": "arm64", "X86_64": "amd64"}.get(machine.architecture)
    accelerators = machine.accelerators
    gpu = [accelerators[0].guest_accelerator_type] if accelerators else []
    of_instance: dict[str, Sequence[object]] = {
        "family": [family] if parts else [],
        "shape": parts[:1],
        "generation": [family[-2] if len(family) == 3 else family[-1]] if parts else [],
        "size": [parts[-2 if len(parts) > 2 else -1]] if parts else [],
        "cpu": [machine.guest_cpus],
        "memory": [machine.memory_mb],
        "gpu-name": gpu,
        "gpu-count": [len(accelerators)] if accelerators else [],
        "gpu-manufacturer": [],
        "gpu-memory": [],
    }
    disks = catalogue().disk_types.get(family, ())
    return {
        INSTANCE_TYPE: [machine.name],
        "kubernetes.io/arch": [architecture or ("arm64" if family in _ARM else "amd64")] if parts else [],
        "kubernetes.io/os": ["linux"],
        "node.kubernetes.io/windows-build": [],
        "topology.kubernetes.io/region": [region],
        GKE_ACCELERATOR: gpu,
        **{f"{GROUP}/instance-{name}": values for name, values in of_instance.items()},
        **{f"{DISK_TYPE}{name}": ["true"] if name in disks else [] for name in DISK_TYPES},
    }
