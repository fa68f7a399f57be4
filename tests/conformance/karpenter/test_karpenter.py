"""The committed vectors of Karpenter pass; a change of one of them is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.karpenter import karpenter_check
from tests.conformance.runner import failures
from tests.conformance.test_vectors import changes
from tests.conformance.vectors import lines
from tests.conftest import NIGHTLY

DATA = Path(__file__).parents[1] / "data/karpenter"
LINES = [line for name in ("share", "found", "disruption") for line in lines(DATA / f"{name}.jsonl.gz")]


def test_claims_pods_and_texts_are_those_of_karpenter() -> None:
    assert [one for line in LINES for one in failures(line)] == []


def test_types_pools_and_requests_are_those_of_aws() -> None:
    """By day, half of them."""
    vectors = list(lines(DATA / "aws.jsonl.gz"))[:: 1 if NIGHTLY else 2]
    assert [one for line in vectors for one in failures(line)] == []


def test_a_spoilt_vector_of_a_node_class_fails() -> None:
    vector = next(one for one in map(json.loads, lines(DATA / "aws.jsonl.gz")) if "question" in one)
    of_type = vector["result"]["instanceTypes"][0]
    for part in ("requirements", "capacity", "allocatable"):
        spoilt = {**of_type, part: {**of_type[part], "more": ["1"] if part == "requirements" else "1"}}
        changed = vector | {"result": {"instanceTypes": [spoilt, *vector["result"]["instanceTypes"][1:]]}}
        assert failures(json.dumps(changed).encode()) != []
    unknown = vector | {"question": vector["question"] | {"more": 1}}
    assert "unknown fields in the question: more" in failures(json.dumps(unknown).encode())[0]


def small(seeded: bool, mode: str = "schedule") -> dict[str, Any]:
    """A small vector of a mode in which something happens."""
    vectors = [json.loads(line) for line in sorted(LINES, key=len)]
    of_mode = [one for one in vectors if one["scenario"]["mode"] == mode and ("seeded" in one) == seeded]
    return next(
        one for one in of_mode if any(one["result"].get(part) for part in ("claims", "first", "steps"))
    )


@pytest.mark.parametrize(
    ("seeded", "mode"), [(False, "schedule"), (True, "schedule"), (False, "disrupt"), (False, "loop")]
)
def test_a_spoilt_vector_fails(seeded: bool, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = small(seeded, mode)
    scenario = vector["scenario"]
    produced = {seed: karpenter_check.played(scenario, seed) for seed in (0, 1, 2)}
    monkeypatch.setattr(karpenter_check, "played", lambda scenario, seed, known: produced[seed])

    def wrong() -> list[str]:
        return failures(json.dumps(vector | {"scenario": {"name": "x"}}).encode())

    assert wrong() == []
    for part in [vector["result"], *vector.get("seeded", {}).values()]:
        count = 0
        for change in changes(part):
            assert wrong() != [], change
            count += 1
        assert count > 30
    assert wrong() == [], "the last change was not undone"


def test_other_ties_are_played_where_something_is_left_to_chance() -> None:
    vector = small(True)
    vector["seeded"]["2"]["cost"] = 77
    assert any("ties 2: cost" in one for one in failures(json.dumps(vector).encode()))
    del vector["seeded"]
    assert "seeded goes with undetermined" in failures(json.dumps(vector).encode())[0]


@pytest.mark.parametrize(
    ("where", "name", "value", "message"),
    [
        ("scenario", "mode", "repair", "unknown mode 'repair'"),
        ("scenario", "more", 1, "unknown fields in the scenario: more"),
        ("scenario", "options", {"workers": 3}, "unknown fields in the scenario: workers"),
        ("", "more", 1, "malformed line: fields more"),
    ],
)
def test_what_is_not_known_is_refused(where: str, name: str, value: Any, message: str) -> None:
    vector = small(False)
    (vector[where] if where else vector)[name] = value
    assert message in failures(json.dumps(vector).encode())[0]


def test_a_claim_that_cannot_be_launched_gets_no_node() -> None:
    failed = [json.loads(line) for line in LINES if b'"error":"runtime error' in line]
    scenario = next(one["scenario"] for one in failed if one["scenario"]["mode"] == "schedule")
    played = karpenter_check.played(scenario | {"mode": "loop"}, 0)
    assert played["error"].startswith("claim c1 was not launched: runtime error")
    assert not any(step.get("created") for step in played["steps"])
