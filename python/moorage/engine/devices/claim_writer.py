"""Writes claims: finalizers, allocations and reservations (kube-scheduler v1.36, dynamicresources/), also for
pods that the core has placed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct
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
    EXTENDED_CLAIM,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from moorage.kube.plain import plain
from moorage.lazy import lazy_attribute
from moorage.store import ApiError, ConflictError, NotFoundError, ObjectClient, ObjectStore

from ..framework.handle import FrameworkHandle
from .allocated_devices import Statuses, with_statuses
from .claim_cache import is_reserved_for, of_pod
from .claim_requests import AllocationError
from .device_demands import AskingClaim, DeviceDemands, TakenDevices
from .device_state import DeviceState
from .extended_resources import IN_MEMORY, Mappings

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
            (named,) = self.create_many([new])
            return self.store.get(ResourceClaim, named.name, named.namespace)
        except ApiError as error:
            text = f"create claim for extended resources {claim.namespace}/: {error}"
            raise ClaimWriteError(text) from None

    def create_many(self, claims: Sequence[ResourceClaim]) -> list[ResourceClaim]:
        """Create claims for extended resources in an ObjectStore, as one write.

        Parameters
        ----------
        claims : sequence of ResourceClaim
            With `generateName` and a status.

        Raises
        ------
        ApiError
            Nothing is written.
        """
        store = self.store
        assert store is not None
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
                self._set_extended_claim(pod, status)
                return
            except ApiError as error:
                is_passing = isinstance(error, ConflictError) or str(error).startswith("Internal error")
                if attempt < POD_RETRIES - 1 and is_passing:
                    continue
                text = f"update pod {pod.key} ExtendedResourceClaimStatus: {error}"
                raise ClaimWriteError(text) from None

    def tell_pods(self, claims: Iterable[tuple[Pod, ResourceClaim, Mappings]]) -> None:
        """Write into the statuses of pods of an ObjectStore which claims serve them, as one write.

        Parameters
        ----------
        claims : iterable of (Pod, ResourceClaim, tuple of ContainerExtendedResourceRequest)
            See `tell_pod`.

        Raises
        ------
        ApiError
            Nothing is written.
        """
        store = self.store
        assert store is not None
        changed: list[Pod] = []
        for pod, claim, mappings in claims:
            status = PodExtendedResourceClaimStatus(request_mappings=mappings, resource_claim_name=claim.name)
            changed.append(_with_extended_claim(store.get(Pod, pod.name, pod.namespace), status))
        store.update_many(changed)

    def tell_statuses(self, pod: Pod, statuses: Statuses) -> None:
        """Write into the status of a pod what its claims take of the node.

        Raises
        ------
        ClaimWriteError
        """
        client, store = self._client, self.store
        try:
            if store is not None:
                store.update(with_statuses(store.get(Pod, pod.name, pod.namespace), statuses))
                return
            value = [plain(status) for status in statuses] or None
            patch: dict[str, Any] = {"status": {"nodeAllocatableResourceClaimStatuses": value}}
            client.patch(Pod, pod.name, pod.namespace, patch, type="strategic", subresource="status")
        except ApiError as error:
            text = f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses: {error}"
            raise ClaimWriteError(text) from None

    def _set_extended_claim(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        client, store = self._client, self.store
        if store is not None:
            store.update(_with_extended_claim(store.get(Pod, pod.name, pod.namespace), status))
            return
        patch: dict[str, Any] = {"status": {"extendedResourceClaimStatus": plain(status)}}
        client.patch(Pod, pod.name, pod.namespace, patch, type="strategic", subresource="status")


def _with_extended_claim(pod: Pod, status: PodExtendedResourceClaimStatus) -> Pod:
    return replace(pod, status=replace(pod.status, extended_resource_claim_status=status))


def _what(allocation: AllocationResult | None) -> str:
    return "add reservation to" if allocation is None else "add allocation and reservation to"


# ---- placed claims -----------------------------------------------------------------------------------------
# The claims of pods that the core has placed: their devices, and the writes of PreBind.


class PlacedPod(Struct, frozen=True):
    """A pod that the core has placed, and the claims to write.

    Attributes
    ----------
    asking : list of AskingClaim
        Those of them that have to be allocated.
    taken : TakenDevices or None
        Their devices; None if there are no such claims.
    mappings : tuple of ContainerExtendedResourceRequest
        Of the claim for extended resources, the last of `claims`, which is to be created.
    """

    node: str
    claims: list[ResourceClaim]
    asking: list[AskingClaim]
    taken: TakenDevices | None
    mappings: Mappings = ()


def take_devices(
    demands: DeviceDemands, claiming: Mapping[int, Any], placed: Mapping[int, str]
) -> dict[int, PlacedPod]:
    """Return the claims of placed pods with the devices that they have taken.

    Parameters
    ----------
    claiming : mapping of int to (list of ResourceClaim, list of AskingClaim, tuple)
        By the index in the batch, the claims of pods, and the mappings of extended resources.
    placed : mapping of int to str
        By the index in the batch, the nodes of those that were placed.
    """
    taken = demands.take()
    out: dict[int, PlacedPod] = {}
    for at, node in placed.items():
        claims, asking, mappings = claiming[at]
        out[at] = PlacedPod(node, claims, asking, taken.pop(at, None), mappings)
    demands.give_back(taken.values())
    return out


class PlacedClaims:
    """Writes the claims of placed pods."""

    def __init__(self, devices: DeviceState, handle: FrameworkHandle, writer: ClaimWriter) -> None:
        self._devices = devices
        self._handle = handle
        self._writer = writer

    def bind(self, pods: Sequence[tuple[Pod, PlacedPod]]) -> dict[int, str]:
        """Write the claims of pods into the ObjectStore of the scheduler, as one write if none is refused.

        Returns
        -------
        dict of int to str
            By index, why claims could not be written. Reservations and devices are given back.
        """
        demands = self._devices.demands
        refused: dict[int, str] = {}
        for at in self._write_together(pods):
            pod, placed = pods[at]
            try:
                self._write(pod, placed)
            except (AllocationError, ApiError, ClaimWriteError) as error:
                demands.give_back(() if placed.taken is None else (placed.taken,))
                refused[at] = str(error)
        self._handle.informers.run_kind(ResourceClaim)
        return refused

    def _write_together(self, pods: Sequence[tuple[Pod, PlacedPod]]) -> Sequence[int]:
        """Write the claims of pods as one write; return the indexes of pods whose claims are left: each by
        itself tells why."""
        claims, extended, left = reserve_together(pods, self._allocations, of_pod, self._writer.time)
        try:
            cast(ObjectStore, self._handle.client).update_many(claims.values())
        except ApiError:
            return range(len(pods))
        return left + self._create_together(pods, extended) if extended else left

    def _create_together(
        self, pods: Sequence[tuple[Pod, PlacedPod]], claims: Mapping[int, ResourceClaim]
    ) -> list[int]:
        """Create claims for extended resources, by index of the pod, and tell the pods; return the indexes
        of pods whose claims are left."""
        left: list[int] = []
        try:
            created = dict(zip(claims, self._writer.create_many([*claims.values()]), strict=True))
        except ApiError:
            return [*claims]
        try:
            self._writer.tell_pods(
                (pods[at][0], created_claim, pods[at][1].mappings) for at, created_claim in created.items()
            )
        except ApiError:
            for at, claim in created.items():
                try:
                    self._tell(pods[at][0], claim, pods[at][1])
                except ClaimWriteError:
                    left.append(at)
        return left

    def _tell(self, pod: Pod, claim: ResourceClaim, placed: PlacedPod) -> None:
        """Tell a pod which claim serves its extended resources; an error deletes the claim."""
        try:
            self._writer.tell_pod(pod, claim, placed.mappings)
        except ClaimWriteError:
            self._delete(claim)
            raise

    def _delete(self, claim: ResourceClaim) -> None:
        """Delete a claim for extended resources; an error is left to the controller of claims."""
        with suppress(ApiError, ClaimWriteError):
            self._writer.delete(claim)

    def _allocations(self, placed: PlacedPod) -> list[AllocationResult]:
        """Return the allocations of the claims of a pod that have to be allocated."""
        return self._devices.demands.allocations(placed.taken, placed.asking, placed.node)

    def _allocated(self, placed: PlacedPod) -> Iterable[tuple[ResourceClaim, AllocationResult | None]]:
        """Return the claims of a pod, each with its allocation if the pod is the first to need it."""
        new = iter(self._allocations(placed))
        return [
            (claim, next(new, None) if claim.status.allocation is None else None) for claim in placed.claims
        ]

    def _write(self, pod: Pod, placed: PlacedPod) -> None:
        """Write the claims of one pod; an error takes back the reservations."""
        client = self._handle.client
        written: list[ResourceClaim] = []
        try:
            for claim, allocation in self._allocated(placed):
                if claim.name == IN_MEMORY:
                    written.append(self._writer.create(claim))
                    written[-1] = self._writer.reserve(written[-1], allocation, of_pod(pod))
                    self._writer.tell_pod(pod, written[-1], placed.mappings)
                    continue
                # Other pods of the batch may have written it.
                claim = client.get(ResourceClaim, claim.name, claim.namespace)
                if not is_reserved_for(claim, pod):
                    written.append(self._writer.reserve(claim, allocation, of_pod(pod)))
        except (ApiError, ClaimWriteError):
            for claim in written:
                if claim.metadata.annotations.get(EXTENDED_CLAIM):
                    self._delete(claim)
                else:
                    self._writer.unreserve(claim, pod.metadata.uid)
            raise
