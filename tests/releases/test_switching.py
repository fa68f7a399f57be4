"""What two releases do not have alike, and releases with a part of it switched."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.doors.kube import described, differing, switched
from tests.house.source import ROOT

from moorage import Scheduler
from moorage.kube import load
from moorage.kube.releases import RELEASES, FeatureGates, Release, default_gates, feature_gates

PAIRS = list(permutations(RELEASES, 2))


def gates(version: str) -> FeatureGates:
    return default_gates(RELEASES[version])


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_each_field_that_differs_is_a_behaviour(before: str, after: str) -> None:
    found = {one.name: one for one in differing(gates(before), gates(after))}
    for name in Release._fields:
        values = getattr(RELEASES[before], name), getattr(RELEASES[after], name)
        assert (name in found) is (values[0] != values[1] and name not in ("version", "patch"))
    assert all(one.text for one in found.values())


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_with_all_behaviours_switched_it_is_the_other_release(before: str, after: str) -> None:
    """But for the gates that nothing reads, and those that are gone where they were locked."""
    names = [one.name for one in differing(gates(before), gates(after))]
    whole = switched(gates(before), gates(after), names)
    assert differing(whole, gates(after)) == []
    none = switched(gates(before), gates(after), ())
    assert (none.by_name, none.release) == (gates(before).by_name, gates(before).release)
    cluster = load(str(ROOT / "examples"))
    ours = Scheduler(cluster, feature_gates=whole).run()
    theirs = Scheduler(cluster, kubernetes_version=after).run()
    assert ours.placements == theirs.placements
    assert {key: one.message for key, one in ours.unschedulable.items()} == {
        key: one.message for key, one in theirs.unschedulable.items()
    }


def test_one_behaviour_is_switched_alone() -> None:
    before, after = gates("1.36"), gates("1.37")
    one = switched(before, after, ["resizes_by_sums", "StorageCapacityScoring"])
    assert one.release.resizes_by_sums
    assert one["StorageCapacityScoring"]
    assert one.release.version == "1.36"
    left = {one.name for one in differing(before, after)} - {one.name for one in differing(one, after)}
    assert left == {"resizes_by_sums", "StorageCapacityScoring"}


def test_a_gate_that_the_user_sets_alike_is_no_difference() -> None:
    on = [feature_gates({"StorageCapacityScoring": True}, RELEASES[version]) for version in ("1.36", "1.37")]
    assert "StorageCapacityScoring" not in {one.name for one in differing(on[0], on[1])}


def test_a_gate_that_was_locked_and_is_gone_is_no_difference() -> None:
    assert "SidecarContainers" not in {one.name for one in differing(gates("1.36"), gates("1.37"))}


def test_values_as_text() -> None:
    found = {one.name: one.values for one in differing(gates("1.35"), gates("1.37"))}
    assert found["image_volumes"] == ("-", "count")
    assert found["resizes_by_sums"] == ("no", "yes")
    assert "NodeName" in found["plugins"][0]
    assert "NodePorts" not in found["plugins"][0]


def test_each_field_is_described() -> None:
    assert described().keys() == set(Release._fields)
