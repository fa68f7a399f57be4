"""The examples on the pages run."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.house.source import ROOT

PLUGINS = "docs/extending.md", "Plugins"


def blocks(page: str, heading: str) -> str:
    """The Python under a heading of a page, as one program."""
    text = (ROOT / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE))


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_plugins_in_python() -> None:
    first, second = blocks(*PLUGINS).split("registry = ")
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


def test_a_filter_of_the_example_rejects() -> None:
    found: dict[str, Any] = {}
    exec(blocks(*PLUGINS), found)
    mo = found["mo"]
    pod = {"metadata": {"name": "p", "labels": {"team": "a"}}, "spec": {"containers": [{"name": "c"}]}}
    from moorage.objects import decode_object

    scheduler = mo.Scheduler(mo.synthetic(nodes=3), profile=found["profile"])
    seen = scheduler.examine(decode_object({"kind": "Pod"} | pod))
    assert seen.fit_error == "0/3 nodes are available: 3 node(s) of another team."


def test_a_scheduler_of_ones_own() -> None:
    found: dict[str, Any] = {}
    exec("import moorage as mo\n" + blocks("docs/extending.md", "A scheduler of your own"), found)
    placed = [node for node in found["result"].nodes if node is not None]
    assert len(placed) + len(found["unplaced"]) == len(found["by_name"]) > len(placed) > 0
    assert found["decision"].node == placed[0]  # as if the transaction had not been
    assert found["fork"].node_info("worker-1").node.name == "worker-1"
    assert found["snapshot"].num_nodes() == 3
