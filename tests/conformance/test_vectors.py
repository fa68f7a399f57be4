"""The committed vectors pass; any change to one of them is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import configurations
from tests.conformance.modes import Mode, Undone, every_mode
from tests.conformance.replay import replay
from tests.conformance.runner import failures
from tests.conformance.vectors import lines
from tests.conftest import NIGHTLY

DATA = Path(__file__).parent / "data"

FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))


def wrong_in(family: str, how: Mode) -> list[str]:
    """By day, the plainest mode has every third scenario of a family, and another half as many of others."""
    scenarios = list(lines(DATA / f"{family}.jsonl.gz"))
    if not NIGHTLY and len(scenarios) > 1:
        scenarios = scenarios[::3] if how == Mode() else scenarios[1::6]
    return [one for line in scenarios for one in failures(line, how)]


def modes() -> list[Any]:
    """Every mode; by default the plainest and the one that differs most.

    The others take parts of that one, and ``test_each_mode_takes_its_way`` runs all of them on one family.
    """
    by_default = {Mode(), Mode(threads=2, batch=True)}
    return [
        pytest.param(how, marks=[] if how in by_default else pytest.mark.nightly, id=str(how))
        for how in every_mode()
    ]


@pytest.mark.parametrize("how", modes())
@pytest.mark.parametrize("family", FAMILIES)
def test_decisions_of_a_family_are_those_of_kube_scheduler(family: str, how: Mode) -> None:
    assert wrong_in(family, how) == []


@pytest.mark.share(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_undone_between_steps_changes_no_decision(family: str) -> None:
    """By day a quarter of the families, with the two shortest scenarios of each."""
    scenarios = sorted(lines(DATA / f"{family}.jsonl.gz"), key=len)[: None if NIGHTLY else 2]
    how = Mode(undone=Undone(1))
    assert [one for line in scenarios for one in failures(line, how)] == []


class Kept(Undone):
    """Its verbs stay."""

    def after(self, steps: int) -> None:
        if self.scheduler is not None:
            self._play(self.scheduler)


def test_verbs_are_played_between_steps_and_seen_where_they_stay() -> None:
    """Or else the test above would say nothing."""
    how = Mode(undone=Undone(1))
    line = json.dumps(short_vector("sampled_plain", 12)).encode()
    assert failures(line, how) == []
    assert how.undone is not None
    assert how.undone.played > 3
    assert failures(line, Mode(undone=Kept(1))) != []


@pytest.mark.parametrize("how", every_mode(), ids=str)
def test_each_mode_takes_its_way(how: Mode) -> None:
    """Or else the test above would say nothing about it. Totals are kept in runs, which batches have.

    By day with the two shorter scenarios of four, which cost least.
    """
    scenarios = sorted(lines(DATA / "sampled_plain.jsonl.gz"), key=len)[: 4 if NIGHTLY else 2]
    assert [one for line in scenarios for one in failures(line, how)] == []
    taken = how.taken
    assert (taken["batches"] > 0) == (taken["pods"] > 100 * taken["batches"] > 0) == how.batch
    assert (taken["candidates"] > 0) == (how.candidates and how.batch)
    assert (taken["scans"] > 0) == (how.threads > 1)


def test_a_batch_is_compared_by_where_pods_go_and_by_the_rotation() -> None:
    how = Mode(batch=True)
    sampled = {"op": "schedule", "chosen": "a", "start": 0, "next": 1}
    whole = sampled | {"evaluated": 1}
    assert how.compared(whole) == sampled
    assert how.compared({"op": "removePod", "absent": True}) == {"op": "removePod", "absent": True}
    assert Mode().compared(whole) == whole


@pytest.mark.parametrize(
    ("family", "field"), [("sampled_plain", "next"), ("sampled_plain", "start"), ("taints", "chosen")]
)
def test_a_change_of_what_is_compared_is_noticed_in_a_batch(family: str, field: str) -> None:
    vector = short_vector(family, 12)
    step = next(step for step in vector["result"]["steps"] if field in step)
    assert failures(json.dumps(vector).encode(), Mode(batch=True)) == []
    step[field] = step[field] + 1 if isinstance(step[field], int) else "other"
    assert failures(json.dumps(vector).encode(), Mode(batch=True)) != []


def test_mode_dra_tells_where_the_next_search_begins() -> None:
    """Its older vectors do not."""
    vector = short_vector("dra", 4)
    produced = list(replay(vector["scenario"]))[1:]
    assert failures(json.dumps(vector).encode()) == []
    for step, told in zip(vector["result"]["steps"], produced, strict=True):
        if step["op"] == "schedule":
            step["next"] = told["next"]
    assert failures(json.dumps(vector).encode()) == []
    step["next"] = 7
    assert failures(json.dumps(vector).encode()) != []


def short_vector(family: str, steps: int) -> dict[str, Any]:
    vector = json.loads(next(lines(DATA / f"{family}.jsonl.gz")))
    for part in vector.values():
        part["steps"] = part["steps"][:steps]
    return vector


def changes(holder: Any) -> Iterator[str]:
    """Change a JSON value in place in every way that matters; one change is undone before the next."""
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    for key in keys:
        value = holder[key]
        for other in replacements(value):
            holder[key] = other
            yield f"{key}: {value!r} → {other!r}"
        holder[key] = value
        copy = holder.copy()
        del holder[key]
        yield f"{key} removed"
        refill(holder, copy)
        if isinstance(value, dict | list):
            for change in changes(value):
                yield f"{key}.{change}"
    copy = holder.copy()
    if isinstance(holder, dict):
        holder["unknown"] = 0
    else:
        holder.append(holder[-1] if holder else 0)
    yield "added"
    refill(holder, copy)


def replacements(value: Any) -> list[Any]:
    """Values that a comparison might take for the same, or nearly."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int):
        return [
            value + 1,
            -value - 1,
            float(value),
            str(value),
            None,
            *([bool(value)] if value in (0, 1) else []),
        ]
    if isinstance(value, str):
        return [f"{value} ", value.swapcase() if value.swapcase() != value else "?", None]
    return [None, 0, {} if isinstance(value, list) else []]


