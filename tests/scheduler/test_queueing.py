"""The clock of a cluster's own store."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.doors.cluster import time_of
from tests.doors.kube import seconds
from tests.make import pod

from moorage.kube import Cluster


@pytest.mark.parametrize(
    "stamps",
    [
        [],
        ["2026-01-02T03:04:05Z"],
        ["2026-01-02T03:04:05Z", "2026-01-03T00:00:00Z", None],
        ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5Z"],
        ["2026-01-02T03:04:05Z", "2026-01-02T04:04:04+01:00"],
        ["2026-01-02T03:04:05Z", "2026-01-02T02:04:06-01:00"],
        ["2026-01-02T02:04:06-01:00", "2026-01-02T02:04:07-01:00"],
    ],
)
def test_the_clock_shows_the_newest_creation(stamps: list[str | None]) -> None:
    pods = [
        replace(one, metadata=replace(one.metadata, creation_timestamp=stamp))
        for one, stamp in zip([pod(f"p{at}") for at in range(len(stamps))], stamps, strict=True)
    ]
    newest = max([seconds(stamp) for stamp in stamps if stamp], default=0.0)
    assert time_of(Cluster(pods=pods)).now == newest
