"""What follows from allocated devices: the status of claims, what is left of a node's own resources, and what
the binding of a pod waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from uuid import NAMESPACE_OID, uuid5

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import CONTAINERS_ALONE, PodGates, pod_requests
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from moorage.kube.model.meta import Condition, whole
from moorage.kube.model.pod import NodeAllocatableResourceClaimStatus
from moorage.kube.model.resource_claims import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from moorage.kube.model.resource_slices import Device, ResourceSlice
from moorage.lazy import NamedTuple

from .allocator import ClaimResult, DeviceResult
from .claim_requests import AllocationError, Features, PreparedRequest
from .device_pools import PublishedDevice

# ---- allocation results ------------------------------------------------------------------------------------
# The status of claims from what the allocator found.

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_of(result: ClaimResult, node_name: str, features: Features) -> AllocationResult:
    """Return the allocation of a claim.

    Raises
    ------
    AllocationError
        A slice has a node selector with several terms.
    """
    claim = result.claim.claim
    # Shares have IDs of their own in each allocation of the claim, which is another state of it.
    allocated = f"{claim.metadata.uid}/{claim.metadata.resource_version}"
    results = [_result(allocated, at, allocation, features) for at, allocation in enumerate(result.devices)]
    configurations = tuple(_configurations(result, features.release.configures_once))
    devices = DeviceAllocationResult(results=tuple(results), config=configurations)
    selector = _node_selector([device.device for device in result.devices], node_name, claim.name)
    return AllocationResult(devices=devices, node_selector=selector)


def result_of_whole(
    request: PreparedRequest, device: PublishedDevice, features: Features
) -> DeviceRequestAllocationResult:
    """Return the result for a device of which no share is taken."""
    return _result("", 0, DeviceResult(request, device, None), features)


def _result(
    allocated: str, at: int, allocated_device: DeviceResult, features: Features
) -> DeviceRequestAllocationResult:
    """The result for a device; `allocated` names the claim and its state, for the ID of a share."""
    request, device = allocated_device.request, allocated_device.device.device
    driver, pool, name = allocated_device.device.id
    conditions = features.binding_conditions
    share = None
    if allocated_device.consumed is not None:
        share = str(uuid5(NAMESPACE_OID, f"{allocated}/{at}/{driver}/{pool}/{name}"))
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if request.admin_access else None,
        tolerations=tuple(request.tolerations),
        binding_conditions=(device.binding_conditions or ()) if conditions else (),
        binding_failure_conditions=(device.binding_failure_conditions or ()) if conditions else (),
        share_id=share,
        consumed_capacity={key: str(amount) for key, amount in (allocated_device.consumed or {}).items()},
    )


def _configurations(result: ClaimResult, once: bool) -> Iterable[DeviceAllocationConfiguration]:
    """Configurations of each class once, for all its requests, then those of the claim; `once`: see
    `Release.configures_once`."""
    if not result.claim.claim.spec.devices.config and not any(
        device_class.spec.config for device_class in result.classes
    ):
        return
    names = [{choice.parent or choice.name, choice.full_name} for choice in result.chosen]

    def named(requests: Sequence[str]) -> Sequence[str]:
        """The requests that a configuration names which is for these."""
        return () if once and not any(name.isdisjoint(requests) for name in names) else requests

    by_class: dict[str, list[str]] = {}
    classes = {device_class.name: device_class for device_class in result.classes}
    for request, device_class in zip(result.chosen, result.classes, strict=True):
        by_class.setdefault(device_class.name, []).append(request.full_name)
    for name, requests in by_class.items():
        for config in classes[name].spec.config:
            yield DeviceAllocationConfiguration(
                source=FROM_CLASS, requests=tuple(named(requests)), opaque=config.opaque
            )
    for of_claim in result.claim.claim.spec.devices.config:
        times = 1
        if of_claim.requests:
            times = sum(not name.isdisjoint(of_claim.requests) for name in names)
        for _ in range(min(times, 1) if once else times):
            yield DeviceAllocationConfiguration(
                source=FROM_CLAIM, requests=tuple(named(of_claim.requests)), opaque=of_claim.opaque
            )


def _node_selector(
    devices: Sequence[PublishedDevice], node_name: str, claim_name: str
) -> NodeSelector | None:
    """The nodes from which all devices can be used; None for all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    last: NodeSelector | None = None
    for chosen in devices:
        device, spec = chosen.device, chosen.slice.spec
        name, selector = spec.node_name, spec.node_selector
        if spec.per_device_node_selection:
            name, selector = device.node_name, device.node_selector
        if name is not None or device.binds_to_node:
            return only(node_name)
        if selector is None or selector is last:  # most devices of a claim are of one slice
            continue
        last, terms = selector, selector.node_selector_terms
        if len(terms) > 1:
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {claim_name}: {text}")
        for term in terms:
            _extend(fields, term.match_fields)
            _extend(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


@lru_cache(maxsize=1 << 13)
def only(node_name: str) -> NodeSelector:
    """Return a selector of one node."""
    requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))


