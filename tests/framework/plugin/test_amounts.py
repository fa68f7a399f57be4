"""Amounts of resources as texts for people, and as manifests take them."""

from __future__ import annotations

import pytest
from tests.doors.cluster import compared, offered, readable


@pytest.mark.parametrize(
    ("resource", "amount", "text", "in_a_manifest"),
    [
        ("cpu", 3500, "3.5", "3.5"),
        ("cpu", 1000, "1", "1"),
        ("cpu", 250, "250m", "250m"),
        ("memory", 688572 << 10, "672Mi", "688572Ki"),
        ("memory", 15256132 << 10, "14.5Gi", "15256132Ki"),
        ("memory", 12800 << 20, "12.5Gi", "12.5Gi"),
        ("memory", 1 << 30, "1Gi", "1Gi"),
        ("memory", 900, "900", "900"),
        ("memory", 0, "0", "0"),
        ("ephemeral-storage", 3 << 60, "3Ei", "3Ei"),
        ("nvidia.com/gpu", 8, "8", "8"),
    ],
)
def test_an_amount_is_written_for_people(resource: str, amount: int, text: str, in_a_manifest: str) -> None:
    assert readable(resource, amount) == text
    assert offered(resource, amount) == in_a_manifest


def test_amounts_that_differ_do_not_read_alike() -> None:
    assert compared("memory", 3 << 30, 2 << 30) == ("3Gi", "2Gi")
    assert compared("memory", 3 << 30, (3 << 30) - 1024) == ("3Gi", "3145727Ki")
    assert compared("memory", 3 << 30, 3 << 30) == ("3Gi", "3Gi")
