"""``moorage plan -o json`` gives the plans of the methods; the text is in `tests/cases/cli/plan*.md`."""

from __future__ import annotations

import json
from typing import Any

import pytest

import moorage as mo
from moorage.cli import main
from tests.house.source import ROOT

SHOP = str(ROOT / "examples/shop/cluster.yaml")
PLANS: dict[str, Any] = {
    "nodes --like new-a": lambda one: one.ask.nodes_needed(like="new-a"),
    "nodes --like new-a --pod pod/shop/db-0=9": lambda one: one.ask.nodes_needed(
        (one.client.get(mo.Pod, "db-0", "shop"), 9), like="new-a"
    ),
    "drain --count 1": lambda one: one.ask.drain_plan(1),
    "drain old-a old-b": lambda one: one.ask.drain_plan(["old-a", "old-b"]),
    "defragment --nodes 1": lambda one: one.ask.defragment(1),
    "bound": lambda one: one.ask.bound(),
}


@pytest.mark.parametrize("command", PLANS)
def test_plans_are_those_of_the_methods(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *command.split(), "-f", SHOP, "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    methods = PLANS[command](mo.Scheduler(mo.load(SHOP))).to_dict()
    assert {name: plan[name] for name in methods} == methods
