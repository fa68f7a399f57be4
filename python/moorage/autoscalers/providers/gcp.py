"""Machine types of GCE, as Karpenter's provider for GCP makes types of them: those of the catalogue, or of
what ``gcloud compute machine-types list --format json`` prints.

Rules: karpenter-provider-gcp 417f047b, pkg/providers/instancetype, pkg/providers/pricing and pkg/utils.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import floor

import msgspec

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError, number_of
from moorage.kube.apiserver.decode import decode
from moorage.kube.model.meta import total

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
from .kept_by_kubelet import GCP, GIB, MIB, KubeletSettings
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


class _Disk(_MachinePart, frozen=True):
    size: int = msgspec.field(default=0, name="sizeGiB")
    category: str = ""
    boot: bool = False


class _GceSpec(_MachinePart, frozen=True):
    """What the spec of a GCENodeClass says of its nodes, in so far as it changes what fits."""

    disks: tuple[_Disk, ...] = ()
    kubelet_configuration: KubeletSettings = KubeletSettings()


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
    machines = []
    for at, machine in enumerate(known.types):
        of_type = [zone for zone, digits in sold.items() if digits[at : at + 1] == "1"]
        if of_type and machine.name in prices:
            machines.append((machine, of_type))
    return _listed(machines, region, f"{DATE}{_NEWER}")


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
    about = f"{number_of(len(by_name), 'type', 'types')} of {COMMAND.rpartition(' --')[0]}"
    about += f"; prices of {DATE}" if region in catalogue().prices else ""
    return _listed([(each, sorted(zones[name])) for name, each in sorted(by_name.items())], region, about)


_NEWER = "; types newer than 2023 taken to be in all zones of the region"


def _listed(machines: Sequence[tuple[_MachineType, Sequence[str]]], region: str, about: str) -> ListedTypes:
    """Machines with their zones, and what is otherwise than one would think."""
    counted = "; of several GPUs of a type the provider counts one"
    counted *= any(_cards(machine) > len(machine.accelerators) for machine, _ in machines)

    def of_spec(spec: bytes | None) -> Sequence[InstanceType]:
        node_class = decode(msgspec.json.decode(spec or b"{}"), _GceSpec)
        if isinstance(node_class.kubelet_configuration.max_pods, str):
            raise InputError("expected integer, got string", path="spec.kubeletConfiguration.maxPods")
        return [_type(machine, node_class, region, zones) for machine, zones in machines]

    assumed = f"boot disks of {_BOOT_DISK_GIB} GiB assumed"
    return ListedTypes(GROUP, cache(of_spec), f"gcp {region}, {about}{counted}", assumed)


def _cards(machine: _MachineType) -> int:
    return sum(accelerator.guest_accelerator_count for accelerator in machine.accelerators)


def _type(machine: _MachineType, node_class: _GceSpec, region: str, zones: Sequence[str]) -> InstanceType:
    """A type as the provider has it, which counts the entries of the list of accelerators, not the cards: of
    several cards it believes one, and nodes have them all."""
    sold, mib, kubelet = machine.memory_mb * MIB, machine.memory_mb, node_class.kubelet_configuration
    disk, kept_of_disk, evicted = _storage(machine, node_class)
    memory, cards = sold - int(sold * GCP.unseen), _cards(machine)
    pods = GCP.pods if kubelet.max_pods is None else int(kubelet.max_pods)
    pods = min(pods, (kubelet.pods_per_core or pods) * machine.guest_cpus)
    capacity = {
        "cpu": Quantity(str(machine.guest_cpus)),
        "memory": Quantity(str(memory)),
        "ephemeral-storage": Quantity(f"{disk}Gi"),
        "pods": Quantity(str(pods)),
        _GPU: Quantity(str(len(machine.accelerators))),
    }
    kept_cpu = 1060 if machine.name in _SHARED else GCP.cpu.of(machine.guest_cpus * 1000)
    kept = {
        "cpu": Quantity(f"{kept_cpu}m"),
        "memory": Quantity(f"{255 if mib <= 1024 else GCP.memory.of(mib)}Mi"),
        "ephemeral-storage": Quantity(f"{kept_of_disk}Gi"),
    }
    of_kubelet, of_system = (
        {name: Quantity(str(amount)) for name, amount in given.items()}
        for given in (kubelet.kube_reserved, kubelet.system_reserved)
    )
    thresholds = {**GCP.eviction, "ephemeral-storage": Quantity(f"{evicted}Gi")}
    thresholds |= kubelet.evicted(memory, disk * GIB, lambda capacity, percent: capacity * percent / 100)
    overhead = kept | of_kubelet, total((GCP.system, of_system)), thresholds
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


def _storage(machine: _MachineType, node_class: _GceSpec) -> tuple[int, int, int]:
    """GiB for pods, of which the kubelet keeps so many, and so many for evictions: of the local SSDs that
    the node class names or, if it names no disk, come with the type; else of the boot disk."""
    count, boot = machine.bundled_local_ssds.partition_count, _BOOT_DISK_GIB
    size = _SSD_GIB.get(machine.name, count * _PARTITION_GIB.get(machine.family, 375))
    if node_class.disks:
        local = [disk.size for disk in node_class.disks if disk.category == "local-ssd" and not disk.boot]
        count, size = len(local), sum(local)
        boot = [boot, *(disk.size for disk in node_class.disks if disk.boot)][-1]
    if size > 0:
        return size, {1: 50, 2: 75}.get(count, 100), size // 10
    kept = min(floor(boot * 0.5 + 0.5), floor(boot * 0.35 + 6 + 0.5), 100)
    return boot, kept, boot // 10


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
