"""How well volumes use the storage that they are taken from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import StorageScore
from tests.words import BETA_STORAGE_CLASS

from moorage.engine.volume import BindingInfo, DynamicProvision, PodVolumes
from moorage.kube import (
    CSIStorageCapacity,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    ResourceRequirements,
)


def shape(*points: tuple[int, int]) -> StorageScore:
    return StorageScore([{"utilization": x, "score": y} for x, y in points])


FULL = shape((0, 0), (100, 10))
FREE = shape((0, 10), (100, 0))


def claim(size: Any, its_class: str = "k") -> PersistentVolumeClaim:
    asked = {} if size is None else {"storage": size}
    spec = PersistentVolumeClaimSpec(
        storage_class_name=its_class, resources=ResourceRequirements(requests=asked)
    )
    return PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="default"), spec=spec)


def static(size: Any, capacity: Any, its_class: str = "k") -> BindingInfo:
    offered = {} if capacity is None else {"storage": capacity}
    spec = PersistentVolumeSpec(capacity=offered, storage_class_name=its_class)
    return BindingInfo(PersistentVolume(metadata=ObjectMeta(name="v"), spec=spec), claim(size, its_class))


def dynamic(size: Any, capacity: Any, its_class: str = "k", most: Any = None) -> DynamicProvision:
    found = CSIStorageCapacity(storage_class_name=its_class, capacity=capacity, maximum_volume_size=most)
    return DynamicProvision(claim(size, its_class), found)


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ([], 0),
        ([static("50Gi", "200Gi")], 25),
        ([static("50Gi", "100Gi")], 50),
        ([static("100Gi", "100Gi")], 100),
        ([static("100Gi", "50Gi")], 100),  # as full as can be
        ([static("1Gi", None)], 100),
        ([static(None, "1Gi")], 0),
        ([static("50Gi", "200Gi"), static("100Gi", "200Gi", "l")], 38),  # 37.5
        ([static("50Gi", "100Gi"), static("100Gi", "100Gi", "l")], 75),
        ([static("50Gi", "100Gi"), static("50Gi", "300Gi")], 25),  # of one class they are added up
        ([static(1, 3)], 33),
        ([static(2, 3)], 66),
    ],
)
def test_of_static_bindings(bindings: list[BindingInfo], expected: int) -> None:
    assert FULL.score(PodVolumes(bindings)) == expected


@pytest.mark.parametrize(
    ("provisions", "expected"),
    [
        ([dynamic("10Gi", "100Gi")], 90),
        ([dynamic("10Gi", "100Gi"), dynamic("20Gi", "100Gi")], 70),  # the capacity is there once
        ([dynamic("10Gi", "100Gi"), dynamic("20Gi", "60Gi")], 50),  # that of the last
        ([dynamic("10Gi", "100Gi"), dynamic("30Gi", "60Gi", "l")], 70),
        ([dynamic("10Gi", None, most="20Gi")], 0),
        ([DynamicProvision(claim("10Gi"))], 0),
        ([DynamicProvision(claim("10Gi")), dynamic("10Gi", "100Gi")], 90),  # no capacity, not counted
    ],
)
def test_of_what_is_to_be_provisioned(provisions: list[DynamicProvision], expected: int) -> None:
    assert FREE.score(PodVolumes(None, provisions)) == expected
    assert FREE.score(PodVolumes([], provisions)) == expected


def test_static_bindings_alone_count_where_there_are_any() -> None:
    assert FREE.score(PodVolumes([static("50Gi", "200Gi")], [dynamic("1Gi", "100Gi")])) == 75
    assert FREE.score(PodVolumes()) == 0


def test_the_class_is_the_one_in_the_spec_of_the_volume() -> None:
    """A volume that was bound to a claim beforehand may be of another class than the claim."""
    other = static("100Gi", "100Gi")
    other = other._replace(pvc=claim("100Gi", "l"))
    old = static("100Gi", "100Gi")
    marked = replace(old.pv, metadata=ObjectMeta(name="v", annotations={BETA_STORAGE_CLASS: "l"}))
    for one in (other, old._replace(pv=marked)):
        assert FULL.score(PodVolumes([static("50Gi", "300Gi"), one])) == 37  # 150 of 400


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=5, unique=True).map(sorted),
    st.lists(st.integers(0, 10), min_size=5, max_size=5),
    st.integers(1, 100),
)
def test_between_any_points(xs: list[int], ys: list[int], at: int) -> None:
    """Against exact fractions, rounded towards the score of the point before."""
    points = list(zip(xs, ys, strict=False))
    found = shape(*points).score(PodVolumes([static(at, 100)]))
    before = max((point for point in points if point[0] < at), default=None)
    after = min((point for point in points if point[0] >= at), default=None)
    if before is None or after is None:
        assert found == (before or after or (0, 0))[1] * 10
        return
    exact = 10 * (after[1] - before[1]) * (at - before[0]) / (after[0] - before[0])
    assert found == before[1] * 10 + int(exact + (1e-9 if exact > 0 else -1e-9))
