"""Types from what ``gcloud compute machine-types list --format json`` prints, as Karpenter's provider for
GCP makes them.

Rules: karpenter-provider-gcp 417f047b, pkg/providers/instancetype and pkg/utils. Prices are not in the
list; GCENodeClasses are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError, number_of

from ..hourly_cost import UNKNOWN
from .instance_type import (
    CPU_SHARES,
    INSTANCE_TYPE,
    InstanceType,
    ListedTypes,
    Offering,
    only_region,
    read_items,
    requirements,
    whole_shares,
)

GROUP = "karpenter.k8s.gcp"
COMMAND = "gcloud compute machine-types list --format json"
MACHINE_TYPE_FIELD = "guestCpus"
_MEMORY_SHARES = (
    *((0, 4096, 0.25), (4096, 8192, 0.2), (8192, 16384, 0.1)),
    *((16384, 131072, 0.06), (131072, 1 << 31, 0.02)),
)
"""What the kubelet keeps on GKE of each range of MiB."""
_SMALL_MIB = 1024
_SHARED = ("e2-micro", "e2-small", "e2-medium")
_MEMORY_OVERHEAD = 0.07
_ARM = ("a4x", "c4a", "n4a", "t2a")
"""Families with ARM processors, for lists that do not say the architecture."""
_MIB = 1 << 20


class _Accelerator(msgspec.Struct, frozen=True, rename="camel"):
    guest_accelerator_type: str
    guest_accelerator_count: int = 0


class _MachineType(msgspec.Struct, frozen=True, rename="camel"):
    """An item of the list. Fields that are not named are not read."""

    name: str
    zone: str
    guest_cpus: int
    memory_mb: int
    architecture: str = ""
    accelerators: tuple[_Accelerator, ...] = ()

    @property
    def place(self) -> str:
        """The zone, which may be written as an address."""
        return self.zone.rpartition("/")[2]


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
        if "-" not in machine.place:
            raise InputError(f'must be a zone such as us-central1-a, not "{machine.place[:40]}"', path="zone")
        zones.setdefault(machine.name, set()).add(machine.place)
    region = only_region(
        [machine.place.rpartition("-")[0] for machine in machines], 'ask with --filter="zone~^REGION"'
    )
    by_name = {
        machine.name: machine for machine in machines if machine.guest_cpus > 0 and machine.memory_mb > 0
    }
    types = [_type(each, region, sorted(zones[name])) for name, each in sorted(by_name.items())]
    source = (
        f"gcp {region}, {number_of(len(types), 'type', 'types')} of {COMMAND.rpartition(' --')[0]}; "
        "boot disks of 100 GiB assumed"
    )
    return ListedTypes(GROUP, tuple(types), source)


def _type(machine: _MachineType, region: str, zones: Sequence[str]) -> InstanceType:
    memory, gpus = (
        machine.memory_mb * _MIB,
        sum(accelerator.guest_accelerator_count for accelerator in machine.accelerators),
    )
    capacity = {
        "cpu": str(machine.guest_cpus),
        "memory": str(memory - int(memory * _MEMORY_OVERHEAD)),
        "ephemeral-storage": "100Gi",
        "pods": "110",
        "nvidia.com/gpu": str(gpus),
    }
    mib = machine.memory_mb
    kept_mib = 255 if mib <= _SMALL_MIB else whole_shares(mib, _MEMORY_SHARES)
    kept_cpu = 1060 if machine.name in _SHARED else whole_shares(machine.guest_cpus * 1000, CPU_SHARES)
    overhead = (
        {"cpu": f"{kept_cpu}m", "memory": f"{kept_mib}Mi"},
        {"cpu": "100m"},
        {"memory": "100Mi"},
    )
    return InstanceType(
        machine.name,
        {name: Quantity(text) for name, text in capacity.items()},
        tuple(_offerings(zones)),
        requirements(_labels(machine, region)),
        tuple([{name: Quantity(text) for name, text in part.items()} for part in overhead]),
    )


def _offerings(zones: Iterable[str]) -> Iterator[Offering]:
    for zone in zones:
        placed = requirements({"topology.k8s.gcp/zone-id": [zone]})
        for kind in ("on-demand", "spot"):
            yield Offering(zone, kind, UNKNOWN, requirements=placed)


def _labels(machine: _MachineType, region: str) -> dict[str, Sequence[object]]:
    """The labels of a type; those of GKE's features are not known."""
    family, *parts = machine.name.split("-")
    digits = [letter for letter in family if letter.isdigit()]
    architecture = {"ARM64": "arm64", "X86_64": "amd64"}.get(machine.architecture)
    accelerators = machine.accelerators
    of_instance: dict[str, Sequence[object]] = {
        "family": [family] if parts else [],
        "shape": parts[:1],
        "generation": digits[-1:] if parts else [],
        "size": [parts[-2 if len(parts) > 2 else -1]] if parts else [],
        "cpu": [machine.guest_cpus],
        "memory": [machine.memory_mb],
        "gpu-name": [accelerators[0].guest_accelerator_type] if accelerators else [],
        "gpu-count": [accelerators[0].guest_accelerator_count] if accelerators else [],
        "gpu-manufacturer": [],
        "gpu-memory": [],
    }
    return {
        INSTANCE_TYPE: [machine.name],
        "kubernetes.io/arch": [architecture or ("arm64" if family in _ARM else "amd64")] if parts else [],
        "kubernetes.io/os": ["linux"],
        "topology.kubernetes.io/region": [region],
        **{f"{GROUP}/instance-{name}": values for name, values in of_instance.items()},
    }
