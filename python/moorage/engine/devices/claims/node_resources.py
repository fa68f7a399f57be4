"""What the devices of claims take of a node's own resources, such as cpu and memory.

kube-scheduler v1.36, dynamicresources/, gate DRANodeAllocatableResources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import CONTAINERS_ALONE, PodGates, pod_requests
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import Pod
from moorage.kube.model.pod import NodeAllocatableResourceClaimStatus
from moorage.kube.model.resource_claims import AllocationResult, ResourceClaim
from moorage.kube.model.resource_slices import Device, ResourceSlice

from ..allocation.allocator import ClaimResult

Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]
Devices = Mapping[tuple[str, str], Device]
"""Devices by pool and name."""


class TakenDevice(NamedTuple):
    """A device of an allocation.

    Attributes
    ----------
    pool, name : str
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
        need = quantity.milli_value() if name == "cpu" else quantity.value()
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
