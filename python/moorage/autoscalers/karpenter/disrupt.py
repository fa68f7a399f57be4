"""A pass of Karpenter over its nodes: which go, what comes in their place, and why the others stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from itertools import zip_longest
from math import inf
from typing import ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.document import Document
from moorage.errors import number_of
from moorage.grouped import grouped
from moorage.kube import NodeClaim, NodePool

from ..providers.instance_type import CAPACITY_TYPE, INSTANCE_TYPE, POOL, ZONE
from .claim_template import idle_pools
from .cluster_view import ClusterView, NoPoolsError, Removal
from .disruption_candidates import (
    Candidates,
    NodeCandidate,
    NodeEvent,
    allowed_by_budgets,
    by_ratio,
    count_nodes,
    drifted_since,
    is_consolidatable,
    object_of,
    sentence,
)
from .disruption_moves import (
    Command,
    PoolTotals,
    Score,
    SimulatedMoves,
    Simulations,
    is_balanced,
    move,
    without_same_type,
)
from .node_repair import repair_of

# ---- a pass of Karpenter over its nodes: which go, and what comes in their place ---------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/disruption: controller.go, types.go, emptiness.go, drift.go,
# consolidation.go, multinodeconsolidation.go, singlenodeconsolidation.go and validation.go.

VALIDATION_DELAY = 15.0
"""Seconds after which a command must still hold."""
MOST_CANDIDATES = 101
SECONDS_A_NODE = 0.001
"""What a simulation takes for each node of the cluster: Karpenter's own code took 0.7 to 1.3 ms of processor
time with 400 instance types."""
NO_RESERVED_CAPACITY = "no-reserved-capacity"
NO_SCHEDULER = "creating scheduler, no nodepools found"


class MethodResult(Struct):
    """What a method comes to.

    Attributes
    ----------
    budgets : dict of str to int
        By pool, how many nodes may go now for the reason of the method.
    events : list of NodeEvent
        Each once, sorted.
    error : str
        Karpenter's error, which ends the pass; "" without one.
    seconds : float
        How long Karpenter takes for it, roughly.
    """

    method: Method
    candidates: list[NodeCandidate] = msgspec.field(default_factory=list)
    budgets: dict[str, int] = msgspec.field(default_factory=dict)
    command: Command | None = None
    events: list[NodeEvent] = msgspec.field(default_factory=list)
    error: str = ""
    seconds: float = 0.0

    @property
    def is_late(self) -> bool:
        """Whether Karpenter would not get so far."""
        return self.seconds > self.method.longest


class DisruptionPass:
    """A pass over one cluster, which asks the methods for commands.

    Parameters
    ----------
    tells : bool
        Whether somebody reads why single nodes stay.
    """

    def __init__(self, view: ClusterView, tells: bool = True) -> None:
        self.tells = tells
        self.view, self.now = view, view.situation.now
        self.simulations = Simulations(view)
        self._events: list[NodeEvent] = []
        self._candidates: dict[object, Candidates] = {}
        self._pools = sorted(view.objects.list(NodePool), key=lambda pool: pool.name)
        self._counts = count_nodes(view.states)
        claims = view.objects.list(NodeClaim)
        self._has_graces = any(claim.spec.termination_grace_period is not None for claim in claims)
        self._may_end_early = not any(template.requirements.has_min_values for template in view.templates[0])

    def results(self, only: str = "") -> list[MethodResult]:
        """Play the methods up to the first that acts; `only` names a node that alone may go. A command that
        would be given up is left out."""
        results = list[MethodResult]()
        for method in METHODS:
            results.append(result := self.play(method, only))
            if result.command is not None and result.command.is_launchable:
                break
            result.command = None
        return results

    def play(self, method: Method, only: str = "") -> MethodResult:
        """Play one method, and validate its command as if the cluster stayed as it is."""
        result = self.propose(method, only)
        if result.command is not None:
            result.command = method.validated(self, result.command, VALIDATION_DELAY)
            result.events = self._told()
        return result

    def propose(self, method: Method, only: str = "") -> MethodResult:
        """Ask one method for a command, which is still to be validated."""
        self._events, self.simulations.hosts, self.simulations.count = [], 0, 0
        candidates = self.candidates(method, self.now)
        if only:
            candidates.to_go = [each for each in candidates.to_go if each.name == only]
        budgets = self.budgets(method, self.now)
        result = MethodResult(method, candidates.to_go, dict(budgets))
        try:
            if candidates.to_go:
                result.command = method.compute_command(self, candidates, budgets)
        except NoPoolsError:
            result.error = NO_SCHEDULER
        result.seconds = self.simulations.count * len(self.view.states) * SECONDS_A_NODE
        if self.simulations.count:
            for pool, text in self.view.templates[1].items():
                self.tell(f"nodepool/{pool}", "NoCompatibleInstanceTypes", text, "Warning")
        result.events = self._told()
        return result

    def _told(self) -> list[NodeEvent]:
        return sorted(set(self._events), key=lambda event: (event.object, event.reason, event.message))

    # ---- what methods ask for ------------------------------------------------------------------------------

    def tell(self, about: str | NodeCandidate, reason: str, message: str, kind: str = "Normal") -> None:
        """Note an event about an object or a candidate."""
        name = about if isinstance(about, str) else object_of(about.state)
        self._events.append(NodeEvent(name, kind, reason, message))

    def candidates(self, method: Method, now: float) -> Candidates:
        """The candidates, and those that a method takes up."""
        nominated = now - self.now < VALIDATION_DELAY + 5
        key = now, method.is_eventual and self._has_graces, nominated
        rule = key, type(method).should_disrupt
        if key not in self._candidates:
            self._candidates[key] = Candidates(self.view, *key)
        if rule not in self._candidates:
            candidates = self._candidates[rule] = self._candidates[key].untouched()
            candidates.to_go = [each for each in candidates.found if method.should_disrupt(candidates, each)]
        self._events += self._candidates[rule].events
        return copy(self._candidates[rule])

    def budgets(self, method: Method, now: float) -> dict[str, int]:
        """By pool, how many nodes may go for the reason of a method."""
        there, going = self._counts
        left = {}
        for pool in self._pools:
            count = there.get(pool.name, 0)
            allowed = allowed_by_budgets(pool, count, method.reason, now)
            left[pool.name] = max(allowed - going.get(pool.name, 0), 0)
            if count and not allowed:
                text = f"No allowed disruptions for disruption reason {method.reason} due to blocking budget"
                self.tell(f"nodepool/{pool.name}", "DisruptionBlocked", text)
        return left

    def still(
        self, method: Method, command: Command, delay: float
    ) -> tuple[list[NodeCandidate], dict[str, int]]:
        """The candidates of a command as they are some seconds later, and the budgets of then."""
        names = {candidate.name for candidate in command.candidates}
        to_go = self.candidates(method, self.now + delay).to_go
        return [each for each in to_go if each.name in names], self.budgets(method, self.now + delay)

    def simulated(self, candidates: Sequence[NodeCandidate], now: float, most: int | None) -> SimulatedMoves:
        """Where the pods of candidates go, on so many new nodes at most."""
        fresh = self.simulations.fresh(now) - {candidate.name for candidate in candidates}
        removal = Removal(strict=False, fresh=fresh, most_claims=most if self._may_end_early else None)
        return self.simulations.without(candidates, now, removal)


def _within(candidates: Iterable[NodeCandidate], budgets: dict[str, int]) -> list[NodeCandidate]:
    """The candidates that budgets allow, in order; each takes one from the budget of its pool."""
    chosen = []
    for candidate in candidates:
        if budgets[candidate.pool.name]:
            budgets[candidate.pool.name] -= 1
            chosen.append(candidate)
    return chosen


# ---- methods -----------------------------------------------------------------------------------------------


class Method(Struct, frozen=True):
    """A way in which nodes go: which candidates it takes up, its command about them, and its reason."""

    reason: ClassVar[str]
    longest: ClassVar[float] = inf
    """Seconds after which it ends with what it has."""
    is_eventual: ClassVar[bool] = False
    """Whether pods do not matter on claims that have a termination grace period."""

    def should_disrupt(self, candidates: Candidates, candidate: NodeCandidate) -> bool:
        """Whether it takes a candidate up."""
        raise NotImplementedError

    def compute_command(
        self, disruption: DisruptionPass, candidates: Candidates, budgets: dict[str, int]
    ) -> Command | None:
        """Return its command, if it has one, about the candidates that it has taken up."""
        raise NotImplementedError

    def validated(self, disruption: DisruptionPass, command: Command, delay: float = 0.0) -> Command | None:
        """The command as it still holds some seconds after the time of a cluster; None if it does not. Some
        methods do not look again; another pass may have proposed it, before."""
        return command


class Emptiness(Method, frozen=True):
    """Nodes without pods whose disruption costs anything are deleted together."""

    reason = "Empty"

    def should_disrupt(self, candidates: Candidates, candidate: NodeCandidate) -> bool:
        if candidate.pool.spec.replicas is not None or not candidates.is_enabled(candidate):
            return False
        if candidate.name in candidates.view.buffered:
            return candidates.refuse(candidate, f'Node "{candidate.name}" has buffer pods')
        return candidate.is_empty and candidates.is_consolidatable(candidate)

    def compute_command(
        self, disruption: DisruptionPass, candidates: Candidates, budgets: dict[str, int]
    ) -> Command | None:
        within = _within(by_ratio(candidates.to_go), budgets)
        return Command(within) if within else None

    def validated(self, disruption: DisruptionPass, command: Command, delay: float = 0.0) -> Command | None:
        allowed = _within(*disruption.still(self, command, delay))
        return Command(allowed) if allowed else None


class Drift(Method, frozen=True):
    """The node that drifted first, those without pods before others, whatever its replacement costs."""

    reason = "Drifted"
    is_eventual = True

    def should_disrupt(self, candidates: Candidates, candidate: NodeCandidate) -> bool:
        return candidate.pool.spec.replicas is None and candidates.drifted_since(candidate) is not None

    def compute_command(
        self, disruption: DisruptionPass, candidates: Candidates, budgets: dict[str, int]
    ) -> Command | None:
        to_go = candidates.to_go
        for each in sorted(to_go, key=lambda each: (bool(each.pods), candidates.drifted_since(each))):
            if not budgets[each.pool.name]:
                continue
            outcome = disruption.simulations.without([each], disruption.now, Removal(strict=False))
            if not outcome.errors:
                return Command([each], outcome.claims, outcome.moves)
            freed = self._freed(disruption, each)
            if freed is not None:
                return Command([each], [], freed.moves, NO_RESERVED_CAPACITY)
            disruption.tell(each, "DisruptionBlocked", sentence(outcome.error_text()))
        return None

    @staticmethod
    def _freed(disruption: DisruptionPass, candidate: NodeCandidate) -> SimulatedMoves | None:
        """Where pods go once the reservation of their node is free; None if that does not help them."""
        view = disruption.view
        reservation_id = view.vocabulary.known_labels.reservation_labels[0]
        reservation = candidate.state.labels.get(reservation_id, "")
        if not view.options.terminate_first or candidate.capacity_type != "reserved" or not reservation:
            return None
        removal = Removal(strict=True, freed=reservation)
        outcome = disruption.simulations.without([candidate], disruption.now, removal)
        return None if outcome.errors else outcome


class ConsolidationMethod(Method, frozen=True):
    """Nodes go whose pods cost less elsewhere."""

    reason = "Underutilized"

    def should_disrupt(self, candidates: Candidates, candidate: NodeCandidate) -> bool:
        labels, pool = candidate.state.labels, candidate.pool
        if pool.spec.replicas is not None:
            return False
        if candidate.instance_type is None:
            return candidates.refuse(candidate, f'Instance Type "{labels.get(INSTANCE_TYPE, "")}" not found')
        for label in (CAPACITY_TYPE, ZONE):
            if label not in labels:
                return candidates.refuse(candidate, f'Node does not have label "{label}"')
        if not candidates.is_enabled(candidate) or candidate.is_empty:
            return False
        if pool.spec.disruption.consolidation_policy == "WhenEmpty":
            policy = "has consolidation policy WhenEmpty, but node is not empty"
            return candidates.refuse(candidate, f'NodePool "{pool.name}" {policy}')
        return candidates.is_consolidatable(candidate)

    def validated(self, disruption: DisruptionPass, command: Command, delay: float = 0.0) -> Command | None:
        why = self._why_invalid(disruption, command, delay)
        if why and len(command.candidates) == 1:
            (each,) = command.candidates
            text = f"{command.text_about(each)}, reason: {why} (savings: ${command.savings:.2f})"
            disruption.tell(each, "ConsolidationRejected", f"Consolidation rejected: {text}")
        return None if why else command

    def _why_invalid(self, disruption: DisruptionPass, command: Command, delay: float) -> str:
        """Why a command holds no more when it is validated; "" if it does."""
        still, left = disruption.still(self, command, delay)
        if len(still) != len(command.candidates):
            return "churn"
        if len(_within(still, left)) != len(still):
            return "budget"
        outcome = disruption.simulated(still, disruption.now + delay, 1)
        if outcome.errors or len(outcome.claims) != len(command.replacements):
            return "scheduling"
        for claim, new in zip(command.replacements, outcome.claims, strict=True):
            now = {new.offers.types[place].name for place in new.places}
            if not {claim.offers.types[place].name for place in claim.places} <= now:
                return "scheduling"
        return ""

    @staticmethod
    def _move(disruption: DisruptionPass, candidates: Sequence[NodeCandidate]) -> Command | None:
        """What is done with candidates together; None if nothing, of which a single one is told."""
        alone = len(candidates) == 1
        if not (alone and disruption.tells) and disruption.simulations.must_stay(candidates, disruption.now):
            disruption.simulations.count += 1
            return None
        outcome = disruption.simulated(candidates, disruption.now, None if alone else 1)
        command = move(disruption.view, candidates, outcome)
        if isinstance(command, str):
            if alone:
                disruption.tell(candidates[0], "Unconsolidatable", sentence(command))
            return None
        if command.replacements:
            savings = f"(savings: ${command.savings:.2f})"
            for candidate in candidates:
                text = f"Consolidation candidate: {command.text_about(candidate)} {savings}"
                disruption.tell(candidate, "ConsolidationCandidate", text)
        return command


class MultiNodeConsolidation(ConsolidationMethod, frozen=True):
    """The most of the first candidates that go together, by bisection."""

    longest = 60.0

    def compute_command(
        self, disruption: DisruptionPass, candidates: Candidates, budgets: dict[str, int]
    ) -> Command | None:
        totals = PoolTotals(disruption.view, candidates.found)
        disruptable = _within(by_ratio(candidates.to_go), budgets)
        low, high = 1, min(len(disruptable), MOST_CANDIDATES) - 1
        best: Command | None = None
        scores: dict[str, Score] = {}
        rejected: dict[str, Score] = {}
        while low <= high:
            middle = (low + high) // 2
            command = self._move(disruption, disruptable[: middle + 1])
            if command is not None:
                command = without_same_type(disruption.view, command)
            if command is not None:
                of_pools = totals.scores(command)
                if all(score.is_approved for score in of_pools.values()):
                    best, scores = command, of_pools
                else:
                    command, rejected = None, of_pools
            low, high = (middle + 1, high) if command is not None else (low, middle - 1)
        for pool, score in (rejected if best is None else scores).items():
            if score.is_approved:
                disruption.tell(f"nodepool/{pool}", "ConsolidationApproved", str(score))
        return best


class SingleNodeConsolidation(ConsolidationMethod, frozen=True):
    """The first candidate whose pods cost less elsewhere; pools take turns."""

    longest = 180.0

    def compute_command(
        self, disruption: DisruptionPass, candidates: Candidates, budgets: dict[str, int]
    ) -> Command | None:
        totals = PoolTotals(disruption.view, candidates.found)
        with suppress(NoPoolsError):  # which it only logs
            for each in _in_turns(by_ratio(candidates.to_go)):
                if not budgets[each.pool.name] or not totals.could_pass(each):
                    continue
                command = self._move(disruption, [each])
                if command is None:
                    continue
                scores = totals.scores(command).values()
                if all(score.is_approved for score in scores):
                    for score in scores:
                        disruption.tell(each, "ConsolidationApproved", str(score))
                    return command
        return None


def _in_turns(candidates: Sequence[NodeCandidate]) -> Iterator[NodeCandidate]:
    """Candidates of each pool in order, pools taking turns by name."""
    by_pool = grouped((candidate.pool.name, candidate) for candidate in candidates)
    for turn in zip_longest(*(by_pool[pool] for pool in sorted(by_pool))):
        yield from (each for each in turn if each is not None)


EMPTINESS, DRIFT, SINGLE = Emptiness(), Drift(), SingleNodeConsolidation()
METHODS: tuple[Method, ...] = (EMPTINESS, DRIFT, MultiNodeConsolidation(), SINGLE)
"""In the order in which a pass asks them; the first with a command acts."""


# ---- why nodes of pools stay: Karpenter's own message, or what it leaves unsaid ----------------------------

NOT_LAUNCHED = "Karpenter would replace it, but no offering of the new node can be launched"
_REFUSALS = ("DisruptionBlocked", "Unconsolidatable", "ConsolidationRejected")


class StayingNode(Document, frozen=True):
    """A node that stays, and why."""

    node: str
    reason: str
    """That of Karpenter's event; empty where it has none."""
    message: str


