"""How many devices each rule of a request leaves, node by node: selectors, taints, devices in use, capacity,
shared counters, constraints.

The rules are those of the allocator, each applied to the devices that the rules before it leave. Requests are
looked at alone: what they take from one another does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
from msgspec import Struct

from moorage._core.base.quantity import Quantity
from moorage.document import Count, Document
from moorage.engine.devices.allocator import AllocatedDevices
from moorage.engine.devices.claim_requests import AllocationError, Features, PreparedRequest, SelectorError
from moorage.engine.devices.device_pools import DeviceId, DevicePool, DeviceSlices, PublishedDevice
from moorage.engine.devices.device_properties import (
    CapacityError,
    SelectorCache,
    possible_amounts,
    tolerates_taints,
)
from moorage.grouped import by_count
from moorage.kube import Node
from moorage.kube.cel.cel_errors import CompileError
from moorage.kube.model.meta import total
from moorage.kube.model.resource_claims import DeviceClass, DeviceConstraint, DeviceSelector, ResourceClaim

PUBLISHED, CLASS, SELECTOR, TAINT, IN_USE, CAPACITY, COUNTER, CONSTRAINT = (
    *("published", "class-selector", "request-selector", "taint", "in-use"),
    *("capacity", "counter", "constraint"),
)
Devices = list[tuple[DevicePool, PublishedDevice]]


class DeviceHolder(Document, frozen=True):
    """A claim that has devices, or shared counters of devices, which a request could use."""

    claim: str
    """``namespace/name``."""
    users: tuple[str, ...]
    """Names of those for which the claim is reserved."""
    devices: Count
    """Number of these devices."""


class SurveyStep(Document, frozen=True):
    """The devices that one rule leaves."""

    kind: str
    """``published`` (by usable pools for the node), ``class-selector``, ``request-selector``, ``taint``,
    ``in-use``, ``capacity``, ``counter`` or ``constraint``."""
    text: str
    """The CEL expression; the attribute of a constraint; the capacity that is asked for; empty for other
    kinds."""
    devices: Count
    """Devices that are left on all nodes together."""
    most: Count = msgspec.field(name="mostOnANode")
    nodes: Count = msgspec.field(name="nodesWithEnough")
    """Number of nodes with as many as the request asks for."""
    error: str = ""
    """Why an expression has no result; later rules are not applied then."""
    holders: tuple[DeviceHolder, ...] = ()
    """For ``in-use``, ``capacity`` and ``counter``: who has what this rule takes away, those with the most
    devices first."""


@dataclass(frozen=True, slots=True)
class RequestSurvey:
    """What the rules of one request, or of one alternative of it, leave.

    Attributes
    ----------
    request : PreparedRequest
    steps : list of SurveyStep
        In the order in which the rules are applied.
    left : dict of str to list of int
        By node: the number of devices after each step.
    """

    request: PreparedRequest
    steps: list[SurveyStep]
    left: dict[str, list[int]] = field(repr=False)

    def wanted(self, node: str) -> int:
        """Return the number of devices that the request needs on a node."""
        return _wanted(self.request, self.steps, self.left[node])

    def failing_step(self, node: str) -> int | None:
        """Return the index of the first step that leaves too few devices on a node; None without one."""
        left = self.left.get(node)
        if left is None:
            return None
        wanted = self.wanted(node)
        return next((at for at, count in enumerate(left) if count < wanted), None)


def _wanted(request: PreparedRequest, steps: Sequence[SurveyStep | _Rule], left: Sequence[int]) -> int:
    if not request.wants_all:
        return request.count
    matching = [n for n, step in zip(left, steps, strict=False) if step.kind in (PUBLISHED, CLASS, SELECTOR)]
    return max(matching[-1], 1)


class _Rule(Struct, frozen=True):
    kind: str
    text: str
    keep: Callable[[Devices], Devices]
    error: str = ""


class DeviceSurvey:
    """Counts devices for requests.

    Parameters
    ----------
    claims : iterable of ResourceClaim
        All claims, which have the devices in use.
    """

    def __init__(
        self,
        slices: DeviceSlices,
        features: Features,
        allocated: AllocatedDevices,
        selectors: SelectorCache,
        claims: Iterable[ResourceClaim],
    ) -> None:
        self._slices = slices
        self._features = features
        self._allocated = allocated
        self._selectors = selectors
        self._taken: dict[int, tuple[DevicePool, dict[tuple[str, str], Quantity]]] = {}
        self._holders: dict[DeviceId, list[ResourceClaim]] = {}
        for claim in claims:
            allocation = claim.status.allocation
            for result in () if allocation is None else allocation.devices.results:
                if not result.admin_access:
                    self._holders.setdefault((result.driver, result.pool, result.device), []).append(claim)

    def request(
        self,
        nodes: Sequence[Node],
        request: PreparedRequest,
        device_class: DeviceClass | None,
        constraints: Sequence[DeviceConstraint] = (),
    ) -> RequestSurvey:
        """Count the devices for a request on some nodes.

        Parameters
        ----------
        device_class : DeviceClass or None
            None for a class that does not exist, of which there are no devices.
        constraints : sequence of DeviceConstraint
            Those of the claim.
        """
        steps: list[SurveyStep] = []
        left: dict[str, list[int]] = {node.name: [] for node in nodes}
        current = {node.name: self._published(node) for node in nodes}
        rules = [
            _Rule(PUBLISHED, "", lambda devices: devices),
            *self._rules(request, device_class, constraints),
        ]
        for rule in rules:
            before, current, error = current, {}, rule.error
            for name, devices in before.items():
                try:
                    current[name] = rule.keep(devices)
                except (AllocationError, CompileError, SelectorError, CapacityError) as failed:
                    error, current[name] = error or str(failed), []
                left[name].append(len(current[name]))
            enough = [name for name in left if left[name][-1] >= _wanted(request, rules, left[name])]
            known = {device.id for devices in current.values() for _, device in devices}
            most = max(map(len, current.values()), default=0)
            holders = self._holders_of(rule.kind, before, current)
            steps.append(SurveyStep(rule.kind, rule.text, len(known), most, len(enough), error, holders))
            if error:
                break
        return RequestSurvey(request, steps, left)

    def _published(self, node: Node) -> Devices:
        pools = self._slices.pools_of(node)
        usable = (pool for pool in pools if not (pool.is_incomplete or pool.is_invalid))
        hidden = not self._features.binding_conditions
        return [
            (pool, device)
            for pool in usable
            for device in pool.devices
            if device.is_for(node) and not (hidden and device.device.binding_conditions)
        ]

    # ---- rules ---------------------------------------------------------------------------------------------

    def _rules(
        self,
        request: PreparedRequest,
        device_class: DeviceClass | None,
        constraints: Sequence[DeviceConstraint],
    ) -> Iterator[_Rule]:
        if device_class is None:
            error = f"device class {request.class_name} does not exist"
            yield _Rule(CLASS, "", lambda devices: [], error)
            return
        yield from self._selector_rules(CLASS, device_class.spec.selectors)
        yield from self._selector_rules(SELECTOR, request.selectors)
        if self._features.taints:
            yield _each(TAINT, lambda _, device: tolerates_taints(request.tolerations, device.device.taints))
        if not request.admin_access:
            yield _each(IN_USE, lambda _, device: not self._is_in_use(device))
        if self._features.consumable_capacity:
            amounts = ", ".join(f"{name} {amount}" for name, amount in sorted(request.capacity.items()))
            yield _each(CAPACITY, partial(self._has_capacity, request), amounts)
        yield _each(COUNTER, self._counters_suffice)
        names = {request.full_name, request.parent or request.name}
        for constraint in constraints:
            if constraint.requests and names.isdisjoint(constraint.requests):
                continue
            if constraint.match_attribute is not None:
                yield _Rule(
                    CONSTRAINT,
                    f"matchAttribute {constraint.match_attribute}",
                    _match(constraint.match_attribute, self._features.release.attributes_are_typed),
                )
            elif constraint.distinct_attribute is not None:
                text = f"distinctAttribute {constraint.distinct_attribute}"
                from_all = self._features.release.distinct_from_all
                yield _Rule(CONSTRAINT, text, _distinct(constraint.distinct_attribute, from_all))

    def _selector_rules(self, kind: str, selectors: Sequence[DeviceSelector]) -> Iterator[_Rule]:
        for selector in selectors:
            text = "" if selector.cel is None else selector.cel.expression
            yield _each(kind, partial(self._matches, text), text)

    def _matches(self, expression: str, pool: DevicePool, device: PublishedDevice) -> bool:
        return self._selectors.matches(expression, device)

    def _is_in_use(self, device: PublishedDevice) -> bool:
        is_shared = device.id in self._allocated.consumed and not device.device.allow_multiple_allocations
        return device.id in self._allocated.devices or (
            is_shared and self._features.release.shared_devices_are_kept
        )

    def _has_capacity(self, request: PreparedRequest, pool: DevicePool, device: PublishedDevice) -> bool:
        amounts = possible_amounts(device, request.capacity, self._features)
        consumed = self._allocated.consumed.get(device.id, {})
        if amounts is None or not (amounts or consumed):
            return amounts is not None
        needed = zip(device.capacity.items(), amounts or device.capacity.values(), strict=True)
        return all(amount + consumed.get(name, _NOTHING) <= whole for (name, whole), amount in needed)

    def _counters_suffice(self, pool: DevicePool, device: PublishedDevice) -> bool:
        """Whether a device that nobody uses could have its shared counters."""
        if not device.device.consumes_counters:
            return True
        if not self._features.partitionable:
            return False
        amounts = self._allocated.consumed.get(device.id)
        if amounts or (amounts is not None and self._features.release.shares_without_amounts_count):
            return True
        taken = self._taken_counters(pool)
        return all(
            taken.get(key, _NOTHING) + amount <= pool.counters[key] for key, amount in device.counters.items()
        )

    def _taken_counters(self, pool: DevicePool) -> Mapping[tuple[str, str], Quantity]:
        if id(pool) not in self._taken:
            own = (*pool.devices, *pool.elsewhere)
            used = [
                device.counters
                for device in own
                if device.id in self._allocated.devices or device.id in self._allocated.consumed
            ]
            self._taken[id(pool)] = pool, total(used)
        return self._taken[id(pool)][1]

    # ---- holders -------------------------------------------------------------------------------------------

    def _holders_of(
        self, kind: str, before: Mapping[str, Devices], after: Mapping[str, Devices]
    ) -> tuple[DeviceHolder, ...]:
        """The claims that have the devices which a rule takes away, or their counters."""
        if kind not in (IN_USE, CAPACITY, COUNTER):
            return ()
        kept = {name: {device.id for _, device in devices} for name, devices in after.items()}
        taken = {
            device.id: (pool, device)
            for name, devices in before.items()
            for pool, device in devices
            if device.id not in kept[name]
        }
        claims: dict[str, ResourceClaim] = {}
        counts: Counter[str] = Counter()
        for pool, device in taken.values():
            held = _sharing(pool, device) if kind == COUNTER else [device]
            holders = {holder.key: holder for each in held for holder in self._holders.get(each.id, ())}
            counts.update(holders.keys())
            claims |= holders
        return tuple(
            [
                DeviceHolder(key, tuple([user.name for user in claims[key].status.reserved_for]), number)
                for key, number in by_count(counts).items()
            ]
        )


_NOTHING = Quantity(0)


def _each(kind: str, passes: Callable[[DevicePool, PublishedDevice], bool], text: str = "") -> _Rule:
    return _Rule(kind, text, lambda devices: [device for device in devices if passes(*device)])


def _sharing(pool: DevicePool, device: PublishedDevice) -> list[PublishedDevice]:
    """The devices of a pool that take a counter which a device takes too."""
    counters = device.counters.keys()
    return [
        device
        for device in (*pool.devices, *pool.elsewhere)
        if not counters.isdisjoint(device.counters.keys())
    ]


def _match(attribute: str, is_typed: bool) -> Callable[[Devices], Devices]:
    """The largest group of devices with an equal value of an attribute."""

    def keep(devices: Devices) -> Devices:
        groups: dict[object, Devices] = {}
        for pool, device in devices:
            value = device.attribute_value(attribute, is_typed)
            if value:
                groups.setdefault(value, []).append((pool, device))
        return max(groups.values(), key=len, default=[])

    return keep


def _distinct(attribute: str, from_all: bool) -> Callable[[Devices], Devices]:
    """The devices with an attribute: one of each value, or, if a device need not differ from all others, one
    of them if all have the same value."""

    def keep(devices: Devices) -> Devices:
        valued = [(device.attribute_value(attribute), (pool, device)) for pool, device in devices]
        having = [(value, device) for value, device in valued if value]
        if from_all:
            return list(dict(having).values())
        return [kept for _, kept in having[: 1 if len({value for value, _ in having}) == 1 else None]]

    return keep
