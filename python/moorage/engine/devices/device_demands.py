"""Which nodes have devices for the claims of pods, so that the core places these pods with others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from moorage._core.devices.claims_of_pods import ClaimError, RepeatedClaims, pod_claims
from moorage._core.devices.device_demand import DeviceDemand, DeviceViews, SharedDevices
from moorage._core.devices.device_search import Wanted
from moorage._core.devices.device_view import DeviceView
from moorage._core.state.cluster_state import ClusterState
from moorage.kube import Node, NodeSelector, Pod
from moorage.kube.model.resource_claims import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimSpec,
)

from ..framework.claim_plugins import ClaimsOfBatch
from ..framework.node_masks import parse_error
from ..framework.nodes_view import NodesView
from .allocated_devices import allocation_of, has_conditions, only, result_of_whole
from .allocator import AllocationRules, Found, claim_results
from .claim_cache import ClaimCache, ClaimConsumers
from .claim_requests import ClaimRequests, Features, PreparedRequest
from .device_pools import DevicePool, DeviceSlices
from .device_properties import SelectorCache
from .extended_resources import Mappings

_LIMIT = 1 << 14


class TakenDevices(Struct, frozen=True):
    """What a pod that the core has placed takes.

    Attributes
    ----------
    devices : list
        See `DeviceSearch.find`.
    """

    demand: DeviceDemand
    view: DeviceView
    devices: Found


class DeviceNeeds(Struct, frozen=True):
    """What the claims of a pod need of a node.

    Attributes
    ----------
    demand : DeviceDemand or SharedDevices or None
        Of the claims that have to be allocated, or that an earlier pod of the batch allocates.
    selectors : tuple of NodeSelector
        Of the claims that are allocated.
    """

    demand: DeviceDemand | SharedDevices | None
    selectors: tuple[NodeSelector, ...]


class _Shape(Struct, frozen=True):
    """What a claim asks for: the spec, its requests, also as one list, and whether the claim or a class
    configures devices. The number equals for claims with equal answers; None for an invalid claim.

    Known are allocations that any claim gets which asks for this alone, by view and devices (see
    `DeviceSearch.find`)."""

    spec: ResourceClaimSpec
    alternatives: list[list[PreparedRequest]]
    requests: list[PreparedRequest]
    configures: bool
    number: int | None
    allocations: dict[tuple[object, ...], AllocationResult]


class AskingClaim(Struct, frozen=True):
    """A claim that is to be allocated, and what it asks for."""

    claim: ResourceClaim
    shape: _Shape

    @property
    def requests(self) -> ClaimRequests:
        return ClaimRequests(self.claim, self.shape.alternatives)


class PlacedPod(Struct, frozen=True):
    """A pod that the core has placed, and the claims to write.

    Attributes
    ----------
    asking : list of AskingClaim
        Those of them that have to be allocated.
    taken : TakenDevices or None
        Their devices; None if there are no such claims.
    mappings : tuple of ContainerExtendedResourceRequest
        Of the claim for extended resources, the last of `claims`, which is to be created.
    """

    node: str
    claims: list[ResourceClaim]
    asking: list[AskingClaim]
    taken: TakenDevices | None
    mappings: Mappings = ()


class Devices(Protocol):
    """Claims, slices and classes of a cluster, as `DeviceState` has them."""

    features: Features
    consumers: ClaimConsumers
    claim_cache: ClaimCache
    selectors: SelectorCache

    @property
    def classes_version(self) -> int: ...

    def slices(self) -> DeviceSlices: ...

    def class_of(self) -> Callable[[str], DeviceClass | None]: ...

    def negative_consumption(self) -> str: ...


class DeviceDemands:
    """The demands of claims on the devices of all nodes.

    They are made anew when slices, classes or labels of nodes change, and follow the claims.

    Attributes
    ----------
    generation : int
        A number that grows whenever earlier demands become invalid.
    are_order_free : bool
        Whether there are demands of all nodes. There are none where the devices of a node depend on the order
        in which nodes are searched, or drivers report conditions before a pod is bound.
    """

    def __init__(self, state: Devices) -> None:
        self._state = state
        self._version: Hashable = None
        self._slices: DeviceSlices | None = None
        self._views: dict[Hashable, DeviceView] = {}
        self._demands: dict[Hashable, DeviceDemand] = {}
        self._shapes: dict[int, _Shape] = {}
        self._numbers: dict[Hashable, int] = {}  # of what equals for claims with equal answers
        self._results: dict[tuple[Hashable, DeviceView, int], DeviceRequestAllocationResult] = {}
        self._current: DeviceViews | None = None
        self._sharing: SharedDevices | None = None  # with `_current`
        self._cluster: ClusterState | None = None
        self.generation, self.are_order_free = 0, False

    def refresh(self, cluster: ClusterState, nodes: NodesView) -> bool:
        """Follow the changes of slices, classes, nodes and claims.

        Parameters
        ----------
        nodes : NodesView
            All nodes.

        Returns
        -------
        bool
            `are_order_free`.
        """
        state = self._state
        slices = state.slices()
        cluster.view.refresh()
        version = slices, state.classes_version, cluster, cluster.view.static_version
        if version != self._version:
            self._version = version
            self._rebuild(cluster, nodes, slices)
        self.follow()
        return self.are_order_free

    def _rebuild(self, cluster: ClusterState, nodes: NodesView, slices: DeviceSlices) -> None:
        """Make the views of all nodes."""
        if slices is not self._slices:
            self._slices, self._views = slices, {}
        self.generation += 1
        self._demands, self._shapes, self._current, self._sharing = {}, {}, None, None
        self._numbers = {}
        self._results = {}
        self._cluster = cluster
        features, pools = self._state.features, _Pools(self._state.features)
        objects, rows = cluster.table.objects, nodes.rows
        placed = [(row, node) for row in rows.tolist() if (node := objects[row]) is not None]
        self.are_order_free = not (slices.have_counters or slices.have_conditions) or all(
            pools.are_order_free(slices.pools_of(node)) for _, node in placed
        )
        numbers: dict[Hashable, int] = {}
        used: list[DeviceView] = []
        view_of = [-1] * (int(rows.max(initial=-1)) + 1)
        for row, node in placed:
            key: Hashable = slices.own_slice(node) or slices.view_key(node, slices.pools_of(node))
            if key not in numbers:
                known = key, self.are_order_free
                if known not in self._views:
                    self._views[known] = slices.new_view(node, slices.pools_of(node), self.are_order_free)
                numbers[key] = len(used)
                used.append(self._views[known])
            view_of[row] = numbers[key]
        self._current = DeviceViews(cluster, used, view_of, features)
        self._sharing = SharedDevices(self._current) if self.are_order_free else None
        self._state.claim_cache.note_changes(None)

    def follow(self) -> None:
        """Bring the state of devices up to date with the claims."""
        views, cache = self._current, self._state.claim_cache
        if views is None:
            return
        changed = cache.take_changes()
        if views.taken:  # by pods that were not placed after all
            views.taken.clear()
            changed = None
        if changed is None:
            views.load(cache.in_use())
        elif changed:
            views.load_some(changed, cache.in_use())

    def needs_of(
        self,
        pod: Pod,
        batch: ClaimsOfBatch,
        most_steps: int,
        extended: tuple[ResourceClaim, Mappings] | None = None,
    ) -> DeviceNeeds | None:
        """Return what the claims of a pod need of a node, and note them in its batch.

        Parameters
        ----------
        most_steps : int
            The number of steps that the search on one node may take; 0 for any number.
        extended : (ResourceClaim, tuple of ContainerExtendedResourceRequest), optional
            The claim for extended resources, which is not written yet, and its mappings.

        Returns
        -------
        DeviceNeeds or None
            None where plugins have to schedule the pod, or the batch ends before it.
        """
        claims = self._claims_of(pod)
        if claims is None:
            return None
        cache, allocated, at = self._state.claim_cache, batch.allocated_for, batch.next_pod
        asking: list[AskingClaim] = []
        selectors: list[NodeSelector] = []
        for claim in claims:
            key = claim.key
            if (leader := allocated.get(key)) is not None:
                if len(claims) == 1 and extended is None and leader == batch.last_allocating >= 0:
                    return self._shared(claim, leader, batch)
                batch.ends_before = True
                return None
            if cache.is_pending(claim.metadata.uid):
                return None
            if (allocation := claim.status.allocation) is not None:
                if all(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for):
                    allocated[key] = -1  # if the pod fits nowhere, PostFilter may deallocate it
                if has_conditions(claim) and self._state.features.binding_conditions:
                    return None
                if (selector := allocation.node_selector) is not None:
                    if parse_error(selector):
                        return None
                    selectors.append(selector)
                continue
            if (asking_claim := self.asking(claim)) is None:
                return None
            asking.append(asking_claim)
            allocated[key] = at
        mappings: Mappings = ()
        if extended is not None:
            claim, mappings = extended
            if (asking_claim := self.asking(claim)) is None:
                return None
            claims.append(claim)
            asking.append(asking_claim)
        if asking and self._state.negative_consumption():
            return None
        if not asking:
            batch.claims_to_write[at] = claims, asking, mappings
            return DeviceNeeds(None, tuple(selectors))
        if len(asking) < len(claims) and self._state.features.release.claims_score_together:
            return None
        demand = self.demand_of(asking, most_steps)
        if demand is None:
            return None
        batch.claims_to_write[at] = claims, asking, mappings
        batch.last_allocating = at
        if extended is None and len(asking) == len(claims):
            batch.repeated_needs = RepeatedClaims(pod, asking, cache.reader(), cache.in_flight, batch)
        return DeviceNeeds(demand, tuple(selectors))

    def _claims_of(self, pod: Pod) -> list[ResourceClaim] | None:
        """The claims of a pod; None where plugins have to schedule it."""
        if self._state.features.node_allocatable or (
            pod.spec.scheduling_group is not None and self._state.consumers.are_groups
        ):
            return None
        if not pod.spec.resource_claims:
            return []
        try:
            claims = pod_claims(pod, self._state.claim_cache.find)
        except ClaimError:
            return None
        is_twice = len(claims) > 1 and len({claim.key for claim in claims}) < len(claims)
        return None if is_twice else claims

    def _shared(self, claim: ResourceClaim, leader: int, batch: ClaimsOfBatch) -> DeviceNeeds | None:
        """What a pod needs that shares the claim which the last pod with new devices allocates."""
        if self._sharing is None:
            return None
        self._sharing.leaders[batch.next_pod], batch.shares_claim = leader, True
        batch.claims_to_write[batch.next_pod] = [claim], [], ()
        return DeviceNeeds(self._sharing, ())

    def demand_of(self, claims: Sequence[AskingClaim], most_steps: int) -> DeviceDemand | None:
        """Return the demand of claims that are to be allocated together.

        Parameters
        ----------
        most_steps : int
            The number of steps that the search on one node may take; 0 for any number.

        Returns
        -------
        DeviceDemand or None
            None where plugins have to tell why the claims cannot be allocated.
        """
        if self._current is None or not self.are_order_free:
            return None
        if len(claims) == 1:  # as of most pods
            key: Hashable = most_steps, claims[0].shape.number
        else:
            key = most_steps, *[request.shape.number for request in claims]
        demand = self._demands.get(key)
        if demand is None:
            state = self._state
            rules = AllocationRules(state.features, state.class_of(), state.selectors)
            wanted = Wanted([request.requests for request in claims], rules)
            demand = self._demands[key] = DeviceDemand(self._current, wanted, most_steps)
        return demand

    def view_of(self, node: Node) -> DeviceView:
        """Return the devices of a node, as `refresh` has found them; as they are now, if there was no such
        node then."""
        views, cluster = self._current, self._cluster
        row = None if cluster is None else cluster.table.find_row(node.name)
        view = None if views is None or row is None else views.view_at(row)
        if view is None:
            slices = self._state.slices()
            view = slices.new_view(node, slices.pools_of(node), False)
            view.load(self._state.claim_cache.in_use())
        return view

    def asking(self, claim: ResourceClaim) -> AskingClaim | None:
        """Return what a claim asks for; None where a class or a request is not valid."""
        shape = self._shapes.get(id(claim.spec))
        if shape is None:
            if len(self._shapes) >= _LIMIT:
                self._shapes.clear()
            requests = ClaimRequests.of(claim)
            key = self._key(requests)
            number = None if key is None else self._numbers.setdefault(key, len(self._numbers))
            class_of = self._state.class_of()
            flat = [request for choices in requests.alternatives for request in choices]
            classes = [class_of(request.class_name) for request in flat]
            configures = bool(claim.spec.devices.config) or any(
                device_class and device_class.spec.config for device_class in classes
            )
            shape = _Shape(claim.spec, requests.alternatives, flat, configures, number, {})
            self._shapes[id(claim.spec)] = shape
        return None if shape.number is None else AskingClaim(claim, shape)

    def _key(self, claim: ClaimRequests) -> Hashable:
        """What claims with equal answers have in common; None for an invalid claim."""
        state = self._state
        class_of = state.class_of()
        rules = AllocationRules(state.features, class_of, state.selectors)
        if len(claim.alternatives) < len(claim.claim.spec.devices.requests) or rules.constraints(claim)[1]:
            return None
        key: list[Hashable] = []
        for number, alternatives in enumerate(claim.alternatives):
            for choice, alternative in enumerate(alternatives):
                if rules.check(claim, number, choice)[0] is not None:
                    return None
                name = alternative.name if claim.constraints else bool(alternative.parent)
                key.append((number, name, _asked(alternative, class_of)))
        constraints = [
            (constraint.match_attribute, constraint.distinct_attribute, constraint.requests)
            for constraint in claim.constraints
        ]
        names = [request.name for request in claim.claim.spec.devices.requests] if constraints else []
        return tuple(key), tuple(constraints), tuple(names)

    def take(self, claiming: Mapping[int, Any], placed: Mapping[int, str]) -> dict[int, PlacedPod]:
        """Return the claims of placed pods with the devices that they have taken since the last call.

        Parameters
        ----------
        claiming : mapping of int to (list of ResourceClaim, list of AskingClaim, tuple)
            By the index in the batch, the claims of pods, and the mappings of extended resources.
        placed : mapping of int to str
            By the index in the batch, the nodes of those that were placed.
        """
        views, taken = self._current, dict[int, TakenDevices]()
        if views is not None:
            for at, demand, view, devices in views.taken:
                taken[at] = TakenDevices(demand, views.views[view], devices)
            views.taken.clear()
        out: dict[int, PlacedPod] = {}
        for at, node in placed.items():
            claims, asking, mappings = claiming[at]
            out[at] = PlacedPod(node, claims, asking, taken.pop(at, None), mappings)
        for of_other in taken.values():
            self.give_back(of_other)
        return out

    def allocations_of(self, placed: PlacedPod) -> list[AllocationResult]:
        """Return the allocations of the claims of a placed pod that have to be allocated.

        Raises
        ------
        AllocationError
            A slice has a node selector with several terms.
        """
        taken, claims, node = placed.taken, placed.asking, placed.node
        if taken is None:
            return []
        if len(claims) == 1 and not claims[0].shape.configures:
            shape = claims[0].shape
            allocation = self._allocation_on(node, taken, shape.requests)
            if allocation is not None:
                if len(shape.allocations) >= _LIMIT:
                    shape.allocations.clear()
                shape.allocations[taken.view, *taken.devices[0][1]] = allocation
                return [allocation]
        state = self._state
        requests = [claim.requests for claim in claims]
        results = claim_results(requests, taken.view, taken.devices, state.class_of(), state.features)
        return [allocation_of(result, node, state.features) for result in results]

    def _allocation_on(
        self, node: str, taken: TakenDevices, requests: Sequence[PreparedRequest]
    ) -> AllocationResult | None:
        """The allocation of a claim without configurations, if it takes whole devices of slices of its node
        alone. Results for devices in equal columns differ in driver and pool."""
        view, known = taken.view, self._results
        results: list[DeviceRequestAllocationResult] = []
        columns = view.like or view
        for at, number, several in taken.devices[0][1]:
            pool, key = view.pool_of(number), (requests[at].likeness, columns, number)
            if several or not pool.is_of_node:
                return None
            if key not in known:
                known[key] = result_of_whole(requests[at], columns.device(number), self._state.features)
            results.append(replace(known[key], driver=pool.driver, pool=pool.name))
        if not results:
            return None
        return AllocationResult(
            devices=DeviceAllocationResult(results=tuple(results)), node_selector=only(node)
        )

    def give_back(self, taken: TakenDevices) -> None:
        """Give back what a pod has taken that was refused afterwards."""
        for _, devices in taken.devices:
            self._state.claim_cache.note_changes(taken.view.id_of(number) for _, number, _ in devices)


def _asked(request: PreparedRequest, class_of: Callable[[str], DeviceClass | None]) -> Hashable:
    """What a request asks for, whatever its name and that of its class."""
    device_class = class_of(request.class_name)
    selectors = (*(() if device_class is None else device_class.spec.selectors), *request.selectors)
    expressions = tuple([selector.cel and selector.cel.expression for selector in selectors])
    amounts = tuple(request.capacity.items())
    exact = request.mode, request.count, request.admin_access, tuple(request.tolerations)
    return expressions, amounts, request.asks_capacity, *exact


class _Pools:
    """Finds out whether the counters of pools depend on their own devices alone."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._by_owner: dict[Hashable, Hashable] = {}

    def are_order_free(self, pools: Iterable[DevicePool]) -> bool:
        for pool in pools:
            if self._features.binding_conditions and any(slice_.kind.waits for slice_ in pool.slices):
                return False
            # Without counters the node never asks what is available.
            if pool.has_counters and any(device.counters for device in pool.devices):
                consuming = frozenset(
                    [device for device in (*pool.devices, *pool.elsewhere) if device.counters]
                )
                counted = pool.driver, consuming, frozenset(pool.counters)
                owner = self._features.owner_of_counters(pool.driver, pool.name)
                if self._by_owner.setdefault(owner, counted) != counted:
                    return False
        return True