def _extend(known: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    def key(requirement: NodeSelectorRequirement) -> tuple[str, str, frozenset[str]]:
        return requirement.key, requirement.operator, frozenset(requirement.values)

    for requirement in more:
        if key(requirement) not in map(key, known):
            known.append(requirement)


# ---- node resources ----------------------------------------------------------------------------------------
# What the devices of claims take of a node's own resources, such as cpu and memory.
#
# kube-scheduler v1.36, dynamicresources/, gate DRANodeAllocatableResources.

Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]
Devices = Mapping[tuple[str, str], Device]
"""Devices by pool and name."""


class TakenDevice(NamedTuple):
    """A device of an allocation.

    Attributes
    ----------
    consumed : mapping of str to Quantity or None
        What is taken of its capacity, if it can be allocated several times.
    """

    pool: str
    name: str
    consumed: Mapping[str, Quantity] | None


def devices_by_name(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str], Device]:
    """Return devices by pool and name.

    As upstream, drivers and generations do not matter: of several devices of one name the first counts.
    """
    out: dict[tuple[str, str], Device] = {}
    for slice_ in slices:
        for device in slice_.spec.devices:
            out.setdefault((slice_.spec.pool.name, device.name), device)
    return out


def found_devices(result: ClaimResult) -> list[TakenDevice]:
    """Return the devices that a search has found for a claim."""
    return [
        TakenDevice(device.device.id[1], device.device.id[2], device.consumed) for device in result.devices
    ]


def allocated_devices(allocation: AllocationResult) -> list[TakenDevice]:
    """Return the devices of an allocation."""
    return [
        TakenDevice(
            result.pool,
            result.device,
            {key: Quantity(raw) for key, raw in result.consumed_capacity.items()} or None,
        )
        for result in allocation.devices.results
    ]


def why_shared(pod: Pod, claim: ResourceClaim, others: Iterable[Pod]) -> str:
    """Return why a pod cannot use an allocated claim on a node, as its devices take resources of the node for
    one pod; "" where it can.

    Parameters
    ----------
    others : iterable of Pod
        The pods of the node.
    """
    users = {
        other.metadata.uid
        for other in others
        if other.namespace == pod.namespace
        for status in other.status.node_allocatable_resource_claim_statuses
        if status.resource_claim_name == claim.name
    }
    if len(users) > 1:
        return f"node allocatable resource claim {claim.name} shared by multiple pods"
    if users and pod.metadata.uid not in users:
        return f"node allocatable resource claim {claim.name} is already used by another pod"
    return ""


def claim_statuses(
    pod: Pod,
    taken: Iterable[tuple[ResourceClaim, list[TakenDevice]]],
    uses: Mapping[str, str],
    devices: Devices,
) -> Statuses:
    """Return what claims take of the resources of a node, by name of the claim.

    Parameters
    ----------
    taken : iterable of (ResourceClaim, list of TakenDevice)
        Claims with the devices that they get.
    uses : mapping of str to str
        UIDs of the pod's claims by their names in its spec.

    Returns
    -------
    tuple of NodeAllocatableResourceClaimStatus
        Empty where no device takes anything.

    Raises
    ------
    MoorageError
        A device is not published, or a mapping needs a capacity and nothing is consumed.
    """
    out: dict[str, NodeAllocatableResourceClaimStatus] = {}
    for claim, of_claim in taken:
        known = [devices.get((result.pool, result.name)) for result in of_claim]
        if not any(device is not None and device.node_allocatable_resource_mappings for device in known):
            continue
        total: dict[str, Quantity] = {}
        for result, device in zip(of_claim, known, strict=True):
            if device is None:
                text = f"device {result.name} not found in pool {result.pool}"
                raise MoorageError(f"claim {claim.key}, device {result.name}: {text}")
            for resource, amount in _amounts(claim, result, device):
                total[resource] = total[resource] + amount if resource in total else amount
        if total:
            resources: dict[str, str | int | float] = {key: str(amount) for key, amount in total.items()}
            containers = tuple(
                [
                    container.name
                    for container in chain(pod.spec.init_containers, pod.spec.containers)
                    for use in container.resources.claims
                    if uses.get(use.name) == claim.metadata.uid
                ]
            )
            out[claim.metadata.uid] = NodeAllocatableResourceClaimStatus(claim.name, containers, resources)
    return tuple(sorted(out.values(), key=lambda status: status.resource_claim_name))


