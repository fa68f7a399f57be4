"""The slow twin of the core's search: allocates the devices of claims on a node, device by device."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.doors.engine import (
    AllocatedDevices,
    AllocationError,
    CapacityError,
    ClaimRequests,
    ClaimResult,
    DevicePool,
    DeviceResult,
    Features,
    PoolsInvalidError,
    PublishedDevice,
    SearchTimeoutError,
    SelectorError,
    consumed_amounts,
    possible_amounts,
)
from tests.doors.kube import CompileError

from moorage import Quantity
from moorage.engine.devices import SelectorCache
from moorage.kube import DeviceClass, DeviceSelector, DeviceTaint, DeviceToleration, Node

from .attribute_constraints import (
    AttributeConstraint,
    DistinctAttribute,
    DistinctFromAll,
    MatchAttribute,
)
from .pools_of_nodes import PoolsOfNodes

MAX_RESULTS = 32

_PREVENTING = ("NoSchedule", "NoExecute")
_TOO_LARGE = 2**63 - 1


def has_capacity(
    device: PublishedDevice,
    requests: Mapping[str, Quantity],
    features: Features,
    consumed: Mapping[str, Quantity],
    taken: Mapping[str, Quantity],
) -> bool:
    """Whether a device has room for a request.

    Parameters
    ----------
    consumed, taken : mapping of str to Quantity
        What allocations consume, and what a search has taken.

    Raises
    ------
    CapacityError
        See `consumed_amounts`.
    """
    amounts = possible_amounts(device, requests, features)
    if amounts is None:
        return False
    if not amounts and not consumed and not taken:
        return True
    for (name, whole), amount in zip(
        device.capacity.items(), amounts or device.capacity.values(), strict=True
    ):
        for more in (consumed, taken):
            if name in more:
                amount += more[name]
        if amount > whole:
            return False
    return True


class _MaxSizeExceededError(Exception):
    """A claim would have more devices than a result can have."""


@dataclass(eq=False, slots=True)
class _Prepared:
    """A request during a search.

    Attributes
    ----------
    matches : dict of DeviceId to bool
        Whether devices match class, selectors and node.
    devices : list of (DevicePool, PublishedDevice)
        With mode All: the devices that are wanted.
    """

    request: Any
    device_class: DeviceClass
    count: int = 0
    matches: dict[Any, bool] = field(default_factory=dict)
    devices: list[tuple[DevicePool, PublishedDevice]] = field(default_factory=list)


class Twin:
    """Allocates claims on the nodes of one cycle.

    Parameters
    ----------
    slices : PoolsOfNodes
    features : Features
    allocated : AllocatedDevices
    class_of : callable
        Returns the device class of a name, or None.
    selectors : SelectorCache
    max_steps : int
        The number of steps that the search on one node may take; 0 for any number.
    """

    def __init__(
        self,
        slices: PoolsOfNodes,
        features: Features,
        allocated: AllocatedDevices,
        class_of: Any,
        selectors: SelectorCache,
        max_steps: int = 0,
    ) -> None:
        self.slices = slices
        self.features = features
        self.allocated = allocated
        self.class_of = class_of
        self.selectors = selectors
        self.max_steps = max_steps
        # By owner: see `_Search._counters_suffice`.
        self.available: dict[Hashable, dict[tuple[str, str], Quantity]] = {}

    def allocate(self, node: Node, claims: Sequence[ClaimRequests]) -> list[ClaimResult] | None:
        """Find devices for all claims on a node.

        Parameters
        ----------
        node : Node
        claims : sequence of ClaimRequests

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
        pools = self.slices.pools_of(node)
        search = _Search(self, node, pools)
        for claim in claims:
            search.prepare(claim)
        try:
            found = search.claim(0)
        except _MaxSizeExceededError:
            found = False
        if found:
            return search.results()
        if any(pool.is_invalid for pool in pools):
            raise PoolsInvalidError
        return None


