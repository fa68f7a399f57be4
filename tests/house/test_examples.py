"""The examples on the pages run."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.house.source import ROOT


def blocks(page: str, heading: str) -> str:
    """The Python under a heading of a page, as one program."""
    text = (ROOT / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE))


def test_plugins_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    program = blocks("ARCHITECTURE.md", "Adding things")
    first, second = program.split("registry = ")
    found: dict[str, Any] = {}
    exec(first, found)
    pending = len(found["scheduler"].pods.pending)
    result = found["scheduler"].run()
    assert len(result.placements) + len(result.unschedulable) == pending > 0
    assert found["profile"].weights["GpuPack"] == 5
    exec("registry = " + second, found)
    configured = found["scheduler"]
    assert configured.profile.weights["GpuPack"] == 5
    assert configured.profile.score_plugins.count("GpuPack") == 1
    assert configured.run().placements


def test_a_filter_of_the_example_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found: dict[str, Any] = {}
    exec(blocks("ARCHITECTURE.md", "Adding things"), found)
    mo = found["mo"]
    pod = {"metadata": {"name": "p", "labels": {"team": "a"}}, "spec": {"containers": [{"name": "c"}]}}
    from moorage.objects import decode_object

    scheduler = mo.Scheduler(mo.synthetic(nodes=3), profile=found["profile"])
    seen = scheduler.examine(decode_object({"kind": "Pod"} | pod))
    assert seen.fit_error == "0/3 nodes are available: 3 node(s) of another team."