def staying(view: ClusterView) -> tuple[StayingNode, ...]:
    """The nodes that a pass leaves, each with why."""
    return _stays(view, "")


def why_stays(view: ClusterView, name: str) -> StayingNode:
    """Why a node stays that is looked at alone."""
    return next(stay for stay in _stays(view, name) if stay.node == name)


def _stays(view: ClusterView, only: str) -> tuple[StayingNode, ...]:
    disruption = DisruptionPass(view)
    results = {method: disruption.play(method, only) for method in METHODS}
    commands = [result.command for result in results.values() if result.command is not None]
    going, given_up = set[str](), set[str]()
    for command in commands:
        names = going if command.is_launchable else given_up
        names.update(candidate.name for candidate in command.candidates)
    events: dict[str, NodeEvent] = {}
    for result in results.values():
        for event in result.events:
            if event.reason in _REFUSALS:
                known = events.get(event.object)
                if known is None or _REFUSALS.index(event.reason) < _REFUSALS.index(known.reason):
                    events[event.object] = event
    silent = _silent(view, results) | dict.fromkeys(given_up, NOT_LAUNCHED)
    staying_nodes, pools = [], {pool.name: pool for pool in view.objects.list(NodePool)}
    for state in view.states:
        if state.claim is None or state.name in going:
            continue
        # Until a node is registered, the state has the name of its claim.
        name = state.name if state.node is None else state.node.name
        event_of_node = events.get(object_of(state))
        if event_of_node is not None:
            stays = StayingNode(name, event_of_node.reason, event_of_node.message)
        else:
            stays = StayingNode(name, "", silent.get(state.name, ""))
        pool = pools.get(state.labels.get(POOL, ""))
        is_held = pool is not None and results[DRIFT].budgets.get(pool.name) == 0
        if pool is not None and is_held and drifted_since(view, pool, state, view.situation.now) is not None:
            drifted = f"it is {DRIFT.reason}, and {no_disruption(pool.name, DRIFT.reason)}"
            stays = replace(stays, message="; ".join(filter(None, [stays.message, drifted])))
        if repair := repair_of(view, state):
            stays = replace(stays, message="; ".join(filter(None, [stays.message, repair.text])))
        staying_nodes.append(stays)
    return tuple(staying_nodes)


