"""Writes of claims to a server: what is tried again, and what is said of a write that fails."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.devices.make import claim, request
from tests.doors.engine import ClaimWriteError, ClaimWriter
from tests.make import pod

from moorage.kube import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
    Pod,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from moorage.store import ApiError, ConflictError, NotFoundError, ObjectStore

FINALIZER = "resource.kubernetes.io/delete-protection"

STALE = ConflictError("the object has been modified")
FORBIDDEN = ApiError("not allowed")
INTERNAL = ApiError("Internal error occurred: no luck")
RETRIES, POD_RETRIES = 5, 4
USER = ResourceClaimConsumerReference(resource="pods", name="p", uid="u")
MAPPINGS = (ContainerExtendedResourceRequest("c", "example.com/gpu", "r"),)


class Refusing:
    """A client of a store: each write meets the next of the errors, as long as there are any."""

    def __init__(self, errors: Iterable[ApiError]) -> None:
        self.store = ObjectStore()
        self.errors = list(errors)
        self.writes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)
        if name == "get":
            return method

        def write(*arguments: Any, **options: Any) -> Any:
            self.writes.append(name)
            if self.errors:
                raise self.errors.pop(0)
            return method(*arguments, **options)

        return write


def world(*errors: ApiError, deleted: bool = False) -> tuple[Refusing, ClaimWriter, ResourceClaim]:
    """A client, its writer and a claim with a finalizer, which is gone where it is `deleted`."""
    client = Refusing(errors)
    made = claim("c", [request()], allocation={"devices": {"results": []}})
    made = replace(made, metadata=replace(made.metadata, finalizers=(FINALIZER,)))
    stored = made if deleted else client.store.create(made)
    client.store.create(pod("p"))
    return client, ClaimWriter(client, lambda: None), stored


def stored_pod(client: Refusing) -> Pod:
    return client.store.get(Pod, "p", "default")


# ---- reservations ------------------------------------------------------------------------------------------


def test_a_reservation_that_meets_a_conflict_is_tried_with_the_claim_as_it_is_now() -> None:
    client, writer, stale = world(*[STALE] * (RETRIES - 1))
    other = replace(USER, name="q", uid="v")
    client.store.update(replace(stale, status=replace(stale.status, reserved_for=(other,))))
    assert writer.reserve(stale, None, USER).status.reserved_for == (other, USER)
    assert client.writes == ["patch"] * RETRIES


def test_a_reservation_that_meets_only_conflicts_fails() -> None:
    client, writer, one = world(*[STALE] * RETRIES)
    text = r"^add reservation to claim default/c: the object has been modified$"
    with pytest.raises(ClaimWriteError, match=text):
        writer.reserve(one, None, USER)
    assert client.writes == ["patch"] * RETRIES
    assert client.store.get(ResourceClaim, "c", "default") == one


def test_a_claim_that_is_gone_after_a_conflict_cannot_be_reserved() -> None:
    client, writer, one = world(STALE, deleted=True)
    text = "^get updated claim default/c after conflict: "
    with pytest.raises(ClaimWriteError, match=rf'{text}resourceclaims.resource.k8s.io "c" not found$'):
        writer.reserve(one, None, USER)
    assert client.writes == ["patch"]


def test_a_reservation_that_cannot_be_taken_back_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    client, writer, one = world()
    one = writer.reserve(one, None, USER)
    client.errors.append(FORBIDDEN)
    with caplog.at_level(logging.ERROR, "moorage.devices"):
        assert not writer.unreserve(one, USER.uid)
        assert writer.unreserve(one, USER.uid)
    assert caplog.messages == ["unreserve claim default/c: not allowed"]
    assert client.store.get(ResourceClaim, "c", "default").status.reserved_for == ()


# ---- claims for extended resources -------------------------------------------------------------------------


def test_a_claim_that_cannot_be_created_is_named_by_its_namespace() -> None:
    _, writer, one = world(FORBIDDEN)
    with pytest.raises(ClaimWriteError, match=r"^create claim for extended resources default/: not allowed$"):
        writer.create(one)


def test_a_claim_is_deleted_after_conflicts_over_its_finalizer() -> None:
    client, writer, stale = world(*[STALE] * (RETRIES - 1))
    writer.delete(stale)
    assert client.writes == [*["update"] * RETRIES, "delete"]
    with pytest.raises(NotFoundError):
        client.store.get(ResourceClaim, "c", "default")


def test_a_claim_that_is_gone_before_its_deletion_is_deleted() -> None:
    client, writer, one = world()
    client.update = lambda obj: client.errors.append(NotFoundError("gone"))  # type: ignore[attr-defined]
    writer.delete(one)
    assert client.writes == ["delete"]


@pytest.mark.parametrize(("error", "tries"), [(STALE, RETRIES), (FORBIDDEN, 1)])
def test_a_claim_whose_finalizer_stays_is_not_deleted(error: ApiError, tries: int) -> None:
    client, writer, one = world(*[error] * tries)
    with pytest.raises(ClaimWriteError, match=f"^update resourceclaim default/c: {error}$"):
        writer.delete(one)
    assert client.writes == ["update"] * tries
    assert client.store.get(ResourceClaim, "c", "default") == one


# ---- statuses of pods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [STALE, INTERNAL])
def test_a_pod_is_told_of_its_claim_after_errors_that_pass(error: ApiError) -> None:
    client, writer, one = world(*[error] * (POD_RETRIES - 1))
    writer.tell_pod(stored_pod(client), one, MAPPINGS)
    told = stored_pod(client).status.extended_resource_claim_status
    assert told is not None
    assert (told.resource_claim_name, told.request_mappings) == ("c", MAPPINGS)


@pytest.mark.parametrize(("error", "tries"), [(INTERNAL, POD_RETRIES), (FORBIDDEN, 1)])
def test_a_pod_that_cannot_be_told_of_its_claim_fails(error: ApiError, tries: int) -> None:
    client, writer, one = world(*[error] * tries)
    text = f"^update pod default/p ExtendedResourceClaimStatus: {error}$"
    with pytest.raises(ClaimWriteError, match=text):
        writer.tell_pod(stored_pod(client), one, MAPPINGS)
    assert client.writes == ["patch"] * tries
    assert stored_pod(client).status.extended_resource_claim_status is None


def test_what_claims_take_of_the_node_is_patched_and_taken_back() -> None:
    client, writer, _ = world()
    taken = (NodeAllocatableResourceClaimStatus("c", ("main",)),)
    writer.tell_statuses(stored_pod(client), taken)
    assert stored_pod(client).status.node_allocatable_resource_claim_statuses == taken
    client.errors.append(FORBIDDEN)
    text = "^updating pod default/p NodeAllocatableResourceClaimStatuses: not allowed$"
    with pytest.raises(ClaimWriteError, match=text):
        writer.tell_statuses(stored_pod(client), ())
    assert stored_pod(client).status.node_allocatable_resource_claim_statuses == taken
    writer.tell_statuses(stored_pod(client), ())
    assert stored_pod(client).status.node_allocatable_resource_claim_statuses == ()
