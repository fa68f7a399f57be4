"""``moorage plan -o json`` gives the plans of the methods; the text is in `tests/cases/cli/plan*.md`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import moorage
from moorage.cli import main
from tests.cli.test_check import owned
from tests.cli.test_simulate import node, pod


def document(capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    assert main(["plan", *command, "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    for name in ("apiVersion", "kind", "release", "newPods", "leftOut", "warnings"):
        del plan[name]
    return plan


def test_plans_are_those_of_the_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [node("a", "z1"), node("b", "z2"), owned("p", "a"), owned("q", "b"), pod("x"), pod("y"), pod("z")]
    dump = str(tmp_path / "dump.json")
    Path(dump).write_text(json.dumps({"kind": "List", "items": items}))
    scheduler = moorage.Scheduler(moorage.load(dump))
    needed = document(capsys, "nodes", "-f", dump, "--like", "a")
    assert needed == scheduler.nodes_needed(like="a").to_dict()
    assert needed["nodes"] == 1
    last = moorage.load(dump).pods[-1]
    given = document(capsys, "nodes", "-f", dump, "--like", "a", "--pod", "pod/z=9")
    assert given == scheduler.nodes_needed((last, 9), like="a").to_dict()
    assert document(capsys, "drain", "-f", dump, "--count", "1") == scheduler.drain_plan(1).to_dict()
    assert document(capsys, "drain", "-f", dump, "a", "b") == scheduler.drain_plan(["a", "b"]).to_dict()
    assert document(capsys, "defragment", "-f", dump, "--nodes", "1") == scheduler.defragment(1).to_dict()
    assert document(capsys, "bound", "-f", dump) == scheduler.bound().to_dict()