def no_disruption(pool: str, reason: str, going: int = 0) -> str:
    """Return that budgets of a pool allow no disruption for a reason, and how many nodes use them up."""
    used = f" ({number_of(going, 'node is', 'nodes are')} going or not ready, and count)" * (going > 0)
    return f"the budgets of NodePool {pool} allow no disruption for {reason} now{used}"


def _silent(view: ClusterView, results: dict[Method, MethodResult]) -> dict[str, str]:
    """Why candidates stay of which Karpenter tells nothing."""
    candidates = Candidates(view, view.situation.now)
    totals, (_, going) = PoolTotals(view, candidates.found), count_nodes(view.states)
    reasons = {}
    for each in candidates.found:
        pool, method = each.pool, EMPTINESS if each.is_empty else SINGLE
        if not (each.is_empty or view.pools):
            idle = idle_pools(view.objects.list(NodePool))
            why = f"Karpenter removes only empty nodes now, since no NodePool makes nodes for pods: {idle}"
        elif not is_consolidatable(pool, each.state, view.situation.now):
            after = pool.spec.disruption.consolidate_after
            why = f"its pods came or went less than consolidateAfter ({after}) ago"
        elif not results[method].budgets[pool.name]:
            why = no_disruption(pool.name, method.reason, going.get(pool.name, 0))
        elif not totals.could_pass(each):
            why = "policy Balanced: even its deletion saves too little for what it disturbs"
        elif is_balanced(pool):
            why = "policy Balanced: what would be done saves too little for what it disturbs"
        else:
            why = "other nodes go first"
        reasons[each.name] = why
    return reasons
