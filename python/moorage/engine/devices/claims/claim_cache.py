"""The claims of a cluster as the scheduler sees them: reported, assumed, and with their devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from moorage._core.devices.claims_of_pods import ObservedClaims
from moorage.engine.volume.binding.assume_cache import AssumeCache, ObjectNotFoundError
from moorage.engine.volume.binding.claims import VolumeError
from moorage.kube import Pod
from moorage.kube.model.resource_claims import AllocationResult, ResourceClaim
from moorage.store import Informer

from ..allocation.allocator import AllocatedDevices
from ..allocation.device_pools import DeviceId


def _nowhere(claim: ResourceClaim) -> tuple[()]:
    """No values of an index: nobody looks for the claims of a namespace."""
    return ()


class AllocationInFlight(NamedTuple):
    """An allocation from Reserve until it is written.

    Attributes
    ----------
    allocation : AllocationResult
    cycle : object
        The pod group cycle whose pods may share it; None for none.
    sharers : int
        Number of pods that have reserved it.
    """

    allocation: AllocationResult
    cycle: object = None
    sharers: int = 1


class ClaimCache(AssumeCache[ResourceClaim]):
    """Claims with their assumed states, the allocations in flight, and the devices in use.

    An allocation is in flight from Reserve until it is written.

    Parameters
    ----------
    counts_shares : bool
        See `ObservedClaims`.
    """

    def __init__(self, informer: Informer[ResourceClaim] | None, counts_shares: bool) -> None:
        self._in_flight: dict[str, AllocationInFlight] = {}  # by UID of the claim
        self._observed = ObservedClaims(counts_shares)
        super().__init__(informer, "ResourceClaim", "", _nowhere)

    # ---- devices in use ------------------------------------------------------------------------------------

    def in_use(self) -> AllocatedDevices:
        """Return the devices in use, by allocations that are written or in flight; valid until the next
        change."""
        found = self._observed
        if self._in_flight:
            found = found.copy()
            for claim in self._in_flight.values():
                found.add(claim.allocation)
        return AllocatedDevices(found.devices, found.consumed)

    # ---- changes -------------------------------------------------------------------------------------------

    def take_changes(self) -> set[DeviceId] | None:
        """Return the devices that were taken or given up since the last call; None: any."""
        changed, self._observed.changed = self._observed.changed, set()
        return changed

    def forget_changes(self) -> None:
        """Have the next `take_changes` name all devices."""
        self._observed.changed = None

    def note_changes(self, devices: Iterable[DeviceId]) -> None:
        """Note devices for `take_changes`."""
        if self._observed.changed is not None:
            self._observed.changed.update(devices)

    def _observe(self, key: str, obj: ResourceClaim | None) -> None:
        self._observed.observe(key, obj)

    def _observe_all(self, keys: Iterable[str | None], objects: Iterable[ResourceClaim]) -> None:
        self._observed.observe_all(keys, objects)

    def remove(self, key: str) -> ResourceClaim | None:
        removed = super().remove(key)
        self._observe(key, None)
        return removed

    def assume(self, obj: ResourceClaim) -> None:
        super().assume(obj)
        self._observe(obj.key, obj)

    def assume_written(self, claim: ResourceClaim) -> None:
        """Take in a claim as it was written, before the informer reports it."""
        try:
            self.assume(claim)
        except ObjectNotFoundError:
            self.add(claim)
        except VolumeError:
            return  # the informer has reported a newer state

    def restore(self, key: str) -> None:
        super().restore(key)
        self._observe(key, self.find(key))

    # ---- allocations in flight -----------------------------------------------------------------------------

    def signal_pending(self, uid: str, allocation: AllocationResult, cycle: object = None) -> None:
        """Note an allocation that will be written, or, if one is in flight, that another pod shares that.

        Parameters
        ----------
        uid : str
            UID of the claim.
        cycle : object, optional
            The pod group cycle whose pods may share it.
        """
        with self._lock:
            shared = self._in_flight.get(uid)
            if shared is not None:
                self._in_flight[uid] = shared._replace(sharers=shared.sharers + 1)
                return
            self._in_flight[uid] = AllocationInFlight(allocation, cycle)
            self._observed.note(allocation)

    def remove_pending(self, uid: str, is_written: bool = False) -> bool:
        """Take back `signal_pending`; an allocation that no pod shares is forgotten.

        Parameters
        ----------
        is_written : bool, optional
            Whether the claim has the allocation, which is forgotten then.

        Returns
        -------
        bool
            Whether an allocation was forgotten.
        """
        with self._lock:
            shared = self._in_flight.get(uid)
            if shared is None:
                return False
            if shared.sharers > 1 and not is_written:
                self._in_flight[uid] = shared._replace(sharers=shared.sharers - 1)
                return False
            del self._in_flight[uid]
            self._observed.note(shared.allocation)
            return True

    def pending_of(self, uid: str, cycle: object) -> AllocationResult | None:
        """Return the allocation in flight of a claim that the pods of a pod group cycle may share.

        Parameters
        ----------
        uid : str
            UID of the claim.
        cycle : object
            As given to `signal_pending`.
        """
        shared = self._in_flight.get(uid)
        return shared.allocation if shared and cycle is not None and shared.cycle is cycle else None

    def is_pending(self, uid: str) -> bool:
        """Whether an allocation of a claim is in flight."""
        return uid in self._in_flight

    @property
    def in_flight(self) -> dict[str, AllocationInFlight]:
        """The allocations in flight by UID of the claim, until the next `undo` or `copy_from`."""
        return self._in_flight

    def claims(self) -> Iterator[ResourceClaim]:
        """Return the latest states of all claims."""
        for claim in self._objects.values():
            yield self._assumed.get(claim.key, claim)

    def extended_claims(self, pod: Pod) -> list[ResourceClaim]:
        """Return the latest states of the claims for the extended resources of a pod."""
        keys = self._observed.extended.get(pod.metadata.uid)
        if keys is None:
            return []
        found = map(self.find, keys)
        return [claim for claim in found if claim is not None]

    # ---- transactions --------------------------------------------------------------------------------------

    def save(self) -> object:
        return super().save(), self._in_flight.copy(), self._observed.copy()

    def undo(self, saved: object) -> None:
        states, in_flight, observed = cast("tuple[object, Mapping[str, Any], ObservedClaims]", saved)
        super().undo(states)
        self._in_flight = dict(in_flight)
        self._observed.restore(observed)

    def copy_from(self, other: AssumeCache[ResourceClaim]) -> None:
        super().copy_from(other)
        there = cast(ClaimCache, other)
        self._in_flight, self._observed = there._in_flight.copy(), there._observed.copy()
