"""A pass of Karpenter over its nodes: which go, what comes in their place, and why the others stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec
from msgspec import Struct

from moorage.kube import NodePool

from .claim_template import idle_pools
from .cluster_view import ClusterView, NoPoolsError, Removal
from .disruption_candidates import (
    Candidates,
    NodeCandidate,
    NodeEvent,
    allowed_by_budgets,
    by_ratio,
    count_nodes,
    is_consolidatable,
    node_event,
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

# ---- a pass of Karpenter over its nodes: which go, and what comes in their place ---------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/disruption: controller.go, emptiness.go, drift.go,
# multinodeconsolidation.go, singlenodeconsolidation.go and validation.go.

EMPTINESS, DRIFT, MULTI, SINGLE = "emptiness", "drift", "multi", "single"
METHODS = (EMPTINESS, DRIFT, MULTI, SINGLE)
"""In the order in which a pass asks them; the first with a command acts."""
REASONS = {EMPTINESS: "Empty", DRIFT: "Drifted", MULTI: "Underutilized", SINGLE: "Underutilized"}
VALIDATION_DELAY = 15.0
"""Seconds after which a command must still hold."""
MOST_CANDIDATES = 101
LONGEST = {MULTI: 60.0, SINGLE: 180.0}
"""Seconds after which a method ends with what it has."""
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

    method: str
    candidates: list[NodeCandidate] = msgspec.field(default_factory=list)
    budgets: dict[str, int] = msgspec.field(default_factory=dict)
    command: Command | None = None
    events: list[NodeEvent] = msgspec.field(default_factory=list)
    error: str = ""
    seconds: float = 0.0

    @property
    def is_late(self) -> bool:
        """Whether Karpenter would not get so far."""
        return self.seconds > LONGEST.get(self.method, self.seconds)


class DisruptionPass:
    """The methods of a pass, over one cluster."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self._now = view.situation.now
        self._simulations = Simulations(view)
        self._events: list[NodeEvent] = []
        self._pools = sorted(view.objects.list(NodePool), key=lambda pool: pool.name)
        self._counts = count_nodes(view.states)
        self._may_end_early = not any(template.requirements.has_min_values for template in view.templates[0])

    def play(self, method: str, only: str = "") -> MethodResult:
        """Play one method, and validate its command as if the cluster stayed as it is."""
        result = self.propose(method, only)
        if result.command is not None:
            result.command = self.validated(method, result.command, VALIDATION_DELAY)
            result.events = self._told()
        return result

    def propose(self, method: str, only: str = "") -> MethodResult:
        """Ask one method for a command, which is still to be validated; `only` names a node that alone may
        go."""
        self._events, self._simulations.hosts, self._simulations.count = [], 0, 0
        candidates, to_go = self._candidates(method, self._now)
        if only:
            to_go = [each for each in to_go if each.name == only]
        budgets = self._budgets(method, self._now)
        result = MethodResult(method, to_go, dict(budgets))
        try:
            if to_go:
                result.command = self._command(method, candidates, to_go, budgets)
        except NoPoolsError:
            if method != SINGLE:  # which only logs it
                result.error = NO_SCHEDULER
        result.seconds = self._simulations.count * len(self.view.states) * SECONDS_A_NODE
        if self._simulations.count:
            for pool, text in self.view.templates[1].items():
                self._tell(f"nodepool/{pool}", "NoCompatibleInstanceTypes", text, "Warning")
        result.events = self._told()
        return result

    def validated(self, method: str, command: Command, delay: float = 0.0) -> Command | None:
        """The command as it still holds some seconds after the time of this cluster; None if it does not.

        Another `DisruptionPass` may have proposed it, before."""
        if method == DRIFT:  # is not validated
            return command
        still, left = self._still(method, command, delay)
        if method == EMPTINESS:
            allowed = self._within(still, left)
            return Command(allowed) if allowed else None
        why = self._invalid(command, still, left, delay)
        if why and method == SINGLE:
            (each,) = command.candidates
            text = f"{command.text_about(each)}, reason: {why} (savings: ${command.savings:.2f})"
            rejected = f"Consolidation rejected: {text}"
            self._events.append(node_event(each.state, "ConsolidationRejected", rejected))
        return None if why else command

    def _told(self) -> list[NodeEvent]:
        return sorted(set(self._events), key=lambda event: (event.object, event.reason, event.message))

    def _tell(self, about: str, reason: str, message: str, kind: str = "Normal") -> None:
        self._events.append(NodeEvent(about, kind, reason, message))

    def _command(
        self, method: str, candidates: Candidates, to_go: list[NodeCandidate], budgets: dict[str, int]
    ) -> Command | None:
        if method == EMPTINESS:
            return self._emptiness(to_go, budgets)
        if method == DRIFT:
            return self._drift(candidates.drifted_first(to_go), budgets)
        totals = PoolTotals(self.view, candidates.found)
        return (self._multi if method == MULTI else self._single)(to_go, budgets, totals)

    # ---- what the methods share ----------------------------------------------------------------------------

    def _candidates(self, method: str, now: float) -> tuple[Candidates, list[NodeCandidate]]:
        """All candidates, and those that a method takes up."""
        nominated = now - self._now < VALIDATION_DELAY + 5
        candidates = Candidates(self.view, now, method == DRIFT, nominated)
        if method == EMPTINESS:
            empty = candidates.empty()
        elif method == DRIFT:
            empty = candidates.drifted()
        else:
            empty = candidates.underutilized()
        self._events += candidates.events
        return candidates, empty

    def _budgets(self, method: str, now: float) -> dict[str, int]:
        there, going = self._counts
        left, reason = {}, REASONS[method]
        for pool in self._pools:
            count = there.get(pool.name, 0)
            allowed = allowed_by_budgets(pool, count, reason, now)
            left[pool.name] = max(allowed - going.get(pool.name, 0), 0)
            if count and not allowed:
                text = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
                self._tell(f"nodepool/{pool.name}", "DisruptionBlocked", text)
        return left

    @staticmethod
    def _within(candidates: Sequence[NodeCandidate], budgets: dict[str, int]) -> list[NodeCandidate]:
        """The candidates that budgets allow, in order; each takes one from the budget of its pool."""
        chosen = []
        for candidate in candidates:
            if budgets[candidate.pool.name]:
                budgets[candidate.pool.name] -= 1
                chosen.append(candidate)
        return chosen

    def _still(
        self, method: str, command: Command, delay: float
    ) -> tuple[list[NodeCandidate], dict[str, int]]:
        """The candidates of a command as they are when it is validated, and the budgets of then."""
        names = {candidate.name for candidate in command.candidates}
        now = self._now + delay
        _, to_go = self._candidates(method, now)
        return [each for each in to_go if each.name in names], self._budgets(method, now)

    # ---- methods -------------------------------------------------------------------------------------------

    def _emptiness(self, to_go: list[NodeCandidate], budgets: dict[str, int]) -> Command | None:
        """Nodes without pods whose disruption costs anything are deleted together."""
        within = self._within(by_ratio(to_go), budgets)
        return Command(within) if within else None

    def _drift(self, oldest: list[NodeCandidate], budgets: dict[str, int]) -> Command | None:
        """The node that drifted first, those without pods before others, whatever its replacement costs."""
        for each in oldest:
            if not budgets[each.pool.name]:
                continue
            outcome = self._simulations.without([each], self._now, Removal(strict=False))
            if outcome.errors:
                freed = self._freed(each)
                if freed is not None:
                    return Command([each], [], freed.moves, NO_RESERVED_CAPACITY)
                text = sentence(outcome.error_text())
                self._events.append(node_event(each.state, "DisruptionBlocked", text))
                continue
            return Command([each], outcome.claims, outcome.moves)
        return None

    def _freed(self, candidate: NodeCandidate) -> SimulatedMoves | None:
        """Where pods go once the reservation of their node is free; None if that does not help them."""
        reservation_id = self.view.vocabulary.known_labels.reservation_labels[0]
        reservation = candidate.state.labels.get(reservation_id, "")
        if not self.view.options.terminate_first or candidate.capacity_type != "reserved" or not reservation:
            return None
        outcome = self._simulations.without([candidate], self._now, Removal(strict=True, freed=reservation))
        return None if outcome.errors else outcome

    def _multi(
        self, to_go: list[NodeCandidate], budgets: dict[str, int], totals: PoolTotals
    ) -> Command | None:
        """The most of the first candidates that go together, by bisection."""
        disruptable = self._within(by_ratio(to_go), budgets)
        low, high = 1, min(len(disruptable), MOST_CANDIDATES) - 1
        best: Command | None = None
        scores: dict[str, Score] = {}
        rejected: dict[str, Score] = {}
        while low <= high:
            middle = (low + high) // 2
            command = self._move(disruptable[: middle + 1])
            if command is not None:
                command = without_same_type(self.view, command)
            if command is not None:
                of_pools = totals.scores(command)
                if all(score.is_approved for score in of_pools.values()):
                    best, scores = command, of_pools
                else:
                    command, rejected = None, of_pools
            low, high = (middle + 1, high) if command is not None else (low, middle - 1)
        for pool, score in (rejected if best is None else scores).items():
            if score.is_approved:
                self._tell(f"nodepool/{pool}", "ConsolidationApproved", str(score))
        return best

    def _single(
        self, to_go: list[NodeCandidate], budgets: dict[str, int], totals: PoolTotals
    ) -> Command | None:
        """The first candidate whose pods cost less elsewhere; pools take turns."""
        for each in _in_turns(by_ratio(to_go)):
            if not budgets[each.pool.name] or not totals.could_pass(each):
                continue
            command = self._move([each])
            if command is None:
                continue
            scores = totals.scores(command).values()
            if not all(score.is_approved for score in scores):
                continue
            for score in scores:
                self._events.append(node_event(each.state, "ConsolidationApproved", str(score)))
            return command
        return None

    # ---- consolidation -------------------------------------------------------------------------------------

    def _simulated(self, candidates: Sequence[NodeCandidate], now: float, most: int | None) -> SimulatedMoves:
        fresh = self._simulations.fresh(now) - {candidate.name for candidate in candidates}
        removal = Removal(strict=False, fresh=fresh, most_claims=most if self._may_end_early else None)
        return self._simulations.without(candidates, now, removal)

    def _move(self, candidates: Sequence[NodeCandidate]) -> Command | None:
        """What is done with candidates together; None if nothing, of which a single one is told."""
        alone = len(candidates) == 1
        outcome = self._simulated(candidates, self._now, None if alone else 1)
        command = move(self.view, candidates, outcome)
        if isinstance(command, str):
            if alone:
                self._events.append(node_event(candidates[0].state, "Unconsolidatable", sentence(command)))
            return None
        if command.replacements:
            savings = f"(savings: ${command.savings:.2f})"
            for candidate in candidates:
                text = f"Consolidation candidate: {command.text_about(candidate)} {savings}"
                self._events.append(node_event(candidate.state, "ConsolidationCandidate", text))
        return command

    def _invalid(
        self, command: Command, still: list[NodeCandidate], left: dict[str, int], delay: float
    ) -> str:
        """Why a command holds no more when it is validated; "" if it does."""
        if len(still) != len(command.candidates):
            return "churn"
        if len(self._within(still, left)) != len(still):
            return "budget"
        outcome = self._simulated(still, self._now + delay, 1)
        if outcome.errors or len(outcome.claims) != len(command.replacements):
            return "scheduling"
        for claim, new in zip(command.replacements, outcome.claims, strict=True):
            now = {new.offers.types[place].name for place in new.places}
            if not {claim.offers.types[place].name for place in claim.places} <= now:
                return "scheduling"
        return ""


