"""What becomes of the pods of nodes that are removed, what comes in place of the nodes, and whether it is
worth it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import inf

import msgspec
from msgspec import Struct

from moorage._core.provision.label_requirements import RequirementSet
from moorage.grouped import grouped
from moorage.kube import NodeClaim, NodePool, Pod

from ..providers.instance_type import CAPACITY_TYPE, INSTANCE_TYPE, POOL, ZONE
from .cluster_view import ClusterView, Removal
from .disruption_candidates import NodeCandidate, cost_of_node, is_fresh, price_of
from .existing_nodes import ExistingNode
from .new_nodes_result import FinishedClaim, NewClaim, new_claim
from .pod_shape import PodShape
from .solve import Solver
from .type_columns import TypeColumns, lacking_text, lacking_values

# ---- what Karpenter would do with nodes: delete some, or replace them --------------------------------------

DELETE, REPLACE, TERMINATE_FIRST = "delete", "replace", "terminate-first"


class Command(Struct, eq=False):
    """A decision about nodes.

    Attributes
    ----------
    replacements : list of FinishedClaim
        The nodes that come in their place.
    moves : dict of str to tuple of str
        By node, the pods that it takes; those that wait are among them.
    terminate_first : str
        Why no replacement can be made before.
    """

    candidates: Sequence[NodeCandidate]
    replacements: list[FinishedClaim] = msgspec.field(default_factory=list)
    moves: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    terminate_first: str = ""

    @property
    def decision(self) -> str:
        return REPLACE if self.replacements else TERMINATE_FIRST if self.terminate_first else DELETE

    @property
    def going(self) -> dict[str, str]:
        """By the names of their claims, the nodes that go."""
        return {each.claim.name: each.state.node.name for each in self.candidates if each.state.node}

    @property
    def is_launchable(self) -> bool:
        """Whether something can be launched for each node that comes; otherwise the command is given up."""
        return all(replacement.launched is not None for replacement in self.replacements)

    @property
    def source_price(self) -> float:
        return sum(candidate.price for candidate in self.candidates)

    @property
    def savings(self) -> float:
        """Per hour; a replacement counts with the cheapest offering of its first type."""
        new = 0.0
        for replacement in self.replacements:
            best = replacement.offers.best[replacement.places[0]] if replacement.places else None
            new += best.price if best is not None else 0.0
        return self.source_price - new

    def new_claims(self) -> tuple[NewClaim, ...]:
        """The replacements as they would be created, in order of their creation."""
        ordered = sorted(self.replacements, key=lambda replacement: replacement.claim.name)
        return tuple([new_claim(each) for each in ordered])

    def text_about(self, candidate: NodeCandidate) -> str:
        """Karpenter's text about the part of one node."""
        if len(self.candidates) > 1:
            return f"{self.decision}: [{candidate.name}] (part of {len(self.candidates)}-node consolidation)"
        count = len(self.replacements)
        new = f" -> [{count} replacement{'s' * (count != 1)}]" if count else ""
        return f"{self.decision}: [{candidate.name}]{new}"


# ---- what becomes of the pods of nodes that are taken to be removed ----------------------------------------
# Rules: Karpenter v1.15.0, pkg/controllers/disruption/helpers.go (SimulateScheduling).

_MOST_ERRORS = 5


class SimulatedMoves(Struct):
    """Where pods would go.

    Attributes
    ----------
    claims : list of FinishedClaim
        In the order in which Karpenter returns them.
    moves : dict of str to tuple of str
        By node, the keys of the pods that it takes.
    errors : dict of str to object
        By key, why pods that run would get no node; texts when they are asked for.
    """

    claims: list[FinishedClaim]
    moves: dict[str, tuple[str, ...]]
    errors: dict[str, object] = msgspec.field(default_factory=dict)

    def error_text(self) -> str:
        """Karpenter's text about the first pods that would get no node."""
        text = "not all pods would schedule, "
        for key in islice(sorted(self.errors, key=lambda key: key.split("/")), _MOST_ERRORS):
            text += f"{key} => {self.errors[key]} "
        left = len(self.errors) - _MOST_ERRORS
        return text if left < 0 else f"{text} and {left} other(s)"


