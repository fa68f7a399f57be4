"""What the plugins of a scheduler know about devices: of a cluster, and of a pod's claims during a cycle."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.selectors import NodeSelectorMatcher
from moorage._core.devices.device_demand import DeviceDemand
from moorage._core.devices.device_search import DeviceSearch, Wanted
from moorage._core.state.node_table import NodeTable
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import Node, Pod
from moorage.kube.model.resource_claims import (
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from moorage.kube.model.resource_slices import Device, DeviceTaintRule, DeviceTaintRuleSpec, ResourceSlice
from moorage.store import InformerFactory

from ..framework.handle import FrameworkHandle
from .allocated_devices import (
    Statuses,
    allocated_devices,
    claim_statuses,
    devices_by_name,
    found_devices,
    why_not_fit,
    with_statuses,
)
from .allocator import AllocationRules, ClaimResult, claim_results
from .claim_cache import ClaimCache, ClaimConsumers
from .claim_requests import ClaimRequests, Features, PoolsInvalidError
from .device_demands import AskingClaim, DeviceDemands
from .device_pools import DeviceSlices
from .device_properties import SelectorCache
from .extended_resources import (
    IN_MEMORY,
    DeviceCounts,
    ExtendedRequests,
    ExtendedRequestsOfPods,
    Mappings,
)
from .resource_classes import ResourceClasses

if TYPE_CHECKING:
    from ..framework.handle import FrameworkHandle


# ---- taint rules -------------------------------------------------------------------------------------------
# Taints of devices by DeviceTaintRules (k8s.io/dynamic-resource-allocation, resourceslice/tracker).


def tainted(
    slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule], features: Features
) -> list[ResourceSlice]:
    """Return slices with the taints of rules after those that drivers have published.

    Returns
    -------
    list of ResourceSlice
        A slice without a device that a rule selects is the same object.
    """
    out: list[ResourceSlice] = []
    for published in slices:
        if chosen := [rule.spec for rule in rules if _may_select(rule, published, features)]:
            devices = tuple([_with_taints(device, chosen) for device in published.spec.devices])
            published = replace(published, spec=replace(published.spec, devices=devices))
        out.append(published)
    return out


def _with_taints(device: Device, rules: Sequence[DeviceTaintRuleSpec]) -> Device:
    """A device with the taints of rules that select its pool."""
    taints = [
        rule.taint
        for rule in rules
        if rule.device_selector is None or rule.device_selector.device in (None, device.name)
    ]
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def _may_select(rule: DeviceTaintRule, published: ResourceSlice, features: Features) -> bool:
    """Whether a rule selects devices of the pool of a slice."""
    selector = rule.spec.device_selector
    if selector is None:
        return features.release.taint_rules_taint_all
    spec = published.spec
    return selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name)


# ---- device state ------------------------------------------------------------------------------------------
# What the plugins of a scheduler share about devices: claims, slices, classes, results of expressions.

_NO_CLASSES: dict[str, DeviceClass] = {}


class DeviceState:
    """Claims, slices and classes of a cluster.

    Parameters
    ----------
    resource_classes : ResourceClasses or None
        None without the feature.

    Attributes
    ----------
    claim_cache : ClaimCache
    selectors : SelectorCache
    counts : DeviceCounts
    demands : DeviceDemands
    """

    def __init__(
        self,
        informers: InformerFactory,
        features: Features,
        consumers: ClaimConsumers,
        resource_classes: ResourceClasses | None,
    ) -> None:
        self.features, self.consumers, self._resource_classes = features, consumers, resource_classes
        self.claim_cache = ClaimCache(informers.informer(ResourceClaim), features.consumable_capacity)
        self.selectors = SelectorCache(
            list_attributes=features.list_attributes,
            multiple_allocations=not features.is_stable,
            includes=features.release.lists_have_includes,
            suggests=features.release.undeclared_names_are_short,
        )
        self.counts = DeviceCounts(features.list_attributes, features.release.lists_have_includes)
        self.demands = DeviceDemands(self)
        self._slices = informers.lister(ResourceSlice)
        self._classes = informers.lister(DeviceClass)
        self._rules = informers.lister(DeviceTaintRule)
        self._assumed_slices: tuple[ResourceSlice, ...] = ()
        self._known_slices: tuple[tuple[int, int], DeviceSlices] | None = None
        self._devices: tuple[DeviceSlices, dict[tuple[str, str], Device]] | None = None
        self._extended: tuple[dict[str, DeviceClass], frozenset[str]] | None = None
        self._requests = ExtendedRequestsOfPods({})
        self._by_name: tuple[int, dict[str, DeviceClass]] | None = None

    @classmethod
    def of(cls, handle: FrameworkHandle) -> DeviceState:
        """Return the state for a handle."""
        features, consumers = Features.of(handle.feature_gates), handle.shared(ClaimConsumers.of)
        classes = handle.shared(ResourceClasses.of) if features.extended_resources else None
        return cls(handle.informers, features, consumers, classes)

    def slices(self) -> DeviceSlices:
        """Return the slices of the cluster."""
        changes = self._slices.changes, self._rules.changes
        if self._known_slices is None or self._known_slices[0] != changes:
            self._known_slices = changes, DeviceSlices(self.published(), self.features)
        return self._known_slices[1]

    def devices_by_name(self) -> Mapping[tuple[str, str], Device]:
        """Return the devices of the cluster by pool and name."""
        slices = self.slices()
        if self._devices is None or self._devices[0] is not slices:
            self._devices = slices, devices_by_name(self.published())
        return self._devices[1]

    def published(self) -> Sequence[ResourceSlice]:
        """Return the slices of the cluster as objects, with the taints of rules."""
        slices = (*self._slices.list(), *self._assumed_slices)
        rules = self._rules.list() if self.features.taint_rules else ()
        return tainted(slices, rules, self.features) if rules else slices

    @contextmanager
    def assuming(
        self, claims: Iterable[ResourceClaim] = (), slices: Iterable[ResourceSlice] = ()
    ) -> Iterator[None]:
        """Let the plugins see claims in other states, and more slices, inside the context.

        Parameters
        ----------
        claims : iterable of ResourceClaim
            Replace those of their names, or are added.
        slices : iterable of ResourceSlice
            Are added.
        """
        saved, more, known = self.claim_cache.save(), self._assumed_slices, self._known_slices
        try:
            for claim in claims:
                if self.claim_cache.find(claim.key) is None:
                    self.claim_cache.add(claim)
                else:
                    self.claim_cache.assume(claim)
            if added := tuple(slices):
                self._assumed_slices, self._known_slices = more + added, None
            yield
        finally:
            self.claim_cache.undo(saved)
            self._assumed_slices, self._known_slices = more, known

    def negative_consumption(self) -> str:
        """Return why no claim can be allocated, as one has consumed a negative capacity; "" otherwise."""
        device = self.claim_cache.negative() if self.features.release.negative_capacity_fails else None
        return "" if device is None else f"consumed capacity of device {'/'.join(device)} is negative"

    @property
    def classes_version(self) -> int:
        """A number that grows whenever a class changes."""
        return self._classes.changes

    def class_of(self) -> Callable[[str], DeviceClass | None]:
        """Return a function from the name of a class to the class, or None."""
        return self.classes().get

    def classes(self) -> dict[str, DeviceClass]:
        """Return the classes by name."""
        changes = self._classes.changes
        if self._by_name is None or self._by_name[0] != changes:
            self._by_name = (
                changes,
                {device_class.name: device_class for device_class in self._classes.list()},
            )
        return self._by_name[1]

    def by_resource(self) -> dict[str, DeviceClass]:
        """Return the classes by the extended resource that they provide; none without the feature."""
        return _NO_CLASSES if self._resource_classes is None else self._resource_classes.by_resource

    def extended_resources(self) -> frozenset[str]:
        """Return the extended resources that classes provide."""
        by_resource = self.by_resource()
        if self._extended is None or self._extended[0] is not by_resource:
            self._extended = by_resource, frozenset(by_resource)
        return self._extended[1]

    def extended_requests(self, pod: Pod) -> ExtendedRequests | None:
        """Return what a pod requests of extended resources; None if it names no resource of a class."""
        requests = self.requests_of_pods()
        return None if requests is None else requests.of(pod)

    def requests_of_pods(self) -> ExtendedRequestsOfPods | None:
        """Return what finds the extended resources that pods request, until a class changes; None without
        such classes."""
        by_resource = self.by_resource()
        if not by_resource:
            return None
        if self._requests.classes is not by_resource:
            self._requests = ExtendedRequestsOfPods(by_resource)
        return self._requests


# ---- claims of cycle ---------------------------------------------------------------------------------------
# What DynamicResources knows of a pod's claims during one cycle.

MAX_ALTERNATIVES = 8
FITS, LACKS, INVALID, UNAVAILABLE = range(4)
"""Whether a node has the devices; or has not, and a pool of it is invalid; or cannot use allocated ones."""


class ClaimOfCycle(Struct, eq=False):
    """A claim of the pod.

    Attributes
    ----------
    claim : ResourceClaim
        As PreFilter has seen it, later as it was written.
    is_extended : bool
        Whether it serves extended resources.
    nodes : NodeSelectorMatcher or None
        The nodes on which its allocation can be used; None for all.
    requests : ClaimRequests or None
        Prepared requests of a claim that has to be allocated.
    is_shared : bool
        Whether `allocation` is in flight for another pod of the pod group cycle, since before PreFilter.
    uid : str
        By which its allocation in flight is known.
    user : ResourceClaimConsumerReference or None
        For whom it is to be reserved; None for the pod.
    """

    claim: ResourceClaim
    is_extended: bool = False
    nodes: NodeSelectorMatcher | None = None
    requests: ClaimRequests | None = None
    allocation: AllocationResult | None = None
    is_shared: bool = False
    uid: str = ""
    user: ResourceClaimConsumerReference | None = None

    @property
    def needs_allocation(self) -> bool:
        return self.claim.status.allocation is None

    @property
    def is_in_memory(self) -> bool:
        """Whether the claim is not written yet."""
        return self.claim.name == IN_MEMORY


class NodeAllocation(Struct, eq=False):
    """What was found for one node.

    Attributes
    ----------
    results : list of ClaimResult
        Of the claims that have to be allocated.
    shared : list of AllocationResult
        Of the claims whose allocation is in flight for another pod.
    extended : ResourceClaim or None
        The claim for the extended resources that the node has as devices.
    statuses : tuple of NodeAllocatableResourceClaimStatus
        What the devices take of the node.
    """

    results: list[ClaimResult]
    extended: ResourceClaim | None = None
    mappings: Mappings = ()
    statuses: Statuses = ()
    shared: list[AllocationResult] = msgspec.field(default_factory=list)

    def request_names(self) -> Iterator[set[str]]:
        """Return the requests that have devices, for each claim without a written allocation."""
        for result in self.results:
            yield {device.request.full_name for device in result.devices}
        yield from map(_request_names, self.shared)


def _request_names(allocation: AllocationResult) -> set[str]:
    return {result.request for result in allocation.devices.results}


class CycleDemand(Struct, eq=False):
    """What the claims of a pod ask of nodes in one cycle.

    Attributes
    ----------
    most_steps : int
        The number of steps that the search on one node may take; 0 for any number.
    is_alike : bool
        Whether they ask of all nodes alike, and no score depends on it; else nodes are asked one by one.
    of_all_nodes : DeviceDemand or None
        Of the claims that have to be allocated, if they ask of all nodes alike.
    asking : list of AskingClaim
        These claims.
    extended : ResourceClaim or None
        The claim for extended resources, with its requests.
    """

    devices: DeviceState
    table: NodeTable
    most_steps: int
    is_alike: bool = False
    of_all_nodes: DeviceDemand | None = None
    asking: list[AskingClaim] = msgspec.field(default_factory=list)
    extended: ResourceClaim | None = None
    mappings: Mappings = ()
    _wanted: tuple[Sequence[ClaimRequests], Wanted] | None = None
    _available: dict[Hashable, Any] = msgspec.field(default_factory=dict)

    def allocate(self, node: Node, claims: Sequence[ClaimRequests]) -> list[ClaimResult] | None:
        """Find devices for claims on a node; return None where there is no solution.

        Raises
        ------
        AllocationError
            A claim cannot be allocated on any node.
        PoolsInvalidError
            There is no solution, and a pool of the node is invalid.
        SearchTimeoutError
            The search has taken too many steps.
        """
        devices = self.devices
        if self._wanted is None or self._wanted[0] != claims:
            rules = AllocationRules(devices.features, devices.class_of(), devices.selectors)
            self._wanted = claims, Wanted(claims, rules)
        view, wanted = devices.demands.view_of(node), self._wanted[1]
        solution = DeviceSearch(wanted, view, devices.features, self.most_steps, self._available).find()
        if solution is not None:
            return claim_results(claims, view, solution, devices.class_of(), devices.features)
        if any(pool.is_invalid for pool in view.pools):
            raise PoolsInvalidError
        return None

    def answers(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.uint8] | None:
        """Return whether nodes have the devices that are to be allocated.

        Parameters
        ----------
        rows : (n,) array of int

        Returns
        -------
        (n,) uint8 array or None
            `FITS`, `LACKS` or `INVALID`; None where nodes have to be asked one by one.
        """
        if not self.is_alike:
            return None
        out = np.full(len(rows), FITS, dtype=np.uint8)
        if self.of_all_nodes is None:
            return out
        try:
            lacks = ~self.of_all_nodes.fits_on(rows)
        except LookupError:
            return None
        views = [self.of_all_nodes.views.view_at(row) for row in rows[lacks].tolist()]
        out[lacks] = [
            INVALID if view and any(pool.is_invalid for pool in view.pools) else LACKS for view in views
        ]
        return out

    def found_on(self, name: str) -> NodeAllocation | None:
        """Return what was found for the claims on a node; None if there is nothing."""
        row, devices = self.table.find_row(name), self.devices
        if self.of_all_nodes is None or row is None or (view := self.of_all_nodes.views.view_at(row)) is None:
            return None
        try:
            solution = self.of_all_nodes.found_on(row)
        except LookupError:
            return None
        if solution is None:
            return None
        requests = [claim.requests for claim in self.asking]
        results = claim_results(requests, view, solution, devices.class_of(), devices.features)
        return NodeAllocation(results, self.extended, self.mappings)


class DeviceCycleState(Struct, eq=False):
    """The plugin's state for a pod in one cycle; clones of the cycle state share it.

    Attributes
    ----------
    claims : list of ClaimOfCycle
        Those of the pod's spec, then that of its extended resources.
    resources : dict of str to int
        Extended resources that the pod requests.
    allocates : bool
        Whether a claim has to be allocated.
    nodes : dict of str to NodeAllocation
        What was found, by node; see `found_on`.
    unavailable : set of int
        Indices of allocated claims that a node cannot use.
    demand : CycleDemand or None
        None before the end of PreFilter.
    """

    claims: list[ClaimOfCycle] = msgspec.field(default_factory=list)
    resources: dict[str, int] = msgspec.field(default_factory=dict)
    allocates: bool = False
    nodes: dict[str, NodeAllocation] = msgspec.field(default_factory=dict)
    unavailable: set[int] = msgspec.field(default_factory=set)
    demand: CycleDemand | None = None

    def found_on(self, name: str) -> NodeAllocation | None:
        """Return what Filter has found on a node that passed; None where nothing has to be allocated."""
        on_node = self.nodes.get(name)
        if on_node is None and self.demand is not None:
            on_node = self.demand.found_on(name)
            if on_node is not None:
                self.nodes[name] = on_node
        return on_node

    def assumed(self, pod: Pod, node_name: str) -> Pod:
        """Return a pod with what its claims take of a node in its status."""
        on_node = self.nodes.get(node_name)
        return with_statuses(pod, () if on_node is None else on_node.statuses)

    @property
    def extended(self) -> ClaimOfCycle | None:
        """The claim of the extended resources."""
        return self.claims[-1] if self.claims and self.claims[-1].is_extended else None

    def of_user(self) -> Iterator[ClaimOfCycle]:
        """Return the claims of the pod's spec."""
        return (claim for claim in self.claims if not claim.is_extended)

    def to_allocate(self) -> Iterator[ClaimOfCycle]:
        """Return the claims that have no allocation."""
        return (claim for claim in self.claims if claim.needs_allocation)

    def score_of(self, on_node: NodeAllocation) -> int:
        """Return the score of a node: the earlier an alternative is in its list, the better."""
        total, names_of_allocated = 0, on_node.request_names()
        for claim in self.claims:
            allocation = claim.claim.status.allocation
            names = next(names_of_allocated) if allocation is None else _request_names(allocation)
            for request in claim.claim.spec.devices.requests:
                for at, alternative in enumerate(request.first_available):
                    if f"{request.name}/{alternative.name}" in names:
                        total += MAX_ALTERNATIVES - at
        return total


def take_of_node(
    devices: DeviceState,
    cycle: DeviceCycleState,
    on_node: NodeAllocation,
    pod: Pod,
    node_info: fwk.NodeInfo,
) -> fwk.Status | None:
    """Note what newly allocated devices take of a node.

    Parameters
    ----------
    on_node : NodeAllocation
        With the results of the search.

    Returns
    -------
    Status or None
        Why the pod does not fit with it.
    """
    if not (cycle.allocates and devices.features.node_allocatable):
        return None
    results = [found_devices(result) for result in on_node.results]
    results += [allocated_devices(shared) for shared in on_node.shared]
    claims = sorted(cycle.to_allocate(), key=lambda claim_of_cycle: claim_of_cycle.is_shared)  # stable
    taken = zip((claim.claim for claim in claims), results, strict=True)
    try:
        uses = devices.consumers.uses_of(pod, devices.claim_cache.find)
        on_node.statuses = claim_statuses(pod, taken, uses, devices.devices_by_name())
    except MoorageError as error:
        return fwk.as_status(error)
    if not on_node.statuses:
        return None
    return why_not_fit(pod, on_node.statuses, node_info, devices.features.pod_level_resources)
