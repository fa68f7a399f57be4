"""New and old pods at each step of a Rollout and of a CloneSet."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.kube import steps_text

from moorage.kube import decode_object


def steps_of(kind: str, strategy: Any, replicas: int = 10) -> str:
    group = {"Rollout": "argoproj.io/v1alpha1", "CloneSet": "apps.kruise.io/v1alpha1"}[kind]
    field = {"Rollout": "strategy", "CloneSet": "updateStrategy"}[kind]
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, field: strategy}
    return steps_text(
        decode_object({"kind": kind, "apiVersion": group, "metadata": {"name": "a"}, "spec": spec})
    )


@pytest.mark.parametrize(
    ("replicas", "weight", "surge", "counts"),
    [
        (10, 0, 1, (0, 10)),
        (10, 1, 1, (1, 10)),
        (10, 18, 1, (2, 9)),
        (10, 23, 1, (2, 8)),
        (10, 24, 1, (3, 8)),
        (10, 99, 1, (10, 1)),
        (10, 100, 1, (10, 0)),
        (10, 24, 0, (2, 8)),
        (3, 50, 0, (2, 1)),
        (1, 10, 0, (0, 1)),
        (1, 10, 1, (1, 1)),
        (0, 50, 1, (0, 0)),
    ],
)
def test_a_canary_without_a_router_is_nearest_to_its_weight(
    replicas: int, weight: int, surge: int, counts: tuple[int, int]
) -> None:
    strategy = {"canary": {"maxSurge": surge, "maxUnavailable": 1 - surge, "steps": [{"setWeight": weight}]}}
    assert steps_of("Rollout", strategy, replicas).startswith(
        f"{counts[0]} new and {counts[1]} old pods at setWeight {weight}, "
    )


STEPS = [{"setWeight": 30}, {"pause": {}}, {"setCanaryScale": {"replicas": 1}}, {"setWeight": 50}]
ROUTED = {"canary": {"trafficRouting": {"istio": {}}, "steps": STEPS}}
DYNAMIC = {"canary": {**ROUTED["canary"], "dynamicStableScale": True, "steps": [{"setWeight": 50}]}}


@pytest.mark.parametrize(
    ("kind", "strategy", "text"),
    [
        (
            "Rollout",
            {"canary": {"maxSurge": "30%", "steps": STEPS}},
            "3 new and 7 old pods at setWeight 30, 5 new and 5 old pods at setWeight 50, "
            "10 new and 0 old pods at the end; at most 13 pods at once",
        ),
        (
            "Rollout",
            ROUTED,
            "3 new and 10 old pods at setWeight 30, 1 new and 10 old pods at setCanaryScale replicas 1, "
            "1 new and 10 old pods at setWeight 50, 2 more steps; at most 20 pods at once",
        ),
        (
            "Rollout",
            DYNAMIC,
            "5 new and 5 old pods at setWeight 50, 10 new and 0 old pods at the promotion, "
            "10 new and 0 old pods at the end; at most 15 pods at once",
        ),
        (
            "Rollout",
            {"blueGreen": {"previewReplicaCount": 2}},
            "2 new and 10 old pods at the preview, 10 new and 10 old pods at the promotion, "
            "10 new and 0 old pods at the end; at most 20 pods at once",
        ),
        ("Rollout", {}, "10 new and 0 old pods at the end; at most 13 pods at once"),
        (
            "CloneSet",
            {"partition": "95%", "maxSurge": 2},
            "1 new and 9 old pods at partition 95%; at most 12 pods at once",
        ),
        (
            "CloneSet",
            {"type": "InPlaceIfPossible", "partition": 4},
            "6 new and 4 old pods at partition 4 (in place where only images change); "
            "at most 10 pods at once",
        ),
    ],
)
def test_steps_have_pods_by_the_rules_of_their_operator(kind: str, strategy: Any, text: str) -> None:
    assert steps_of(kind, strategy) == text


def test_of_a_strategy_that_nobody_takes_nothing_is_told() -> None:
    assert steps_of("Rollout", {"canary": {"steps": [{"setWeight": "much"}]}}) == ""
