"""Writes claims: finalizers, allocations and reservations (kube-scheduler v1.36, dynamicresources/)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from moorage._core.devices.claims_of_pods import (
    FINALIZER,
    ClaimWriteError,
    reserve_together,
    reserved,
)
from moorage.kube import Pod
from moorage.kube.model.meta import ObjectMeta
from moorage.kube.model.pod import PodExtendedResourceClaimStatus
from moorage.kube.model.resource_claims import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from moorage.kube.plain import plain
from moorage.lazy import lazy_attribute
from moorage.store import ApiError, ConflictError, NotFoundError, ObjectClient, ObjectStore

from .allocated_devices import Statuses, with_statuses
from .claim_cache import of_pod
from .device_demands import PlacedPod
from .extended_resources import Mappings

RETRIES = 5
"""How often a write is tried that meets a conflict (client-go, retry.DefaultRetry)."""
NO_MAPPINGS = "nil or empty request mappings, no update of pod {} ExtendedResourceClaimStatus"
POD_RETRIES = 4
"""How often the status of a pod is patched when the server has an internal error."""

logger = logging.getLogger("moorage.devices")


class ClaimWriter:
    """Writes claims through a client.

    Parameters
    ----------
    timestamp : callable
        Returns the time for ``allocationTimestamp``, or None where it is not written.

    Attributes
    ----------
    store : ObjectStore or None
        The client if it is a store of this process: the writes to it are not split, and take no time.
    """

    def __init__(self, client: ObjectClient, timestamp: Callable[[], str | None]) -> None:
        self._client = client
        self.store = client if isinstance(client, ObjectStore) else None
        self._timestamp = timestamp

    @lazy_attribute
    def time(self) -> str | None:
        """The time of the first allocation, for all that one writer writes."""
        return self._timestamp()

    def reserve(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        user: ResourceClaimConsumerReference,
    ) -> ResourceClaim:
        """Reserve a claim for a pod or a pod group, with its allocation if it has none yet.

        Parameters
        ----------
        claim : ResourceClaim
            As the cycle has seen it.

        Raises
        ------
        ClaimWriteError
        """
        for attempt in range(RETRIES):
            if attempt:
                claim = self._read(claim)
            try:
                return self._reserve(claim, allocation, user)
            except ConflictError as error:
                conflict = error
        raise ClaimWriteError(f"{_what(allocation)} claim {claim.key}: {conflict}")

    def _read(self, claim: ResourceClaim) -> ResourceClaim:
        try:
            return self._client.get(ResourceClaim, claim.name, claim.namespace)
        except ApiError as error:
            raise ClaimWriteError(f"get updated claim {claim.key} after conflict: {error}") from None

    def _reserve(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        user: ResourceClaimConsumerReference,
    ) -> ResourceClaim:
        written = reserved(claim, allocation, user, self.time)
        is_protected = written.metadata is claim.metadata
        what = _what(allocation) if is_protected else "add finalizer to"
        try:
            if self.store is not None:
                return self.store.update(written)
            if not is_protected:
                claim = self._client.update(replace(claim, metadata=written.metadata))
                what = _what(allocation)
            return self.update_status(claim, written.status)
        except ConflictError:
            raise
        except ApiError as error:
            raise ClaimWriteError(f"{what} claim {claim.key}: {error}") from None

    def update_status(self, claim: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaim:
        """Replace the status of a claim.

        Parameters
        ----------
        claim : ResourceClaim
            Its UID and resource version are preconditions.
        """
        if self.store is not None:
            return self.store.update(replace(claim, status=status))
        fields = ("allocation", "reservedFor", "devices")
        value = plain(status)
        meta = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
        patch: dict[str, Any] = {"metadata": meta, "status": {name: value.get(name) for name in fields}}
        return self._client.patch(ResourceClaim, claim.name, claim.namespace, patch, subresource="status")

    def unreserve(self, claim: ResourceClaim, uid: str) -> bool:
        """Take back the reservation of a claim; an error is only logged."""
        entry = {"$patch": "delete", "uid": uid}
        patch: dict[str, Any] = {"metadata": {"uid": claim.metadata.uid}, "status": {"reservedFor": [entry]}}
        try:
            self._client.patch(
                ResourceClaim, claim.name, claim.namespace, patch, type="strategic", subresource="status"
            )
        except ApiError as error:
            logger.error("unreserve claim %s: %s", claim.key, error)
            return False
        return True

    def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim for extended resources.

        Parameters
        ----------
        claim : ResourceClaim
            With `generateName`. Its status is not written.

        Raises
        ------
        ClaimWriteError
        """
        meta: ObjectMeta = replace(claim.metadata, name="", uid="")
        new = replace(claim, metadata=meta, status=ResourceClaimStatus())
        try:
            if self.store is None:
                return self._client.create(new)
            (named,) = self._create_many(self.store, [new])
            return self.store.get(ResourceClaim, named.name, named.namespace)
        except ApiError as error:
            text = f"create claim for extended resources {claim.namespace}/: {error}"
            raise ClaimWriteError(text) from None

    def write_together(
        self,
        pods: Sequence[tuple[Pod, PlacedPod]],
        allocations_of: Callable[[PlacedPod], list[AllocationResult]],
    ) -> Sequence[int]:
        """Write the claims of pods into the ObjectStore: those that exist as one write, and those for
        extended resources as another.

        Parameters
        ----------
        allocations_of : callable
            See `DeviceDemands.allocations_of`.

        Returns
        -------
        sequence of int
            The indexes of pods whose claims are left: written one by one, they tell why.
        """
        store = self.store
        assert store is not None
        claims, extended, left = reserve_together(pods, allocations_of, of_pod, self.time)
        try:
            store.update_many(claims.values())
        except ApiError:
            return range(len(pods))
        if not extended:
            return left
        try:
            created = self._create_many(store, [*extended.values()])
        except ApiError:
            return [*left, *extended]
        try:
            self._tell_pods(store, [(*pods[at], claim) for at, claim in zip(extended, created, strict=True)])
        except ApiError:
            left += extended
            for claim in created:
                with suppress(ApiError, ClaimWriteError):  # else the controller of claims deletes it
                    self.delete(claim)
        return left

    def _create_many(self, store: ObjectStore, claims: Sequence[ResourceClaim]) -> list[ResourceClaim]:
        """Create claims for extended resources, with `generateName`; after an ApiError nothing is written."""
        names = store.names_of_new(claims, keeps=False)
        named = [
            replace(claim, metadata=replace(claim.metadata, name=name, uid=""))
            for claim, name in zip(claims, names, strict=True)
        ]
        if store.server is not None:
            named = store.server.admit_of_scheduler(named)
        store.create_many(named)
        return named

    def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim, without its finalizer.

        Raises
        ------
        ApiError, ClaimWriteError
        """
        for attempt in range(RETRIES):
            if attempt:
                claim = self._client.get(ResourceClaim, claim.name, claim.namespace)
            finalizers = tuple(
                [finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER]
            )
            try:
                self._client.update(replace(claim, metadata=replace(claim.metadata, finalizers=finalizers)))
                break
            except ConflictError as error:
                if attempt == RETRIES - 1:
                    raise ClaimWriteError(f"update resourceclaim {claim.key}: {error}") from None
            except ApiError as error:
                raise ClaimWriteError(f"update resourceclaim {claim.key}: {error}") from None
        try:
            self._client.delete(ResourceClaim, claim.name, claim.namespace)
        except NotFoundError:
            return

    def tell_pod(self, pod: Pod, claim: ResourceClaim, mappings: Mappings) -> None:
        """Write into the status of a pod which claim serves its extended resources.

        Raises
        ------
        ClaimWriteError
            The write failed; or there are no mappings, as the node itself has all the resources.
        """
        if not mappings:
            raise ClaimWriteError(NO_MAPPINGS.format(pod.key))
        status = PodExtendedResourceClaimStatus(request_mappings=mappings, resource_claim_name=claim.name)
        for attempt in range(POD_RETRIES):
            try:
                changed = partial(_with_extended_claim, status=status)
                self._write(pod, changed, extendedResourceClaimStatus=plain(status))
                return
            except ApiError as error:
                is_passing = isinstance(error, ConflictError) or str(error).startswith("Internal error")
                if attempt < POD_RETRIES - 1 and is_passing:
                    continue
                text = f"update pod {pod.key} ExtendedResourceClaimStatus: {error}"
                raise ClaimWriteError(text) from None

    def _tell_pods(self, store: ObjectStore, served: Iterable[tuple[Pod, PlacedPod, ResourceClaim]]) -> None:
        """Write into the statuses of pods which claims serve them, as one write; see `tell_pod`."""
        changed: list[Pod] = []
        for pod, placed, claim in served:
            status = PodExtendedResourceClaimStatus(
                request_mappings=placed.mappings, resource_claim_name=claim.name
            )
            changed.append(_with_extended_claim(store.get(Pod, pod.name, pod.namespace), status))
        store.update_many(changed)

    def tell_statuses(self, pod: Pod, statuses: Statuses) -> None:
        """Write into the status of a pod what its claims take of the node.

        Raises
        ------
        ClaimWriteError
        """
        value = [plain(status) for status in statuses] or None
        try:
            changed = partial(with_statuses, statuses=statuses)
            self._write(pod, changed, nodeAllocatableResourceClaimStatuses=value)
        except ApiError as error:
            text = f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {error}"
            raise ClaimWriteError(text) from None

    def _write(self, pod: Pod, changed: Callable[[Pod], Pod], **fields: object) -> None:
        """Change the status of a pod in a store of this process; elsewhere patch fields of it."""
        if self.store is not None:
            self.store.update(changed(self.store.get(Pod, pod.name, pod.namespace)))
        else:
            patch = {"status": fields}
            self._client.patch(Pod, pod.name, pod.namespace, patch, type="strategic", subresource="status")


def _with_extended_claim(pod: Pod, status: PodExtendedResourceClaimStatus) -> Pod:
    return replace(pod, status=replace(pod.status, extended_resource_claim_status=status))


def _what(allocation: AllocationResult | None) -> str:
    return "add reservation to" if allocation is None else "add allocation and reservation to"
