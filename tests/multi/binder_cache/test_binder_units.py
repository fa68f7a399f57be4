"""Units and disruption budgets of a BinderCache."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.kube import unit_key
from tests.multi.binder_cache.binder_kit import GANG, Kit, group, member, pdb, pod

from moorage.compat.binder_cache import SchedulingStatus, UnitStatus
from moorage.kube import PodSchedulingGroup


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("Pending", SchedulingStatus.PENDING),
        ("PreScheduling", SchedulingStatus.PENDING),
        ("Scheduled", SchedulingStatus.SCHEDULED),
        ("Running", SchedulingStatus.SCHEDULED),
        ("Finished", SchedulingStatus.SCHEDULED),
        ("Failed", SchedulingStatus.SCHEDULED),
        ("Timeout", SchedulingStatus.TIMEOUT),
        ("Unknown", SchedulingStatus.UNKNOWN),
        ("", SchedulingStatus.UNKNOWN),
    ],
)
def test_the_phase_of_a_group_is_its_status(kit: Kit, phase: str, status: SchedulingStatus) -> None:
    kit.cache.add_pod_group(group(phase))
    assert kit.cache.get_unit_status(GANG) == UnitStatus(status)


def test_a_changed_group_says_its_status_anew(kit: Kit) -> None:
    kit.cache.set_unit_scheduling_status(GANG, SchedulingStatus.TIMEOUT)
    kit.cache.update_pod_group(group("Pending"), group("Scheduled", "h"))
    assert kit.cache.get_unit_scheduling_status(GANG) == SchedulingStatus.UNKNOWN
    assert kit.cache.get_unit_scheduling_status("PodGroupUnit/default/h") == SchedulingStatus.SCHEDULED


def test_the_unit_of_a_pod(kit: Kit) -> None:
    one = pod("a", "n")
    kubernetes = replace(one, spec=replace(one.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g")))
    assert (unit_key(one), unit_key(member("a")), unit_key(kubernetes)) == (
        "SinglePodUnit/default/a",
        GANG,
        GANG,
    )
    kit.assume(kubernetes)
    assert kit.cache.get_unit_status(GANG).running_pods == ("a",)
    assert kit.cache.get_unit_status("SinglePodUnit/default/a").running_pods == ()


# ---- disruption budgets


def test_budgets_and_whom_they_select(kit: Kit) -> None:
    one = pod("a", "n", labels={"app": "x"})
    kit.cache.add_pdb(pdb("b", app="x"))
    kit.cache.add_pdb(pdb("a", app="x"))
    kit.cache.add_pdb(pdb("other", "elsewhere", app="x"))
    assert [each.name for each in kit.cache.pdbs.pdbs_of(one)] == ["a", "b"]
    changed = replace(pdb("a", app="x"), spec=replace(pdb("a", app="x").spec, min_available=1))
    kit.cache.update_pdb(pdb("a", app="x"), changed)
    assert kit.cache.pdbs.pdbs_of(one)[0] is changed
    kit.cache.update_pdb(changed, pdb("a", app="y"))
    assert [each.name for each in kit.cache.pdbs.pdbs_of(one)] == ["b"]
    kit.cache.delete_pdb(pdb("b"))
    kit.cache.delete_pdb(pdb("b"))
    assert [each.key for each in kit.cache.pdbs.pdbs] == ["default/a", "elsewhere/other"]


def test_23_corrected_the_status_of_a_unit_goes_with_its_group(kit: Kit) -> None:
    def status() -> SchedulingStatus:
        return kit.cache.get_unit_scheduling_status(GANG)

    assert [*SchedulingStatus] == [status(), *map(SchedulingStatus, (1, 2, 3))]
    kit.cache.add_pod_group(group("Pending"))
    assert status() == SchedulingStatus.PENDING
    kit.cache.set_unit_scheduling_status(GANG, SchedulingStatus.SCHEDULED)
    assert status() == SchedulingStatus.SCHEDULED
    kit.cache.delete_pod_group(group("Pending"))
    assert status() == SchedulingStatus.UNKNOWN
