"""Pods of a batch whose claims ask for the same as those of the pod before."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace
from tests.devices.make import claim, request
from tests.doors.engine import (
    AskingClaim,
    ClaimsOfBatch,
    ClaimWriteError,
    IndexedObjects,
    Reader,
    RepeatedClaims,
    reserved,
)
from tests.make import pod

from moorage.kube import (
    AllocationResult,
    ContainerStatus,
    OwnerReference,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodStatus,
    ResourceClaim,
    ResourceClaimStatus,
)

SPEC = claim("x", [request()]).spec
POD_SPEC = replace(
    pod("p").spec,
    resource_claims=tuple([PodResourceClaim(name=use, resource_claim_template_name="t") for use in "ab"]),
)


class Shape:
    spec = SPEC


class Claims:
    """The claims of a cluster, and a batch whose first pod is noted already."""

    def __init__(self) -> None:
        self.by_key: dict[str, ResourceClaim] = {}
        self.pending: dict[str, object] = {}
        self.batch = ClaimsOfBatch()
        asking = [AskingClaim(one, Shape) for one in self.of(self.add("first"))]  # type: ignore[arg-type]
        first = self.add("first")
        claims = Reader(lambda key: None, IndexedObjects(), self.by_key)
        self.alike = RepeatedClaims(first, asking, claims, self.pending, self.batch)

    def add(self, name: str) -> Pod:
        """Add a pod with two claims of its own."""
        one = pod(name)
        for use in "ab":
            made = claim(f"{name}-{use}", [request()])
            owner = OwnerReference("v1", "Pod", name, one.metadata.uid, True, True)
            meta = replace(made.metadata, owner_references=(owner,))
            self.by_key[made.key] = replace(made, spec=SPEC, metadata=meta)
        told = tuple([PodResourceClaimStatus(use, f"{name}-{use}") for use in "ab"])
        return replace(one, spec=POD_SPEC, status=PodStatus(resource_claim_statuses=told))

    def of(self, one: Pod) -> list[ResourceClaim]:
        told = one.status.resource_claim_statuses
        return [self.by_key[f"default/{each.resource_claim_name}"] for each in told]

    def change(self, name: str, **fields: object) -> None:
        self.by_key[f"default/{name}"] = replace(self.by_key[f"default/{name}"], **fields)


def is_unknown(claims: Claims, one: Pod) -> bool:
    """Whether a pod is refused, and leaves no trace."""
    before = (
        claims.batch.allocated_for.copy(),
        claims.batch.claims_to_write.copy(),
        claims.batch.last_allocating,
    )
    noted = claims.alike.note(one, 1)
    return not noted and before == (
        claims.batch.allocated_for,
        claims.batch.claims_to_write,
        claims.batch.last_allocating,
    )


def test_an_alike_pod_is_noted_with_its_own_claims() -> None:
    claims = Claims()
    second = claims.add("q")
    assert claims.alike.note(second, 7)
    found, asking, mappings = claims.batch.claims_to_write[7]
    assert found == [one.claim for one in asking] == claims.of(second)
    assert [one.shape for one in asking] == [Shape, Shape]
    assert mappings == ()
    assert claims.batch.allocated_for == {"default/q-a": 7, "default/q-b": 7}
    assert claims.batch.last_allocating == 7
    assert is_unknown(claims, second), "an earlier pod of the batch allocates its claims"


def test_pods_of_another_spec_or_with_statuses_of_containers_are_not_alike() -> None:
    claims = Claims()
    second = claims.add("q")
    assert is_unknown(claims, replace(second, spec=replace(POD_SPEC, priority=3)))
    for field in ("container_statuses", "init_container_statuses"):
        status = replace(second.status, **{field: (ContainerStatus(name="c"),)})
        assert is_unknown(claims, replace(second, status=status))


@pytest.mark.parametrize("at", "ab")
def test_pods_whose_claims_differ_are_not_alike(at: str) -> None:
    claims = Claims()
    second, name = claims.add("q"), f"q-{at}"
    known = claims.by_key[f"default/{name}"]
    claims.change(name, spec=claim("x", [request(count=2)]).spec)
    assert is_unknown(claims, second)
    claims.change(name, spec=SPEC, status=ResourceClaimStatus(allocation=AllocationResult()))
    assert is_unknown(claims, second)
    claims.change(name, status=ResourceClaimStatus())
    claims.pending[known.metadata.uid] = None
    assert is_unknown(claims, second)
    claims.pending.clear()
    meta = replace(known.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    claims.change(name, metadata=meta)
    assert is_unknown(claims, second)
    del claims.by_key[f"default/{name}"]
    assert is_unknown(claims, second)
    claims.by_key[f"default/{name}"] = cast(ResourceClaim, known)
    assert claims.alike.note(second, 1)


def test_a_claim_that_a_pod_names_twice_is_left_to_plugins() -> None:
    claims = Claims()
    second = claims.add("q")
    told = tuple([PodResourceClaimStatus(use, "q-a") for use in "ab"])
    assert is_unknown(claims, replace(second, status=PodStatus(resource_claim_statuses=told)))


def test_a_pod_without_one_of_the_claims_is_not_alike() -> None:
    claims = Claims()
    second = claims.add("q")
    told = (PodResourceClaimStatus("a", "q-a"), PodResourceClaimStatus("b", None))
    assert is_unknown(claims, replace(second, status=PodStatus(resource_claim_statuses=told)))


def test_pods_that_ask_for_no_claim_are_not_alike() -> None:
    claims = Reader(lambda key: None, IndexedObjects(), {})
    with pytest.raises(ValueError, match="pods that are alike ask for a claim"):
        RepeatedClaims(pod("p"), [], claims, {}, ClaimsOfBatch())


def test_a_claim_that_is_being_deleted_is_not_reserved() -> None:
    one = claim("c", [request()])
    gone = replace(one, metadata=replace(one.metadata, deletion_timestamp="1970-01-01T00:00:00Z"))
    with pytest.raises(ClaimWriteError, match=r"^claim default/c got deleted in the meantime$"):
        reserved(gone, None, None)
