"""The claims of pods that the core has placed: their devices, and the writes of PreBind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from moorage.devices.allocation.claim_requests import AllocationError
from moorage.devices.device_demands import AskingClaim, DeviceDemands, TakenDevices
from moorage.devices.device_state import DeviceState
from moorage.framework.plugin.handle import FrameworkHandle
from moorage.objects import Pod
from moorage.objects.model.resource_claims import AllocationResult, ResourceClaim
from moorage.store import ApiError, ObjectStore

from .claim_writer import ClaimWriteError, ClaimWriter
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
    """

    node: str
    claims: list[ResourceClaim]
    asking: list[AskingClaim]
    taken: TakenDevices | None


def take_devices(
    demands: DeviceDemands, claiming: Mapping[int, Any], placed: Mapping[int, str]
) -> dict[int, PlacedPod]:
    """Return the claims of placed pods with the devices that they have taken.

    Parameters
    ----------
    demands : DeviceDemands
    claiming : mapping of int to (list of ResourceClaim, list of AskingClaim)
        By the index in the batch, the claims of pods.
    placed : mapping of int to str
        By the index in the batch, the nodes of those that were placed.

    Returns
    -------
    dict of int to PlacedPod
    """
    taken, out = demands.take(), dict[int, PlacedPod]()
    for at, node in placed.items():
        claims, asking = claiming[at]
        out[at] = PlacedPod(node, claims, asking, taken.pop(at, None))
    demands.give_back(taken.values())
    return out


class PlacedClaims:
    """Writes the claims of placed pods.

    Parameters
    ----------
    devices : DeviceState
    handle : FrameworkHandle
    writer : ClaimWriter
    """

    def __init__(self, devices: DeviceState, handle: FrameworkHandle, writer: ClaimWriter) -> None:
        self._devices = devices
        self._handle = handle
        self._writer = writer

    def bind(self, pods: Sequence[tuple[Pod, PlacedPod]]) -> dict[int, str]:
        """Write the claims of pods, one pod after the other.

        Parameters
        ----------
        pods : sequence of (Pod, PlacedPod)

        Returns
        -------
        dict of int to str
            By index, why claims could not be written. Reservations and devices are given back.
        """
        demands, refused = self._devices.demands, dict[int, str]()
        for at, (pod, placed) in enumerate(pods):
            try:
                allocations = demands.allocations(placed.taken, placed.asking, placed.node)
                self._write(pod, placed.claims, allocations)
            except (AllocationError, ApiError, ClaimWriteError) as error:
                demands.give_back(() if placed.taken is None else (placed.taken,))
                refused[at] = str(error)
        if isinstance(self._handle.client, ObjectStore):
            self._handle.informers.informer(ResourceClaim).run_once()
        return refused

    def _write(
        self, pod: Pod, claims: Sequence[ResourceClaim], allocations: Sequence[AllocationResult]
    ) -> None:
        """Write the claims of one pod; an error takes back the reservations."""
        written, client, new = list[ResourceClaim](), self._handle.client, iter(allocations)
        try:
            for claim in claims:
                allocation = next(new) if claim.status.allocation is None else None
                if isinstance(client, ObjectStore):  # other pods of the batch may have written it
                    claim = client.get(ResourceClaim, claim.name, claim.namespace)
                if not is_reserved_for(claim, pod):
                    written.append(self._writer.reserve(claim, allocation, pod))
                    if not isinstance(client, ObjectStore):
                        self._devices.claim_cache.assume_written(written[-1])
        except (ApiError, ClaimWriteError):
            for claim in written:
                self._writer.unreserve(claim, pod)
            raise
