"""Who may preempt others, and where."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.engine import is_leaving, num_candidates, potential_nodes, why_not_eligible
from tests.preemption.world import LEAVING, full, handle, preemptor, terminating, victim

from moorage.engine.framework import Code, Status
from moorage.kube import Pod

HOPELESS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
REJECTED = Status(Code.UNSCHEDULABLE)
WAITS = "not eligible due to a terminating pod on the nominated node."


def why_not(*pods: Pod, priority: int = 10, status: Status = REJECTED, to: str = "a") -> str:
    """Why a pod may not preempt others that is nominated to a node with these pods."""
    asked = preemptor(priority=priority, nominated=to)
    return why_not_eligible(handle(full(*pods)), asked, {"a": status})


def test_a_pod_may_preempt() -> None:
    assert why_not_eligible(handle(full()), preemptor(), {}) == ""


def test_preemption_policy_never() -> None:
    asked = preemptor(preemption_policy="Never")
    assert why_not_eligible(handle(full()), asked, {}) == "not eligible due to preemptionPolicy=Never."
    asked = preemptor(preemption_policy="PreemptLowerPriority")
    assert why_not_eligible(handle(full()), asked, {}) == ""


def test_it_waits_for_its_victims_on_the_nominated_node() -> None:
    leaving = terminating(victim("v"), LEAVING)
    assert why_not(leaving) == WAITS
    assert why_not(leaving, status=HOPELESS) == "", "it is lost for good"
    assert why_not(leaving, priority=0) == "", "not of lower priority"
    assert why_not(leaving, to="gone") == "", "there is no such node"
    there = handle(full(leaving))
    assert why_not_eligible(there, preemptor(nominated="a"), {}) == "", "it was not reached"
    assert why_not_eligible(there, preemptor(), {"a": REJECTED}) == "", "it is not nominated"


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
def test_it_does_not_wait_for_pods_that_leave_for_other_reasons_or_not_at_all(other: Pod) -> None:
    assert not is_leaving(other)
    assert why_not(other) == ""


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
