"""Mode disrupt: the methods of Karpenter over its nodes, in the form of their vectors."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from tests.doors.autoscalers import METHODS, Catalogue, DisruptionPass, fleet

from .karpenter_mode import FakeProvider, KarpenterWorld, claim, rounded

Json = dict[str, Any]

NAMES = dict(zip(METHODS, ("emptiness", "drift", "multi", "single"), strict=True))
"""What vectors call the methods."""


def played(scenario: Json, seed: int, catalogue: Catalogue | None = None) -> Json:
    """The result of a scenario."""
    world = KarpenterWorld.of(scenario, seed, catalogue)
    disruption = DisruptionPass(world.view())
    results = {name: disruption.play(method) for method, name in NAMES.items()}
    first = next((name for name, result in results.items() if result.command is not None), "")
    methods = {name: shown(result, scenario, seed) for name, result in results.items()}
    return {"name": scenario["name"], "methods": methods, "first": first}


def shown(result: Any, scenario: Json, seed: int = 0) -> Json:
    """What a method comes to, in the form of vectors."""
    error = {"error": result.error} if result.error else {}
    return error | {
        "candidates": [
            {
                "node": one.name,
                "nodePool": one.pool.name,
                "price": rounded(one.price),
                "disruptionCost": rounded(one.cost),
                "ratio": rounded(one.ratio),
            }
            for one in result.candidates
        ],
        "budgets": result.budgets,
        "commands": [] if result.command is None else [command(result.command, scenario, seed)],
        "events": [structs.asdict(event) for event in result.events],
    }


def command(made: Any, scenario: Json, seed: int) -> Json:
    """A command, with what the fake provider would launch; each method begins with all reservations."""
    provider: FakeProvider = KarpenterWorld.of(scenario, seed).provider
    replacements = []
    for number, new in enumerate(made.new_claims(), 1):
        of_pods = next(one for one in made.replacements if provider.pods_of(one) == new.pods)
        request = fleet(of_pods) if provider.is_aws else None
        made_of = {"launch": provider.launch(new)} | provider.asked(request)
        replacements.append(claim(number, new) | made_of)
    found: Json = {
        "decision": made.decision,
        "candidates": sorted(one.name for one in made.candidates),
        "replacements": replacements,
        "moves": {node: list(pods) for node, pods in made.moves.items()},
        "savings": rounded(made.savings),
        "terminateFirst": made.terminate_first,
    }
    return {key: value for key, value in found.items() if value or key == "savings"}