def _in_turns(candidates: Sequence[NodeCandidate]) -> Iterator[NodeCandidate]:
    """Candidates of each pool in order, pools taking turns by name."""
    by_pool: dict[str, list[NodeCandidate]] = {}
    for candidate in candidates:
        by_pool.setdefault(candidate.pool.name, []).append(candidate)
    for turn in zip_longest(*(by_pool[pool] for pool in sorted(by_pool))):
        yield from (each for each in turn if each is not None)


# ---- why nodes of pools stay: Karpenter's own message, or what it leaves unsaid ----------------------------

_REFUSALS = ("DisruptionBlocked", "Unconsolidatable", "ConsolidationRejected")


class StayingNode(NamedTuple):
    """A node that stays; `reason` is that of Karpenter's event, "" where it has none."""

    node: str
    reason: str
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
    going = {candidate.name for command in commands for candidate in command.candidates}
    events: dict[str, NodeEvent] = {}
    for result in results.values():
        for event in result.events:
            if event.reason in _REFUSALS:
                known = events.get(event.object)
                if known is None or _REFUSALS.index(event.reason) < _REFUSALS.index(known.reason):
                    events[event.object] = event
    silent = _silent(view, {method: result.budgets for method, result in results.items()})
    staying_nodes = []
    for state in view.states:
        if state.claim is None or state.name in going:
            continue
        # Until a node is registered, the state has the name of its claim.
        name = state.name if state.node is None else state.node.name
        event_of_node = events.get(object_of(state))
        if event_of_node is not None:
            staying_nodes.append(StayingNode(name, event_of_node.reason, event_of_node.message))
        else:
            staying_nodes.append(StayingNode(name, "", silent.get(state.name, "")))
    return tuple(staying_nodes)


def _silent(view: ClusterView, budgets: dict[str, dict[str, int]]) -> dict[str, str]:
    """Why candidates stay of which Karpenter tells nothing."""
    candidates = Candidates(view, view.situation.now)
    totals = PoolTotals(view, candidates.found)
    reasons = {}
    for each in candidates.found:
        pool, method = each.pool, "emptiness" if each.is_empty else "single"
        if not (each.is_empty or view.pools):
            idle = idle_pools(view.objects.list(NodePool))
            why = f"Karpenter removes only empty nodes now, since no NodePool makes nodes for pods: {idle}"
        elif not is_consolidatable(pool, each.claim, view.situation.now):
            after = pool.spec.disruption.consolidate_after
            why = f"its pods came or went less than consolidateAfter ({after}) ago"
        elif not budgets[method][pool.name]:
            why = f"the budgets of NodePool {pool.name} allow no disruption for {REASONS[method]} now"
        elif not totals.could_pass(each):
            why = "policy Balanced: even its deletion saves too little for what it disturbs"
        elif is_balanced(pool):
            why = "policy Balanced: what would be done saves too little for what it disturbs"
        else:
            why = "other nodes go first"
        reasons[each.name] = why
    return reasons
