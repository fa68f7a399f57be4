"""Pods of a group that use one resource claim."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.devices.make import claim, device, device_class, request, resource_slice
from tests.make import node
from tests.scheduler.groups.gang_kit import gang, members, world

from moorage import Scheduler
from moorage.kube import Pod, PodResourceClaim, ResourceClaim


def asking(pod: Pod, *claims: str) -> Pod:
    names = tuple([PodResourceClaim(name=one, resource_claim_name=one) for one in claims])
    return replace(pod, spec=replace(pod.spec, resource_claims=names))


def cluster(
    pods: list[Pod], *claims: ResourceClaim, minimum: int = 2, having: str = "ab", **settings: Any
) -> Scheduler:
    """Two nodes, of which some have four devices."""
    slices = [resource_slice(name, [device(f"d{at}") for at in range(4)]) for name in having]
    nodes = [node("a"), node("b")]
    return world(nodes, [device_class()], slices, list(claims), [gang("g", minimum)], pods, **settings)


def users(one: Scheduler, name: str) -> list[str]:
    held: ResourceClaim = one.client.get(ResourceClaim, name, "default")
    return sorted(user.name for user in held.status.reserved_for)


def test_a_gang_that_fails_gives_the_claim_back() -> None:
    """Neither the attempt nor its shares leave anything behind."""
    mine = [asking(pod, "c") for pod in members("g", 2)]
    one = cluster([*mine, *members("g", 3, cpu=10**6)[2:]], claim("c", [request()]), minimum=3)
    assert not one.run().placements
    other = asking(members("", 1)[0], "c")
    one.client.create(other)
    assert list(one.run().placements) == [f"default/{other.name}"]
    assert users(one, "c") == [other.name]


@pytest.mark.parametrize("order", [("c", "own"), ("own", "c")])
def test_pods_of_a_gang_share_one_claim_and_have_another(order: tuple[str, str]) -> None:
    """No device is given twice, in whatever order the claims are."""
    kinds = [{"own": f"own-{at}", "c": "c"} for at in range(3)]
    pods = [asking(pod, *[kinds[at][one] for one in order]) for at, pod in enumerate(members("g", 3))]
    one = cluster(pods, claim("c", [request()]), *[claim(f"own-{at}", [request()]) for at in range(3)])
    placements = one.run().placements | one.run().placements
    assert sorted(placements) == ["default/g-0", "default/g-1", "default/g-2"]
    assert len(set(placements.values())) == 1
    found = [one.client.get(ResourceClaim, name, "default") for name in ("c", "own-0", "own-1", "own-2")]
    results = [held.status.allocation.devices.results for held in found if held.status.allocation]
    assert len({result.device for (result,) in results}) == 4


def test_the_shared_allocation_counts_for_scores() -> None:
    """The alternatives that a claim got say as much about a node as those of a claim of the pod alone."""
    wanted = {"name": "r", "firstAvailable": [{"name": "x", **request()["exactly"]}]}
    pods = [asking(pod, "c") for pod in members("g", 2)]
    one = cluster(pods, claim("c", [wanted]))
    assert list(one.run().placements) == ["default/g-0", "default/g-1"]
