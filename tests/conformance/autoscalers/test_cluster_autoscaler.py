"""The committed vectors of cluster-autoscaler pass; a change of one of them is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.autoscalers import cluster_autoscaler_mode
from tests.conformance.runner import failures
from tests.conformance.test_vectors import changes
from tests.conformance.vectors import lines
from tests.make import written

LINES = list(lines(Path(__file__).parent.parent / "data/cluster_autoscaler/share.jsonl.gz"))


def test_loops_are_those_of_cluster_autoscaler() -> None:
    assert [one for line in LINES for one in failures(line)] == []


def small(mode: str) -> dict[str, Any]:
    vectors = [json.loads(line) for line in sorted(LINES, key=len)]
    name = {"up": "scaleUps", "down": "blockers"}[mode]
    return next(
        one for one in vectors if one["scenario"]["mode"] == mode and one["loops"][0]["expected"].get(name)
    )


@pytest.mark.parametrize("mode", ["up", "down"])
def test_a_spoilt_vector_fails(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = small(mode)
    produced = list(cluster_autoscaler_mode.played(vector["scenario"], vector["classes"]))
    monkeypatch.setattr(cluster_autoscaler_mode, "played", lambda *_: iter(produced))

    def wrong() -> list[str]:
        return failures(json.dumps(vector).encode())

    assert wrong() == []
    count = 0
    for loop in vector["loops"]:
        for change in changes(loop["expected"]):
            assert wrong() != [], change
            count += 1
    assert count > 30
    assert wrong() == [], "the last change was not undone"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("options", {"noSuchFlag": 1}, "unexpected keyword argument 'no_such_flag'"),
        ("loops", [{"at": 0, "remove": ["node n"]}], "cannot remove node n"),
    ],
)
def test_what_is_not_known_is_refused(name: str, value: Any, message: str) -> None:
    vector = small("up")
    vector["scenario"][name] = value
    assert message in failures(json.dumps(vector).encode())[0]


def machine(name: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    status = {"capacity": amounts, "allocatable": amounts}
    metadata = {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return written("v1/Node", metadata, status=status | {"conditions": [ready]})


@pytest.mark.parametrize("goes", ["expendable", "removed"])
def test_the_first_pod_of_a_node_keeps_it_though_one_before_it_went(goes: str) -> None:
    priorities = {"gone": -100 if goes == "expendable" else 0, "first": 0, "second": 0}
    pods = [
        written(
            "v1/Pod",
            {"name": name, "namespace": "default", "uid": name},
            {"nodeName": "a", "priority": priority, "containers": [{"name": "c", "image": "x"}]},
            status={"phase": "Running"},
        )
        for name, priority in priorities.items()
    ]
    loops = [{"at": 1200}]
    if goes == "removed":
        loops.append({"at": 2400, "remove": ["pod default/gone"]})  # type: ignore[dict-item]
    scenario = {
        "mode": "down",
        "now": "2026-01-01T01:00:00Z",
        "objects": [machine("a"), machine("b"), *pods],
        "nodes": {"a": "g", "b": "g"},
        "groups": [{"name": "g", "min": 0, "max": 3}],
        "options": {},
        "loops": loops,
    }
    *_, last = cluster_autoscaler_mode.played(scenario, {})
    assert last["blockers"] == {"a": ["default/first", "NotReplicated"]}
