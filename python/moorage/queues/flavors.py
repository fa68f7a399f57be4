"""Which flavors a workload gets (Kueue v0.17, pkg/scheduler/flavorassigner)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from moorage._core.base.selectors import find_intolerable_taint, pod_matches_node_selector
from moorage.kube.model.kueue import NEVER, NEXT, ResourceFlavor
from moorage.kube.model.meta import ObjectMeta
from moorage.kube.model.node import REJECTING_EFFECTS, Taint
from moorage.kube.model.node import Node as ClusterNode
from moorage.kube.model.pod import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodSpec
from moorage.lazy import NamedTuple

from .settings import Settings
from .snapshot import FlavorGroup, Queue, QueueSnapshot
from .topology_snapshot import DomainUsage, PlacedPods, TopologyDemand
from .whole_amounts import PODS, Amounts, FlavorResource, per_pod, plus, text
from .workloads import AdmittedPods, LastTried, Needs, QueuedWorkload, Usage

BORROWS_LAST = "PreemptionOverBorrowing"


class Mode(IntEnum):
    """How good a flavor is: the greater the better. Those between the first and the last need preemption."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


_TEXTS = {
    Mode.NO_FIT: "NoFit",
    Mode.NO_CANDIDATES: "preemptionMode=NoCandidates",
    Mode.PREEMPT: "preemptionMode=Preempt",
    Mode.RECLAIM: "preemptionMode=Reclaim",
    Mode.FIT: "Fit",
}


class FlavorFit(IntEnum):
    """Whether a workload can be admitted: not at all, after preemptions, or now."""

    NO = 0
    PREEMPT = 1
    YES = 2


class Oracle(Protocol):
    """Says what preemptions could do for one resource of a flavor."""

    def simulate(self, workload: QueuedWorkload, queue: Queue, key: FlavorResource, value: int) -> Rank:
        """Return whose workloads would go, and how far the workload would borrow then."""


class Rank(NamedTuple):
    """A mode, and how far away what is borrowed comes from; 0 if nothing is borrowed."""

    mode: Mode
    level: int

    def order(self, level_first: bool) -> tuple[bool, int, int]:
        """What is greater for the one that is preferred."""
        mode, level = self
        if level_first:
            return mode > 0, -level if mode else 0, mode
        return mode > 0, mode, -level if mode else 0


_NOT_AT_ALL, _AT_ONCE = Rank(Mode.NO_FIT, 0), Rank(Mode.FIT, 0)


class FlavorAttempt(NamedTuple):
    """What was found of a flavor, over the resources for which it was tried."""

    rank: Rank
    reasons: list[str]


@dataclass
class FlavorChoice:
    """The flavor of a resource of some pods.

    Attributes
    ----------
    tried : int
        The last flavor that was tried; -1 if it was the last of all.
    """

    flavor: str
    fit: FlavorFit
    level: int = 0
    tried: int = 0


@dataclass
class Assigned:
    """What a set of pods would get.

    Attributes
    ----------
    reasons : list of str
        Why it does not fit now.
    error : str
        Why no topology can be asked for.
    domains : list of PlacedPods, or None
        Its place in a topology, if it has one.
    attempts : dict of str to FlavorAttempt
        What was found of each flavor.
    """

    needs: Needs
    choices: dict[str, FlavorChoice]
    reasons: list[str]
    error: str = ""
    domains: list[PlacedPods] | None = None
    is_delayed: bool = False
    attempts: Mapping[str, FlavorAttempt] = field(default_factory=dict)

    @property
    def fit(self) -> FlavorFit:
        """That of its worst flavor."""
        if not self.reasons and not self.error:
            return FlavorFit.YES
        if self.error or not self.choices:
            return FlavorFit.NO
        return min(choice.fit for choice in self.choices.values())

    def limit(self, fit: FlavorFit) -> None:
        """Say that all of its flavors fit no better, or no worse."""
        for choice in self.choices.values():
            choice.fit = fit

    def admitted(self) -> AdmittedPods:
        """Return what it holds once it is admitted."""
        return AdmittedPods(
            self.needs.name,
            self.needs.pods,
            {key: choice.flavor for key, choice in self.choices.items()},
            {key: self.needs.requests[key] for key in self.choices},
            None if self.domains is None else tuple(self.domains),
            self.is_delayed,
        )

    def considered(self) -> str:
        """Return what an event says of flavors that were not simply fit."""
        texts = []
        for flavor, (rank, reasons) in sorted(self.attempts.items()):
            if rank != (Mode.FIT, 0):
                level = [f"borrow={rank.level}"] if rank.level else []
                texts.append(f"{flavor}({';'.join([_TEXTS[rank.mode], *level, *sorted({*reasons})])})")
        return f"{self.needs.name}: {', '.join(texts)}" if texts else ""


