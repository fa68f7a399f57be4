"""Consolidation: what `tests/cases/autoscalers/consolidation.md` cannot show."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from moorage import Scheduler, load
from moorage.autoscalers import AutoscalerSettings, Consolidation, read_instance_types
from moorage.kube import Node, decode_object
from tests.doors.autoscalers import PoolScaler, next_hit
from tests.doors.kube import seconds
from tests.house.source import ROOT

EXAMPLE = ROOT / "examples/karpenter/underused/cluster.yaml"
TYPES = ROOT / "examples/karpenter/instance_types.yaml"


def items() -> list[Any]:
    return [one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one]


def answer(objects: list[Any], **how: Any) -> Consolidation:
    scheduler = Scheduler(load({"apiVersion": "v1", "kind": "List", "items": objects}))
    before: list[Node] = scheduler.client.list(Node)[0]
    found = scheduler.ask.consolidate(read_instance_types(TYPES), **how)
    assert before == scheduler.client.list(Node)[0]
    return found


def test_what_karpenter_would_not_find_in_time_is_not_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubts() -> list[str]:
        return [note for note in answer(items()).notes if "not certain" in note]

    assert doubts() == []
    monkeypatch.setattr("moorage.autoscalers.karpenter.disrupt.SECONDS_A_NODE", 20.0)
    assert doubts() == [
        "Command 1 and its saving are not certain: Karpenter would look for it for some 80 s, and ends after "
        "60 s with what it has."
    ]


@pytest.mark.parametrize(
    ("schedule", "after", "until", "hits"),
    [
        ("@daily", "2026-06-01T23:59:59Z", "2026-06-02T00:00:00Z", True),
        ("@daily", "2026-06-02T00:00:00Z", "2026-06-02T23:59:59Z", False),
        ("*/15 8-10 * * *", "2026-06-01T10:31:00Z", "2026-06-01T10:44:59Z", False),
        ("*/15 8-10 * * *", "2026-06-01T10:31:00Z", "2026-06-01T10:45:00Z", True),
        ("0 0 13 * fri", "2026-06-11T12:00:00Z", "2026-06-12T01:00:00Z", True),  # a Friday, not the 13th
        ("0 0 13 * *", "2026-06-11T12:00:00Z", "2026-06-12T01:00:00Z", False),
        ("30 1 1 jan,jul ?", "2026-06-30T00:00:00Z", "2026-07-01T01:30:00Z", True),
    ],
)
def test_times_of_a_schedule(schedule: str, after: str, until: str, hits: bool) -> None:
    assert (next_hit(schedule, seconds(after), seconds(until)) < math.inf) is hits


@pytest.mark.parametrize(
    "schedule", ["* * * *", "61 * * * *", "* * * * someday", "*/0 * * * *", "5-2 * * * *"]
)
def test_a_malformed_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"expected exactly|of range|failed to parse int"):
        next_hit(schedule, 0, 1)


def test_a_node_that_comes_has_a_name_of_its_own() -> None:
    """Else an answer would say of one name that it goes and that it stays."""
    pool = next(one for one in items() if one["kind"] == "NodePool")
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    waiting = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    one = Scheduler(load({"apiVersion": "v1", "kind": "List", "items": [pool, waiting]}))
    claims = one.ask.provision(types=read_instance_types(TYPES)).claims
    first, later = f"{claims[0].pool}-1", f"{claims[0].pool}-2"
    karpenter = PoolScaler(one, AutoscalerSettings())
    for name in (first, later):
        with one.transaction():
            assert [*karpenter.make(claims, 1)[0]] == [name]
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": first}}
    one.client.create(decode_object(claim))  # its node has another name, or has not come
    assert [*PoolScaler(one, AutoscalerSettings()).make(claims, 1)[0]] == [later]
