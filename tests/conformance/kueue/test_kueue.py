"""The committed vectors of Kueue pass; a change of one of them is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kueue import kueue_mode
from tests.conformance.runner import failures
from tests.conformance.test_vectors import changes
from tests.conformance.vectors import lines
from tests.conftest import NIGHTLY

DATA = Path(__file__).parent.parent / "data/kueue"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))
SHARE = 1 if NIGHTLY else 6
"""Of so many scenarios of a family one is played by day; of the corners, a rule each, all are."""


@pytest.mark.parametrize("family", FAMILIES)
def test_admissions_are_those_of_kueue(family: str) -> None:
    scenarios = list(lines(DATA / f"{family}.jsonl.gz"))[:: 1 if family == "corners" else SHARE]
    assert [text for line in scenarios for text in failures(line)] == []


def vector(family: str) -> dict[str, Any]:
    """The smallest scenario of a family of which nothing is left to chance."""
    vectors = [json.loads(line) for line in lines(DATA / f"{family}.jsonl.gz")]
    return min((each for each in vectors if not each["undetermined"]), key=lambda each: len(str(each)))


@pytest.mark.parametrize("family", ["preemption", "tas"])
def test_a_spoilt_vector_fails(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt = vector(family)
    played = kueue_mode.play(spoilt["scenario"])
    monkeypatch.setattr(kueue_mode, "play", lambda _: played)

    def wrong() -> list[str]:
        return failures(json.dumps(spoilt).encode())

    assert wrong() == []
    count = 0
    for change in changes(spoilt["result"]):
        assert wrong() != [], change
        count += 1
    assert count > 100
    assert wrong() == [], "the last change was not undone"


def test_only_what_kueue_itself_leaves_open_may_differ() -> None:
    spoilt = vector("preemption")
    cycle = next(each for each in spoilt["result"]["cycles"] if each["waiting"])
    workload = min(cycle["waiting"])
    cycle["waiting"][workload] = "another reason"
    assert len(failures(json.dumps(spoilt).encode())) == 1
    spoilt["undetermined"] = [f"{cycle['cycle']}/waiting/{workload}"]
    assert failures(json.dumps(spoilt).encode()) == []


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "config",
            {"featureGates": {"ElasticJobs": True}},
            "feature gate ElasticJobs is not followed",
        ),
        ("config", {"noSuch": 1}, "unknown config noSuch"),
        ("events", [{"cycle": 1, "explode": []}], "unknown event explode"),
    ],
)
def test_what_is_not_known_is_refused(field: str, value: Any, message: str) -> None:
    other = vector("plain")
    other["scenario"][field] = value
    assert message in failures(json.dumps(other).encode())[0]
