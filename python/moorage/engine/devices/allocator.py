"""The rules of requests, which the core asks in its search for devices, and what it has found.

Source: k8s.io/dynamic-resource-allocation, structured/internal/incubating.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
from msgspec import Struct

from moorage._core.base.quantity import Quantity
from moorage._core.devices.device_view import DeviceView
from moorage.kube.cel.cel_errors import CompileError
from moorage.kube.model.resource_claims import EXACT_COUNT, DeviceClass, DeviceSelector

from .claim_requests import (
    MAX_RESULTS,
    AllocationError,
    ClaimRequests,
    ClassOf,
    Features,
    PoolsInvalidError,
    PreparedRequest,
    SelectorError,
)
from .device_pools import DeviceId, DevicePool, PublishedDevice
from .device_properties import (
    CapacityError,
    SelectorCache,
    consumed_amounts,
    possible_amounts,
    tolerates_taints,
)

# ---- allocation rules --------------------------------------------------------------------------------------
# What a request asks of devices, and the errors of requests that cannot be allocated anywhere
# (k8s.io/dynamic-resource-allocation, structured/internal/incubating).

Constraint = tuple[str, str, frozenset[str]]
"""Its kind, "match" or "distinct", the attribute, and the names of the requests; none for all."""
_TOO_LARGE = 2**63 - 1
_OPTIONAL = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)


class AllocationRules:
    """Answers the questions of the core's search about requests and devices.

    Parameters
    ----------
    class_of : callable
        Returns the device class of a name, or None.
    """

    def __init__(self, features: Features, class_of: ClassOf, selectors: SelectorCache) -> None:
        self.features = features
        self.class_of = class_of
        self._selectors = selectors

    # ---- requests ------------------------------------------------------------------------------------------

    def check(self, claim: ClaimRequests, number: int, choice: int) -> tuple[AllocationError | None, int]:
        """Check a request.

        Parameters
        ----------
        number, choice : int
            The index of the request in the claim, and of its alternative.

        Returns
        -------
        count : int
            The number of devices; 0 for all.
        """
        request = claim.alternatives[number][choice]
        text = "" if choice else self._disabled_feature(claim, number)
        if not text and (misuse := self._misuse(request)):
            text = f"claim {claim.claim.key}, request {request.name}{misuse}"
        count = 0 if request.wants_all or text else request.count
        return AllocationError(text) if text else None, count

    def _disabled_feature(self, claim: ClaimRequests, number: int) -> str:
        alternatives, name = claim.alternatives[number], claim.claim.spec.devices.requests[number].name
        if not self.features.prioritized_list and alternatives[0].parent:
            start = f"claim {claim.claim.key}, request {name}"
            return f"{start}: has subrequests, but the DRAPrioritizedList feature is disabled"
        if not (self.features.consumable_capacity or self.features.is_stable):
            disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            for alternative in alternatives:
                if alternative.asks_capacity:
                    what = "subrequest" if alternative.parent else "request"
                    return f"claim {claim.claim.key}, {what} {alternative.name}: {disabled}"
        return ""

    def _misuse(self, request: PreparedRequest) -> str:
        for at, selector in enumerate(request.selectors):
            if selector.cel is None:
                return f", selector #{at}: CEL expression empty (unsupported selector type?)"
        if not request.class_name:
            return ": missing device class name (unsupported request type?)"
        if self.class_of(request.class_name) is None:
            missing = f'deviceclass.resource.k8s.io "{request.class_name}" not found'
            return f": could not retrieve device class {request.class_name}: {missing}"
        if request.wants_all:
            return ""
        if request.mode != EXACT_COUNT:
            return f": unsupported count mode {request.mode}"
        return f": exact count {request.count} is too large" if request.count > _TOO_LARGE else ""

    def constraints(self, claim: ClaimRequests) -> tuple[list[Constraint], AllocationError | None]:
        """Return the constraints of a claim, and the error of one that is not supported."""
        constraints: list[Constraint] = []
        for at, constraint in enumerate(claim.constraints):
            requests = frozenset(constraint.requests)
            if constraint.match_attribute is not None:
                constraints.append(("match", constraint.match_attribute, requests))
            elif constraint.distinct_attribute is not None and not self.features.is_stable:
                constraints.append(("distinct", constraint.distinct_attribute, requests))
            else:
                text = "empty constraint (unsupported constraint type?)"
                return constraints, AllocationError(f"claim {claim.claim.key}, constraint #{at}: {text}")
        return constraints, None

    # ---- errors of a search --------------------------------------------------------------------------------

    def too_many_of_request(
        self, claim: ClaimRequests, number: int, devices: int, others: int
    ) -> AllocationError:
        """Return the error of the request with which a claim needs more devices than a result can have.

        Parameters
        ----------
        number : int
            The index of the request.
        devices, others : int
            The least numbers of devices of the request, and of the requests before it.
        """
        limit = f"exceeds the claim limit of {MAX_RESULTS}, with {others} already accounted for"
        name = claim.claim.spec.devices.requests[number].name
        return AllocationError(f"claim {claim.claim.key}, request {name}: adding {devices} devices {limit}")

    def too_many(self, claim: ClaimRequests, devices: int) -> AllocationError:
        """Return the error of a claim that needs more devices than a result can have."""
        text = f"number of requested devices {devices} exceeds the claim limit of {MAX_RESULTS}"
        return AllocationError(f"claim {claim.claim.key}: {text}")

    def unusable_pool(
        self, claim: ClaimRequests, request: PreparedRequest, pool: DevicePool
    ) -> AllocationError | PoolsInvalidError:
        """Return the error of a request for all devices where a pool is incomplete or invalid."""
        state = "being updated" if pool.is_incomplete else "invalid"
        text = f"asks for all devices, but resource pool {pool.driver}/{pool.name} is currently {state}"
        error = PoolsInvalidError if self.features.release.unusable_pools_reject_nodes else AllocationError
        return error(f"claim {claim.claim.key}, request {request.name}: {text}")

    def constraint_error(
        self, claim: ClaimRequests, request: PreparedRequest, device: PublishedDevice
    ) -> AllocationError:
        """Return the error of a request for all devices of which a constraint forbids one."""
        text = "because a claim constraint would not be satisfied"
        name = f"claim {claim.claim.key}, request {request.name}"
        return AllocationError(f"{name}: cannot add device {'/'.join(device.id)} {text}")

    def unreadable_attribute(
        self, claim: ClaimRequests, request: PreparedRequest, device: PublishedDevice, attribute: str
    ) -> AllocationError:
        """Return the error of a constraint by an attribute that cannot be read."""
        start = f"claim {claim.claim.key}, request {request.name}: device {'/'.join(device.id)}"
        try:
            device.attribute_value(attribute, True)
        except AllocationError as error:
            return AllocationError(f"{start}: {error}")
        raise AssertionError(f"{start}: {attribute} can be read")

    # ---- devices -------------------------------------------------------------------------------------------

    def matches(self, claim: ClaimRequests, request: PreparedRequest, device: PublishedDevice) -> bool:
        """Whether a device matches the selectors of a request's class, and then those of the request.

        Parameters
        ----------
        claim : ClaimRequests
            The claim of the request.

        Raises
        ------
        AllocationError
            An expression has no result for the device.
        """
        device_class = self.class_of(request.class_name)
        selectors = () if device_class is None else device_class.spec.selectors
        return self._match(f"class {request.class_name}", selectors, device) and self._match(
            f"claim {claim.claim.key}", request.selectors, device
        )

    def _match(self, owner: str, selectors: Sequence[DeviceSelector], device: PublishedDevice) -> bool:
        names_device = self.features.release.errors_name_devices
        for at, selector in enumerate(selectors):
            expression = "" if selector.cel is None else selector.cel.expression
            try:
                if not self._selectors.matches(expression, device):
                    return False
            except CompileError as error:
                raise AllocationError(f"{owner}: selector #{at}: CEL compile error: {error}") from None
            except SelectorError as error:
                where, hint = "", ""
                if names_device:
                    where = f" on device {'/'.join(device.id)}"
                    hint = _OPTIONAL if "no such key:" in str(error) else ""
                text = f"{owner}: selector #{at}{where}: CEL runtime error: {error}{hint}"
                raise AllocationError(text) from None
        return True

    def tolerates(self, request: PreparedRequest, device: PublishedDevice) -> bool:
        """Whether the tolerations of a request fit all taints of a device that prevent its allocation."""
        return tolerates_taints(request.tolerations, device.device.taints)

    def amounts(
        self, claim: ClaimRequests, request: PreparedRequest, device: PublishedDevice
    ) -> list[Quantity] | None:
        """Return what a request takes of the capacity of a device; see `possible_amounts`.

        Parameters
        ----------
        claim : ClaimRequests
            The claim of the request.

        Raises
        ------
        AllocationError
            What the request takes cannot be represented, or is negative.
        """
        try:
            return possible_amounts(device, request.capacity, self.features)
        except CapacityError as error:
            name = device.device.name if request.wants_all else "/".join(device.id)
            start = f"claim {claim.claim.key}, request {request.name}: checking capacity for device {name}"
            raise AllocationError(f"{start}: {error}") from None


# ---- results -----------------------------------------------------------------------------------------------

Found = list[tuple[list[int], list[tuple[int, int, bool]]]]
"""What `DeviceSearch.find` returns."""
NANOSECONDS_PER_STEP = 1_000
"""What one step of a search counts for in a timeout: the search counts its steps and reads no clock. A step
takes kube-scheduler v1.36.2 about as long: 1.3 million of them took it 1.6 s."""


class AllocatedDevices(Struct, frozen=True, eq=False):
    """The devices in use when a search begins.

    Attributes
    ----------
    devices : set of DeviceId
        Devices that nobody else can use.
    consumed : mapping of DeviceId to mapping of str to Quantity
        What is taken of the capacity of devices for several allocations.
    """

    devices: AbstractSet[DeviceId] = frozenset()
    consumed: Mapping[DeviceId, Mapping[str, Quantity]] = msgspec.field(default_factory=dict)


class DeviceResult(Struct, eq=False):
    """A device that was found for a request.

    Attributes
    ----------
    consumed : dict of str to Quantity or None
        What is taken of its capacity, if it can be allocated several times.
    """

    request: PreparedRequest
    device: PublishedDevice
    consumed: dict[str, Quantity] | None


class ClaimResult(Struct, eq=False):
    """What was found for a claim.

    Attributes
    ----------
    chosen : list of PreparedRequest
        Of each request: itself, or the alternative that was taken.
    classes : list of DeviceClass
        The classes of `chosen`.
    """

    claim: ClaimRequests
    devices: list[DeviceResult]
    chosen: list[PreparedRequest] = msgspec.field(default_factory=list)
    classes: list[DeviceClass] = msgspec.field(default_factory=list)


def claim_results(
    claims: Sequence[ClaimRequests], view: DeviceView, solution: Found, class_of: ClassOf, features: Features
) -> list[ClaimResult]:
    """Return what a search has found for each claim.

    Parameters
    ----------
    claims : sequence of ClaimRequests
        Those that were searched for, or others that ask for the same.
    solution : list
        See `DeviceSearch.find`.
    class_of : callable
        Returns the device class of a name, or None.
    """
    out, of_all = [], [choice for claim in claims for request in claim.alternatives for choice in request]
    for claim, (choices, devices) in zip(claims, solution, strict=True):
        chosen = [claim.alternatives[at][choice] for at, choice in enumerate(choices)]
        results = []
        for at, number, several in devices:
            request, device = of_all[at], view.device(number)
            consumed = consumed_amounts(device, request.capacity, features) if several else None
            results.append(DeviceResult(request, device, consumed))
        classes: list[Any] = [class_of(choice.class_name) for choice in chosen]
        out.append(ClaimResult(claim, results, chosen, classes))
    return out
