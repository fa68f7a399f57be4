"""Whether pods of nodes cost less elsewhere: what comes in place of the nodes, by price.

Rules: Karpenter v1.15.0, pkg/controllers/disruption/consolidation.go and multinodeconsolidation.go.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from moorage.autoscalers.instance_types.labels import CAPACITY_TYPE

from ..claims.type_columns import TypeColumns, lacking_text, lacking_values
from ..cluster_view import ClusterView
from ..new_nodes_result import FinishedClaim
from ..requirements.requirement_set import RequirementSet
from .candidates import NodeCandidate
from .command import Command
from .removals import Outcome

SPOT, ON_DEMAND = "spot", "on-demand"
LEAST_SPOT_TYPES = 15
NO_CHEAPER = "Can't replace with a cheaper node"
SPOT_DISABLED = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
_LARGEST = sys.float_info.max


def move(view: ClusterView, candidates: Sequence[NodeCandidate], outcome: Outcome) -> Command | str:
    """The command that an outcome leads to; or why it leads to none."""
    if outcome.errors:
        return outcome.error_text()
    if not outcome.claims:
        return Command(candidates, [], outcome.moves)
    if len(outcome.claims) > 1:
        return f"Can't remove without creating {len(outcome.claims)} candidates"
    (claim,) = outcome.claims
    bound = sum(one.price for one in candidates)
    kinds = claim.requirements.get(CAPACITY_TYPE)
    spot_only = all(one.capacity_type == SPOT for one in candidates) and kinds.allows(SPOT)
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
        found = len(cheaper.places)
        if found < LEAST_SPOT_TYPES:
            return (
                f"SpotToSpotConsolidation requires {LEAST_SPOT_TYPES} cheaper instance type options than the "
                f"current candidate to consolidate, got {found}"
            )
        del cheaper.places[max(LEAST_SPOT_TYPES, _needed(cheaper)) :]
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
    return replace(claim, places=places)


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
    for one in command.candidates:
        assert one.instance_type is not None
        name, labels = one.instance_type.name, view.vocabulary.of_labels(one.state.labels)
        (known,) = view.catalogue.known([one.instance_type])
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
    found = below(view, claim, min(shared, default=_LARGEST))
    if isinstance(found, str) or not found.places:
        return None
    return Command(command.candidates, [found], command.moves)
