"""PodTopologySpread and InterPodAffinity: malformed selectors, and a service that goes."""

from __future__ import annotations

import pytest
from tests.doors.engine import schedule_one
from tests.make import ZONE, Json, make, node, pod, scheduler

NODES = [node("a", zone="z1"), node("b", zone="z2"), node("c", zone="z2")]
APP = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": ZONE}
BROKEN = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Within"}]}, "topologyKey": ZONE}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REQUIRES = {REQUIRED: [BROKEN]}
PREFERS = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": BROKEN}]}
WRONG = '"Within" is not a valid label selector operator'


@pytest.mark.parametrize(
    ("action", "point", "text"),
    [
        ("DoNotSchedule", "PreFilter", "obtaining pod's hard topology spread constraints"),
        (
            "ScheduleAnyway",
            "PreScore",
            "calculating preScoreState: obtaining pod's soft topology spread constraints",
        ),
    ],
)
def test_a_malformed_constraint_fails_the_cycle(action: str, point: str, text: str) -> None:
    one = scheduler(NODES)
    broken = pod(topologySpreadConstraints=[BROKEN | {"maxSkew": 1, "whenUnsatisfiable": action}])
    error = f'running {point} plugin "PodTopologySpread": {text}: {WRONG}'
    assert one.examine(broken).error == schedule_one(one.context, broken).error == error
    assert one.cache.state.pods() == []


@pytest.mark.parametrize(
    ("affinity", "text"),
    [
        ({"podAffinity": REQUIRES}, f"requiredAffinityTerms: {WRONG}"),
        ({"podAntiAffinity": REQUIRES}, f"requiredAntiAffinityTerms: {WRONG}"),
        ({"podAffinity": PREFERS}, f"preferredAffinityTerms: {WRONG}"),
        ({"podAntiAffinity": PREFERS}, f"preferredAntiAffinityTerms: {WRONG}"),
        (
            {"podAffinity": REQUIRES | PREFERS},
            f"[requiredAffinityTerms: {WRONG}, preferredAffinityTerms: {WRONG}]",
        ),
    ],
)
def test_a_malformed_term_rejects_the_pod(affinity: Json, text: str) -> None:
    seen = scheduler(NODES).examine(pod(affinity=affinity))
    assert seen.fit_error == f"0/3 nodes are available: parsing pod: {text}."


def test_a_malformed_list_of_a_pod_there_says_nothing() -> None:
    """Its other lists do."""
    one = scheduler(NODES)
    one.client.create(pod("t", "b", affinity={"podAffinity": REQUIRES, "podAntiAffinity": {REQUIRED: [APP]}}))
    one.sync()
    assert one.examine(pod(labels={"app": "x"})).feasible == ["a"]


def test_a_service_that_goes_ends_the_default_constraints() -> None:
    service = make("Service", "default/s", {"selector": {"app": "x"}, "ports": [{"port": 80}]})
    one = scheduler(NODES, pod("t", "b", labels={"app": "x"}), service)
    assert one.examine(pod(labels={"app": "x"})).normalized["PodTopologySpread"].tolist()[0] == 100
    one.client.delete("Service", "s", "default")
    one.sync()
    assert "PodTopologySpread" in one.examine(pod(labels={"app": "x"})).skipped_score
