"""The requirements of an instance type: its labels, and those that its nodes never have.

Rules: Karpenter's provider for AWS v1.15.0, pkg/providers/instancetype/types.go (computeRequirements).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from moorage.autoscalers.instance_types.labels import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    RESERVED,
    ZONE,
    requirement,
    requirements,
)
from moorage.kube import NodeSelectorRequirement

from ..registrations import RESERVATION_ID, ZONE_ID
from .ec2_types import Ec2Type, ProviderTables
from .node_class import NodeClass, Reservation

DOMAIN = "karpenter.k8s.aws"
RESERVATION_TYPE = f"{DOMAIN}/capacity-reservation-type"
INTERRUPTIBLE = f"{DOMAIN}/capacity-reservation-interruptible"
TENANCY = f"{DOMAIN}/instance-tenancy"
TENANCIES = ("default", "dedicated")
_NAME = re.compile(r"([a-z]+)(-[0-9]+tb)?([0-9]+).*\.")
"""Category and generation in the name of a type."""


def reservation_labels(reservations: Iterable[Reservation]) -> list[NodeSelectorRequirement]:
    """Return the requirements on labels of reserved capacity: absent where there is none."""
    found = list(reservations)
    values = {
        RESERVATION_ID: [one.id for one in found],
        RESERVATION_TYPE: [one.reservation_type for one in found],
        INTERRUPTIBLE: [_flag(one.interruptible) for one in found],
    }
    return [requirement(key, tuple(dict.fromkeys(texts))) for key, texts in values.items()]


def type_requirements(
    kind: Ec2Type,
    tables: ProviderTables,
    node_class: NodeClass,
    place: tuple[str, Sequence[str]],
    reservations: Sequence[Reservation],
) -> tuple[NodeSelectorRequirement, ...]:
    """Return the requirements of a type.

    Parameters
    ----------
    place : (str, sequence of str)
        The region, and the zones in which the type is sold and the node class has a subnet.
    reservations : sequence of Reservation
        Those of the node class for the type.
    """
    region, zones = place
    zone_ids = node_class.zone_ids
    kinds = [one for one in kind.supported_usage_classes if one in ("on-demand", "spot")]
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
    found = (
        [(one.name, "aws", one.count) for one in kind.neuron_info.neuron_devices] if kind.neuron_info else []
    )
    if kind.neuron_info is None:
        found = [(one.name, one.manufacturer, one.count) for one in kind.accelerator_info.accelerators]
    if len(found) == 1:
        (name, maker, count) = found[0]
        labels["accelerator-name"], labels["accelerator-manufacturer"] = [_kebab(name)], [_kebab(maker)]
        labels["accelerator-count"] = [str(count)]
    return labels
