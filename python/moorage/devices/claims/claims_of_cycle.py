"""What DynamicResources knows of a pod's claims during one cycle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from moorage._core.base.selectors import NodeSelectorMatcher
from moorage.devices.allocation.allocator import Allocator, ClaimResult
from moorage.devices.allocation.claim_requests import ClaimRequests
from moorage.devices.extended_resources import IN_MEMORY, Mappings
from moorage.objects import Pod
from moorage.objects.model.resource_claims import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)

from .common_demand import CommonDemand
from .node_resources import Statuses, with_statuses

MAX_ALTERNATIVES = 8


@dataclass(eq=False, slots=True)
class ClaimOfCycle:
    """A claim of the pod.

    Attributes
    ----------
    claim : ResourceClaim
        As PreFilter has seen it, later as it was written.
    is_extended : bool
        Whether it serves extended resources.
    nodes : NodeSelectorMatcher or None
        The nodes on which its allocation can be used; None for all.
    requests : ClaimRequests or None
        Prepared requests of a claim that has to be allocated.
    allocation : AllocationResult or None
        What Reserve has chosen.
    is_shared : bool
        Whether `allocation` is in flight for another pod of the pod group cycle, since before PreFilter.
    uid : str
        By which its allocation in flight is known.
    user : ResourceClaimConsumerReference or None
        For whom it is to be reserved; None for the pod.
    """

    claim: ResourceClaim
    is_extended: bool = False
    nodes: NodeSelectorMatcher | None = None
    requests: ClaimRequests | None = None
    allocation: AllocationResult | None = None
    is_shared: bool = False
    uid: str = ""
    user: ResourceClaimConsumerReference | None = None

    @property
    def needs_allocation(self) -> bool:
        return self.claim.status.allocation is None

    @property
    def is_in_memory(self) -> bool:
        """Whether the claim is not written yet."""
        return self.claim.name == IN_MEMORY


@dataclass(eq=False, slots=True)
class NodeAllocation:
    """What was found for one node.

    Attributes
    ----------
    results : list of ClaimResult
        Of the claims that have to be allocated.
    shared : list of AllocationResult
        Of the claims whose allocation is in flight for another pod.
    extended : ResourceClaim or None
        The claim for the extended resources that the node has as devices.
    mappings : tuple of ContainerExtendedResourceRequest
    statuses : tuple of NodeAllocatableResourceClaimStatus
        What the devices take of the node.
    """

    results: list[ClaimResult]
    extended: ResourceClaim | None = None
    mappings: Mappings = ()
    statuses: Statuses = ()
    shared: list[AllocationResult] = field(default_factory=list)

    def request_names(self) -> Iterator[set[str]]:
        """Return the requests that have devices, for each claim without a written allocation."""
        for result in self.results:
            yield {one.request.full_name for one in result.devices}
        yield from map(_request_names, self.shared)


def _request_names(allocation: AllocationResult) -> set[str]:
    return {result.request for result in allocation.devices.results}


@dataclass(eq=False, slots=True)
class DeviceCycleState:
    """The plugin's state for a pod in one cycle; clones of the cycle state share it.

    Attributes
    ----------
    claims : list of ClaimOfCycle
        Those of the pod's spec, then that of its extended resources.
    resources : dict of str to int
        Extended resources that the pod requests.
    allocator : Allocator or None
        None if nothing has to be allocated.
    nodes : dict of str to NodeAllocation
        By node that passed Filter.
    unavailable : set of int
        Indices of allocated claims that a node cannot use.
    demand : CommonDemand or None
        None until Filter asks for it.
    """

    claims: list[ClaimOfCycle] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)
    allocator: Allocator | None = None
    nodes: dict[str, NodeAllocation] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)
    demand: CommonDemand | None = None

    def clone(self) -> Self:
        return self

    def assumed(self, pod: Pod, node_name: str) -> Pod:
        """Return a pod with what its claims take of a node in its status."""
        on_node = self.nodes.get(node_name)
        return with_statuses(pod, () if on_node is None else on_node.statuses)

    @property
    def extended(self) -> ClaimOfCycle | None:
        """The claim of the extended resources."""
        return self.claims[-1] if self.claims and self.claims[-1].is_extended else None

    def of_user(self) -> Iterator[ClaimOfCycle]:
        """Return the claims of the pod's spec."""
        return (one for one in self.claims if not one.is_extended)

    def to_allocate(self) -> Iterator[ClaimOfCycle]:
        """Return the claims that have no allocation."""
        return (one for one in self.claims if one.needs_allocation)

    def score_of(self, on_node: NodeAllocation) -> int:
        """Return the score of a node: the earlier an alternative is in its list, the better."""
        total, found = 0, on_node.request_names()
        for one in self.claims:
            allocation = one.claim.status.allocation
            names = next(found) if allocation is None else _request_names(allocation)
            for request in one.claim.spec.devices.requests:
                for at, alternative in enumerate(request.first_available):
                    if f"{request.name}/{alternative.name}" in names:
                        total += MAX_ALTERNATIVES - at
        return total
