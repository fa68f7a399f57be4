"""What is written to a group's status, and when."""

from __future__ import annotations

from msgspec.structs import replace
from tests.doors.engine import patch_groups
from tests.scheduler.groups.gang_kit import gang

from moorage.kube import PodGroup, PodGroupStatus
from moorage.store import ObjectStore

GODEL = "scheduling.godel.kubewharf.io"


def written(group: PodGroup, *messages: str) -> list[PodGroup]:
    """The group after each attempt."""
    store = ObjectStore()
    store.create(group)
    found = []
    for message in messages:
        patch_groups(store, [group], message)
        found.append(store.get(PodGroup, "g", "default"))
    return found


def test_a_condition_has_the_generation_that_was_tried() -> None:
    """Also where nothing else changes; once the group is scheduled, it stays."""
    group, store = gang("g", 2), ObjectStore()
    store.create(group)
    found = []
    for generation, message in ((0, "too few"), (1, "too few"), (2, "too few"), (3, ""), (4, "late ones")):
        current = store.get(PodGroup, "g", "default")
        store.update(replace(current, metadata=replace(current.metadata, generation=generation)))
        patch_groups(store, [store.get(PodGroup, "g", "default")], message)
        (condition,) = store.get(PodGroup, "g", "default").status.conditions
        found.append((condition.status, condition.observed_generation))
    assert found == [("False", None), ("False", 1), ("False", 2), ("True", 3), ("True", 3)]


def test_phases_of_godel() -> None:
    group = replace(gang("g", 0), api_version=f"{GODEL}/v1alpha1")
    assert [one.status.phase for one in written(group, "too few", "", "late")] == [
        "Pending",
        "Scheduled",
        "Scheduled",
    ]
    ended = replace(group, status=PodGroupStatus(phase="Timeout"))
    assert [one.status.phase for one in written(ended, "")] == ["Timeout"]


def test_a_group_that_is_gone_is_left_alone() -> None:
    patch_groups(ObjectStore(), [gang("g", 2)], "too few")


def test_several_groups_are_written_at_once() -> None:
    store = ObjectStore()
    kinds = [
        gang("g", 2),
        replace(gang("h", 2), api_version=f"{GODEL}/v1alpha1"),
        gang("i", 2),
        gang("gone", 2),
    ]
    for group in kinds[:3]:
        store.create(group)
    patch_groups(store, [kinds[0]], "too few")
    patch_groups(store, kinds)
    known = {one.name: one.status for one in store.list(PodGroup)[0]}
    assert [(one.status, one.reason) for one in known["g"].conditions] == [("True", "Scheduled")]
    assert known["i"] == known["g"]
    assert known["h"] == PodGroupStatus(phase="Scheduled")
