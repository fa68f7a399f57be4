"""Who may preempt others, and where."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.preemption.world import LEAVING, full, preemptor, terminating, victim

from moorage.framework.plugin.status import Code, Status
from moorage.preemption.eligibility import (
    is_leaving,
    num_candidates,
    pod_eligible_to_preempt_others,
    potential_nodes,
)

HOPELESS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
REJECTED = Status(Code.UNSCHEDULABLE)
WAITS = (False, "not eligible due to a terminating pod on the nominated node.")


def test_a_pod_may_preempt() -> None:
    assert pod_eligible_to_preempt_others(preemptor(), None, None) == (True, "")


def test_preemption_policy_never() -> None:
    asked = preemptor(preemption_policy="Never")
    assert pod_eligible_to_preempt_others(asked, None, None) == (
        False,
        "not eligible due to preemptionPolicy=Never.",
    )
    assert pod_eligible_to_preempt_others(preemptor(preemption_policy="PreemptLowerPriority"), None, None)[0]


def test_it_waits_for_its_victims_on_the_nominated_node() -> None:
    leaving = terminating(victim("v"), LEAVING)
    info = full(leaving).cache.node_info("a")
    assert pod_eligible_to_preempt_others(preemptor(), info, REJECTED) == WAITS
    assert pod_eligible_to_preempt_others(preemptor(), info, None) == WAITS
    assert pod_eligible_to_preempt_others(preemptor(), info, HOPELESS) == (True, ""), "it is lost for good"
    assert pod_eligible_to_preempt_others(preemptor(priority=0), info, REJECTED)[0], "not of lower priority"


@pytest.mark.parametrize(
    "other",
    [
        victim("v"),
        replace(victim("v"), status=replace(victim("v").status, conditions=(LEAVING,))),
        terminating(victim("v")),
        terminating(victim("v"), replace(LEAVING, status="False")),
        terminating(victim("v"), replace(LEAVING, reason="EvictionByEvictionAPI")),
        terminating(victim("v"), replace(LEAVING, type="Other")),
    ],
)
def test_it_does_not_wait_for_pods_that_leave_for_other_reasons_or_not_at_all(other: object) -> None:
    info = full(other).cache.node_info("a")  # type: ignore[arg-type]
    assert not is_leaving(other)  # type: ignore[arg-type]
    assert pod_eligible_to_preempt_others(preemptor(), info, REJECTED) == (True, "")


def test_potential_nodes_are_those_that_are_not_lost_for_good() -> None:
    statuses = {"c": REJECTED, "b": HOPELESS, "a": REJECTED, "d": Status(Code.PENDING)}
    assert potential_nodes(statuses) == ["c", "a"]


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [(0, 0), (1, 1), (99, 99), (100, 100), (101, 100), (1000, 100), (1019, 101), (5000, 500)],
)
def test_the_number_of_candidates_is_of_potential_nodes(nodes: int, wanted: int) -> None:
    assert num_candidates(nodes, 10, 100) == wanted


def test_the_number_of_candidates_follows_the_arguments() -> None:
    assert num_candidates(50, 0, 7) == 7
    assert num_candidates(50, 100, 0) == 50
    assert num_candidates(50, 0, 0) == 0
