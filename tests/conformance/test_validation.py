"""What an API server refuses of manifests and changes is refused, with its fields, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.admission import check_admission
from tests.conformance.clusters.false_refusals import accepted, refusals
from tests.conformance.vectors import decode, lines
from tests.doors.kube import manifest_causes

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data" / "validation"
OPEN = set((DATA / "open.txt").read_text().split())
"""The vectors that are not answered as the server does: less would be progress."""


@pytest.mark.parametrize("family", ["validate", "update", "fuzz"])
def test_requests_of_a_family_are_answered_as_by_an_api_server(family: str) -> None:
    vectors = [decode(line) for line in lines(DATA / f"{family}.jsonl.gz")]
    wrong = {vector["name"]: [*check_admission(vector, 1)] for vector in vectors}
    named = {name for name in OPEN if name in wrong}
    assert {name: texts for name, texts in wrong.items() if texts and name not in named} == {}
    assert {name for name in named if not wrong[name]} == set()


def test_no_example_is_refused() -> None:
    import yaml

    judged = 0
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        for value in yaml.safe_load_all(path.read_text()):
            if isinstance(value, dict) and "apiVersion" in value and value.get("metadata", {}).get("name"):
                assert manifest_causes(value, value["kind"], value["apiVersion"]) == [], path
                judged += 1
    assert judged > 50


def test_nothing_that_a_server_has_accepted_is_refused() -> None:
    judged = 0
    for path in sorted((DATA.parent / "cluster").glob("*.json.gz")):
        for value in accepted(path):
            assert refusals(value) == [], (path.name, value["kind"], value["metadata"]["name"])
            judged += 1
    assert judged > 1000


def test_what_a_server_has_not_accepted_is_left_out(tmp_path: Path) -> None:
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    record = {
        "scenario": "s",
        "dump": {"apiVersion": "v1", "kind": "List", "items": []},
        "change": [{"file": [pod]}, {"file": [pod]}, {"args": ["--drain", "n"]}],
        "kubectl": [{"rc": 1}, {"rc": 0}, {"rc": 0}],
    }
    (path := tmp_path / "record.json").write_text(json.dumps(record))
    assert [*accepted(path)] == [pod]
    assert refusals(pod) == ["spec.containers: Required value"]
