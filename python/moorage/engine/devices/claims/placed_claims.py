"""The claims of pods that the core has placed: their devices, and the writes of PreBind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

from moorage._core.devices.claims_of_pods import EXTENDED_CLAIM, ClaimWriteError, reserve_together
from moorage.engine.framework.plugin.handle import FrameworkHandle
from moorage.kube import Pod
from moorage.kube.model.resource_claims import AllocationResult, ResourceClaim
from moorage.store import ApiError, ObjectStore

from ..allocation.claim_requests import AllocationError
from ..device_demands import AskingClaim, DeviceDemands, TakenDevices
from ..device_state import DeviceState
from ..extended_resources import IN_MEMORY, Mappings
from .claim_consumers import of_pod
from .claim_writer import ClaimWriter
from .pod_resource_claims import is_reserved_for


class PlacedPod(Struct, frozen=True):
    """A pod that the core has placed, and the claims to write.

    Attributes
    ----------
    node : str
    claims : list of ResourceClaim
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
            self._writer.tell_pods((pods[at][0], one, pods[at][1].mappings) for at, one in created.items())
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
