"""Makes the catalogue of EC2's instance types.

    python -m tests.autoscaling.make_ec2_catalogue CATALOGUE.json.gz

CATALOGUE is a list of types as the documentation of Karpenter's provider for AWS has them: their labels, what
a node with Amazon Linux 2023 has for pods, limits of interfaces, and prices on demand. From these follows
what EC2 says of each type. The file that is written has it as ``aws ec2 describe-instance-types`` prints it.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

TARGET = Path("python/moorage/autoscalers/providers/aws/catalogue/ec2_catalogue.json.gz")
GPUS = {"nvidia": "NVIDIA", "amd": "AMD", "habana": "Habana"}
LABEL = "karpenter.k8s.aws/instance-"
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


def catalogue(given: Json) -> Json:
    types = given["types"]
    return {
        "InstanceTypes": [described(name, row) for name, row in types.items()],
        "tables": {name: tables(row) for name, row in types.items()},
        "prices": given["onDemandPrices"],
    }


if __name__ == "__main__":
    made = catalogue(json.loads(gzip.decompress(Path(sys.argv[1]).read_bytes())))
    TARGET.write_bytes(gzip.compress(json.dumps(made, separators=(",", ":")).encode(), 9, mtime=0))
