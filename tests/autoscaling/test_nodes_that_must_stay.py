"""Nodes that must stay, as is plain without a simulation, would stay after one, too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conformance.karpenter.karpenter_mode import KarpenterWorld
from tests.conformance.vectors import lines
from tests.doors.autoscalers import METHODS, DisruptionPass, Simulations

VECTORS = Path(__file__).parents[1] / "conformance/data/karpenter/disruption.jsonl.gz"


class Counting(Simulations):
    """Counts its verdicts."""

    verdicts = Counter[bool]()

    def must_stay(self, candidates: Sequence[Any], now: float) -> bool:
        verdict = super().must_stay(candidates, now)
        self.verdicts[verdict] += 1
        return verdict


class Simulating(Simulations):
    """Simulates every candidate."""

    def must_stay(self, candidates: Sequence[Any], now: float) -> bool:
        return False


def commands(scenario: dict[str, Any], kind: type[Simulations]) -> list[tuple[str, list[str]] | None]:
    """What each method does with the nodes of a scenario, told to nobody."""
    view = KarpenterWorld.of(scenario, 0).view()
    disruption = DisruptionPass(view, tells=False)
    disruption.simulations = kind(view)
    played = [disruption.play(method).command for method in METHODS]
    return [
        None if command is None else (command.decision, [each.name for each in command.candidates])
        for command in played
    ]


def on_spot(scenario: dict[str, Any]) -> dict[str, Any]:
    """The scenario where all nodes are spot instances, which none may replace."""
    for obj in scenario["objects"]:
        labels = obj["metadata"].get("labels", {})
        if obj["kind"] in ("Node", "NodeClaim") and "karpenter.sh/capacity-type" in labels:
            labels["karpenter.sh/capacity-type"] = "spot"
    scenario.get("options", {}).pop("featureGates", None)
    return scenario


def test_commands_are_the_same_without_it() -> None:
    scenarios = [json.loads(line)["scenario"] for line in lines(VECTORS)]
    for each in scenarios:
        if each["mode"] == "disrupt":
            scenario = on_spot(each)
            assert commands(scenario, Counting) == commands(scenario, Simulating)
    assert Counting.verdicts[True] > 10
    assert Counting.verdicts[False] > 10
