"""The demand of a pod's claims in a cycle of its own, where it is the same on all nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.devices.device_demand import DeviceDemand
from moorage._core.state.node_table import NodeTable
from moorage.devices.allocation.allocator import ClaimResult, claim_results
from moorage.devices.device_demands import AskingClaim
from moorage.devices.extended_resources import ExtendedRequests, Mappings
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.objects import Pod
from moorage.objects.model.resource_claims import ResourceClaim

if TYPE_CHECKING:
    from moorage.devices.device_state import DeviceState

    from .claims_of_cycle import DeviceCycleState, NodeAllocation

FITS, LACKS, INVALID = range(3)
"""Whether a node has the devices; or has not, and a pool of it is invalid."""


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
        claims = [one.claim for one in found.claims]
        mappings: Mappings = ()
        if devices.features.node_allocatable or handle.framework is None:
            return cls()
        if any(one.is_shared or not one.needs_allocation for one in found.claims):
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
        requests = [one.requests for one in self.asking]
        return claim_results(requests, view, found, devices.class_of(), devices.features)


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
