"""Scenarios bred from the vectors, which `make parity` gives to kube-scheduler's own code as well."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.compare import differences
from tests.conformance.configurations import outcome as decided
from tests.conformance.modes import Mode
from tests.conformance.replay import replay
from tests.conformance.upstream.configuring import configurations, configured
from tests.conformance.upstream.crossing import (
    DRA,
    FULL,
    GANG,
    SAMPLED,
    crossed,
    of_release,
    scenarios,
    without_growing_requests,
)
from tests.conformance.upstream.normal import normal, outcome
from tests.conformance.upstream.queueing import waiting
from tests.house.source import ROOT

VECTORS = Path(__file__).parents[1] / "data"


def bred(families: tuple[str, ...], seed: int) -> list[dict[str, Any]]:
    return list(crossed(scenarios(VECTORS, families), seed, 12))


@pytest.mark.parametrize("families", [FULL, DRA, SAMPLED, GANG], ids=["full", "dra", "sampled", "gang"])
@pytest.mark.nightly  # of the breeding alone
def test_a_seed_gives_the_same_scenarios(families: tuple[str, ...]) -> None:
    assert bred(families, 7) == bred(families, 7) != bred(families, 8)


@pytest.mark.parametrize(
    ("request_of_pod", "kept"),
    [("1", True), ("512Mi", True), ("99999Gi", True), ("1.5Gi", False), ("1Ei", False), ("64Ti", False)],
)
def test_overhead_that_upstream_adds_again_is_left_out(request_of_pod: str, kept: bool) -> None:
    spec = {"resources": {"requests": {"memory": request_of_pod}}, "overhead": {"cpu": "1", "memory": "1"}}
    made: dict[str, Any] = {"objects": [{"kind": "Pod", "spec": spec}], "steps": []}
    without_growing_requests(made)
    assert made["objects"][0]["spec"]["overhead"] == {"cpu": "1"} | ({"memory": "1"} if kept else {})


@pytest.mark.parametrize("families", [FULL, DRA], ids=["full", "dra"])
@pytest.mark.nightly  # of the breeding alone
def test_scenarios_of_the_queue_end(families: tuple[str, ...]) -> None:
    for scenario in waiting(scenarios(VECTORS, families), 1, 6):
        assert len(list(replay(scenario, Mode()))) == len(scenario["steps"]) + 1


def test_configurations_are_decided() -> None:
    parents = configurations(VECTORS)
    made = list(configured(parents, 1, 150))
    assert made == list(configured(parents, 1, 150)) != list(configured(parents, 2, 150))
    stages = {decided(one["yaml"]).get("stage") for one in made}
    assert stages == {"load", "validate", "new", None}
    error = 'no kind "X" is registered for version "v" in scheme '
    told = {"mode": "configuration", "error": f'{error}"pkg/runtime/scheme.go:111"'}
    scheme = "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:29"
    assert outcome(told) == outcome(told, "1.36") == {"error": f'{error}"{scheme}"'}
    assert outcome(told, "1.37") == {"error": told["error"]}


def test_what_upstream_leaves_to_chance_is_not_compared() -> None:
    one = {
        "op": "schedule",
        "claims": {"c": {"status": {"shareID": "x", "node": "n"}}},
        "totals": [1],
    }
    assert normal(one) == {"op": "schedule", "claims": {"c": {"status": {"node": "n"}}}}
    waits = {"backoff": [{"pod": "b", "until": 1}], "errorBackoff": [{"pod": "a", "until": 2}]}
    assert normal({"op": "pop", "queue": waits | {"empty": True}}) == normal(
        {"op": "pop", "queue": {"backoff": ["a", "b"], "empty": True}}
    )
    assert list(differences(normal(one), normal(one | {"chosen": "n"})))
    errors = [{"error": f"attribute {name}: unsupported attribute value"} for name in "ab"]
    assert normal(errors[0]) == normal(errors[1])


def test_one_line_where_go_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.conformance.upstream"]
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == ["this needs Go 1.26 or later: https://go.dev/dl"]


def test_a_scenario_of_a_release_keeps_the_gates_that_can_be_set_there() -> None:
    gates = {"StorageCapacityScoring": False, "GangScheduling": True, "DRAExtendedResource": False}
    scenario = {"name": "a", "config": {"configuration": "x", "featureGates": gates}}
    made = of_release(scenario, "1.37")
    assert made == {
        "name": "a",
        "release": "1.37",
        "config": {"configuration": "x", "featureGates": {"StorageCapacityScoring": False}},
    }
    assert scenario["config"]["featureGates"] == gates
