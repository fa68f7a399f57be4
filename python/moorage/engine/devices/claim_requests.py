"""What a claim asks for, prepared for the allocator, and which parts of dynamic resource allocation are
on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from moorage._core.base.quantity import Quantity
from moorage._core.devices.device_search import SearchTimeoutError as SearchTimeoutError
from moorage.errors import MoorageError
from moorage.kube.model.resource_claims import (
    ALL,
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from moorage.kube.releases import DEFAULT, RELEASES, FeatureGates, Release
from moorage.lazy import lazy_attribute

ClassOf = Callable[[str], DeviceClass | None]
MAX_RESULTS = 32
"""The most devices that the allocation of a claim can have."""


class AllocationError(MoorageError):
    """Allocation cannot go on; the cycle of the pod fails with this message."""


class PoolsInvalidError(MoorageError):
    """Nothing was found on a node, and a pool of it is invalid or, for a request for all devices,
    incomplete."""

    def __init__(self, text: str = "invalid resource pools were encountered") -> None:
        super().__init__(text)


@dataclass(eq=False)
class PreparedRequest:
    """A request without alternatives, or one alternative.

    Attributes
    ----------
    parent : str
        The name of the request of which it is an alternative; "" for none.
    """

    name: str
    parent: str
    class_name: str
    selectors: Sequence[DeviceSelector]
    mode: str
    count: int
    admin_access: bool
    tolerations: Sequence[DeviceToleration]
    capacity: dict[str, Quantity]
    asks_capacity: bool

    @classmethod
    def of(
        cls, request: ExactDeviceRequest | DeviceSubRequest, name: str, parent: str = ""
    ) -> PreparedRequest:
        """Prepare a request of a claim."""
        capacity = request.capacity
        return cls(
            name,
            parent,
            request.device_class_name,
            request.selectors,
            request.allocation_mode,
            request.count,
            isinstance(request, ExactDeviceRequest) and bool(request.admin_access),
            request.tolerations,
            {} if capacity is None else {key: Quantity(value) for key, value in capacity.requests.items()},
            capacity is not None,
        )

    @property
    def full_name(self) -> str:
        """The name in results: ``parent/name`` for an alternative."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @lazy_attribute
    def likeness(self) -> Hashable:
        """Equal for requests whose results for a whole device are equal."""
        return self.full_name, self.admin_access, tuple(self.tolerations)

    @property
    def wants_all(self) -> bool:
        return self.mode == ALL


class ClaimRequests(Struct, eq=False):
    """A claim that is to be allocated.

    Attributes
    ----------
    alternatives : list of list of PreparedRequest
        Of each request of the claim: itself, or its alternatives.
    """

    claim: ResourceClaim
    alternatives: list[list[PreparedRequest]] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, claim: ResourceClaim) -> ClaimRequests:
        """Prepare a claim."""
        requests: list[list[PreparedRequest]] = []
        for request in claim.spec.devices.requests:
            if request.first_available:
                requests.append(
                    [
                        PreparedRequest.of(subrequest, subrequest.name, request.name)
                        for subrequest in request.first_available
                    ]
                )
            elif request.exactly is not None:
                requests.append([PreparedRequest.of(request.exactly, request.name)])
        return cls(claim, requests)

    @property
    def constraints(self) -> Sequence[DeviceConstraint]:
        return self.claim.spec.devices.constraints


# ---- features ----------------------------------------------------------------------------------------------
# Which parts of dynamic resource allocation are on, and the release whose rules they follow.


class Features(Struct, frozen=True):
    """The features that gates switch.

    Attributes
    ----------
    prioritized_list : bool
        Requests with `firstAvailable`.
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
        """Return what owns the shared counters of a pool: driver and name, until v1.36 the name."""
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


# ---- selector error ----------------------------------------------------------------------------------------
# The error of an expression for devices, without what compiles one: CEL takes long to import.


class SelectorError(Exception):
    """An expression cannot be evaluated for a device; the message is upstream's."""
