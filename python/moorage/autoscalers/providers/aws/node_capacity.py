"""What a node of an instance type has, and what its kubelet, system and eviction keep of it.

Rules: Karpenter's provider for AWS v1.15.0, pkg/providers/instancetype/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from math import ceil

from msgspec import Struct

from moorage._core.base.quantity import Quantity

from ..kept_by_kubelet import AWS, MIB
from .ec2_answers import Ec2Type, ProviderTables
from .node_class import CUSTOM, NodeClass, ProviderOptions

Amounts = dict[str, Quantity]
Variables = Mapping[str, int | str]

_LARGEST_INT32 = 2**31 - 1
_GRAVITON_MIB = 64
"""Memory that machines with an ARM processor keep for themselves."""
_GPU_RESOURCES = {"nvidia.com/gpu": "NVIDIA", "amd.com/gpu": "AMD", "habana.ai/gaudi": "Habana"}
NEURON, NEURON_CORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
EXOTIC = (*_GPU_RESOURCES, NEURON, NEURON_CORE)
"""Resources of machines that are launched only for those that ask for them."""
EFA_ONLY = "efa-only"


@cache
def _quantity(text: str) -> Quantity:
    return Quantity(text)


def memory_sold(kind: Ec2Type) -> int:
    """Return the memory of a type in bytes, of which nodes never see a share."""
    is_arm = kind.processor_info.supported_architectures[:1] == ("arm64",)
    return (kind.memory_info.mib - _GRAVITON_MIB * is_arm) * MIB


class BadExpressionError(Exception):
    """The expression of maxPods has no result, so the provider has no such type."""


class NodeCapacity(Struct, frozen=True, eq=False, dict=True):
    """The rules for one type under one node class.

    Raises
    ------
    BadExpressionError
        When the pods are counted, directly or for another amount.
    """

    kind: Ec2Type
    tables: ProviderTables
    node_class: NodeClass
    options: ProviderOptions

    # ---- pods ----------------------------------------------------------------------------------------------

    def _interface_pods(self, reserved: int) -> int:
        """For how many pods the network interfaces have addresses."""
        network = self.kind.network_info
        theirs = sum(
            network_interface.interface_type == EFA_ONLY and not network_interface.network_card_index
            for network_interface in self.node_class.spec.network_interfaces or ()
        )
        usable = max(network.interfaces - reserved - theirs, 0)
        return usable * (network.addresses - 1) + 2 if usable else 0

    def _pods(self, most: int | None) -> int:
        """How many pods a node takes, given maxPods."""
        family, per_core = self.node_class.family, self.node_class.spec.kubelet.pods_per_core or 0
        count = AWS.pods if most is None else most
        if most is None and family.counts_interfaces:
            count = self._interface_pods(self.options.reserved_enis)
        is_limited = per_core > 0 and family.has_pods_per_core
        return min(count, per_core * self.kind.cpus.default_vcpus) if is_limited else count

    @cached_property
    def _most_pods(self) -> int | None:
        """What maxPods comes to; None for the family's rule."""
        given = self.node_class.spec.kubelet.max_pods
        if not isinstance(given, str):
            return given
        if not self.options.cel:
            return None
        from .kubelet_expressions import evaluate  # few classes have expressions, and it imports CEL

        result = evaluate(given, self._variables(None))
        if result is None or result > _LARGEST_INT32:
            raise BadExpressionError
        return result

    def _variables(self, most: int | None) -> Variables:
        network = self.kind.network_info
        return {
            "vcpus": self.kind.cpus.default_vcpus,
            "memory_mib": self.kind.memory_info.mib,
            "default_enis": network.interfaces,
            "ips_per_eni": network.addresses,
            "max_pods": self._pods(most),
            "instance_type": self.kind.instance_type,
        }

    # ---- capacity ------------------------------------------------------------------------------------------

    @cached_property
    def _memory(self) -> int:
        """Memory in bytes that a node is believed to have."""
        sold = memory_sold(self.kind)
        return sold - ceil(float(sold) * self.options.vm_memory_overhead / 1024 / 1024) * MIB

    @cached_property
    def _storage(self) -> Quantity:
        """What pods can write to, by the first rule that applies."""
        spec, family, disks = self.node_class.spec, self.node_class.family, self.kind.storage
        if spec.instance_store_policy == "RAID0" and disks.gigabytes is not None:
            return _quantity(f"{disks.gigabytes}G")
        mappings = spec.block_device_mappings
        root = next((mapping for mapping in mappings if mapping.root_volume), None)
        of_device = next((mapping for mapping in mappings if mapping.device_name == family.device), None)
        if self.node_class.family_name == CUSTOM:
            of_device = mappings[-1] if mappings else None
        for each in (root, of_device):
            if each is not None and each.ebs.volume_size is not None:
                return _quantity(str(each.ebs.volume_size))
        return _quantity(family.size)

    def capacity(self) -> Amounts:
        """Return what a node has, by resource."""
        kind = self.kind
        gpus = kind.gpu_info.gpus
        devices = kind.neuron_info.neuron_devices if kind.neuron_info is not None else ()
        interfaces = self.node_class.spec.network_interfaces
        efas = kind.network_info.efa_info.maximum_efa_interfaces or 0
        if interfaces is not None:
            efas = sum(interface.interface_type == EFA_ONLY for interface in interfaces)
        counts = {
            "cpu": kind.cpus.default_vcpus,
            "memory": self._memory,
            "pods": self._pods(self._most_pods),
            "vpc.amazonaws.com/pod-eni": self.tables.branch_interfaces,
            **{
                name: sum(gpu.count for gpu in gpus if gpu.manufacturer == maker)
                for name, maker in _GPU_RESOURCES.items()
            },
            NEURON: sum(device.count for device in devices),
            NEURON_CORE: devices[0].count * devices[0].core_info.count if devices else 0,
            "vpc.amazonaws.com/efa": efas,
        }
        if self.node_class.family.build and kind.architecture == "amd64":
            counts["vpc.amazonaws.com/PrivateIPv4Address"] = max(self.tables.addresses - 1, 0)
        amounts = {name: _quantity(str(count)) for name, count in counts.items()}
        return amounts | {"ephemeral-storage": self._storage}

    # ---- overhead ------------------------------------------------------------------------------------------

    def overhead(self) -> tuple[Amounts, Amounts, Amounts]:
        """Return what the kubelet keeps, the system, and the threshold of evictions."""
        # of percentages 100 means none
        storage = self._storage.value()
        usual = {**AWS.eviction, "ephemeral-storage": _quantity(str(ceil(float(storage) / 100 * 10)))}
        own = self.node_class.spec.kubelet.evicted(
            self._memory, storage, lambda capacity, percent: capacity / 100 * (percent % 100)
        )
        return self._kube_reserved(), self._reserved("system_reserved"), usual | own

    def _kube_reserved(self) -> Amounts:
        pods = self._pods(self._most_pods)
        if self.node_class.family.reserves_by_interfaces:
            pods = self._interface_pods(0)
        cpu = AWS.cpu.of(self.kind.cpus.default_vcpus * 1000)
        amounts = {
            "cpu": _quantity(f"{cpu}m"),
            "memory": _quantity(f"{AWS.memory.of(pods) + 255}Mi"),
            "ephemeral-storage": _quantity("1Gi"),
        }
        return amounts | self._reserved("kube_reserved")

    def _reserved(self, name: str) -> Amounts:
        """What a node class reserves; an entry without a valid result is left out."""
        amounts: Amounts = {}
        given: Mapping[str, str | int | float] = getattr(self.node_class.spec.kubelet, name)
        for resource, value in given.items():
            text = str(value)
            try:
                amounts[resource] = _quantity(text)
            except ValueError:
                if not self.options.cel:
                    continue
                from .kubelet_expressions import reserved  # as above

                amount = reserved(resource, text, self._variables(self._most_pods))
                if amount is not None:
                    amounts[resource] = _quantity(amount)
        return amounts