class Simulations:
    """Passes without some nodes, over one cluster.

    Parameters
    ----------
    hosts : int
        Names of new nodes are numbered over all passes.
    """

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.hosts = 0
        self.count = 0
        self._fresh: dict[float, frozenset[str]] = {}
        self._closed: dict[float, frozenset[str]] = {}
        self._moving: dict[float, list[Pod]] = {}
        self._spot_stays: dict[float, bool] = {}
        self._pending = {pod.key for pod in view.pending}

    def fresh(self, now: float) -> frozenset[str]:
        """Names of nodes whose pods changed so lately that nothing is moved there."""
        if now not in self._fresh:
            pools = {pool.name: pool for pool in self.view.pools}
            self._fresh[now] = frozenset(
                state.name
                for state in self.view.states
                if not state.is_leaving and is_fresh(pools.get(state.labels.get(POOL, "")), state, now)
            )
        return self._fresh[now]

    def without(self, candidates: Sequence[NodeCandidate], now: float, removal: Removal) -> SimulatedMoves:
        """Place the pods of candidates, those that wait, and those of nodes that are being deleted."""
        view, moving = self.view, self.moving(now)
        own = [pod for candidate in candidates for pod in candidate.moving]
        names = frozenset(candidate.name for candidate in candidates)
        placed = [*view.pending, *own, *moving]
        self.count += 1
        solver = view.solver(
            placed, replace(removal, nodes=names), frozenset(pod.key for pod in own), self.hosts
        )
        self.hosts = solver.hosts
        return self._outcome(solver, {pod.key for pod in moving})

    def moving(self, now: float) -> list[Pod]:
        """Pods of nodes that are being deleted."""
        if now not in self._moving:
            self._moving[now] = self.view.moving(now)
        return self._moving[now]

    def must_stay(self, candidates: Sequence[NodeCandidate], now: float) -> bool:
        """Whether no command can come of candidates, as the columns of nodes tell without placing their pods:
        these have no room elsewhere, and a spot node may not come in place of spot nodes."""
        if now not in self._spot_stays:
            self._spot_stays[now] = self._spot_must_stay(now)
        if not self._spot_stays[now]:
            return False
        needs = Counter[PodShape]() if len(candidates) > 1 else candidates[0].needs
        for each in candidates:
            if each.capacity_type != SPOT or each.names_capacity_type:
                return False
            if len(candidates) > 1:
                needs.update(each.needs)
        if now not in self._closed:
            # Karpenter refuses moves to nodes that are not ready.
            unready = {each.name for each in self.view.states if not (each.is_leaving or each.is_initialized)}
            self._closed[now] = self.fresh(now) | unready
        return not self.view.has_room(needs, [each.name for each in candidates], self._closed[now])

    def _spot_must_stay(self, now: float) -> bool:
        """Whether spot nodes go only if their pods have room on nodes that are there."""
        view = self.view
        if view.options.spot_to_spot or view.reserved or not view.pools:
            return False
        shapes = [view.book.shape(pod).constraints for pod in (*view.pending, *self.moving(now))]
        sets = [*(template.requirements for template in view.templates[0]), *(s.requirements for s in shapes)]
        return all(requirements.get(CAPACITY_TYPE).allows(SPOT) for requirements in sets)

    def _outcome(self, solver: Solver, moving: set[str]) -> SimulatedMoves:
        errors: dict[str, object] = dict(solver.errors)
        claims = []
        for claim in solver.claims:
            finished = self.view.finisher.finished(claim)
            if isinstance(finished, FinishedClaim):
                claims.append(finished)
            else:
                errors |= {pod.pod.key: finished for pod in claim.pods}
        taking = [node for node in solver.nodes.hosts if node.pods]
        for node in taking:
            if not node.state.is_initialized:
                errors |= {pod.pod.key: _unready(node) for pod in node.pods if pod.pod.key not in moving}
        moves = {node.state.name: tuple([pod.pod.key for pod in node.pods]) for node in taking}
        left: Mapping[str, object] = {key: why for key, why in errors.items() if key not in self._pending}
        return SimulatedMoves(claims, moves, dict(left))


def _unready(node: ExistingNode) -> str:
    state = node.state
    names = [f"nodeclaim/{state.claim.name}"] if state.claim is not None else []
    names += [f"node/{state.node.name}"] if state.node is not None else []
    return f"would schedule against uninitialized {', '.join(names)}"