class _Search:
    """The search on one node.

    Attributes
    ----------
    taken : dict of DeviceId to set of int
        The claims for which devices were taken.
    taken_capacity : dict of DeviceId to dict of str to Quantity
        What was taken of devices for several allocations.
    consumed : dict of hashable to dict of (str, str) to Quantity
        Counters that were taken, by owner.
    """

    def __init__(self, allocator: Twin, node: Node, pools: Sequence[DevicePool]) -> None:
        self.allocator = allocator
        self.features, self.release = allocator.features, allocator.features.release
        self.node = node
        self.pools = pools
        self.usable = [
            (pool, device)
            for pool in pools
            if not (pool.is_incomplete or pool.is_invalid)
            for device in pool.devices
        ]
        self.claims: list[ClaimRequests] = []
        self.prepared: list[list[list[_Prepared]]] = []
        self.constraints: list[list[AttributeConstraint]] = []
        self.found: list[list[DeviceResult]] = []
        self.chosen: dict[tuple[int, int], int] = {}
        self.taken: dict[Any, set[int]] = {}
        self.taken_capacity: dict[Any, dict[str, Quantity]] = {}
        self.consumed: dict[Hashable, dict[tuple[str, str], Quantity]] = {}
        self.undo: list[tuple[bool, bool]] = []  # of each device: counters were taken; it had a share before
        self.steps = 0

    # ---- checks before the search --------------------------------------------------------------------------

    def prepare(self, claim: ClaimRequests) -> None:
        """Check a claim and find out how many devices each of its requests needs."""
        at = len(self.claims)
        self.claims.append(claim)
        self.found.append([])
        self.prepared.append([])
        least = 0
        for number, alternatives in enumerate(claim.alternatives):
            self._check_features(claim, number, alternatives)
            prepared = [self._prepare_request(claim, one) for one in alternatives]
            self.prepared[at].append(prepared)
            fewest = min(one.count for one in prepared)
            if self.release.errors_name_devices and least + fewest > MAX_RESULTS:
                name = claim.claim.spec.devices.requests[number].name
                limit = f"exceeds the claim limit of {MAX_RESULTS}, with {least} already accounted for"
                start = f"claim {claim.claim.key}, request {name}"
                raise AllocationError(f"{start}: adding {fewest} devices {limit}")
            least += fewest
        if least > MAX_RESULTS:
            text = f"number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {claim.claim.key}: {text}")
        self.constraints.append(list(self._constraints(claim)))

    def _check_features(self, claim: ClaimRequests, number: int, alternatives: Sequence[Any]) -> None:
        name = claim.claim.spec.devices.requests[number].name
        start = f"claim {claim.claim.key}, request {name}: has"
        if not self.features.prioritized_list and alternatives[0].parent:
            raise AllocationError(f"{start} subrequests, but the DRAPrioritizedList feature is disabled")
        if not (self.features.consumable_capacity or self.features.is_stable):
            disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            for one in alternatives:
                if one.asks_capacity:
                    what = "subrequest" if one.parent else "request"
                    raise AllocationError(f"claim {claim.claim.key}, {what} {one.name}: {disabled}")

    def _prepare_request(self, claim: ClaimRequests, request: Any) -> _Prepared:
        start = f"claim {claim.claim.key}, request {request.name}"
        for at, selector in enumerate(request.selectors):
            if selector.cel is None:
                text = "CEL expression empty (unsupported selector type?)"
                raise AllocationError(f"{start}, selector #{at}: {text}")
        if not request.class_name:
            raise AllocationError(f"{start}: missing device class name (unsupported request type?)")
        device_class = self.allocator.class_of(request.class_name)
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{request.class_name}" not found'
            raise AllocationError(f"{start}: could not retrieve device class {request.class_name}: {missing}")
        prepared = _Prepared(request, device_class)
        if request.wants_all:
            prepared.devices = list(self._all_devices(claim, prepared, start))
            prepared.count = len(prepared.devices)
        elif request.mode == "ExactCount":
            if request.count > _TOO_LARGE:
                raise AllocationError(f"{start}: exact count {request.count} is too large")
            prepared.count = request.count
        else:
            raise AllocationError(f"{start}: unsupported count mode {request.mode}")
        return prepared

    def _all_devices(
        self, claim: ClaimRequests, prepared: _Prepared, start: str
    ) -> Iterator[tuple[DevicePool, PublishedDevice]]:
        for pool in self.pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                name = f"{pool.driver}/{pool.name}"
                raise AllocationError(
                    f"{start}: asks for all devices, but resource pool {name} is currently {state}"
                )
            for device in pool.devices:
                if not self._is_selectable(claim, prepared, device):
                    continue
                full = self.release.all_includes_full_devices
                if self._has_capacity(claim, prepared, device, whole=full, name=device.device.name):
                    yield pool, device

    def _constraints(self, claim: ClaimRequests) -> Iterator[AttributeConstraint]:
        for at, one in enumerate(claim.constraints):
            if one.match_attribute is not None:
                yield MatchAttribute(one.requests, one.match_attribute)
            elif one.distinct_attribute is not None and not self.features.is_stable:
                kind = DistinctFromAll if self.release.distinct_from_all else DistinctAttribute
                yield kind(one.requests, one.distinct_attribute)
            else:
                text = "empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {claim.claim.key}, constraint #{at}: {text}")

    # ---- the search ----------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.steps += 1
        if self.allocator.max_steps and self.steps > self.allocator.max_steps:
            raise SearchTimeoutError

    def claim(self, at: int) -> bool:
        """Allocate the claims from one on."""
        self._step()
        return at >= len(self.claims) or self._request(at, 0)

    def _request(self, at: int, number: int) -> bool:
        """Allocate the requests of a claim from one on, and all later claims."""
        self._step()
        if number >= len(self.prepared[at]):
            try:
                return self.claim(at + 1)
            except _MaxSizeExceededError:
                return False  # the claim may still succeed after another choice before it
        alternatives = self.prepared[at][number]
        if not alternatives[0].request.parent:
            return self._devices(at, number, 0, 0, 0)
        exceeded = True
        for choice in range(len(alternatives)):
            try:
                found = self._devices(at, number, choice, 0, 0)
            except _MaxSizeExceededError:
                continue
            exceeded = False
            if found:
                self.chosen[at, number] = choice
                return True
        if exceeded:
            raise _MaxSizeExceededError
        return False

    def _devices(self, at: int, number: int, choice: int, have: int, start: int) -> bool:
        """Allocate the rest of the devices of a request, from a position on, and all that follows."""
        self._step()
        prepared = self.prepared[at][number][choice]
        if prepared.request.wants_all and not prepared.devices:
            return False
        if have >= prepared.count:
            return self._request(at, number + 1)
        if len(self.found[at]) + prepared.count - have > MAX_RESULTS:
            raise _MaxSizeExceededError
        place = at, number, choice, have
        if prepared.request.wants_all:
            pool, device = prepared.devices[have]
            if not self._take(at, prepared, pool, device, must=True):
                return False
            return self._go_on(place, pool, device, 0)
        claim = self.claims[at]
        for index in range(start, len(self.usable)):
            pool, device = self.usable[index]
            if self._is_in_use(at, prepared.request, device.id):
                continue
            if not self._is_selectable(claim, prepared, device):
                continue
            if not self._has_capacity(claim, prepared, device):
                continue
            if not self._take(at, prepared, pool, device, must=False):
                continue
            if self._go_on(place, pool, device, index + 1):
                return True
        return False

    def _go_on(
        self, place: tuple[int, int, int, int], pool: DevicePool, device: PublishedDevice, start: int
    ) -> bool:
        """Search for the rest; give a device back if there is no solution with it."""
        at, number, choice, have = place
        found = False
        try:
            all_as_first = self.release.all_goes_on_as_first
            is_of_all = self.prepared[at][number][choice].request.wants_all
            found = self._devices(at, number, 0 if all_as_first and is_of_all else choice, have + 1, start)
        finally:
            if not found:
                self._give_back(at, self.prepared[at][number][choice].request, pool, device)
        return found

    def _is_in_use(self, at: int, request: Any, device: Any) -> bool:
        if request.admin_access:
            return at in self.taken.get(device, ())
        return device in self.allocator.allocated.devices or bool(self.taken.get(device))

    def _is_selectable(self, claim: ClaimRequests, prepared: _Prepared, device: PublishedDevice) -> bool:
        if not self.features.binding_conditions and device.device.binding_conditions:
            return False
        known = prepared.matches.get(device.id)
        if known is None:
            selectors = prepared.device_class.spec.selectors
            known = (
                self._matches(f"class {prepared.device_class.name}", selectors, device)
                and self._matches(f"claim {claim.claim.key}", prepared.request.selectors, device)
                and device.is_for(self.node)
            )
            prepared.matches[device.id] = known
        return known

    def _matches(self, owner: str, selectors: Sequence[DeviceSelector], device: PublishedDevice) -> bool:
        for at, selector in enumerate(selectors):
            expression = "" if selector.cel is None else selector.cel.expression
            try:
                if not self.allocator.selectors.matches(expression, device):
                    return False
            except CompileError as error:
                raise AllocationError(f"{owner}: selector #{at}: CEL compile error: {error}") from None
            except SelectorError as error:
                text = f"CEL runtime error: {error}"
                if not self.release.errors_name_devices:
                    raise AllocationError(f"{owner}: selector #{at}: {text}") from None
                if "no such key:" in text:
                    text += (
                        ". consider using CEL optional chaining (.? followed by orValue()) or guarding the"
                    )
                    text += " check with has() for optional fields"
                where = "/".join(device.id)
                raise AllocationError(f"{owner}: selector #{at} on device {where}: {text}") from None
        return True

    def _has_capacity(
        self,
        claim: ClaimRequests,
        prepared: _Prepared,
        device: PublishedDevice,
        *,
        whole: bool = False,
        name: str = "",
    ) -> bool:
        """Whether a device has the capacity for a request; `whole`: if nobody had taken of it."""
        if not self.features.consumable_capacity:
            return True
        consumed = {} if whole else self.allocator.allocated.consumed.get(device.id, {})
        taken = {} if whole else self.taken_capacity.get(device.id, {})
        try:
            return has_capacity(device, prepared.request.capacity, self.features, consumed, taken)
        except CapacityError as error:
            start = f"claim {claim.claim.key}, request {prepared.request.name}: checking capacity for device"
            raise AllocationError(f"{start} {name or '/'.join(device.id)}: {error}") from None

    # ---- taking and giving back ----------------------------------------------------------------------------

    def _take(
        self, at: int, prepared: _Prepared, pool: DevicePool, device: PublishedDevice, *, must: bool
    ) -> bool:
        """Take a device for a request if nothing prevents that."""
        request, several = prepared.request, self._is_for_several(device)
        if not (several and request.admin_access) and self._is_in_use(at, request, device.id):
            return False
        is_counted = False
        if device.device.consumes_counters:
            if not self.features.partitionable:
                return False
            is_counted = not (several and self._is_charged(device.id))
            if is_counted and not self._counters_suffice(pool, device):
                return False
        if self.features.taints and not _tolerates(request.tolerations, device.device.taints):
            self._release_counters(pool, device, is_counted)
            return False
        base, full = request.parent or request.name, request.full_name
        for done, constraint in enumerate(self.constraints[at]):
            if not constraint.add(base, full, device):
                if must:
                    text = "because a claim constraint would not be satisfied"
                    name = f"claim {self.claims[at].claim.key}, request {request.name}"
                    raise AllocationError(f"{name}: cannot add device {'/'.join(device.id)} {text}")
                for other in self.constraints[at][:done]:
                    other.remove(base, full)
                self._release_counters(pool, device, is_counted)
                return False
        if not several:
            self.taken.setdefault(device.id, set()).add(at)
        if not self._has_capacity(self.claims[at], prepared, device):
            for constraint in self.constraints[at]:
                constraint.remove(base, full)
            self.taken.get(device.id, set()).discard(at)
            self._release_counters(pool, device, is_counted)
            return False
        consumed = None
        self.undo.append((is_counted, device.id in self.taken_capacity))
        if several:
            consumed = consumed_amounts(device, request.capacity, self.features)
            amounts = self.taken_capacity.setdefault(device.id, {})
            for name, amount in consumed.items():
                amounts[name] = amounts[name] + amount if name in amounts else amount
        self.found[at].append(DeviceResult(request, device, consumed))
        return True

    def _give_back(self, at: int, request: Any, pool: DevicePool, device: PublishedDevice) -> None:
        base, full = request.parent or request.name, request.full_name
        for constraint in self.constraints[at]:
            constraint.remove(base, full)
        self.taken.get(device.id, set()).discard(at)
        result, (is_counted, had_share) = self.found[at].pop(), self.undo.pop()
        self._release_counters(pool, device, is_counted)
        if result.consumed is None:
            return
        amounts = self.taken_capacity[device.id]
        for name, amount in result.consumed.items():
            amounts[name] -= amount
        if not had_share and all(amount.sign() == 0 for amount in amounts.values()):
            del self.taken_capacity[device.id]

    def _is_for_several(self, device: PublishedDevice) -> bool:
        return self.features.consumable_capacity and bool(device.device.allow_multiple_allocations)

    def _is_charged(self, device: Any) -> bool:
        """Whether a further share of a device does not take its counters again."""
        amounts = self.allocator.allocated.consumed.get(device)
        is_shared = amounts is not None and (bool(amounts) or self.release.shares_without_amounts_count)
        return is_shared or device in self.taken_capacity

    def _counters_suffice(self, pool: DevicePool, device: PublishedDevice) -> bool:
        """Take the counters of a device if there are enough.

        As upstream, all pools with one owner share what the first of them had available when it was asked
        first in the cycle.
        """
        owner = self.features.owner_of_counters(pool.driver, pool.name)
        available = self.allocator.available.get(owner)
        if available is None:
            available = self.allocator.available[owner] = self._available_counters(pool)
        consumed = self.consumed.setdefault(owner, {})
        for key, amount in device.counters.items():
            consumed[key] = consumed[key] + amount if key in consumed else amount
        for key, amount in available.items():
            if amount < consumed.get(key, _NOTHING):
                self._release_counters(pool, device, True)
                return False
        return True

    def _available_counters(self, pool: DevicePool) -> dict[tuple[str, str], Quantity]:
        available = dict(pool.counters)
        allocated = self.allocator.allocated
        for device in (*pool.devices, *pool.elsewhere):
            if device.id in allocated.devices or device.id in allocated.consumed:
                for key, amount in device.counters.items():
                    if key in available:
                        available[key] -= amount
        return available

    def _release_counters(self, pool: DevicePool, device: PublishedDevice, is_counted: bool) -> None:
        consumed = self.consumed.setdefault(self.features.owner_of_counters(pool.driver, pool.name), {})
        for key, amount in device.counters.items() if is_counted else ():
            consumed[key] = consumed.get(key, _NOTHING) - amount

    # ---- results -------------------------------------------------------------------------------------------

    def results(self) -> list[ClaimResult]:
        """Return what was found for each claim."""
        out = []
        for at, claim in enumerate(self.claims):
            chosen = [
                alternatives[self.chosen.get((at, number), 0)]
                for number, alternatives in enumerate(self.prepared[at])
            ]
            requests, classes = [one.request for one in chosen], [one.device_class for one in chosen]
            out.append(ClaimResult(claim, self.found[at], requests, classes))
        return out


_NOTHING = Quantity(0)


def _tolerates(tolerations: Sequence[DeviceToleration], taints: Sequence[DeviceTaint]) -> bool:
    """Whether tolerations fit all taints that prevent an allocation."""
    return all(
        any(_fits(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in _PREVENTING
    )


def _fits(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
