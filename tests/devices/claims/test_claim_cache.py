"""The cache of claims: devices in use follow what is reported, assumed and in flight, and can be undone."""

from __future__ import annotations

from typing import Any

from tests.devices.make import DRIVER, claim, request
from tests.doors.engine import ClaimCache

from moorage.kube import ResourceClaim

FIRST, SECOND = (DRIVER, "pool", "d0"), (DRIVER, "pool", "d1")


def allocated(name: str, *devices: str, **more: Any) -> ResourceClaim:
    results = [{"request": "r", "driver": DRIVER, "pool": "pool", "device": one, **more} for one in devices]
    return claim(name, [request()], allocation={"devices": {"results": results}})


def cache() -> ClaimCache:
    return ClaimCache(None, counts_shares=True)


def test_shares_count_by_their_capacity() -> None:
    one = cache()
    for name, share in (("a", "1"), ("b", "2")):
        one.add(allocated(name, "d0", shareID=share, consumedCapacity={"memory": "2Gi"}))
    assert one.in_use().devices == set()
    assert str(one.in_use().consumed[FIRST]["memory"]) == "4Gi"
    one.remove("default/a")
    one.remove("default/b")
    assert one.in_use().consumed == {}


def test_pods_of_one_group_cycle_share_an_allocation_in_flight() -> None:
    one, cycle, other = cache(), [0], [0]
    first, second = allocated("a", "d0").status.allocation, allocated("a", "d1").status.allocation
    assert first is not None
    assert second is not None
    one.signal_pending("uid-a", first, cycle)
    assert one.pending_of("uid-a", cycle) is first
    assert one.pending_of("uid-a", other) is one.pending_of("uid-a", None) is None
    one.signal_pending("uid-a", second, cycle)
    one.signal_pending("uid-b", second)
    assert one.pending_of("uid-b", None) is None
    assert one.in_use().devices == {FIRST, SECOND}
    one.remove_pending("uid-b")
    assert not one.remove_pending("uid-a")
    assert one.in_use().devices == {FIRST}
    assert one.remove_pending("uid-a")
    assert one.in_use().devices == set()
    for _ in range(3):
        one.signal_pending("uid-a", first, cycle)
    assert one.remove_pending("uid-a", is_written=True)
    assert not one.is_pending("uid-a")


def test_the_devices_of_a_claim_are_those_it_had_first() -> None:
    """As upstream's informer handler counts a claim once."""
    one = cache()
    one.add(allocated("a", "d0"))
    one.add(allocated("a", "d1"))
    assert one.in_use().devices == {FIRST}