class FlavorAssignment:
    """What a workload would get.

    Attributes
    ----------
    level : int
        How far away what it borrows comes from; 0 if it borrows nothing.
    """

    def __init__(self, generation: int) -> None:
        self.pods: list[Assigned] = []
        self.quota: dict[FlavorResource, int] = {}
        self.level = 0
        self._generation = generation
        self._fit: FlavorFit | None = None

    def add(self, pods: Assigned) -> None:
        """Add what the next set of pods would get."""
        self.pods.append(pods)
        for resource, choice in pods.choices.items():
            self.level = max(self.level, choice.level)
            key = choice.flavor, resource
            self.quota[key] = self.quota.get(key, 0) + pods.needs.requests.get(resource, 0)

    @property
    def fit(self) -> FlavorFit:
        """That of its worst set of pods; what is found first, or set, stays."""
        if self._fit is None:
            self._fit = min([pods.fit for pods in self.pods], default=FlavorFit.NO)
        return self._fit

    @fit.setter
    def fit(self, fit: FlavorFit) -> None:
        self._fit = fit

    def last(self) -> LastTried | None:
        """Return where the next attempt goes on; None if it begins with the first flavors."""
        tried = [{key: choice.tried for key, choice in pods.choices.items()} for pods in self.pods]
        are_left = any(at != -1 for each in tried for at in each.values())
        return LastTried(self._generation, tuple(tried)) if are_left else None

    def message(self) -> str:
        """Return why it does not fit now; "" if it does."""
        texts = []
        for pods in self.pods:
            if pods.error:
                return f"failed to assign flavors to pod set {pods.needs.name}: {pods.error}"
            if pods.reasons:
                reasons = ", ".join(sorted(pods.reasons))
                texts.append(f"couldn't assign flavors to pod set {pods.needs.name}: {reasons}")
        return "; ".join(texts)

    def considered(self) -> str:
        """Return what an event says of its flavors."""
        return " | ".join(filter(None, [pods.considered() for pods in self.pods]))

    def needed(self) -> frozenset[FlavorResource]:
        """Return the resources of flavors that need preemption."""
        return frozenset(
            [
                (choice.flavor, resource)
                for pods in self.pods
                for resource, choice in pods.choices.items()
                if choice.fit == FlavorFit.PREEMPT
            ]
        )

    def requested(self) -> dict[FlavorResource, int]:
        """Return what it asks for, without what is 0."""
        return {key: value for key, value in self.quota.items() if value}

    def domains(self, queue: Queue) -> dict[str, list[DomainUsage]]:
        """Return what it would use of topologies: as often as its pods have resources of the flavor."""
        usages: dict[str, list[DomainUsage]] = {}
        for pods in self.pods:
            if pods.domains is None:
                continue
            flavors = [choice.flavor for choice in pods.choices.values() if choice.flavor in queue.topologies]
            total = {
                resource: pods.needs.requests[resource]
                for resource, choice in pods.choices.items()
                if choice.flavor in queue.topologies
            }
            request = per_pod(total, pods.needs.pods)
            for flavor in flavors:
                placed = [DomainUsage(each.values, request, each.pods) for each in pods.domains]
                usages.setdefault(flavor, []).extend(placed)
        return usages

    def usage(self, queue: Queue) -> Usage:
        """Return what it would use."""
        return Usage(self.quota, self.domains(queue))