# ---- whether pods of nodes cost less elsewhere: what comes in place of the nodes, by price -----------------
# Rules: Karpenter v1.15.0, pkg/controllers/disruption/consolidation.go and multinodeconsolidation.go.

SPOT, ON_DEMAND = "spot", "on-demand"
LEAST_SPOT_TYPES = 15
NO_CHEAPER = "Can't replace with a cheaper node"
SPOT_DISABLED = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
_LARGEST = sys.float_info.max


def move(view: ClusterView, candidates: Sequence[NodeCandidate], outcome: SimulatedMoves) -> Command | str:
    """The command that an outcome leads to; or why it leads to none."""
    if outcome.errors:
        return outcome.error_text()
    if not outcome.claims:
        return Command(candidates, [], outcome.moves)
    if len(outcome.claims) > 1:
        return f"Can't remove without creating {len(outcome.claims)} candidates"
    (claim,) = outcome.claims
    bound = sum(candidate.price for candidate in candidates)
    kinds = claim.requirements.get(CAPACITY_TYPE)
    spot_only = all(candidate.capacity_type == SPOT for candidate in candidates) and kinds.allows(SPOT)
    if spot_only:
        if not view.options.spot_to_spot:
            return SPOT_DISABLED
        offered = claim.claim.template.columns.offered(_on_spot(claim.requirements))
        claim = _narrowed(view, claim, _on_spot(claim.requirements), offered)
    cheaper = below(view, claim, bound)
    if isinstance(cheaper, str):
        return f"Filtering by price: {cheaper}"
    if not cheaper.places:
        return NO_CHEAPER
    if spot_only and len(candidates) == 1:
        count = len(cheaper.places)
        if count < LEAST_SPOT_TYPES:
            return (
                f"SpotToSpotConsolidation requires {LEAST_SPOT_TYPES} cheaper instance type options than the "
                f"current candidate to consolidate, got {count}"
            )
        kept = cheaper.places[: max(LEAST_SPOT_TYPES, _needed(cheaper))]
        cheaper = replace(cheaper, places=kept, below=None)
    if not spot_only and kinds.allows(SPOT) and kinds.allows(ON_DEMAND):
        cheaper = _narrowed(view, cheaper, _on_spot(cheaper.requirements), -1)
    return Command(candidates, [cheaper], outcome.moves)


def _on_spot(requirements: RequirementSet) -> RequirementSet:
    vocabulary = requirements.vocabulary
    return requirements.meet(vocabulary.set_of([vocabulary.key(CAPACITY_TYPE).one_of(SPOT)]))


def _narrowed(
    view: ClusterView, claim: FinishedClaim, requirements: RequirementSet, types: int
) -> FinishedClaim:
    """A claim with other requirements, and only those of its types that are bits of a mask."""
    offers = view.finisher.offers(claim.claim.template.columns, requirements)
    places = [place for place in claim.places if types >> place & 1]
    return replace(claim, requirements=requirements, offers=offers, places=places)


def below(view: ClusterView, claim: FinishedClaim, bound: float) -> FinishedClaim | str:
    """A claim with those types that cost less even at their worst; or which values it lacks then."""
    worst = claim.offers.worst_prices
    places = [place for place in claim.places if worst[place] < bound]
    lacking = lacking_values(_columns(claim), sum(1 << place for place in places), claim.requirements)
    if lacking:
        return lacking_text(lacking)
    return replace(claim, places=places, below=bound)


def _columns(claim: FinishedClaim) -> TypeColumns:
    return claim.claim.template.columns


def _needed(claim: FinishedClaim) -> int:
    """How many of the first types minValues needs."""
    types = 0
    if not claim.requirements.has_min_values:
        return 0
    for count, place in enumerate(claim.places, 1):
        types |= 1 << place
        if not lacking_values(_columns(claim), types, claim.requirements):
            return count
    return len(claim.places)