def _amounts(claim: ResourceClaim, taken: TakenDevice, device: Device) -> Iterator[tuple[str, Quantity]]:
    """Yield the resources of the node that a device takes, with amounts."""
    for resource, mapping in sorted(device.node_allocatable_resource_mappings.items()):
        multiplier = mapping.allocation_multiplier
        times = None if multiplier is None else Quantity(multiplier)
        key = mapping.capacity_key
        if not key:
            yield resource, times or Quantity("0")
            continue
        if taken.consumed is None:
            text = f"ConsumedCapacity is nil, but Capacity key '{key}' is set in"
            start = f"claim {claim.key}, device {taken.name}: {text} NodeAllocatableResourceMappings"
            raise MoorageError(f"{start} for resource {resource}")
        amount = taken.consumed.get(key)
        if amount is not None:
            yield resource, amount if times is None else amount * times


def why_not_fit(pod: Pod, statuses: Statuses, node_info: fwk.NodeInfo, pod_level: bool) -> fwk.Status | None:
    """Return why a pod with what its claims take does not fit on a node; None where it does.

    Parameters
    ----------
    statuses : tuple of NodeAllocatableResourceClaimStatus
        Not empty.
    pod_level : bool
        Whether requests of a pod as a whole count.
    """
    for status in statuses:
        if not status.containers:
            text = "node-allocatable resource claim not referenced by any container within the pod"
            return _unresolvable(f"claim {status.resource_claim_name}: {text}")
    pod = with_statuses(pod, statuses)
    total = pod_requests(pod, PodGates(pod_level_resources=pod_level), resizes=False, claims=True)
    if pod_level and pod.spec.resources is not None and pod.spec.resources.requests:
        in_all = pod_requests(pod, CONTAINERS_ALONE, resizes=False, claims=True)
        for name in sorted(total):
            if name in in_all and in_all[name] > total[name]:
                text = "insufficient to cover the aggregated container and node-allocatable DRA requests"
                return _unresolvable(f"pod level request for {name} is {text}")
    return _why_short(total, node_info)


def _why_short(total: Mapping[str, Quantity], node_info: fwk.NodeInfo) -> fwk.Status | None:
    """Return which resources of a node do not suffice."""
    allocatable, requested = node_info.allocatable, node_info.requested
    amounts = {
        "cpu": (allocatable.milli_cpu, requested.milli_cpu),
        "memory": (allocatable.memory, requested.memory),
        "ephemeral-storage": (allocatable.ephemeral_storage, requested.ephemeral_storage),
    }
    for name in sorted(total):
        if name.startswith("hugepages-"):
            of_node, used = allocatable.scalar_resources, requested.scalar_resources
            amounts[name] = of_node.get(name, 0), used.get(name, 0)
    reasons, is_too_small = [], False
    for name, (capacity, used_amount) in amounts.items():
        quantity = total.get(name)
        if quantity is None:
            continue
        need = whole(name, quantity)
        if (need > 0 or name.startswith("hugepages-")) and need > capacity - used_amount:
            reasons.append(f"Insufficient {name}")
            is_too_small |= need > capacity
    if not reasons:
        return None
    code = fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE if is_too_small else fwk.Code.UNSCHEDULABLE
    return fwk.Status(code, tuple(reasons))


def with_statuses(pod: Pod, statuses: Statuses) -> Pod:
    """Return a pod with what its claims take of its node."""
    if pod.status.node_allocatable_resource_claim_statuses == statuses:
        return pod
    return replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=statuses))


def _unresolvable(text: str) -> fwk.Status:
    return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


# ---- binding conditions ------------------------------------------------------------------------------------
# Conditions that drivers report about allocated devices, and for which a pod's binding waits (KEP-5007).

POLL_INTERVAL = 5.0
"""Seconds between two looks at the conditions."""


class BindingError(MoorageError):
    """A device cannot be used on the chosen node."""


def has_conditions(claim: ResourceClaim) -> bool:
    """Whether a device of a claim has binding conditions."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all binding conditions of a claim are true.

    The first device that is not ready decides: those after it are not looked at, even if they have failed.

    Returns
    -------
    bool
        False without an allocation.

    Raises
    ------
    BindingError
        A failure condition is true.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = _conditions_of(claim, result)
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                raise BindingError(
                    f"device binding failed: claim={claim.name}, reason={failed.reason}, "
                    f'message="{failed.message}"'
                )
        if not all(
            name in conditions and conditions[name].status == "True" for name in result.binding_conditions
        ):
            return False
    return True


def _conditions_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, Condition]:
    """The conditions of a device by type; of several shares of it the first that is reported counts."""
    device = result.driver, result.pool, result.device
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == device:
            return {condition.type: condition for condition in status.conditions}
    return {}


def is_overdue(claim: ResourceClaim, timeout: float, now: float) -> bool:
    """Whether the binding of a claim has taken too long.

    Parameters
    ----------
    timeout : float
        Seconds.
    now : float
        Seconds since 1970.
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    return datetime.fromisoformat(allocation.allocation_timestamp).timestamp() + timeout <= now