class FlavorAssigner:
    """Finds the flavors of one workload.

    Parameters
    ----------
    oracle : Oracle
        Simulates preemptions.
    """

    def __init__(
        self,
        workload: QueuedWorkload,
        queue: Queue,
        snapshot: QueueSnapshot,
        settings: Settings,
        oracle: Oracle,
    ) -> None:
        self._workload = workload
        self._queue = queue
        self._snapshot = snapshot
        self._settings = settings
        self._oracle = oracle
        self._is_plain = queue.is_plain and workload.is_plain

    def assign(self, counts: Sequence[int] | None = None) -> FlavorAssignment:
        """Find flavors for all sets of pods.

        Parameters
        ----------
        counts : sequence of int, optional
            Fewer pods than asked for, by set.
        """
        workload, queue = self._workload, self._queue
        needs = workload.needs()
        if counts is not None:
            needs = [each.scaled(count) for each, count in zip(needs, counts, strict=True)]
        if PODS in queue.group_of:
            needs = [each._replace(requests=each.requests | {PODS: each.pods}) for each in needs]
        assignment = FlavorAssignment(queue.generation)
        for members in self._groups():
            if not self._assign_group(members, needs, assignment):
                return assignment
        if assignment.fit != FlavorFit.NO and self._settings.gate("TopologyAwareScheduling"):
            self._place(assignment)
        return assignment

    def _groups(self) -> Iterable[list[int]]:
        """Return the sets of pods that get their flavors together."""
        pod_sets = self._workload.pod_sets
        if len(pod_sets) == 1:
            return [[0]]
        groups: dict[str | int, list[int]] = {}
        for at, each in enumerate(pod_sets):
            name = each.topology_request.pod_set_group_name if each.topology_request is not None else None
            groups.setdefault(at if name is None else name, []).append(at)
        return groups.values()

    def _assign_group(self, members: list[int], needs: list[Needs], assignment: FlavorAssignment) -> bool:
        """Find the flavors of sets of pods that get the same; return whether something was found."""
        requests: Amounts = needs[members[0]].requests
        for at in members[1:]:
            requests = plus(requests, needs[at].requests)
        choices: dict[str, FlavorChoice] = {}
        reasons: list[str] = []
        attempts: dict[str, FlavorAttempt] = {}
        for resource in sorted(requests):
            if resource in choices:
                continue
            group = self._queue.group_of.get(resource)
            if group is None and not requests[resource]:
                continue
            if group is None:
                choices, reasons = {}, [f"resource {resource} unavailable in ClusterQueue"]
                break
            chosen, why, tried = self._find(members, requests, resource, group, assignment.quota)
            attempts |= tried
            if not chosen:
                choices, reasons = {}, why
                break
            choices |= chosen
            reasons += why
        is_found = True
        for at in members:
            own = {key: choices[key] for key in needs[at].requests if key in choices}
            assignment.add(Assigned(needs[at], own, [*reasons], attempts=attempts))
            is_found = is_found and bool(own or not needs[at].requests)
        return is_found

    def _find(
        self,
        members: list[int],
        requests: Amounts,
        resource: str,
        group: FlavorGroup,
        used: Mapping[FlavorResource, int],
    ) -> tuple[dict[str, FlavorChoice], list[str], dict[str, FlavorAttempt]]:
        """Find the flavor of all resources of a group.

        Returns
        -------
        choices : dict of str to FlavorChoice
            By resource; empty if no flavor can be had.
        reasons : list of str
        attempts : dict of str to FlavorAttempt
        """
        fungibility = self._queue.fungibility
        wanted = [key for key in sorted(requests) if key in group.resources]
        is_fungible = self._settings.gate("FlavorFungibility")
        level_first = fungibility.preference == BORROWS_LAST
        best: dict[str, FlavorChoice] = {}
        best_rank = _NOT_AT_ALL
        reasons: list[str] = []
        attempts: dict[str, FlavorAttempt] = {}
        tried = -1
        for at in range(self._first(members[0], resource, is_fungible), len(group.flavors)):
            tried, flavor = at, group.flavors[at]
            if not self._is_plain and (refusal := self._refusal(flavor, members, group)):
                reasons.append(refusal)
                attempts[flavor] = FlavorAttempt(_NOT_AT_ALL, [refusal])
                continue
            choices, rank, attempts[flavor] = self._try(flavor, wanted, requests, used, level_first)
            reasons += attempts[flavor].reasons
            if not is_fungible:
                if rank.mode > best_rank.mode:
                    best, best_rank = choices, rank
                if rank.mode == Mode.FIT:
                    return choices, [], attempts
                continue
            goes_on = rank.mode <= Mode.NO_CANDIDATES
            goes_on |= rank.mode in (Mode.PREEMPT, Mode.RECLAIM) and fungibility.when_can_preempt == NEXT
            goes_on |= rank.level > 0 and fungibility.when_can_borrow == NEXT
            if not goes_on or rank.order(level_first) > best_rank.order(level_first):
                best, best_rank = choices, rank
            if not goes_on:
                break
        if is_fungible:
            for choice in best.values():
                choice.tried = -1 if tried == len(group.flavors) - 1 else tried
        return best, [] if is_fungible and best_rank.mode == Mode.FIT else reasons, attempts

    def _first(self, member: int, resource: str, is_fungible: bool) -> int:
        last = self._workload.last
        if last is None or not is_fungible or member >= len(last.flavors):
            return 0
        return last.flavors[member].get(resource, -1) + 1

    def _try(
        self,
        flavor: str,
        wanted: Iterable[str],
        requests: Amounts,
        used: Mapping[FlavorResource, int],
        level_first: bool,
    ) -> tuple[dict[str, FlavorChoice], Rank, FlavorAttempt]:
        """Return what a flavor has for resources, their worst rank, and what there is to tell of it."""
        choices: dict[str, FlavorChoice] = {}
        worst, level, lacking = _AT_ONCE, 0, list[str]()
        lowest = worst.order(level_first)
        for resource in wanted:
            key = flavor, resource
            rank, reason = self._rank(key, used.get(key, 0), requests[resource])
            if reason:
                lacking.append(reason)
            if rank.level > level:
                level = rank.level
            if rank is not worst and lowest > (order := rank.order(level_first)):
                worst, lowest = rank, order
            if not worst.mode:
                break
            fit = FlavorFit.PREEMPT if reason else FlavorFit.YES
            choices[resource] = FlavorChoice(flavor, fit, rank.level)
        return choices, worst, FlavorAttempt(Rank(worst.mode, level), lacking)

    def _rank(self, key: FlavorResource, before: int, request: int) -> tuple[Rank, str]:
        """Return how well a request fits into a flavor beside earlier pods of the workload; what lacks."""
        queue, (flavor, resource) = self._queue, key
        cell = queue.cells.get(key) or queue.cell(key)
        value, most = before + request, cell.potential()
        if value > most:
            parts = [text(resource, each) for each in (before, request, most)]
            return _NOT_AT_ALL, (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets "
                f"requests ({parts[0]}) + current podset request ({parts[1]}) > maximum capacity ({parts[2]})"
            )
        level, may_reclaim = queue.lowest_fit(key, value)
        available = max(0, cell.available())
        if value <= available:
            return Rank(Mode.FIT, level) if level else _AT_ONCE, ""
        more = text(resource, value - available)
        lacking = f"insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"
        if value <= cell.nominal or may_reclaim or self._preempts_while_borrowing():
            if not queue.preempts:
                return Rank(Mode.NO_CANDIDATES, level), lacking
            return self._oracle.simulate(self._workload, queue, key, value), lacking
        return Rank(Mode.NO_FIT, level), lacking

    def _preempts_while_borrowing(self) -> bool:
        policies = self._queue.preemption
        return policies.borrow_within_cohort.policy != NEVER or (
            self._settings.fair_sharing is not None and policies.reclaim_within_cohort != NEVER
        )

    # ---- what a flavor forbids

    def _refusal(self, name: str, members: list[int], group: FlavorGroup) -> str:
        """Return why a flavor is none for sets of pods; "" if it is one."""
        flavor = self._snapshot.flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        for at in members:
            if refusal := self._topology_refusal(flavor, at, group):
                return refusal
            if refusal := flavor_refusal(flavor, self._workload.specs[at], group):
                return refusal
        return ""

    def _asks(self, at: int) -> tuple[bool, bool]:
        """Return whether a set of pods asks for a topology, and whether only as its queue has no others."""
        request = self._workload.pod_sets[at].topology_request
        is_explicit = request is not None and request.is_explicit
        is_implied = not is_explicit and self._queue.is_topology_only
        return is_explicit or is_implied, is_implied

    def _topology_refusal(self, flavor: ResourceFlavor, at: int, group: FlavorGroup) -> str:
        if not self._settings.gate("TopologyAwareScheduling"):
            return ""
        asks, is_implied = self._asks(at)
        if is_implied:
            return ""
        if not asks:
            alone = flavor.spec.topology_name is not None
            return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling' if alone else ""
        if flavor.spec.topology_name is None:
            if group.resources.isdisjoint(self._workload.per_pod[at]):
                return ""
            return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
        topology = self._queue.topologies.get(flavor.name)
        if topology is None:
            return f'Flavor "{flavor.name}" information missing in TAS cache'
        if not topology.has_levels(self._workload.pod_sets[at].topology_request):
            return f'Flavor "{flavor.name}" does not contain the requested level'
        return ""

    # ---- topology

    def demands(self, assignment: FlavorAssignment) -> dict[str, list[TopologyDemand]]:
        """Return what an assignment asks of topologies, by flavor, where that is not settled."""
        demands: dict[str, list[TopologyDemand]] = {}
        if not self._queue.is_topology_only and not any(
            each.topology_request is not None for each in self._workload.pod_sets
        ):
            return demands
        for at, pods in enumerate(assignment.pods):
            asks, is_implied = self._asks(at)
            if not asks or pods.error or pods.domains is not None:
                continue
            flavors = sorted(
                {choice.flavor for choice in pods.choices.values()} & self._queue.topologies.keys()
            )
            if not self._queue.topologies:
                pods.error = "workload requires Topology, but there is no TAS cache information"
            elif not flavors:
                pods.error = "no TAS flavor assigned"
            elif len(flavors) > 1:
                pods.error = f"more than one TAS flavor assigned: {', '.join(flavors)}"
            elif flavors[0] in self._queue.delays and self._workload.holds is None:
                pods.is_delayed = True
            else:
                demand = TopologyDemand(
                    self._workload.pod_sets[at],
                    self._workload.specs[at],
                    self._workload.per_pod[at],
                    pods.needs.pods,
                    flavors[0],
                    is_implied,
                )
                demands.setdefault(flavors[0], []).append(demand)
        return demands

    def place(
        self, demands: Mapping[str, list[TopologyDemand]], is_empty: bool = False
    ) -> dict[str, list[PlacedPods] | str]:
        """Place pods in their topologies; texts say why some have no place."""
        placed: dict[str, list[PlacedPods] | str] = {}
        for flavor in sorted(demands):
            placed |= self._queue.topologies[flavor].place_all(demands[flavor], is_empty)
        return placed

    def _place(self, assignment: FlavorAssignment) -> None:
        """Place what fits by quota, and see what fits into an empty topology."""
        demands = self.demands(assignment)
        if not demands:
            return
        by_name = {pods.needs.name: pods for pods in assignment.pods}
        if assignment.fit == FlavorFit.YES:
            placed = self.place(demands)
            if failure := first_failure(placed):
                name, reason = failure
                by_name[name].reasons.append(reason)
                by_name[name].limit(FlavorFit.PREEMPT)
                assignment.fit = FlavorFit.PREEMPT
            else:
                settle(assignment, placed)
        if assignment.fit == FlavorFit.PREEMPT:
            if failure := first_failure(self.place(demands, is_empty=True)):
                by_name[failure[0]].limit(FlavorFit.NO)
                assignment.fit = FlavorFit.NO
                return
            for each in demands.values():
                for demand in each:
                    by_name[demand.pod_set.name].limit(FlavorFit.PREEMPT)
            assignment.fit = FlavorFit.PREEMPT


