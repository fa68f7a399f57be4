"""Allocates the devices of claims on a node, as kube-scheduler does; the search is the core's."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage._core.devices.device_search import DeviceSearch, Wanted
from moorage._core.devices.device_view import DeviceView
from moorage.kube import Node
from moorage.kube.model.resource_claims import DeviceClass

from ..features import Features
from ..selector_cache import SelectorCache
from .allocation_rules import AllocationRules
from .claim_requests import ClaimRequests, ClassOf, PoolsInvalidError, Request
from .device_capacity import consumed_amounts
from .device_pools import DeviceId, DeviceSlices, PublishedDevice

Found = list[tuple[list[int], list[tuple[int, int, bool]]]]
"""What `DeviceSearch.find` returns."""
NANOSECONDS_PER_STEP = 1_000
"""What one step of a search counts for in a timeout: the search counts its steps and reads no clock. A step
takes kube-scheduler v1.36.2 about as long: 1.3 million of them took it 1.6 s."""


@dataclass(frozen=True, slots=True, eq=False)
class AllocatedDevices:
    """The devices in use when a search begins.

    Attributes
    ----------
    devices : set of DeviceId
        Devices that nobody else can use.
    consumed : mapping of DeviceId to mapping of str to Quantity
        What is taken of the capacity of devices for several allocations.
    """

    devices: AbstractSet[DeviceId] = frozenset()
    consumed: Mapping[DeviceId, Mapping[str, Quantity]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class DeviceResult:
    """A device that was found for a request.

    Attributes
    ----------
    consumed : dict of str to Quantity or None
        What is taken of its capacity, if it can be allocated several times.
    """

    request: Request
    device: PublishedDevice
    consumed: dict[str, Quantity] | None


@dataclass(eq=False, slots=True)
class ClaimResult:
    """What was found for a claim.

    Attributes
    ----------
    chosen : list of Request
        Of each request: itself, or the alternative that was taken.
    classes : list of DeviceClass
        The classes of `chosen`.
    """

    claim: ClaimRequests
    devices: list[DeviceResult]
    chosen: list[Request] = field(default_factory=list)
    classes: list[DeviceClass] = field(default_factory=list)


class Allocator:
    """Allocates claims on the nodes of one cycle.

    Parameters
    ----------
    class_of : callable
        Returns the device class of a name, or None.
    max_steps : int
        The number of steps that the search on one node may take; 0 for any number.
    """

    def __init__(
        self,
        slices: DeviceSlices,
        features: Features,
        allocated: AllocatedDevices,
        class_of: ClassOf,
        selectors: SelectorCache,
        max_steps: int = 0,
    ) -> None:
        self.slices = slices
        self.allocated = allocated
        self.max_steps = max_steps
        self.rules = AllocationRules(features, class_of, selectors)
        # What was available of the counters of pools, by `Features.owner_of_counters`.
        self._available: dict[Hashable, dict[tuple[str, str], int]] = {}
        self._wanted: tuple[Sequence[ClaimRequests], Wanted] | None = None

    def allocate(self, node: Node, claims: Sequence[ClaimRequests]) -> list[ClaimResult] | None:
        """Find devices for all claims on a node.

        Returns
        -------
        list of ClaimResult or None
            None if there is no solution.

        Raises
        ------
        AllocationError
            A claim cannot be allocated on any node.
        PoolsInvalidError
            There is no solution, and a pool of the node is invalid.
        SearchTimeoutError
            The search has taken too many steps.
        """
        if self._wanted is None or self._wanted[0] != claims:
            self._wanted = list(claims), Wanted(claims, self.rules)
        wanted, view = self._wanted[1], self.slices.view_of(node)
        view.load(self.allocated)
        found = DeviceSearch(wanted, view, self.rules.features, self.max_steps, self._available).find()
        if found is not None:
            return claim_results(claims, view, found, self.rules.class_of, self.rules.features)
        if any(pool.is_invalid for pool in view.pools):
            raise PoolsInvalidError
        return None


def claim_results(
    claims: Sequence[ClaimRequests], view: DeviceView, found: Found, class_of: ClassOf, features: Features
) -> list[ClaimResult]:
    """Return what a search has found for each claim.

    Parameters
    ----------
    claims : sequence of ClaimRequests
        Those that were searched for, or others that ask for the same.
    found : list
        See `DeviceSearch.find`.
    class_of : callable
        Returns the device class of a name, or None.
    """
    out, of_all = [], [choice for claim in claims for request in claim.alternatives for choice in request]
    for claim, (choices, devices) in zip(claims, found, strict=True):
        chosen = [claim.alternatives[at][choice] for at, choice in enumerate(choices)]
        results = [
            _device_result(of_all[at], view.device(number), several, features)
            for at, number, several in devices
        ]
        classes: list[Any] = [class_of(choice.class_name) for choice in chosen]
        out.append(ClaimResult(claim, results, chosen, classes))
    return out


def _device_result(
    request: Request, device: PublishedDevice, several: bool, features: Features
) -> DeviceResult:
    consumed = consumed_amounts(device, request.capacity, features) if several else None
    return DeviceResult(request, device, consumed)
