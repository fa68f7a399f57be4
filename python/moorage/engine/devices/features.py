"""Which parts of dynamic resource allocation are on, and the release whose rules they follow."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from moorage.kube.releases import DEFAULT, RELEASES, FeatureGates, Release


@dataclass(frozen=True, slots=True)
class Features:
    """The features that gates switch.

    Attributes
    ----------
    prioritized_list : bool
        Requests with `firstAvailable`.
    taints : bool
        Taints of devices.
    partitionable : bool
        Shared counters, and devices that choose their nodes each.
    binding_conditions : bool
        Devices that are attached between their allocation and the pod's binding.
    consumable_capacity : bool
        Devices for several allocations, and requested capacity.
    extended_resources : bool
        Extended resources from device classes.
    claims_of_groups : bool
        Claims that pods share with their pod group.
    node_allocatable : bool
        What devices take of the resources of the node.
    pod_level_resources : bool
        Requests of a pod as a whole.
    list_attributes : bool
        Attributes that are lists, in expressions. Constraints never know them.
    fractional_capacity : bool
        Ranges of capacity in thousandths.
    taint_rules : bool
        Taints of devices by DeviceTaintRules.
    release : Release
        Its behaviours decide where releases differ.
    """

    prioritized_list: bool = True
    taints: bool = True
    partitionable: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    extended_resources: bool = True
    claims_of_groups: bool = False
    node_allocatable: bool = False
    pod_level_resources: bool = True
    list_attributes: bool = False
    fractional_capacity: bool = False
    taint_rules: bool = False
    release: Release = RELEASES[DEFAULT]

    @classmethod
    def of(cls, gates: FeatureGates) -> Features:
        """Return the features of a set of gates."""
        return cls(
            prioritized_list=gates["DRAPrioritizedList"],
            taints=gates["DRADeviceTaints"],
            partitionable=gates["DRAPartitionableDevices"],
            binding_conditions=gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"],
            consumable_capacity=gates["DRAConsumableCapacity"],
            extended_resources=gates["DRAExtendedResource"],
            claims_of_groups=gates["DRAWorkloadResourceClaims"],
            node_allocatable=gates["DRANodeAllocatableResources"],
            pod_level_resources=gates["PodLevelResources"],
            list_attributes=gates["DRAListTypeAttributes"] or gates.release.attributes_are_dynamic,
            fractional_capacity=gates["DRAFractionalCapacityRange"],
            taint_rules=gates[
                "DRADeviceTaintRules" if gates.release.taint_rules_have_a_gate else "DRADeviceTaints"
            ],
            release=gates.release,
        )

    def owner_of_counters(self, driver: str, pool: str) -> Hashable:
        """Return what owns the shared counters of a pool: its driver and name, or until v1.36 the name alone.

        Parameters
        ----------
        pool : str
            Its name.
        """
        return (driver, pool) if self.release.counters_by_driver else pool

    @property
    def is_stable(self) -> bool:
        """Whether the allocator that knows the fewest features suffices: it has no distinctAttribute, and its
        expressions do not see `allowMultipleAllocations`."""
        return not (self.binding_conditions or self.consumable_capacity)

    @property
    def sorts_slices(self) -> bool:
        """Whether pools and slices are tried by their names; else in the order of the list, where upstream
        takes that of a Go map."""
        return self.release.slices_are_sorted and not self.is_stable

    @property
    def counters_are_everywhere(self) -> bool:
        """See `Release`; in the oldest allocator they always are."""
        return self.is_stable or self.release.counters_are_everywhere