def settle(assignment: FlavorAssignment, placed: Mapping[str, list[PlacedPods] | str]) -> None:
    """Give pods the places that were found."""
    for pods in assignment.pods:
        place = placed.get(pods.needs.name)
        if place is not None:
            pods.domains = None if isinstance(place, str) else place


def first_failure(placed: Mapping[str, list[PlacedPods] | str]) -> tuple[str, str] | None:
    """Return the first set of pods by name that has no place, and why."""
    for name in sorted(placed):
        place = placed[name]
        if isinstance(place, str):
            return name, place
    return None


def flavor_refusal(flavor: ResourceFlavor, spec: PodSpec, group: FlavorGroup) -> str:
    """Return why pods cannot have a flavor, by its taints and labels; "" if they can."""
    if flavor.spec.node_taints:
        tolerations = (*spec.tolerations, *flavor.spec.tolerations)
        taint = find_intolerable_taint(flavor.spec.node_taints, tolerations, REJECTING_EFFECTS, True)
        if taint is not None:
            return f"untolerated taint {_written(taint)} in flavor {flavor.name}"
    if spec.node_selector or spec.affinity is not None:
        node = ClusterNode(metadata=ObjectMeta(name=flavor.name, labels=flavor.spec.node_labels))
        if not pod_matches_node_selector(_about(spec, group.label_keys), node):
            return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def _written(taint: Taint) -> str:
    """Return a taint as Go prints the struct."""
    return f"{{{taint.key} {taint.value} {taint.effect} {taint.time_added or '<nil>'}}}"


def _about(spec: PodSpec, keys: frozenset[str]) -> PodSpec:
    """Return pods with those constraints on nodes that are about labels; a term that says nothing else makes
    the whole affinity void."""
    selector = {key: value for key, value in (spec.node_selector or {}).items() if key in keys}
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    required = nodes.required.node_selector_terms if nodes is not None and nodes.required is not None else ()
    terms = [
        NodeSelectorTerm(
            match_expressions=tuple([each for each in term.match_expressions if each.key in keys])
        )
        for term in required
    ]
    affinity = None
    if terms and all(term.match_expressions for term in terms):
        affinity = Affinity(node_affinity=NodeAffinity(required=NodeSelector(tuple(terms))))
    return PodSpec(node_selector=selector, affinity=affinity)
