"""What EC2 says of instance types, as ``aws ec2 describe-instance-types`` prints it."""

from __future__ import annotations

import msgspec
from msgspec import field

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


class Memory(_Info, frozen=True):
    mib: int = field(name="SizeInMiB")


class Storage(_Info, frozen=True):
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


class Device(_Info, frozen=True):
    """GPUs or accelerators of one kind."""

    name: str = ""
    manufacturer: str = ""
    count: int = 0
    memory_info: Memory = Memory(0)


class Gpus(_Info, frozen=True):
    gpus: tuple[Device, ...] = ()


class Accelerators(_Info, frozen=True):
    accelerators: tuple[Device, ...] = ()


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
    memory_info: Memory
    network_info: Network
    supported_usage_classes: tuple[str, ...] = ()
    supported_virtualization_types: tuple[str, ...] = (_HVM,)
    hypervisor: str = ""
    storage: Storage = field(default=Storage(), name="InstanceStorageInfo")
    ebs_info: Ebs = Ebs()
    gpu_info: Gpus = Gpus()
    neuron_info: Neuron | None = None
    accelerator_info: Accelerators = field(default=Accelerators(), name="InferenceAcceleratorInfo")
    nitro_enclaves_support: str = ""

    @property
    def architecture(self) -> str:
        """The value of the label: of the first architecture that nodes can have; "" for none."""
        named = self.processor_info.supported_architectures
        return next((ARCHITECTURES[one] for one in named if one in ARCHITECTURES), "")

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
