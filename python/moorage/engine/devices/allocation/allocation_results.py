"""The status of claims from what the allocator found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from uuid import NAMESPACE_OID, uuid5

from moorage.kube import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.kube.model.resource_claims import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)

from ..features import Features
from .allocator import ClaimResult, DeviceResult
from .claim_requests import AllocationError, Request
from .device_pools import PublishedDevice

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_of(found: ClaimResult, node_name: str, features: Features) -> AllocationResult:
    """Return the allocation of a claim.

    Raises
    ------
    AllocationError
        A slice has a node selector with several terms.
    """
    claim = found.claim.claim
    # Shares have IDs of their own in each allocation of the claim, which is another state of it.
    allocated = f"{claim.metadata.uid}/{claim.metadata.resource_version}"
    results = [_result(allocated, at, allocation, features) for at, allocation in enumerate(found.devices)]
    configurations = tuple(_configurations(found, features.release.configures_once))
    devices = DeviceAllocationResult(results=tuple(results), config=configurations)
    selector = _node_selector([device.device for device in found.devices], node_name, claim.name)
    return AllocationResult(devices=devices, node_selector=selector)


def result_of_whole(
    request: Request, device: PublishedDevice, features: Features
) -> DeviceRequestAllocationResult:
    """Return the result for a device of which no share is taken."""
    return _result("", 0, DeviceResult(request, device, None), features)


def _result(
    allocated: str, at: int, found: DeviceResult, features: Features
) -> DeviceRequestAllocationResult:
    """The result for a device; `allocated` names the claim and its state, for the ID of a share."""
    request, device = found.request, found.device.device
    driver, pool, name = found.device.id
    conditions = features.binding_conditions
    share = None
    if found.consumed is not None:
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
        consumed_capacity={key: str(amount) for key, amount in (found.consumed or {}).items()},
    )


def _configurations(found: ClaimResult, once: bool) -> Iterable[DeviceAllocationConfiguration]:
    """Configurations of each class once, for all its requests, then those of the claim; `once`: see
    `Release.configures_once`."""
    if not found.claim.claim.spec.devices.config and not any(
        device_class.spec.config for device_class in found.classes
    ):
        return
    names = [{choice.parent or choice.name, choice.full_name} for choice in found.chosen]

    def named(requests: Sequence[str]) -> Sequence[str]:
        """The requests that a configuration names which is for these."""
        return () if once and not any(name.isdisjoint(requests) for name in names) else requests

    by_class: dict[str, list[str]] = {}
    classes = {device_class.name: device_class for device_class in found.classes}
    for request, device_class in zip(found.chosen, found.classes, strict=True):
        by_class.setdefault(device_class.name, []).append(request.full_name)
    for name, requests in by_class.items():
        for config in classes[name].spec.config:
            yield DeviceAllocationConfiguration(
                source=FROM_CLASS, requests=tuple(named(requests)), opaque=config.opaque
            )
    for of_claim in found.claim.claim.spec.devices.config:
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
    for found in devices:
        device, spec = found.device, found.slice.spec
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
