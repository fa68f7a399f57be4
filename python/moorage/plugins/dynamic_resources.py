"""DynamicResources: allocates the devices of resource claims, and writes and waits for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage import framework as fwk
from moorage._core.base.quantity import parse_value
from moorage._core.base.resources import pod_requests
from moorage._core.base.selectors import NodeSelectorMatcher
from moorage._core.services.device_demand import DeviceDemand
from moorage._core.state.pod_class import Shape
from moorage.devices.allocation.allocation_results import allocation_of
from moorage.devices.allocation.allocator import NANOSECONDS_PER_STEP, Allocator, claim_results
from moorage.devices.allocation.claim_requests import (
    AllocationError,
    ClaimRequests,
    PoolsInvalidError,
    SearchTimeoutError,
)
from moorage.devices.claims.binding_conditions import (
    POLL_INTERVAL,
    BindingError,
    has_conditions,
    is_overdue,
    is_ready,
)
from moorage.devices.claims.claim_writer import ClaimWriteError, ClaimWriter
from moorage.devices.claims.claims_of_cycle import (
    ClaimOfCycle,
    CommonDemand,
    DeviceCycleState,
    FoundAllocations,
    NodeAllocation,
)
from moorage.devices.claims.pod_resource_claims import ClaimError, is_reserved_for, pod_claims
from moorage.devices.device_demands import AskingClaim, TakenDevices
from moorage.devices.device_state import DeviceState
from moorage.devices.extended_resources import Mappings, find_claim, is_extended, new_claim, with_requests
from moorage.errors import MoorageError
from moorage.framework.configuration.durations import parse_duration
from moorage.framework.plugin import events
from moorage.framework.plugin.events import ActionType, is_same_pod, on, queue_if
from moorage.framework.plugin.lazy_attribute import lazy_attribute
from moorage.framework.plugin.signing import UNSIGNED
from moorage.framework.profiles.in_core import (
    Attachment,
    BoundClaims,
    ClaimsPlugin,
    CorePostFilter,
    Mask,
    VolumesOfBatch,
    gates_only_with,
)
from moorage.framework.runtime.steps import StatusSteps
from moorage.objects import NodeSelector, Pod
from moorage.objects.model.resource_claims import (
    AllocationResult,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
)
from moorage.store import ApiError, ObjectClient, ObjectStore
from moorage.store.clock import timestamp
from moorage.volume.binding.assume_cache import ObjectNotFoundError
from moorage.volume.binding.claims import VolumeError

STATE = "DynamicResources"
NO_CLAIMS = "no new claims to deallocate"
NOT_FOUND = "not found"
FREES_NOTHING = fwk.Status(fwk.Code.UNSCHEDULABLE, (NO_CLAIMS,), STATE)
CANNOT_ALLOCATE = fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("cannot allocate all claims",))
NOT_AVAILABLE = fwk.Status(
    fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("resourceclaim not available on the node",)
)
STALE_CLAIM = fwk.Status(
    fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("cannot schedule extended resource claim",)
)
NO_RESOURCE = fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("cannot fit resource",))
MAX_ALTERNATIVES = 8
RULES_PANIC = (
    "device taint rules: kube-scheduler v1.36.2 panics with DRADeviceTaintRules and a DeviceTaintRule"
)
_SECOND = 10**9


class DeviceNeeds(Struct, frozen=True):
    """What the claims of a pod need of a node.

    Attributes
    ----------
    demand : DeviceDemand or None
        Of the claims that have to be allocated.
    selectors : tuple of NodeSelector
        Of the claims that are allocated.
    """

    demand: DeviceDemand | None
    selectors: tuple[NodeSelector, ...]


class ClaimedPod(Struct, frozen=True):
    """A pod that the core has placed, and the claims to write.

    Attributes
    ----------
    node : str
    claims : list of ResourceClaim
    asking : list of AskingClaim
        Those of them that have to be allocated.
    taken : TakenDevices or None
        Their devices; None if there are no such claims.
    """

    node: str
    claims: list[ResourceClaim]
    asking: list[AskingClaim]
    taken: TakenDevices | None


class DynamicResources(
    ClaimsPlugin,
    fwk.PreEnqueuePlugin,
    CorePostFilter,
    fwk.ScorePlugin,
    fwk.ReservePlugin,
    fwk.PreBindPlugin,
):
    """The plugin of kube-scheduler v1.36, dynamicresources/.

    In a profile it is idle, as plugins about volumes are: it filters no node and scores 0 for pods without
    claims. Pods with claims, or with extended resources of a device class, are scheduled by its copy
    (`enabled`). PreBind is a generator that looks at binding conditions every 5 s on the handle's clock.
    Arguments: ``filterTimeout``, ``bindingTimeout``.
    """

    name = STATE
    default_weight = 2
    feature_gate = "DynamicResourceAllocation"
    default_args = {"filterTimeout": "10s", "bindingTimeout": "10m0s"}

    @property
    def devices(self) -> DeviceState:
        """Claims, slices and classes, which all profiles share."""
        return self.required_handle().shared(DeviceState.of)

    def sign_pod(self, pod: Pod) -> fwk.Status | None:  # type: ignore[override]
        return UNSIGNED if pod.spec.resource_claims else None

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: VolumesOfBatch | None = None
    ) -> tuple[()] | DeviceNeeds | None:
        if self.concerns(pod):
            return None
        if not pod.spec.resource_claims:
            return ()
        return None if batch is None or self._refuses_rules() else self._needs_of_claims(pod, batch)

    def _refuses_rules(self) -> bool:
        """Whether there are taint rules, with which kube-scheduler v1.36.2 panics."""
        return self.required_handle().feature_gates["DRADeviceTaintRules"] and self.devices.has_taint_rules()

    def _needs_of_claims(self, pod: Pod, batch: VolumesOfBatch) -> DeviceNeeds | None:
        """What claims need of a node that no other pod of a batch allocates."""
        devices, asking, selectors = self.devices, list[AskingClaim](), list[NodeSelector]()
        try:
            claims = pod_claims(pod, devices.claim_cache.find)
        except ClaimError:
            return None
        if len(claims) > 1 and len({claim.key for claim in claims}) < len(claims):
            return None
        for claim in claims:
            allocation = claim.status.allocation
            if claim.key in batch.allocated:
                batch.ends = True
                return None
            if devices.claim_cache.is_pending(claim.metadata.uid):
                return None
            if allocation is None:
                asked = devices.demands.asking(claim)
                if asked is None:
                    return None
                asking.append(asked)
                batch.allocated.add(claim.key)
            elif has_conditions(claim) and devices.features.binding_conditions:
                return None
            elif allocation.node_selector is not None:
                if devices.demands.mask_of(allocation.node_selector) is None:
                    return None
                selectors.append(allocation.node_selector)
        demand = devices.demands.demand_of(asking, self._most_steps) if asking else None
        if asking and demand is None:
            return None
        batch.claiming[batch.at] = claims, asking
        return DeviceNeeds(demand, tuple(selectors))

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        selectors = cast(DeviceNeeds, needs).selectors
        if not selectors:
            return None, []
        masks = [cast(Mask, self.devices.demands.mask_of(one)) for one in selectors]
        return reduce(np.logical_and, masks), []

    def devices_of(self, needs: Hashable) -> DeviceDemand | None:
        return cast(DeviceNeeds, needs).demand

    @property
    def demand_version(self) -> int:
        handle = self.required_handle()
        if handle.framework is None or not handle.informers.lister(ResourceClaim).changes:
            return 0
        self.devices.demands.refresh(handle.cache.state, handle.framework.all_nodes())
        return self.devices.demands.generation

    def concerns(self, pod: Pod) -> bool:
        handle = self.handle
        if handle is None or handle.informers is None or not handle.informers.lister(DeviceClass).changes:
            return False
        by_resource = self.devices.by_resource()
        return bool(by_resource) and not by_resource.keys().isdisjoint(pod_requests(pod))

    def delegated_resources(self) -> frozenset[str]:
        handle = self.required_handle()
        if not handle.informers.lister(DeviceClass).changes:
            return frozenset()
        return self.devices.extended_resources()

    # ---- pods that the core has placed ---------------------------------------------------------------------

    def follow_claims(self) -> None:
        self.devices.demands.follow()

    def take_devices(self, claiming: Mapping[int, Any], placed: Mapping[int, str]) -> dict[int, Any]:
        demands = self.devices.demands
        taken = demands.take()
        out = dict[int, Any]()
        for at, node in placed.items():
            claims, asking = claiming[at]
            out[at] = ClaimedPod(node, claims, asking, taken.pop(at, None))
        demands.give_back(taken.values())
        return out

    def bind_claims(self, pods: Sequence[tuple[Pod, Any]]) -> dict[int, fwk.Status]:
        demands, refused, handle = self.devices.demands, dict[int, fwk.Status](), self.required_handle()
        writer = self._writer()
        for at, (pod, claimed) in enumerate(pods):
            try:
                allocations = demands.allocations(claimed.taken, claimed.asking, claimed.node)
                self._write_claims(pod, claimed.claims, allocations, writer)
            except (AllocationError, ApiError, ClaimWriteError) as error:
                demands.give_back(() if claimed.taken is None else (claimed.taken,))
                text = f'running PreBind plugin "{self.name}": {error}'
                refused[at] = fwk.Status(fwk.Code.ERROR, (text,), self.name)
        if isinstance(handle.client, ObjectStore):
            handle.informers.informer(ResourceClaim).run_once()
        return refused

    def _write_claims(
        self,
        pod: Pod,
        claims: Sequence[ResourceClaim],
        allocations: Sequence[AllocationResult],
        writer: ClaimWriter,
    ) -> None:
        """Write the claims of one pod; an error takes back the reservations."""
        written, client, new = list[ResourceClaim](), self.required_handle().client, iter(allocations)
        try:
            for claim in claims:
                allocation = next(new) if claim.status.allocation is None else None
                if isinstance(client, ObjectStore):  # other pods of the batch may have written it
                    claim = client.get(ResourceClaim, claim.name, claim.namespace)
                if not is_reserved_for(claim, pod):
                    written.append(writer.reserve(claim, allocation, pod))
                    if not isinstance(client, ObjectStore):
                        self._assume(written[-1])
        except (ApiError, ClaimWriteError):
            for claim in written:
                writer.unreserve(claim, pod)
            raise

    # ---- the queue -----------------------------------------------------------------------------------------

    @gates_only_with("resource_claims")
    def pre_enqueue(self, pod: Pod) -> fwk.Status | None:
        try:
            pod_claims(pod, self._reported)
        except ClaimError as error:
            return _rejected(str(error))
        return None

    def _reported(self, key: str) -> ResourceClaim | None:
        """The reported state of a claim: events reach the queue before they reach the cache."""
        indexer = self.required_handle().informers.informer(ResourceClaim).indexer
        claim: ResourceClaim | None = indexer.get(key)
        return claim

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        changes = ActionType.ADD | ActionType.UPDATE
        return [
            on(events.NODE, nodes),
            on(events.RESOURCE_CLAIM, changes, self.after_claim_change),
            on(events.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self.after_pod_change),
            on(events.DEVICE_CLASS, changes),
            on(events.RESOURCE_SLICE, changes),
        ]

    def after_claim_change(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim) -> fwk.QueueingHint:
        """Queue if all claims of the pod exist and one of them changed, or any claim was deallocated.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : ResourceClaim or None
            The object before the event; None if it was added.
        new : ResourceClaim
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        claims = self._claims(pod)
        if claims is None:
            return fwk.QUEUE_SKIP
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return fwk.QUEUE
        if all(claim.metadata.uid != new.metadata.uid for claim in claims):
            return fwk.QUEUE_SKIP
        return queue_if(old is None or old.status != new.status)

    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the event is about the pod and all its claims exist.

        Parameters
        ----------
        pod : Pod
            The rejected pod.
        old : Pod
            The object before the event.
        new : Pod
            The object after the event.

        Returns
        -------
        QueueingHint
        """
        return queue_if(is_same_pod(pod, new) and self._claims(new) is not None)

    def _claims(self, pod: Pod) -> list[ResourceClaim] | None:
        """The claims of a pod; None if one is missing, being deleted, or owned by another pod."""
        try:
            return pod_claims(pod, self._reported)
        except ClaimError:
            return None

    # ---- PreFilter -----------------------------------------------------------------------------------------

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        found = DeviceCycleState()
        state.write(STATE, found)
        devices = self.devices
        try:
            claims = [ClaimOfCycle(claim) for claim in pod_claims(pod, devices.claim_cache.find)]
        except ClaimError as error:
            return _rejected(str(error))
        extended = self._extended_claim(pod, found)
        self._provide_devices(found, nodes)
        if extended is not None:
            claims.append(ClaimOfCycle(extended, is_extended=True))
        if not claims:
            return fwk.SKIP
        for one in claims:
            one.uid = one.claim.metadata.uid
            status = self._examine(one)
            if status is not None:
                return status
        found.claims = claims
        if any(one.needs_allocation for one in claims):
            if self._refuses_rules():
                return fwk.as_status(MoorageError(RULES_PANIC))
            found.allocator = self._allocator()
        return None

    def _examine(self, one: ClaimOfCycle) -> fwk.Status | None:
        """Prepare a claim for Filter; a status if the pod cannot be scheduled with it."""
        claim = one.claim
        if claim.status.allocation is not None:
            selector = claim.status.allocation.node_selector
            if selector is not None:
                try:
                    one.nodes = NodeSelectorMatcher(selector)
                except (MoorageError, ValueError) as error:
                    return fwk.as_status(MoorageError(str(error)))
            return None
        if self.devices.claim_cache.is_pending(one.uid):
            return _rejected(f"resource claim {claim.key} is in the process of being allocated")
        if one.is_extended:
            return None
        for request in claim.spec.devices.requests:
            status = self._examine_request(claim, request)
            if status is not None:
                return status
        one.requests = ClaimRequests.of(claim)
        return None

    def _examine_request(self, claim: ResourceClaim, request: DeviceRequest) -> fwk.Status | None:
        start = f"resource claim {claim.key}, request {request.name}"
        if request.exactly is not None:
            classes = {request.name: request.exactly.device_class_name}
        elif not request.first_available:
            return _rejected(f"{start}: unknown request type")
        elif not self.devices.features.prioritized_list:
            return _rejected(f"{start}: has subrequests, but the DRAPrioritizedList feature is disabled")
        else:
            classes = {f"{request.name}/{one.name}": one.device_class_name for one in request.first_available}
        class_of = self.devices.class_of()
        for name, class_name in classes.items():
            if not class_name:
                return fwk.as_status(MoorageError(f"request {name}: unsupported request type"))
            if class_of(class_name) is None:
                return _rejected(f"request {name}: device class {class_name} does not exist")
        return None

    def _allocator(self) -> Allocator:
        devices = self.devices
        return Allocator(
            devices.slices(),
            devices.features,
            devices.claim_cache.in_use(),
            devices.class_of(),
            devices.selectors,
            self._most_steps,
        )

    @lazy_attribute
    def _most_steps(self) -> int:
        """The number of steps that the search on one node may take."""
        return parse_duration(str(self.args.get("filterTimeout") or "0")) // NANOSECONDS_PER_STEP

    def _extended_claim(self, pod: Pod, state: DeviceCycleState) -> ResourceClaim | None:
        """The claim for extended resources of a pod that a device class provides; None if there are none."""
        by_resource = self.devices.by_resource()
        if not by_resource:
            return None
        requests = {name: parse_value(str(amount)) for name, amount in pod_requests(pod).items()}
        state.resources = {name: amount for name, amount in requests.items() if amount and is_extended(name)}
        if state.resources.keys().isdisjoint(by_resource):
            return None
        return find_claim(pod, self.devices.claim_cache.extended_claims(pod)) or new_claim(pod)

    def _provide_devices(self, found: DeviceCycleState, nodes: fwk.NodesView) -> None:
        """Tell NodeResourcesFit the devices of nodes that it scores as extended resources of the pod."""
        framework = self.required_handle().framework
        if framework is None or framework.kernels is None:
            return
        plan, by_resource, devices = framework.kernels.search.plan, self.devices.by_resource(), self.devices
        names = [name for name in plan.fit if name in found.resources and name in by_resource]
        if not names:
            plan.provide({})
            return
        slices, in_use = devices.slices(), devices.claim_cache.in_use()
        provided = {name: np.zeros((int(nodes.rows.max(initial=0)) + 1, 2), dtype=np.int64) for name in names}
        for row, info in zip(nodes.rows.tolist(), nodes, strict=True):
            node = info.node
            if node is None:
                continue
            for name in names:
                provided[name][row] = devices.counts.count(node, by_resource[name], slices, in_use)
        plan.provide(provided)

    # ---- Filter --------------------------------------------------------------------------------------------

    def filter(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> fwk.Status | None:
        found = _read(state)
        if found is None or not found.claims or node_info.node is None:
            return None
        on_node = NodeAllocation([])
        extended = found.extended
        if extended is not None:
            status = self._filter_extended(found, extended, pod, node_info, on_node)
            if status is not None:
                return status
            if on_node.extended is None and not any(True for _ in found.of_user()):
                return None
        unavailable = [
            at for at, one in enumerate(found.claims) if not self._is_available(one, node_info.node)
        ]
        status = self._allocate(found, node_info, on_node)
        if status is not None:
            return status
        if unavailable:
            found.unavailable.update(unavailable)
            return NOT_AVAILABLE
        if found.allocator is not None:
            found.nodes[node_info.name] = on_node
        return None

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        found = _read(state)
        if found is None or not found.claims:
            return fwk.Answers(np.zeros(len(nodes), dtype=np.uint8), (None,))
        alike = self._filter_alike(found, pod, nodes)
        if alike is not None:
            return alike
        statuses = [self.filter(state, pod, info) for info in nodes]
        return fwk.Answers(np.arange(len(statuses)), statuses)

    def _filter_alike(self, found: DeviceCycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers | None:
        """Filter nodes by the demand of the claims, which nodes with equal views share; None where the
        search has to run on each node."""
        if found.demand is None:
            found.demand = self._common_demand(found, pod)
        common = found.demand
        if common is None or common.demand is None:
            return None
        statuses: list[fwk.Status | None] = []
        try:
            for row in nodes.rows.tolist():
                devices = common.demand.found_on(row)
                statuses.append(None if devices is not None else self._no_devices(common.demand, row))
        except LookupError:
            found.demand = CommonDemand()
            return None
        found.nodes = FoundAllocations(found.nodes, self._found_on(common))
        return fwk.Answers(np.arange(len(statuses)), statuses)

    def _no_devices(self, demand: DeviceDemand, row: int) -> fwk.Status:
        view = demand.views.view_at(row)
        if view is not None and any(pool.is_invalid for pool in view.pools):
            return _rejected(str(PoolsInvalidError()))
        return CANNOT_ALLOCATE

    def _common_demand(self, found: DeviceCycleState, pod: Pod) -> CommonDemand:
        """The demand of the claims, if it is the same on all nodes and nothing but Filter depends on it."""
        handle, demands = self.required_handle(), self.devices.demands
        nothing, claims = CommonDemand(), [one.claim for one in found.claims]
        mappings: Mappings = ()
        if handle.framework is None or not all(one.needs_allocation for one in found.claims):
            return nothing
        cluster = handle.cache.state
        if found.extended is not None:
            by_resource, extended = self.devices.by_resource(), found.extended.claim
            if extended.spec.devices.requests or not found.resources.keys() <= by_resource.keys():
                return nothing
            allocatable = cluster.table.allocatable
            if any(name in allocatable and np.any(allocatable[name]) for name in found.resources):
                return nothing
            claims[-1], mappings = with_requests(extended, pod, found.resources, by_resource)
        if not demands.refresh(cluster, handle.framework.all_nodes()):
            return nothing
        asking = [asked for claim in claims if (asked := demands.asking(claim)) is not None]
        demand = demands.demand_of(asking, self._most_steps) if len(asking) == len(claims) else None
        if demand is None or demand.wanted.has_choices:
            return nothing
        return CommonDemand(demand, asking, claims[-1] if found.extended is not None else None, mappings)

    def _found_on(self, common: CommonDemand) -> Callable[[str], NodeAllocation | None]:
        """A function from the name of a node to what was found there."""
        table, class_of, demand = (
            self.required_handle().cache.state.table,
            self.devices.class_of(),
            common.demand,
        )

        def found_on(name: str) -> NodeAllocation | None:
            row = table.find_row(name)
            view = None if demand is None or row is None else demand.views.view_at(row)
            if demand is None or row is None or view is None or (devices := demand.found_on(row)) is None:
                return None
            results = claim_results([one.requests for one in common.asking], view, devices, class_of)
            return NodeAllocation(results, common.extended, common.mappings)

        return found_on

    def _is_available(self, one: ClaimOfCycle, node: Any) -> bool:
        """Whether a node can use an allocated claim."""
        if one.nodes is not None and not one.nodes.matches(node):
            return False
        if one.needs_allocation or not self.devices.features.binding_conditions:
            return True
        try:
            return is_ready(one.claim) or not is_overdue(one.claim, self._binding_timeout(), self._now())
        except BindingError:
            return False

    def _allocate(
        self, found: DeviceCycleState, node_info: fwk.NodeInfo, on_node: NodeAllocation
    ) -> fwk.Status | None:
        """Find devices for the claims that have to be allocated."""
        if found.allocator is None or node_info.node is None:
            return None
        requests = []
        for one in found.to_allocate():
            if one.is_extended:
                requests.append(ClaimRequests.of(on_node.extended or one.claim))
            elif one.requests is not None:
                requests.append(one.requests)
        try:
            results = found.allocator.allocate(node_info.node, requests)
        except AllocationError as error:
            return fwk.as_status(error)
        except PoolsInvalidError as error:
            return _rejected(str(error))
        except SearchTimeoutError:
            text = f"node {node_info.name}: timed out trying to allocate devices"
            return fwk.as_status(MoorageError(text))
        if results is None:
            return CANNOT_ALLOCATE
        on_node.results = results
        return None

    def _filter_extended(
        self,
        found: DeviceCycleState,
        extended: ClaimOfCycle,
        pod: Pod,
        node_info: fwk.NodeInfo,
        on_node: NodeAllocation,
    ) -> fwk.Status | None:
        """Find out which extended resources of the pod the node has as devices."""
        if extended.claim.spec.devices.requests:
            return STALE_CLAIM
        by_resource, names = self.devices.by_resource(), []
        allocatable = node_info.allocatable.scalar_resources
        for name in found.resources:
            if name in by_resource and not allocatable.get(name):
                names.append(name)
            elif name not in allocatable:
                return NO_RESOURCE
        if names or any(True for _ in found.of_user()):
            on_node.extended, on_node.mappings = with_requests(extended.claim, pod, names, by_resource)
        return None

    # ---- PostFilter ----------------------------------------------------------------------------------------

    def post_filter(
        self, state: fwk.CycleState, pod: Pod, statuses: Mapping[str, fwk.Status]
    ) -> tuple[fwk.PostFilterResult | None, fwk.Status | None]:
        found = _read(state)
        if found is None or not self.may_free_claims(state):
            return None, self.failure(state) or FREES_NOTHING
        try:
            return None, self._free_claim(found, pod)
        except (ApiError, ClaimWriteError) as error:
            return None, fwk.as_status(error)

    def _free_claim(self, found: DeviceCycleState, pod: Pod) -> fwk.Status:
        """Deallocate the first claim that some node cannot use and no other pod uses, or delete the claim of
        an earlier cycle."""
        for at in sorted(found.unavailable):
            claim = found.claims[at].claim
            users = claim.status.reserved_for
            if found.claims[at].is_extended or any(one.uid != pod.metadata.uid for one in users):
                continue
            if len(users) <= 1:
                status = replace(claim.status, allocation=None, reserved_for=(), devices=())
                self._writer().update_status(claim, status)
                return _unschedulable("deallocation of ResourceClaim completed")
        extended = found.extended
        if extended is not None and not extended.is_in_memory:
            self._writer().delete(extended.claim)
            return _unschedulable("deletion of ResourceClaim completed")
        return _unschedulable("still not schedulable")

    def failure(self, state: fwk.CycleState) -> fwk.Status | None:
        """Return the Error of a cycle whose PreFilter ended before this plugin wrote its state.

        Parameters
        ----------
        state : CycleState
            State of the scheduling cycle.

        Returns
        -------
        Status or None
        """
        if self.name in state.skip_filter_plugins or _read(state) is not None:
            return None
        return fwk.Status(fwk.Code.ERROR, (NOT_FOUND,), self.name)

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        return False

    def may_free_claims(self, state: fwk.CycleState) -> bool:
        found = _read(state)
        return not self.in_core and found is not None and bool(found.claims)

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        return NO_CLAIMS, False

    # ---- Score ---------------------------------------------------------------------------------------------

    def score(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> int:
        """Score a node by the alternatives that it gives: the earlier in its list, the better.

        Parameters
        ----------
        state : CycleState
        pod : Pod
        node_info : NodeInfo or NodeInfoClone

        Returns
        -------
        int
        """
        found = _read(state)
        on_node = None if found is None else found.nodes.get(node_info.name)
        if found is None or on_node is None:
            return 0
        total, results = 0, iter(on_node.results)
        for one in found.claims:
            allocation = one.claim.status.allocation
            if allocation is None:
                names = {result.request.full_name for result in next(results).devices}
            else:
                names = {result.request for result in allocation.devices.results}
            for request in one.claim.spec.devices.requests:
                for at, alternative in enumerate(request.first_available):
                    if f"{request.name}/{alternative.name}" in names:
                        total += MAX_ALTERNATIVES - at
        return total

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike:
        found = _read(state)
        if found is None or not found.nodes:
            return np.zeros(len(nodes), dtype=np.int64)
        return np.array([self.score(state, pod, info) for info in nodes], dtype=np.int64)

    def normalize_score(
        self, state: fwk.CycleState, pod: Pod, scores: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        highest = int(scores.max(initial=0))
        return scores * fwk.MAX_NODE_SCORE // highest if highest else scores

    # ---- Reserve and Unreserve -----------------------------------------------------------------------------

    def reserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        found = _read(state)
        if found is None or found.allocator is None:
            return None
        on_node = found.nodes.get(node_name)
        if on_node is None:
            if all(one.is_extended for one in found.to_allocate()):
                return None  # the node has all extended resources itself
            return fwk.as_status(MoorageError("claim allocation not found for node"))
        try:
            for one, result in zip(found.to_allocate(), on_node.results, strict=True):
                one.allocation = allocation_of(result, node_name, self.devices.features)
                self.devices.claim_cache.signal_pending(one.uid, one.allocation)
        except AllocationError as error:
            return fwk.as_status(error)
        return None

    def unreserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> None:
        found = _read(state)
        if found is None:
            return
        cache = self.devices.claim_cache
        for one in found.claims:
            if cache.remove_pending(one.uid):
                cache.restore(one.claim.key)
            claim = one.claim
            if one.is_extended:
                self._drop_extended(one)
            elif claim.status.allocation is not None and is_reserved_for(claim, pod):
                self._writer().unreserve(claim, pod)

    def _drop_extended(self, one: ClaimOfCycle) -> None:
        """Delete the claim that was written for extended resources."""
        if one.is_in_memory:
            return
        try:
            self._writer().delete(one.claim)
        except (ApiError, ClaimWriteError) as error:
            self.required_handle().recorder.event(
                one.claim, "Warning", "FailedDelete", "Unreserving", f"delete claim {one.claim.key}: {error}"
            )

    # ---- PreBind -------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        found = _read(state)
        return fwk.SKIP if found is None or not found.claims else None

    def pre_bind(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | StatusSteps | None:
        found = _read(state)
        if found is None or not found.claims:
            return None
        try:
            for one in found.claims:
                if not is_reserved_for(one.claim, pod):
                    self._bind_claim(found, one, pod, node_name)
        except ClaimWriteError as error:
            return fwk.as_status(error)
        waits = any(has_conditions(one.claim) for one in found.claims)
        if not waits or not self.devices.features.binding_conditions:
            return None
        return self._await_devices(found)

    def _bind_claim(self, found: DeviceCycleState, one: ClaimOfCycle, pod: Pod, node_name: str) -> None:
        """Write the allocation and the reservation of a claim."""
        cache, writer, on_node = self.devices.claim_cache, self._writer(), found.nodes.get(node_name)
        if one.is_extended and one.allocation is None and not one.claim.spec.devices.requests:
            return  # the node has the extended resources itself
        written: ResourceClaim | None = None
        try:
            claim = one.claim
            if one.is_in_memory and on_node is not None and on_node.extended is not None:
                claim = one.claim = writer.create(on_node.extended)
            written = writer.reserve(claim, one.allocation, pod)
            if one.is_extended and on_node is not None:
                writer.tell_pod(pod, written, on_node.mappings)
        finally:
            if written is not None:
                self._assume(written)
            if one.allocation is not None:
                cache.remove_pending(one.uid)
        one.claim = written

    def _assume(self, claim: ResourceClaim) -> None:
        """Take a written claim into the cache, before the informer reports it."""
        cache = self.devices.claim_cache
        try:
            cache.assume(claim)
        except ObjectNotFoundError:
            cache.add(claim)
        except VolumeError:
            return  # the informer has reported a newer state

    def _await_devices(self, found: DeviceCycleState) -> StatusSteps:
        """Wait until all binding conditions are true."""
        timeout = self._binding_timeout()
        waited = 0.0
        while True:
            try:
                if all(self._is_claim_ready(one) for one in found.claims):
                    return None
            except (BindingError, VolumeError) as error:
                return fwk.as_status(error)
            step = min(POLL_INTERVAL, timeout - waited)
            yield step
            waited += step
            if waited >= timeout:
                return fwk.as_status(MoorageError("device binding timeout: context deadline exceeded"))

    def _is_claim_ready(self, one: ClaimOfCycle) -> bool:
        if not has_conditions(one.claim):
            return True
        claim = self.devices.claim_cache.get(one.claim.key)
        if is_ready(claim):
            return True
        if is_overdue(claim, self._binding_timeout(), self._now()):
            raise BindingError(f"device binding timeout: claim={claim.name}")
        return False

    # ---- time and writing ----------------------------------------------------------------------------------

    def _binding_timeout(self) -> float:
        return parse_duration(str(self.args.get("bindingTimeout") or "10m")) / _SECOND

    def _now(self) -> float:
        return self.required_handle().now()

    def _writer(self) -> ClaimWriter:
        return ClaimWriter(cast(ObjectClient, self.required_handle().client), self._allocation_time)

    def _allocation_time(self) -> str | None:
        return timestamp(int(self._now())) if self.devices.features.binding_conditions else None


def _rejected(text: str) -> fwk.Status:
    return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _unschedulable(text: str) -> fwk.Status:
    return fwk.Status(fwk.Code.UNSCHEDULABLE, (text,))


def _read(state: fwk.CycleState) -> DeviceCycleState | None:
    """The plugin's state; None for a pod without claims, for which PreFilter was not called."""
    found: DeviceCycleState | None = state.find(STATE)
    return found
