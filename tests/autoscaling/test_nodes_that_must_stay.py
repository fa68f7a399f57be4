"""Nodes that must stay, as is plain without a simulation, would stay after one, too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.karpenter.karpenter_mode import KarpenterWorld
from tests.conformance.vectors import lines
from tests.doors.autoscalers import METHODS, DisruptionPass, Simulations

VECTORS = Path(__file__).parents[1] / "conformance/data/karpenter/disruption.jsonl.gz"


def commands(scenario: dict[str, Any]) -> list[tuple[str, list[str]] | None]:
    """What each method does with the nodes of a scenario, told to nobody."""
    disruption = DisruptionPass(KarpenterWorld.of(scenario, 0).view(), tells=False)
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


def test_commands_are_the_same_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scenarios = [json.loads(line)["scenario"] for line in lines(VECTORS)]
    scenarios = [on_spot(each) for each in scenarios if each["mode"] == "disrupt"]
    verdicts, decide = Counter[bool](), Simulations.must_stay

    def counted(simulations: Simulations, candidates: Sequence[Any], now: float) -> bool:
        verdict = decide(simulations, candidates, now)
        verdicts[verdict] += 1
        return verdict

    monkeypatch.setattr(Simulations, "must_stay", counted)
    quick = [*map(commands, scenarios)]
    monkeypatch.setattr(Simulations, "must_stay", lambda *_: False)
    assert quick == [*map(commands, scenarios)]
    assert verdicts[True] > 10
    assert verdicts[False] > 10
