"""What a claim asks for, prepared for the allocator."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from moorage._core.base.quantity import Quantity
from moorage._core.devices.device_search import SearchTimeoutError as SearchTimeoutError
from moorage.engine.framework.plugin.lazy_attribute import lazy_attribute
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

ClassOf = Callable[[str], DeviceClass | None]
MAX_RESULTS = 32
"""The most devices that the allocation of a claim can have."""


class AllocationError(MoorageError):
    """Allocation cannot go on; the cycle of the pod fails with this message."""


class PoolsInvalidError(MoorageError):
    """Nothing was found on a node, and a pool of it is invalid."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


@dataclass(eq=False)
class Request:
    """A request without alternatives, or one alternative.

    Attributes
    ----------
    name : str
        Its own name.
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
    def of(cls, request: ExactDeviceRequest | DeviceSubRequest, name: str, parent: str = "") -> Request:
        """Prepare a request of a claim."""
        asked = request.capacity
        return cls(
            name,
            parent,
            request.device_class_name,
            request.selectors,
            request.allocation_mode,
            request.count,
            isinstance(request, ExactDeviceRequest) and bool(request.admin_access),
            request.tolerations,
            {} if asked is None else {key: Quantity(value) for key, value in asked.requests.items()},
            asked is not None,
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


@dataclass(eq=False)
class ClaimRequests:
    """A claim that is to be allocated.

    Attributes
    ----------
    claim : ResourceClaim
    alternatives : list of list of Request
        Of each request of the claim: itself, or its alternatives.
    """

    claim: ResourceClaim
    alternatives: list[list[Request]] = field(default_factory=list)

    @classmethod
    def of(cls, claim: ResourceClaim) -> ClaimRequests:
        """Prepare a claim."""
        found: list[list[Request]] = []
        for request in claim.spec.devices.requests:
            if request.first_available:
                found.append(
                    [
                        Request.of(subrequest, subrequest.name, request.name)
                        for subrequest in request.first_available
                    ]
                )
            elif request.exactly is not None:
                found.append([Request.of(request.exactly, request.name)])
        return cls(claim, found)

    @property
    def constraints(self) -> Sequence[DeviceConstraint]:
        return self.claim.spec.devices.constraints
