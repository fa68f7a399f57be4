"""What DynamicResources knows of a pod's claims during one cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.selectors import NodeSelectorMatcher
from moorage._core.devices.device_demand import DeviceDemand
from moorage._core.state.node_table import NodeTable
from moorage.engine import framework as fwk
from moorage.engine.framework.plugin.handle import FrameworkHandle
from moorage.errors import MoorageError
from moorage.kube import Pod
from moorage.kube.model.resource_claims import AllocationResult, ResourceClaim, ResourceClaimConsumerReference

from ..allocation.allocator import Allocator, ClaimResult, claim_results
from ..allocation.claim_requests import ClaimRequests
from ..device_demands import AskingClaim
from ..device_state import DeviceState
from ..extended_resources import IN_MEMORY, ExtendedRequests, Mappings
from .node_resources import (
    Statuses,
    allocated_devices,
    claim_statuses,
    found_devices,
    why_not_fit,
    with_statuses,
)

MAX_ALTERNATIVES = 8
FITS, LACKS, INVALID = range(3)
"""Whether a node has the devices; or has not, and a pool of it is invalid."""


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
            yield {device.request.full_name for device in result.devices}
        yield from map(_request_names, self.shared)


def _request_names(allocation: AllocationResult) -> set[str]:
    return {result.request for result in allocation.devices.results}


def are_everywhere(table: NodeTable, requests: ExtendedRequests) -> bool:
    """Whether device classes serve all extended resources of a pod on all nodes: no node has one itself."""
    return requests.spec is not None and not any(map(table.has_allocatable, requests.resources))


class CommonDemand(Struct, frozen=True):
    """What a pod asks of all nodes alike.

    Attributes
    ----------
    demand : DeviceDemand or None
        None where nodes have to be asked one by one.
    asking : list of AskingClaim
        The claims.
    extended : ResourceClaim or None
        The claim for extended resources, with its requests.
    mappings : tuple of ContainerExtendedResourceRequest
    """

    demand: DeviceDemand | None = None
    asking: list[AskingClaim] = []
    extended: ResourceClaim | None = None
    mappings: Mappings = ()

    @classmethod
    def of(
        cls, devices: DeviceState, handle: FrameworkHandle, found: DeviceCycleState, pod: Pod, most_steps: int
    ) -> CommonDemand:
        """Return the demand of a pod's claims, if it is the same on all nodes and scores do not depend on it.

        Parameters
        ----------
        found : DeviceCycleState
            After PreFilter.
        most_steps : int
            The number of steps that the search on one node may take.
        """
        claims = [claim.claim for claim in found.claims]
        mappings: Mappings = ()
        if devices.features.node_allocatable or handle.framework is None:
            return cls()
        if any(claim.is_shared or not claim.needs_allocation for claim in found.claims):
            return cls()
        cluster, extended = handle.cache.state, None
        if found.extended is not None:
            requests, claim = devices.extended_requests(pod), found.extended.claim
            if requests is None or claim.spec.devices.requests:  # or it is of an earlier cycle
                return cls()
            if requests.spec is None or not are_everywhere(cluster.table, requests):
                return cls()
            extended, mappings = replace(claim, spec=requests.spec), requests.mappings
            claims[-1] = extended
        if not devices.demands.refresh(cluster, handle.framework.all_nodes()):
            return cls()
        asking = [asked for claim in claims if (asked := devices.demands.asking(claim)) is not None]
        demand = devices.demands.demand_of(asking, most_steps) if len(asking) == len(claims) else None
        return (
            cls() if demand is None or demand.wanted.has_choices else cls(demand, asking, extended, mappings)
        )

    def answers(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.uint8] | None:
        """Return whether nodes have the devices.

        Parameters
        ----------
        rows : (n,) array of int

        Returns
        -------
        (n,) uint8 array or None
            `FITS`, `LACKS` or `INVALID`; None where nodes have to be asked one by one.
        """
        if self.demand is None:
            return None
        try:
            lacks = ~self.demand.fits_on(rows)
        except LookupError:
            return None
        out = np.zeros(len(rows), dtype=np.uint8)
        out[lacks] = [self._lack(row) for row in rows[lacks].tolist()]
        return out

    def _lack(self, row: int) -> int:
        view = None if self.demand is None else self.demand.views.view_at(row)
        return INVALID if view is not None and any(pool.is_invalid for pool in view.pools) else LACKS

    def results(self, row: int | None, devices: DeviceState) -> list[ClaimResult] | None:
        """Return what was found for the claims on a node; None if there is nothing."""
        view = None if self.demand is None or row is None else self.demand.views.view_at(row)
        if self.demand is None or row is None or view is None:
            return None
        found = self.demand.found_on(row)
        if found is None:
            return None
        requests = [claim.requests for claim in self.asking]
        return claim_results(requests, view, found, devices.class_of(), devices.features)


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
        return (claim for claim in self.claims if not claim.is_extended)

    def to_allocate(self) -> Iterator[ClaimOfCycle]:
        """Return the claims that have no allocation."""
        return (claim for claim in self.claims if claim.needs_allocation)

    def score_of(self, on_node: NodeAllocation) -> int:
        """Return the score of a node: the earlier an alternative is in its list, the better."""
        total, found = 0, on_node.request_names()
        for claim in self.claims:
            allocation = claim.claim.status.allocation
            names = next(found) if allocation is None else _request_names(allocation)
            for request in claim.claim.spec.devices.requests:
                for at, alternative in enumerate(request.first_available):
                    if f"{request.name}/{alternative.name}" in names:
                        total += MAX_ALTERNATIVES - at
        return total


def take_of_node(
    devices: DeviceState,
    found: DeviceCycleState,
    on_node: NodeAllocation,
    pod: Pod,
    node_info: fwk.NodeInfo,
) -> fwk.Status | None:
    """Note what newly allocated devices take of a node.

    Parameters
    ----------
    on_node : NodeAllocation
        With the results of the search.

    Returns
    -------
    Status or None
        Why the pod does not fit with it.
    """
    if found.allocator is None or not devices.features.node_allocatable:
        return None
    results = [found_devices(result) for result in on_node.results]
    results += [allocated_devices(shared) for shared in on_node.shared]
    claims = sorted(found.to_allocate(), key=lambda one: one.is_shared)  # stable
    taken = zip((claim.claim for claim in claims), results, strict=True)
    try:
        uses = devices.consumers.uses_of(pod, devices.claim_cache.find)
        on_node.statuses = claim_statuses(pod, taken, uses, devices.devices_by_name())
    except MoorageError as error:
        return fwk.as_status(error)
    if not on_node.statuses:
        return None
    return why_not_fit(pod, on_node.statuses, node_info, devices.features.pod_level_resources)


class FoundAllocations(dict[str, "NodeAllocation"]):
    """What was found for nodes; looked up when it is first asked for, while devices are as in Filter.

    Parameters
    ----------
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