def refill(holder: Any, copy: Any) -> None:
    holder.clear()
    holder.update(copy) if isinstance(holder, dict) else holder.extend(copy)


@pytest.mark.share(4)
@pytest.mark.parametrize("line", list(lines(DATA / "configurations.jsonl.gz")))
def test_every_change_of_a_configuration_line_is_noticed(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = json.loads(line)
    outcome = configurations.outcome(vector["yaml"])
    monkeypatch.setattr(configurations, "outcome", lambda *_: outcome)
    text = vector.pop("yaml")

    def wrong() -> list[str]:
        return failures(json.dumps(vector | {"yaml": text}).encode())

    assert wrong() == []
    name = vector.pop("name")
    for change in changes(vector):
        assert failures(json.dumps(vector | {"name": name, "yaml": text}).encode()) != [], change
    vector["name"] = name
    assert wrong() == [], "the last change was not undone"


def test_a_text_about_syntax_needs_its_beginning_only() -> None:
    def wrong(text: str, error: str, stage: str = "load") -> list[str]:
        vector = {"name": "x", "yaml": text, "ok": False, "stage": stage, "error": error}
        return failures(json.dumps(vector).encode())

    assert wrong("a: [", "yaml: line 9: other words") == []
    assert wrong("{a", "couldn't get version/kind; json parse error: invalid character 'b' somewhere") == []
    assert wrong("a: [", "other words") != []
    assert wrong("a: [", "yaml: line 9: other words", "validate") != []
    assert wrong("kind: 1", "yaml: line 9: other words") != []
    assert wrong("kind: 1", "couldn't get version/kind; json parse error: json: other") != []
