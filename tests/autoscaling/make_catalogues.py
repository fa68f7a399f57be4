"""Makes the catalogues of instance types.

    python -m tests.autoscaling.make_catalogues ec2 CATALOGUE.json.gz
    python -m tests.autoscaling.make_catalogues gce FOLDER
    python -m tests.autoscaling.make_catalogues azure FOLDER

FOLDER has the files that ``catalogues/README.md`` names, under their own names. CATALOGUE is a list of types
as the documentation of Karpenter's provider for AWS has them: their labels, what a node with AL2023 has for
pods, limits of interfaces, and prices on demand. From these follows what EC2 says of each type. The file that
is written has it as ``aws ec2 describe-instance-types`` prints it.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

FOLDER = Path("python/moorage/autoscalers/providers/catalogues")
GPUS = {"nvidia": "NVIDIA", "amd": "AMD", "habana": "Habana"}
LABEL = "karpenter.k8s.aws/instance-"
AZURE_LINUX = {"azurelinux", "azurelinux3"}
USUAL_ADDRESSES = 50
"""IPv4 addresses of an interface of the types of which the list has no limits: they are all large."""


def described(name: str, row: Json) -> Json:
    """What EC2 says of a type, by its row."""
    labels = {key.removeprefix(LABEL): value for key, value in row["labels"].items()}
    found = {
        "InstanceType": name,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "Hypervisor": labels["hypervisor"],
        "ProcessorInfo": {
            "SupportedArchitectures": ["arm64" if labels["kubernetes.io/arch"] == "arm64" else "x86_64"],
            "Manufacturer": labels["cpu-manufacturer"],
            "SustainedClockSpeedInGhz": int(labels["cpu-sustained-clock-speed-mhz"]) / 1000,
        },
        "VCpuInfo": {"DefaultVCpus": int(labels["cpu"])},
        "MemoryInfo": {"SizeInMiB": int(labels["memory"])},
        "NetworkInfo": network(labels, row["allocatable"], row["limits"]),
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
    }
    if "local-nvme" in labels:
        found["InstanceStorageInfo"] = {"TotalSizeInGB": int(labels["local-nvme"]), "NvmeSupport": "required"}
    if "ebs-bandwidth" in labels:
        bandwidth = {"MaximumBandwidthInMbps": int(labels["ebs-bandwidth"])}
        found["EbsInfo"] = {"EbsOptimizedSupport": "default", "EbsOptimizedInfo": bandwidth}
    return found | devices(labels, row["allocatable"])


def devices(labels: Json, amounts: Json) -> Json:
    """GPUs and accelerators of a type."""
    found: Json = {}
    if "gpu-name" in labels:
        gpu = {"Name": labels["gpu-name"], "Manufacturer": GPUS[labels["gpu-manufacturer"]]}
        gpu |= {"Count": int(labels["gpu-count"]), "MemoryInfo": {"SizeInMiB": int(labels["gpu-memory"])}}
        found["GpuInfo"] = {"Gpus": [gpu]}
    if "accelerator-name" in labels:
        device = {"Name": labels["accelerator-name"], "Count": int(labels["accelerator-count"])}
        if cores := int(amounts.get("aws.amazon.com/neuroncore", 0)):
            device["CoreInfo"] = {"Count": cores // device["Count"]}
            found["NeuronInfo"] = {"NeuronDevices": [device]}
        else:
            device["Manufacturer"] = labels["accelerator-manufacturer"]
            found["InferenceAcceleratorInfo"] = {"Accelerators": [device]}
    return found


def network(labels: Json, amounts: Json, limits: Json | None) -> Json:
    """The network of a type; without limits as many interfaces as its pods need."""
    if limits is None:
        addresses = USUAL_ADDRESSES
        counts = [(int(amounts["pods"]) - 2) // (addresses - 1)]
    else:
        first, addresses = limits["defaultCardInterfaces"], limits["ipv4PerInterface"]
        more = limits["networkCards"] - 1
        counts = [first, *([(limits["interfaces"] - first) // more] * more if more else ())]
    found = {
        "NetworkCards": [
            {"NetworkCardIndex": at, "MaximumNetworkInterfaces": count} for at, count in enumerate(counts)
        ],
        "DefaultNetworkCardIndex": 0,
        "Ipv4AddressesPerInterface": addresses,
        "EncryptionInTransitSupported": labels["encryption-in-transit-supported"] == "true",
        "EnaSupport": "required",
    }
    if "vpc.amazonaws.com/efa" in amounts:
        found["EfaInfo"] = {"MaximumEfaInterfaces": int(amounts["vpc.amazonaws.com/efa"])}
    return found


def tables(row: Json) -> Json:
    """What the provider has tables for."""
    limits, bandwidth = row["limits"] or {}, row["labels"].get(f"{LABEL}network-bandwidth")
    return {
        "bandwidth": None if bandwidth is None else int(bandwidth),
        "branchInterfaces": limits["branchInterfaces"] if limits.get("trunking") else 0,
        "addresses": limits.get("ipv4PerInterface", 0),
    }


def ec2(file: Path) -> Json:
    given = json.loads(gzip.decompress(file.read_bytes()))
    types = given["types"]
    return {
        "InstanceTypes": [described(name, row) for name, row in types.items()],
        "tables": {name: tables(row) for name, row in types.items()},
        "prices": given["onDemandPrices"],
    }


ACCELERATORS = {
    "l4": "nvidia-l4",
    "rtx6000": "nvidia-rtx-pro-6000",
    "a100": "nvidia-tesla-a100",
    "a100-80gb": "nvidia-a100-80gb",
    "h100-80gb": "nvidia-h100-80gb",
    "h100-80gb-mega": "nvidia-h100-mega-80gb",
}


def priced(prices: Json, names: list[str]) -> list[float]:
    """Prices in the order of types; 0 for none. More than five digits make the file larger, and no answer
    other."""
    return [float(f"{prices.get(name) or 0:.5g}") for name in names]


def _zones_of(folder: Path, regions: list[str]) -> dict[str, set[str]]:
    """The types of each zone: those of the region's list, without those of which an older list by zones says
    that they are elsewhere in the region. Regions that are younger than the list of zones have three."""
    rows: dict[str, list[dict[str, str]]] = {}
    for name in ("zones", "machinetypezone", "machinetyperegion"):
        with (folder / f"{name}.csv").open() as lines:
            rows[name] = list(csv.DictReader(lines, delimiter=";"))
    zones: dict[str, set[str]] = {region: set() for region in regions}
    for row in rows["zones"]:
        zones.setdefault(row["REGION"], set()).add(row["NAME"])
    by_type: dict[tuple[str, str], set[str]] = {}
    for row in rows["machinetypezone"]:
        by_type.setdefault((row["NAME"], row["ZONE"].rpartition("-")[0]), set()).add(row["ZONE"])
    found: dict[str, set[str]] = {}
    for row in rows["machinetyperegion"]:
        name, region = row["NAME"], row["ZONE"]
        if region in regions:
            every = zones[region] or {f"{region}-{letter}" for letter in "abc"}
            for zone in by_type.get((name, region), every) & every or every:
                found.setdefault(zone, set()).add(name)
    return found


def gce(folder: Path) -> Json:
    prices = json.loads((folder / "initial-prices.json").read_text())["prices"]
    names = sorted({name for region in prices.values() for name in region["on_demand"]})
    known = yaml.safe_load((folder / "gcp.yml").read_text())["compute"]["instance"]
    zones = _zones_of(folder, sorted(prices))
    types = []
    for name in names:
        row = known[name]
        machine: Json = {"name": name, "guestCpus": int(row["cpu"]), "memoryMb": int(row["ram"] * 1024)}
        gpus = [(kind, row[short]) for short, kind in ACCELERATORS.items() if short in row]
        if gpus:
            machine["accelerators"] = [
                {"guestAcceleratorType": kind, "guestAcceleratorCount": max(int(count), 1)}
                for kind, count in gpus
            ]
        if gigabytes := int(row.get("local-ssd", 0)):
            size = 3000 if name.startswith("z3-") else 375
            machine["bundledLocalSsds"] = {"partitionCount": max(gigabytes // size, 1)}
        types.append(machine)
    text = yaml.safe_load((folder / "node-labeler-configmap.yaml").read_text())
    disks = json.loads(text["data"]["machine-pd-compatibility.json"])
    return {
        "types": types,
        "zones": {
            zone: "".join("01"[name in there] for name in names) for zone, there in sorted(zones.items())
        },
        "prices": {
            region: [priced(of_region["on_demand"], names), priced(of_region["spot"], names)]
            for region, of_region in sorted(prices.items())
        },
        "diskTypes": {
            family: sorted(kind for kind in kinds if kinds[kind]) for family, kinds in disks.items()
        },
    }


def azure(folder: Path) -> Json:
    known = {entry["name"] for entry in yaml.safe_load((folder / "known_skus.yaml").read_text())}
    fields = re.findall(
        r"InstanceType: \"([^\"]+)\",.*?VCPU: +(\d+),\s+MemoryMb: +(\d+),\s+GPU: +(\d+),\s+"
        r"Architecture: \"(\w*)\"",
        (folder / "azure_instance_types.go").read_text(),
        re.DOTALL,
    )
    regions = re.findall(
        r"initialOnDemandPrices\[\"(\w+)\"\] = map\[string\]float64\{(.*?)\n\t\}",
        (folder / "zz_generated.pricing.go").read_text(),
        re.DOTALL,
    )
    prices = {
        region: {name: float(price) for name, price in re.findall(r"\"([^\"]+)\": +([\d.]+)", text)}
        for region, text in regions
    }
    sold = {name for of_region in prices.values() for name in of_region}
    sizes = sorted(row for row in fields if row[0] in known & sold)
    names = [row[0] for row in sizes]
    locations = json.loads((folder / "locations.json").read_text())
    gpus = yaml.safe_load((folder / "supported-gpus.yaml").read_text())
    return {
        "sizes": [[name, int(cpu), int(mib), int(gpu), arch] for name, cpu, mib, gpu, arch in sizes],
        "prices": {region: priced(of_region, names) for region, of_region in sorted(prices.items())},
        "zones": {
            place["name"]: [zone["logicalZone"] for zone in place["availabilityZoneMappings"]]
            for place in locations
            if place.get("availabilityZoneMappings")
        },
        "gpus": {name: of_size["gpu"] for name, of_size in sorted(gpus.items())},
        "ubuntu_only": [
            name for name, of_size in sorted(gpus.items()) if not AZURE_LINUX.intersection(of_size["os"])
        ],
    }


if __name__ == "__main__":
    kind, given = sys.argv[1:]
    made = {"ec2": ec2, "gce": gce, "azure": azure}[kind](Path(given))
    text = json.dumps(made, separators=(",", ":")).encode()
    (FOLDER / f"{kind}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))
