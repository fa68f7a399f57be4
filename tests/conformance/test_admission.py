"""The committed answers of the API server are given; any change to one of them is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.runner import failures
from tests.conformance.vectors import lines

DATA = Path(__file__).parent / "data/admission"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))
OPEN = set((DATA / "open.txt").read_text().split())
"""The vectors that are not answered as the server does: less would be progress."""


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_of_a_family_are_those_of_the_server(family: str) -> None:
    texts = {json.loads(line)["name"]: failures(line) for line in lines(DATA / f"{family}.jsonl.gz")}
    wrong = {name for name, each in texts.items() if each}
    assert {name: texts[name] for name in wrong - OPEN} == {}
    assert OPEN & texts.keys() <= wrong


@pytest.mark.parametrize(
    ("code", "field", "value", "message"),
    [
        (403, "message", "other", "message: expected 'other', got ["),
        (403, "code", 201, "refused: expected "),
        (201, "code", 403, "refused: expected "),
        (201, "warnings", ['would violate PodSecurity "x"'], "warnings: expected "),
        (200, "warnings", ["other"], "warnings: expected "),
    ],
)
def test_another_answer_is_noticed(code: int, field: str, value: object, message: str) -> None:
    vectors = map(json.loads, lines(DATA / "pod_security.jsonl.gz"))
    vector = next(vector for vector in vectors if vector["result"]["code"] == code)
    vector["result"][field] = value
    assert message in failures(json.dumps(vector).encode())[0]
