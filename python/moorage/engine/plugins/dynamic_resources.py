"""DynamicResources: allocates the devices of resource claims, and writes and waits for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.decide.terms import NodeDevices
from moorage._core.devices.claims_of_pods import ClaimError, ClaimWriteError
from moorage._core.devices.device_demand import SharedDevices
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import CompositePodGroup, Node, Pod, group_of
from moorage.kube.go_texts import parse_duration, timestamp
from moorage.kube.model.resource_claims import DeviceRequest, ResourceClaim
from moorage.lazy import lazy_attribute
from moorage.store import ApiError, ObjectClient, ObjectStore

from .. import devices as dra
from .. import volume as storage
from ..framework.claim_plugins import Attachment, BoundClaims, ClaimsOfBatch, Mask
from ..framework.node_masks import NodeMasks, matcher_of, parse_error
from ..framework.waiting_pods import StatusSteps
from .claim_hints import ClaimHints
from .sleeping_plugins import NO_CLAIMS, NOT_FOUND, DynamicResourcesFacts, DynamicResourcesNoScoreFacts

if TYPE_CHECKING:
    from ..devices.claim_writer import ClaimWriter
    from ..devices.device_demands import DeviceNeeds, PlacedPod
    from ..devices.device_state import (
        ClaimOfCycle,
        CycleDemand,
        DeviceCycleState,
        DeviceState,
        NodeAllocation,
    )
    from ..devices.extended_resources import ExtendedRequests, ExtendedRequestsOfPods, Mappings


STATE = "DynamicResources"
logger = logging.getLogger("moorage.devices")
NOT_SCHEDULABLE = "still not schedulable"
_SECOND = 10**9


def _rejected(text: str) -> fwk.Status:
    return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


CANNOT_ALLOCATE = _rejected("cannot allocate all claims")
INVALID_POOLS = _rejected("invalid resource pools were encountered")
NOT_AVAILABLE = _rejected("resourceclaim not available on the node")
STALE_CLAIM = _rejected("cannot schedule extended resource claim")
NO_RESOURCE = _rejected("cannot fit resource")


class _KnownOfBatch(Struct, frozen=True):
    """What is the same for all pods of a batch: the extended resources of device classes, whether claims are
    written to a store of this process, and the scored resources."""

    devices: DeviceState
    requests: ExtendedRequestsOfPods | None
    is_store: bool
    scored: frozenset[str] | None


class DynamicResources(ClaimHints, DynamicResourcesFacts):
    """Allocates devices.

    In a profile it is idle, as plugins about volumes are: it filters no node and scores 0 for pods without
    claims. Pods with claims, or with extended resources of a device class, are scheduled by its copy
    (`enabled`). PreBind is a generator that looks at binding conditions every 5 s on the handle's clock.
    Arguments: ``filterTimeout``, ``bindingTimeout``.
    """

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: fwk.NodesView, batch: ClaimsOfBatch | None = None
    ) -> tuple[()] | DeviceNeeds | None:
        if not (pod.spec.resource_claims or self.concerns(pod)):
            return ()
        known: _KnownOfBatch | None = None if batch is None else batch.known.get(self)
        if known is None:
            devices, kernels = self.devices, self.required_handle().framework.kernels
            known = _KnownOfBatch(
                devices=devices,
                requests=devices.requests_of_pods(),
                is_store=isinstance(self.required_handle().client, ObjectStore),
                scored=None if kernels is None else kernels.search.plan.scored,
            )
            if batch is not None:
                batch.known[self] = known
        spec, requests = pod.spec, None if known.requests is None else known.requests.of(pod)
        asks = requests is not None or (spec.scheduling_group is not None and self._misses_group(pod))
        if batch is None or not known.is_store:
            return None  # writes to an API server take time: binding cycles wait for them
        extended = None
        if requests is not None and known.scored is not None and known.scored.isdisjoint(requests.resources):
            extended = self._extended_on_all_nodes(pod, requests, known.devices)
        if asks and extended is None:
            return None
        if requests is not None:
            batch.provided_resources = frozenset(requests.resources)
        return known.devices.demands.needs_of(pod, batch, self._most_steps, extended)

    def _extended_on_all_nodes(
        self, pod: Pod, requests: ExtendedRequests, devices: DeviceState
    ) -> tuple[ResourceClaim, Mappings] | None:
        """The claim for the extended resources of a pod, and its mappings, if it is the same on all nodes: no
        node has one of them itself, and no earlier cycle has written the claim; else None."""
        if requests.spec is None:
            return None
        written = devices.claim_cache.extended_claims(pod)
        if written and dra.extended_resources.find_claim(pod, written) is not None:
            return None
        if any(map(self.required_handle().cache.state.table.has_allocatable, requests.resources)):
            return None
        return dra.extended_resources.new_claim(pod, requests.spec), requests.mappings

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        masks = [*map(self._node_masks.selected, cast("DeviceNeeds", needs).selectors)]
        return reduce(np.logical_and, masks) if masks else None, []

    @property
    def _node_masks(self) -> NodeMasks:
        return self.required_handle().derived(NodeMasks.of)

    def devices_of(self, needs: Hashable) -> NodeDevices | None:
        return cast("DeviceNeeds", needs).demand

    def generation(self) -> int:
        handle = self.required_handle()
        assert handle.framework is not None
        demands = handle.shared(dra.device_state.DeviceState.of).demands
        demands.refresh(handle.cache.state, handle.framework.all_nodes())
        return demands.generation

    def asks_for_devices(self, pod: Pod) -> bool:
        if self.has_classes and self.devices.extended_requests(pod) is not None:
            return True
        return pod.spec.scheduling_group is not None and self._misses_group(pod)

    def _misses_group(self, pod: Pod) -> bool:
        """Whether claims of the group of a pod that has one are used, and the group is not known."""
        if self.handle is None or self.handle.informers is None:
            return False
        return self.handle.shared(dra.claim_cache.ClaimConsumers.of).misses_group(pod)

    def provided_resources(self) -> frozenset[str]:
        return self.devices.extended_resources()

    # ---- pods that the core has placed ---------------------------------------------------------------------

    def follow_claims(self) -> None:
        self.devices.demands.follow()

    def take_devices(self, claiming: Mapping[int, Any], placed: Mapping[int, str]) -> dict[int, PlacedPod]:
        return self.devices.demands.take(claiming, placed)

    def bind_claims(self, pods: Sequence[tuple[Pod, PlacedPod]]) -> dict[int, fwk.Status]:
        devices, refused = self.devices, dict[int, fwk.Status]()
        for at in self._writer().write_together(pods, devices.demands.allocations_of):
            pod, placed = pods[at]
            cycle = dra.device_state.DeviceCycleState()
            try:
                self._enter(cycle, pod, placed)
                self._bind_claims_of(cycle, pod, placed.node)
            except (dra.claim_requests.AllocationError, ApiError, ClaimWriteError) as error:
                self._take_back(cycle, pod)
                if placed.taken is not None:
                    devices.demands.give_back(placed.taken)
                text = f'running PreBind plugin "{self.name}": {error}'
                refused[at] = fwk.Status(fwk.Code.ERROR, (text,), self.name)
        self.required_handle().informers.run_kind(ResourceClaim)
        return refused

    def _enter(self, cycle: DeviceCycleState, pod: Pod, placed: PlacedPod) -> None:
        """Enter the claims of a placed pod into the state of a cycle, as Reserve leaves it."""
        client, allocations = self._client, iter(self.devices.demands.allocations_of(placed))
        for claim in placed.claims:
            allocation = None if claim.status.allocation is not None else next(allocations, None)
            is_new = claim.name == dra.extended_resources.IN_MEMORY
            if not is_new:  # other pods of the batch may have written it
                claim = client.get(ResourceClaim, claim.name, claim.namespace)
            cycle.claims.append(
                dra.device_state.ClaimOfCycle(claim, is_new, allocation=allocation, uid=claim.metadata.uid)
            )
            if is_new:
                cycle.nodes[placed.node] = dra.device_state.NodeAllocation([], claim, placed.mappings)

    def gated(self, pod: Pod) -> fwk.Status | None:
        try:
            self.devices.consumers.claims_of(pod, self._reported)
        except ClaimError as error:
            return _rejected(str(error))
        return None

    # ---- PreFilter -----------------------------------------------------------------------------------------

    def pre_filter(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Status | None:
        spec = pod.spec
        if not (spec.resource_claims or spec.scheduling_group or self.has_classes):
            return fwk.SKIP  # before anything is made that tells of devices
        cycle = dra.device_state.DeviceCycleState()
        state.write(STATE, cycle)
        devices = self.devices
        try:
            found_claims = devices.consumers.claims_of(pod, devices.claim_cache.find)
            claims = [dra.device_state.ClaimOfCycle(claim) for claim in found_claims]
        except ClaimError as error:
            return _rejected(str(error))
        extended = self._extended_claim(pod, cycle)
        self._provide_devices(cycle, nodes)
        if extended is not None:
            claims.append(dra.device_state.ClaimOfCycle(extended, is_extended=True))
        try:
            users = devices.consumers.consumers_of(pod)
        except ClaimError as error:
            return _rejected(str(error))
        for claim_of_cycle, user in zip(claims, users, strict=False):
            claim_of_cycle.user = user
        if not claims:
            return fwk.SKIP
        for claim_of_cycle in claims:
            claim_of_cycle.uid = claim_of_cycle.claim.metadata.uid
            status = self._examine(claim_of_cycle)
            if status is not None:
                return status
        cycle.claims = claims
        cycle.allocates = any(claim.needs_allocation for claim in claims)
        if cycle.allocates and (text := self.devices.negative_consumption()):
            return fwk.as_status(dra.claim_requests.AllocationError(text))
        table = self.required_handle().cache.state.table
        cycle.demand = dra.device_state.CycleDemand(self.devices, table, self._most_steps)
        self._ask_all_nodes(cycle, cycle.demand, pod)
        return None

    def _ask_all_nodes(self, cycle: DeviceCycleState, demand: CycleDemand, pod: Pod) -> None:
        """Find out what the claims of a pod ask of all nodes alike, if no score depends on it: a cycle is a
        batch of one."""
        handle, devices, extended = self.required_handle(), self.devices, None
        is_order_free = devices.demands.refresh(handle.cache.state, handle.framework.all_nodes())
        specs = [claim.claim.spec.devices for claim in cycle.claims]
        if not is_order_free or any(request.first_available for spec in specs for request in spec.requests):
            return
        if cycle.extended is not None:
            requests = devices.extended_requests(pod)
            extended = None if requests is None else self._extended_on_all_nodes(pod, requests, devices)
            if extended is None:
                return
        batch = ClaimsOfBatch()
        needs = devices.demands.needs_of(pod, batch, self._most_steps, extended)
        if needs is None or isinstance(needs.demand, SharedDevices):
            return
        demand.is_alike, demand.of_all_nodes = True, needs.demand
        _, demand.asking, demand.mappings = batch.claims_to_write[0]
        demand.extended = None if extended is None else extended[0]

    def _examine(self, claim_of_cycle: ClaimOfCycle) -> fwk.Status | None:
        """Prepare a claim for Filter; a status if the pod cannot be scheduled with it."""
        claim = claim_of_cycle.claim
        allocation = claim.status.allocation
        if allocation is None:
            allocation = claim_of_cycle.allocation = self.devices.claim_cache.pending_of(
                claim_of_cycle.uid, self._group_cycle
            )
            claim_of_cycle.is_shared = allocation is not None
        if allocation is not None:
            if (selector := allocation.node_selector) is not None:
                if text := parse_error(selector):
                    return fwk.as_status(MoorageError(text))
                claim_of_cycle.nodes = matcher_of(selector)
            return None
        if self.devices.claim_cache.is_pending(claim_of_cycle.uid):
            return _rejected(f"resource claim {claim.key} is in the process of being allocated")
        if claim_of_cycle.is_extended:
            return None
        for request in claim.spec.devices.requests:
            status = self._examine_request(claim, request)
            if status is not None:
                return status
        claim_of_cycle.requests = dra.claim_requests.ClaimRequests.of(claim)
        return None

    @property
    def _group_cycle(self) -> object:
        """What tells pod group cycles apart; None outside of them."""
        return self.required_handle().group_cycle

    def _examine_request(self, claim: ResourceClaim, request: DeviceRequest) -> fwk.Status | None:
        start = f"resource claim {claim.key}, request {request.name}"
        if request.exactly is not None:
            classes = {request.name: request.exactly.device_class_name}
        elif not request.first_available:
            return _rejected(f"{start}: unknown request type")
        elif not self.devices.features.prioritized_list:
            return _rejected(f"{start}: has subrequests, but the DRAPrioritizedList feature is disabled")
        else:
            classes = {
                f"{request.name}/{subrequest.name}": subrequest.device_class_name
                for subrequest in request.first_available
            }
        class_of = self.devices.class_of()
        for name, class_name in classes.items():
            if not class_name:
                return fwk.as_status(MoorageError(f"request {name}: unsupported request type"))
            if class_of(class_name) is None:
                return _rejected(f"request {name}: device class {class_name} does not exist")
        return None

    @lazy_attribute
    def _most_steps(self) -> int:
        """The number of steps that the search on one node may take; 0 for any number."""
        timeout = parse_duration(str(self.args.get("filterTimeout") or "0"))
        return timeout // dra.allocator.NANOSECONDS_PER_STEP

    def _extended_claim(self, pod: Pod, state: DeviceCycleState) -> ResourceClaim | None:
        """The claim for extended resources of a pod that a device class provides; None if there are none."""
        requests = self.devices.extended_requests(pod)
        if requests is None or self.devices.by_resource().keys().isdisjoint(requests.resources):
            return None
        state.resources = requests.resources
        return dra.extended_resources.find_claim(
            pod, self.devices.claim_cache.extended_claims(pod)
        ) or dra.extended_resources.new_claim(pod)

    def _provide_devices(self, cycle: DeviceCycleState, nodes: fwk.NodesView) -> None:
        """Tell NodeResourcesFit the devices of nodes that it scores as extended resources of the pod."""
        framework = self.required_handle().framework
        if framework is None or framework.kernels is None:
            return
        plan = framework.kernels.search.plan.complete()
        by_resource, devices = self.devices.by_resource(), self.devices
        names = [name for name in plan.fit if name in cycle.resources and name in by_resource]
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
        cycle = _read(state)
        if cycle is None or not cycle.claims or node_info.node is None:
            return None
        on_node = dra.device_state.NodeAllocation([])
        extended = cycle.extended
        if extended is not None:
            status = self._filter_extended(cycle, extended, pod, node_info, on_node)
            if status is not None:
                return status
            if on_node.extended is None and not any(True for _ in cycle.of_user()):
                return None
        unavailable = []
        for at, claim in enumerate(cycle.claims):
            if not self._is_available(claim, node_info.node):
                unavailable.append(at)
            shared = self._why_shared(claim, pod, node_info)
            if shared:
                return _rejected(shared)
        status = self._allocate(cycle, node_info.node, on_node) or dra.device_state.take_of_node(
            self.devices, cycle, on_node, pod, node_info
        )
        if status is not None:
            return status
        if unavailable:
            cycle.unavailable.update(unavailable)
            return NOT_AVAILABLE
        if cycle.allocates:
            cycle.nodes[node_info.name] = on_node
        return None

    def filter_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> fwk.Answers:
        cycle = _read(state)
        if cycle is None or not cycle.claims:
            return fwk.Answers(np.zeros(len(nodes), dtype=np.uint8), (None,))
        answers = self._of_all_nodes(cycle, nodes.rows)
        if answers is not None:
            return fwk.Answers(answers, (None, CANNOT_ALLOCATE, INVALID_POOLS, NOT_AVAILABLE))
        statuses = [self.filter(state, pod, info) for info in nodes]
        return fwk.Answers(np.arange(len(statuses)), statuses)

    def _of_all_nodes(
        self, cycle: DeviceCycleState, rows: npt.NDArray[np.integer[Any]]
    ) -> npt.NDArray[np.uint8] | None:
        """Return the answers of Filter for nodes; None where they have to be asked one by one."""
        answers = None if cycle.demand is None else cycle.demand.answers(rows)
        if answers is None:
            return None
        fits = answers == dra.device_state.FITS
        for at, claim in enumerate(cycle.claims):
            allocation = claim.claim.status.allocation
            if allocation is not None and allocation.node_selector is not None:
                cannot = fits & ~self._node_masks.selected(allocation.node_selector)[rows]
                if cannot.any():
                    cycle.unavailable.add(at)
                    answers[cannot] = dra.device_state.UNAVAILABLE
        return answers

    def _why_shared(self, claim: ClaimOfCycle, pod: Pod, node_info: fwk.NodeInfo) -> str:
        """Why an allocated claim takes resources of a node for another pod already; "" if it does not."""
        if claim.needs_allocation or not self.devices.features.node_allocatable:
            return ""
        if claim.nodes is not None and node_info.node is not None and not claim.nodes.matches(node_info.node):
            return ""
        return dra.allocated_devices.why_shared(pod, claim.claim, node_info.pods)

    def _is_available(self, claim: ClaimOfCycle, node: Any) -> bool:
        """Whether a node can use an allocated claim."""
        if claim.nodes is not None and not claim.nodes.matches(node):
            return False
        if claim.needs_allocation or not self.devices.features.binding_conditions:
            return True
        try:
            return dra.allocated_devices.is_ready(claim.claim) or not dra.allocated_devices.is_overdue(
                claim.claim, self._binding_timeout(), self._now()
            )
        except dra.allocated_devices.BindingError:
            return False

    def _allocate(self, cycle: DeviceCycleState, node: Node, on_node: NodeAllocation) -> fwk.Status | None:
        """Find devices for the claims that have to be allocated."""
        if not cycle.allocates or cycle.demand is None:
            return None
        requests = []
        for claim in cycle.to_allocate():
            if claim.is_shared and claim.allocation is not None:
                on_node.shared.append(claim.allocation)
            elif claim.is_extended:
                requests.append(dra.claim_requests.ClaimRequests.of(on_node.extended or claim.claim))
            elif claim.requests is not None:
                requests.append(claim.requests)
        try:
            results = cycle.demand.allocate(node, requests)
        except dra.claim_requests.AllocationError as error:
            return fwk.as_status(error)
        except dra.claim_requests.PoolsInvalidError as error:
            return _rejected(str(error))
        except dra.claim_requests.SearchTimeoutError:
            text = f"node {node.name}: timed out trying to allocate devices"
            return fwk.as_status(MoorageError(text))
        if results is None:
            return CANNOT_ALLOCATE
        on_node.results = results
        return None

    def _filter_extended(
        self,
        cycle: DeviceCycleState,
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
        for name in cycle.resources:
            if name in by_resource and not allocatable.get(name):
                names.append(name)
            elif name not in allocatable:
                return NO_RESOURCE
        if names or any(True for _ in cycle.of_user()):
            spec, on_node.mappings = dra.extended_resources.claim_spec(pod, names, by_resource)
            on_node.extended = replace(extended.claim, spec=spec)
        return None

    # ---- PostFilter ----------------------------------------------------------------------------------------

    def post_filter(
        self, state: fwk.CycleState, pod: Pod, statuses: Mapping[str, fwk.Status]
    ) -> tuple[fwk.PostFilterResult | None, fwk.Status | None]:
        cycle = _read(state)
        if cycle is None or not self.may_free_claims(state):
            return None, self.failure(state) or self._unhelpful(NO_CLAIMS)
        try:
            return None, self._freed(cycle, pod) or self._unhelpful(NOT_SCHEDULABLE)
        except (ApiError, ClaimWriteError) as error:
            return None, fwk.as_status(error)
        finally:
            handle = self.required_handle()
            if self._writer().store is not None:
                handle.informers.run_kind(ResourceClaim)  # the next pod finds the devices free

    def _freed(self, cycle: DeviceCycleState, pod: Pod) -> fwk.Status | None:
        """Deallocate a claim of a pod, or delete the claim of an earlier cycle; return None where there is no
        such claim."""
        if self._deallocated(cycle, pod.metadata.uid):
            return _unschedulable("deallocation of ResourceClaim completed")
        extended = cycle.extended
        if extended is not None and not extended.is_in_memory:
            self._writer().delete(extended.claim)
            return _unschedulable("deletion of ResourceClaim completed")
        return None

    def _deallocated(self, cycle: DeviceCycleState, user: str | None) -> bool:
        """Deallocate the first claim that some node cannot use and nobody but one user, of a UID, uses;
        return False where there is none."""
        for at in sorted(cycle.unavailable):
            claim = cycle.claims[at].claim
            users = claim.status.reserved_for
            if cycle.claims[at].is_extended or len(users) > 1 or any(each.uid != user for each in users):
                continue
            status = replace(claim.status, allocation=None, reserved_for=(), devices=())
            self._writer().update_status(claim, status)
            return True
        return False

    def pod_group_post_filter(
        self, failed: fwk.FailedGroup
    ) -> tuple[Mapping[int, fwk.NominatingInfo] | None, fwk.Status]:
        """Free claims of the pods of a group that fits nowhere. Where a pod has none to free, take the
        reservation of a claim from the group."""
        group, handle = failed.group, self.required_handle()
        is_placed = handle.places_groups and group.spec.scheduling_constraints is not None
        if is_placed or isinstance(group, CompositePodGroup):
            return None, fwk.Status(fwk.Code.UNSCHEDULABLE, (), self.name)
        tried = failed.pre_filtered(self.name)
        if not tried:  # as upstream, which misses the state of the group then
            return None, fwk.Status(fwk.Code.ERROR, (NOT_FOUND,), self.name)
        states = {at: cycle for at, state in failed.states().items() if (cycle := _read(state)) is not None}
        try:
            helped = {at for at, cycle in states.items() if self._freed(cycle, failed.pods[at]) is not None}
            status = None
            if not helped.issuperset(tried):
                status = self._freed_of_group(failed.pods[0], states.values())
        except (ApiError, ClaimWriteError) as error:
            status = fwk.as_status(error)
        if states and self._writer().store is not None:
            handle.informers.run_kind(ResourceClaim)  # the next pod finds the devices free
        return None, status or _unschedulable("deallocation and deletion of ResourceClaims completed")

    def _freed_of_group(self, pod: Pod, states: Iterable[DeviceCycleState]) -> fwk.Status | None:
        """Deallocate the first claim that some node cannot use and nobody but the pod's group uses, or take
        the reservation of a claim from the group, while no pod of the group has a node."""
        consumers, handle, key = self.devices.consumers, self.required_handle(), group_of(pod)
        if not consumers.are_groups or pod.spec.scheduling_group is None or key is None:
            return None
        if handle.shared(fwk.group_index.PodGroups).scheduled(key)[0]:
            return None
        try:
            group = consumers.group_of(pod)
            uid = None if group is None else group.metadata.uid
            for cycle in states:
                if self._deallocated(cycle, uid):
                    return _unschedulable("deallocation of PodGroup ResourceClaim completed")
            for claim in (
                dra.claim_cache.group_claims(group, self.devices.claim_cache.find)
                if group is not None
                else ()
            ):
                if claim.status.allocation is None or not consumers.is_reserved_for(claim, pod):
                    continue
                if uid is not None and self._writer().unreserve(claim, uid):
                    return _rejected("ResourceClaim unreserved for PodGroup")
        except ClaimError as error:
            return fwk.as_status(error)
        return None

    def _unhelpful(self, text: str) -> fwk.Status:
        """The status of a PostFilter that frees no claim; since v1.37 it has no text."""
        text = self.without_help(text)
        return fwk.Status(fwk.Code.UNSCHEDULABLE, (text,) if text else (), STATE)

    # ---- Score ---------------------------------------------------------------------------------------------

    def score(self, state: fwk.CycleState, pod: Pod, node_info: fwk.NodeInfo) -> int | fwk.Status:
        """Score a node by the alternatives that it gives: the earlier in its list, the better.

        Returns
        -------
        int or Status
            An Error in releases whose `claims_score_together` if some claims had devices before.
        """
        cycle = _read(state)
        on_node = None if cycle is None else cycle.found_on(node_info.name)
        if cycle is None or on_node is None:
            return 0
        if self.required_handle().release.claims_score_together and len(on_node.results) < len(cycle.claims):
            text = f"number of allocations {len(on_node.results)} is smaller than number of claims"
            return fwk.Status(fwk.Code.ERROR, (text,))
        return cycle.score_of(on_node)

    def score_all(self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView) -> npt.ArrayLike | fwk.Status:
        cycle = _read(state)
        if cycle is None or not cycle.nodes:
            return np.zeros(len(nodes), dtype=np.int64)
        scores = [self.score(state, pod, info) for info in nodes]
        errors = (score for score in scores if isinstance(score, fwk.Status))
        return next(errors, None) or np.array(scores, dtype=np.int64)

    def normalize_score(
        self, state: fwk.CycleState, pod: Pod, scores: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        highest = int(scores.max(initial=0))
        return scores * fwk.MAX_NODE_SCORE // highest if highest else scores

    # ---- Reserve and Unreserve -----------------------------------------------------------------------------

    def reserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        cycle = _read(state)
        if cycle is None or not cycle.allocates:
            return None
        on_node = cycle.found_on(node_name)
        if on_node is None:
            if all(claim.is_extended for claim in cycle.to_allocate()):
                return None  # the node has all extended resources itself
            return fwk.as_status(MoorageError("claim allocation not found for node"))
        try:
            own = [
                dra.allocated_devices.allocation_of(result, node_name, self.devices.features)
                for result in on_node.results
            ]
            # As upstream, whatever the order of the claims.
            for claim_of_cycle, allocation in zip(cycle.to_allocate(), (*own, *on_node.shared), strict=True):
                claim_of_cycle.allocation = allocation
                if not self._got_allocated(claim_of_cycle):
                    self.devices.claim_cache.signal_pending(claim_of_cycle.uid, allocation, self._group_cycle)
        except dra.claim_requests.AllocationError as error:
            return fwk.as_status(error)
        return None

    def _got_allocated(self, claim_of_cycle: ClaimOfCycle) -> bool:
        """Whether a claim has got an allocation since PreFilter, so that none is in flight (v1.37)."""
        if claim_of_cycle.is_in_memory or not self.required_handle().release.in_flight_until_bound:
            return False
        claim = self.devices.claim_cache.find(claim_of_cycle.claim.key)
        return (
            claim is not None
            and claim.metadata.uid == claim_of_cycle.uid
            and claim.status.allocation is not None
        )

    def unreserve(self, state: fwk.CycleState, pod: Pod, node_name: str) -> None:
        cycle = _read(state)
        if cycle is None:
            return
        self._take_back(cycle, pod)
        on_node = cycle.nodes.get(node_name)
        if on_node is not None and on_node.statuses:
            self._write_beside(pod, partial(self._clear_statuses, pod))

    def _take_back(self, cycle: DeviceCycleState, pod: Pod) -> None:
        """Take back the allocations and reservations of claims."""
        cache = self.devices.claim_cache
        for claim_of_cycle in cycle.claims:
            claim = claim_of_cycle.claim
            if cache.remove_pending(claim_of_cycle.uid):
                cache.restore(claim.key)
            if claim_of_cycle.is_extended:
                self._write_beside(pod, partial(self._drop_extended, claim_of_cycle))
            elif claim.status.allocation is not None and dra.claim_cache.is_reserved_for(claim, pod):
                self._write_beside(pod, partial(self._writer().unreserve, claim, pod.metadata.uid))

    def _write_beside(self, pod: Pod, action: Callable[[], object]) -> None:
        """Have claims of a pod written, before anything else that is written for the pod."""
        self.required_handle().writes.submit("resource_claim_patch", pod, action)

    def _clear_statuses(self, pod: Pod) -> None:
        """Take back what PreBind has told about the node's resources; an error is only logged."""
        try:
            self._writer().tell_statuses(pod, ())
        except ClaimWriteError as error:
            logger.error("clear NodeAllocatableResourceClaimStatuses of %s: %s", pod.key, error)

    def _drop_extended(self, claim_of_cycle: ClaimOfCycle) -> None:
        """Delete the claim that was written for extended resources."""
        if claim_of_cycle.is_in_memory:
            return
        try:
            self._writer().delete(claim_of_cycle.claim)
        except (ApiError, ClaimWriteError) as error:
            self.required_handle().recorder.event(
                claim_of_cycle.claim,
                "Warning",
                "FailedDelete",
                "Unreserving",
                f"delete claim {claim_of_cycle.claim.key}: {error}",
            )

    # ---- PreBind -------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        cycle = _read(state)
        return fwk.SKIP if cycle is None or not cycle.claims else None

    def pre_bind(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | StatusSteps | None:
        cycle = _read(state)
        if cycle is None or not cycle.claims:
            return None
        try:
            bound = self._bind_claims_of(cycle, pod, node_name)
            on_node = cycle.nodes.get(node_name)
            if on_node is not None and on_node.statuses:
                self._writer().tell_statuses(pod, on_node.statuses)
        except ClaimWriteError as error:
            return fwk.as_status(error)
        waits = any(dra.allocated_devices.has_conditions(claim.claim) for claim in cycle.claims)
        if not waits or not self.devices.features.binding_conditions:
            self._end_flight(bound)
            return None
        return self._await_devices(cycle, bound)

    def _bind_claims_of(self, cycle: DeviceCycleState, pod: Pod, node_name: str) -> list[ClaimOfCycle]:
        """Write the claims of a pod that are not reserved for it, and return them."""
        bound: list[ClaimOfCycle] = []
        for claim in cycle.claims:
            if not self.devices.consumers.is_reserved_for(claim.claim, pod):
                self._bind_claim(cycle, claim, pod, node_name)
                bound.append(claim)
        return bound

    def _end_flight(self, bound: Sequence[ClaimOfCycle]) -> None:
        """Note that the allocations of claims are in flight no more, now that PreBind has succeeded."""
        for claim in bound:
            if claim.allocation is not None:
                self.devices.claim_cache.remove_pending(claim.uid, is_written=True)

    def _bind_claim(
        self, cycle: DeviceCycleState, claim_of_cycle: ClaimOfCycle, pod: Pod, node_name: str
    ) -> None:
        """Write the allocation and the reservation of a claim."""
        cache, writer, on_node = self.devices.claim_cache, self._writer(), cycle.nodes.get(node_name)
        if (
            claim_of_cycle.is_extended
            and claim_of_cycle.allocation is None
            and not claim_of_cycle.claim.spec.devices.requests
        ):
            return  # the node has the extended resources itself
        written: ResourceClaim | None = None
        try:
            claim = claim_of_cycle.claim
            if claim_of_cycle.is_in_memory and on_node is not None and on_node.extended is not None:
                claim = claim_of_cycle.claim = writer.create(on_node.extended)
            written = writer.reserve(
                claim, claim_of_cycle.allocation, claim_of_cycle.user or dra.claim_cache.of_pod(pod)
            )
            if claim_of_cycle.is_extended and on_node is not None:
                writer.tell_pod(pod, written, on_node.mappings)
        finally:
            if written is not None:
                cache.assume_written(written)
            if (
                claim_of_cycle.allocation is not None
                and not self.required_handle().release.in_flight_until_bound
            ):
                cache.remove_pending(claim_of_cycle.uid, is_written=written is not None)
        claim_of_cycle.claim = written

    def _await_devices(self, cycle: DeviceCycleState, bound: Sequence[ClaimOfCycle]) -> StatusSteps:
        """Wait until all binding conditions are true."""
        timeout = self._binding_timeout()
        waited = 0.0
        while True:
            try:
                if all(self._is_claim_ready(claim) for claim in cycle.claims):
                    self._end_flight(bound)
                    return None
            except (dra.allocated_devices.BindingError, storage.claims.VolumeError) as error:
                return fwk.as_status(error)
            step = min(dra.allocated_devices.POLL_INTERVAL, timeout - waited)
            yield step
            waited += step
            if waited >= timeout:
                return fwk.as_status(MoorageError("device binding timeout: context deadline exceeded"))

    def _is_claim_ready(self, claim_of_cycle: ClaimOfCycle) -> bool:
        claim = claim_of_cycle.claim = self.devices.claim_cache.get(claim_of_cycle.claim.key)
        if dra.allocated_devices.is_ready(claim):
            return True
        if dra.allocated_devices.is_overdue(claim, self._binding_timeout(), self._now()):
            raise dra.allocated_devices.BindingError(f"device binding timeout: claim={claim.name}")
        return False

    # ---- time and writing ----------------------------------------------------------------------------------

    def _binding_timeout(self) -> float:
        return parse_duration(str(self.args.get("bindingTimeout") or "10m")) / _SECOND

    def _now(self) -> float:
        return self.required_handle().now()

    @property
    def _client(self) -> ObjectClient:
        return cast(ObjectClient, self.required_handle().client)

    def _writer(self) -> ClaimWriter:
        has_time = self.devices.features.binding_conditions
        return dra.claim_writer.ClaimWriter(
            self._client, lambda: timestamp(int(self._now())) if has_time else None
        )


def _unschedulable(text: str) -> fwk.Status:
    return fwk.Status(fwk.Code.UNSCHEDULABLE, (text,))


def _read(state: fwk.CycleState) -> DeviceCycleState | None:
    """The plugin's state; None for a pod without claims, for which PreFilter was not called."""
    cycle: DeviceCycleState | None = state.find(STATE)
    return cycle


class DynamicResourcesNoScore(DynamicResources, DynamicResourcesNoScoreFacts, without="score"):
    """DynamicResources up to v1.34, which did not score."""
