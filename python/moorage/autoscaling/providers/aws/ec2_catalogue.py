"""The catalogue of EC2's instance types, with prices on demand; ``catalogue/README.md`` has its source.

It has each type's labels and what a node with Amazon Linux 2023 has for pods. From these follows what EC2
says of the type, but for: zones and usage classes, disks that are not NVMe, and what few NodeClasses ask for.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .ec2_types import (
    Accelerators,
    Cores,
    Cpus,
    Device,
    Ebs,
    EbsBandwidth,
    Ec2Type,
    Efa,
    Gpus,
    Memory,
    Network,
    NetworkCard,
    Neuron,
    NeuronDevice,
    PlacementGroups,
    Processor,
    ProviderTables,
    Storage,
)

DATE = "2026-08"
"""When the catalogue was made."""
_FILE = Path(__file__).parent / "catalogue" / "aws_catalog.json.gz"
_DEFAULT_REGION, _YUAN = "us-east-1", "cn-north-1"
_GPUS = {"nvidia": "NVIDIA", "amd": "AMD", "habana": "Habana"}
_LABEL = "karpenter.k8s.aws/instance-"
_USUAL_ADDRESSES = 50
"""IPv4 addresses of an interface of the types of which the catalogue says nothing: they are all large."""


class PriceList(NamedTuple):
    """Prices on demand per hour by type, the region of which they are, and their currency."""

    prices: Mapping[str, float]
    region: str
    currency: str


@cache
def _catalogue() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(gzip.decompress(_FILE.read_bytes()))
    return found


def price_list(region: str) -> PriceList:
    """Return prices as the provider has them before its first update: those of us-east-1 in most regions."""
    tables = _catalogue()["onDemandPrices"]
    of = region if region in tables else _DEFAULT_REGION
    return PriceList(tables[of], of, "CNY" if of == _YUAN else "USD")


@cache
def catalogue_types() -> dict[str, Ec2Type]:
    """Return all types by name."""
    return {name: _described(name, row) for name, row in _catalogue()["types"].items()}


@cache
def provider_tables() -> dict[str, ProviderTables]:
    """Return what the provider has tables for, by type."""
    found = {}
    for name, row in _catalogue()["types"].items():
        limits, bandwidth = row["limits"] or {}, row["labels"].get(f"{_LABEL}network-bandwidth")
        branches = limits["branchInterfaces"] if limits.get("trunking") else 0
        found[name] = ProviderTables(
            None if bandwidth is None else int(bandwidth), branches, limits.get("ipv4PerInterface", 0)
        )
    return found


def _described(name: str, row: Mapping[str, Any]) -> Ec2Type:
    """What EC2 says of a type, by its row."""
    labels = {key.removeprefix(_LABEL): value for key, value in row["labels"].items()}
    amounts = row["allocatable"]
    is_arm = labels["kubernetes.io/arch"] == "arm64"
    bandwidth = labels.get("ebs-bandwidth")
    nvme = labels.get("local-nvme")
    gpus, accelerators, neuron = _devices(labels, amounts)
    return Ec2Type(
        name,
        Processor(
            ("arm64" if is_arm else "x86_64",),
            manufacturer=labels["cpu-manufacturer"],
            sustained_clock_speed_in_ghz=int(labels["cpu-sustained-clock-speed-mhz"]) / 1000,
        ),
        Cpus(int(labels["cpu"])),
        Memory(int(labels["memory"])),
        _network(labels, amounts, row["limits"]),
        ("on-demand", "spot"),
        labels["hypervisor"],
        Storage() if nvme is None else Storage(int(nvme), "required"),
        Ebs() if bandwidth is None else Ebs("default", EbsBandwidth(int(bandwidth))),
        Gpus(gpus),
        neuron,
        Accelerators(accelerators),
        PlacementGroups(("cluster", "partition", "spread")),
    )


def _devices(
    labels: Mapping[str, str], amounts: Mapping[str, str]
) -> tuple[tuple[Device, ...], tuple[Device, ...], Neuron | None]:
    gpus: tuple[Device, ...] = ()
    if maker := labels.get("gpu-manufacturer"):
        memory = Memory(int(labels["gpu-memory"]))
        gpus = (Device(labels["gpu-name"], _GPUS[maker], int(labels["gpu-count"]), memory),)
    if "accelerator-name" not in labels:
        return gpus, (), None
    name, count = labels["accelerator-name"], int(labels["accelerator-count"])
    cores = int(amounts.get("aws.amazon.com/neuroncore", 0))
    if cores:
        return gpus, (), Neuron((NeuronDevice(name, count, Cores(cores // count)),))
    return gpus, (Device(name, labels["accelerator-manufacturer"], count),), None


def _network(
    labels: Mapping[str, str], amounts: Mapping[str, str], limits: Mapping[str, Any] | None
) -> Network:
    """The network of a type; without limits as many interfaces as its pods need."""
    if limits is None:
        addresses = _USUAL_ADDRESSES
        cards = [NetworkCard(0, (int(amounts["pods"]) - 2) // (addresses - 1))]
    else:
        first, addresses = limits["defaultCardInterfaces"], limits["ipv4PerInterface"]
        more = limits["networkCards"] - 1
        each = (limits["interfaces"] - first) // more if more else 0
        cards = [NetworkCard(0, first), *(NetworkCard(at + 1, each) for at in range(more))]
    efas = amounts.get("vpc.amazonaws.com/efa")
    return Network(
        tuple(cards),
        0,
        addresses,
        labels["encryption-in-transit-supported"] == "true",
        "required",
        Efa(None if efas is None else int(efas)),
    )
