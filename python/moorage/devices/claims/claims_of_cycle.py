"""What DynamicResources knows of a pod's claims during one cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from moorage._core.base.selectors import NodeSelectorMatcher
from moorage._core.services.device_demand import DeviceDemand
from moorage.devices.allocation.allocator import Allocator, ClaimResult
from moorage.devices.allocation.claim_requests import ClaimRequests
from moorage.devices.device_demands import AskingClaim
from moorage.devices.extended_resources import IN_MEMORY, Mappings
from moorage.objects.model.resource_claims import AllocationResult, ResourceClaim


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
    uid : str
        By which its allocation in flight is known.
    """

    claim: ResourceClaim
    is_extended: bool = False
    nodes: NodeSelectorMatcher | None = None
    requests: ClaimRequests | None = None
    allocation: AllocationResult | None = None
    uid: str = ""

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
    extended : ResourceClaim or None
        The claim for the extended resources that the node has as devices.
    mappings : tuple of ContainerExtendedResourceRequest
    """

    results: list[ClaimResult]
    extended: ResourceClaim | None = None
    mappings: Mappings = ()


@dataclass(eq=False, slots=True)
class CommonDemand:
    """What all nodes are asked for alike.

    Attributes
    ----------
    demand : DeviceDemand or None
        None where nodes are asked one by one.
    asking : list of AskingClaim
        The claims.
    extended : ResourceClaim or None
        The claim for extended resources, with its requests.
    mappings : tuple of ContainerExtendedResourceRequest
    """

    demand: DeviceDemand | None = None
    asking: list[AskingClaim] = field(default_factory=list)
    extended: ResourceClaim | None = None
    mappings: Mappings = ()


class FoundAllocations(dict[str, NodeAllocation]):
    """What was found for nodes; looked up when it is first asked for, while devices are as in Filter.

    Parameters
    ----------
    known : dict of str to NodeAllocation
    find : callable
        Returns what was found for the node of a name, or None.
    """

    def __init__(
        self, known: dict[str, NodeAllocation], find: Callable[[str], NodeAllocation | None]
    ) -> None:
        super().__init__(known)
        self._find = find

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self and (found := self._find(key)) is not None:
            self[key] = found
        return super().get(key, default)


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