def without_same_type(view: ClusterView, command: Command) -> Command | None:
    """A replacement of several nodes that is of none of their types at their price; None if none is left."""
    if not command.replacements:
        return command
    (claim,) = command.replacements
    prices: dict[str, float] = {}
    there: set[str] = set()
    for candidate in command.candidates:
        assert candidate.instance_type is not None
        name, labels = candidate.instance_type.name, view.vocabulary.of_labels(candidate.state.labels)
        (known,) = view.catalogue.known([candidate.instance_type])
        offered = [
            each.offering.price
            for each in known.offerings
            if not labels.refusal(each.requirements, undefined=True)
        ]
        there.add(name)
        if offered:
            prices[name] = min(prices.get(name, _LARGEST), *offered)
    types = _columns(claim).types
    shared = [prices.get(types[place].name, 0.0) for place in claim.places if types[place].name in there]
    narrowed = below(view, claim, min(shared, default=_LARGEST))
    if isinstance(narrowed, str) or not narrowed.places:
        return None
    return Command(command.candidates, [narrowed], command.moves)


# ---- whether a move is worth it in pools whose policy is Balanced: what it saves against what it disturbs --
# Rules: Karpenter v1.15.0, pkg/controllers/disruption/balanced.go and pkg/state/cost.

BALANCED = "Balanced"
_K = 2


class Score(Struct, frozen=True):
    """The parts of a pool's price that a move saves, and of its disruption costs that it takes."""

    savings: float = 0.0
    disruption: float = 0.0

    @property
    def value(self) -> float:
        if self.savings <= 0:
            return 0.0
        return self.savings / self.disruption if self.disruption else inf

    @property
    def is_approved(self) -> bool:
        return self.value >= 1 / _K

    def __str__(self) -> str:
        value = "+Inf" if self.value == inf else f"{self.value:.2f}"
        shares = f"savings {self.savings * 100:.1f}%, disruption {self.disruption * 100:.1f}%"
        return f"score {value} >= threshold {1 / _K:.2f} (k: {_K}, {shares})"


def is_balanced(pool: NodePool) -> bool:
    return pool.spec.disruption.consolidation_policy == BALANCED


class PoolTotals:
    """What the nodes of pools cost, and what it would cost to remove them all."""

    def __init__(self, view: ClusterView, candidates: Iterable[NodeCandidate]) -> None:
        known = {candidate.name: candidate for candidate in candidates}
        self._prices: dict[str, float] = {}
        self._costs: dict[str, float] = {}
        for pool in {each.pool.name for each in known.values() if is_balanced(each.pool)}:
            own = sum(each.price for each in known.values() if each.pool.name == pool)
            self._prices[pool] = _price_of_claims(view, pool) or own
            states = [state for state in view.states if state.labels.get(POOL) == pool]
            self._costs[pool] = sum(
                known[state.name].cost if state.name in known else cost_of_node(view, state)
                for state in states
            )

    def _score(self, pool: str, savings: float, cost: float) -> Score:
        price, total = self._prices[pool], self._costs[pool]
        return Score(savings / price, cost / total) if price > 0 and total > 0 else Score()

    def could_pass(self, candidate: NodeCandidate) -> bool:
        """Whether the deletion of a node, the best that could be done with it, would be approved."""
        if not is_balanced(candidate.pool) or self._prices[candidate.pool.name] <= 0:
            return True
        return self._score(candidate.pool.name, candidate.price, candidate.cost).is_approved

    def scores(self, command: Command) -> dict[str, Score]:
        """By Balanced pool, the score of its part of a move; what several save is split by their prices."""
        by_pool = grouped((candidate.pool.name, candidate) for candidate in command.candidates)
        savings, whole = command.savings, command.source_price
        totals = {}
        for pool, members in by_pool.items():
            if not is_balanced(members[0].pool):
                continue
            part = sum(member.price for member in members) / whole if whole > 0 and len(by_pool) > 1 else 1.0
            totals[pool] = self._score(pool, savings * part, sum(member.cost for member in members))
        return totals


def _price_of_claims(view: ClusterView, pool: str) -> float:
    """The prices of all claims of a pool that name type, zone and capacity type."""
    types = view.situation.types.get(pool, ())
    price = 0.0
    for claim in view.objects.list(NodeClaim):
        labels = claim.metadata.labels
        if labels.get(POOL) == pool and all(name in labels for name in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE)):
            of_claim = next((kind for kind in types if kind.name == labels[INSTANCE_TYPE]), None)
            price += price_of(of_claim, claim) or 0.0
    return price
