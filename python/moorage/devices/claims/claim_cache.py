"""The claims of a cluster as the scheduler sees them: reported, assumed, and with their devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from moorage._core.base.quantity import Quantity
from moorage.devices.allocation.allocator import AllocatedDevices
from moorage.devices.allocation.device_pools import DeviceId
from moorage.devices.extended_resources import ANNOTATION
from moorage.objects import Pod
from moorage.objects.model.resource_claims import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from moorage.store import Informer
from moorage.volume.binding.assume_cache import AssumeCache, ObjectNotFoundError
from moorage.volume.binding.claims import VolumeError


def _nowhere(claim: ResourceClaim) -> tuple[()]:
    """No values of an index: nobody looks for the claims of a namespace."""
    return ()


class DevicesInUse:
    """The devices of allocations.

    As upstream, a device that two allocations have is free when the first of them is given up.

    Parameters
    ----------
    counts_shares : bool
        Whether results with a share ID take a part of a device's capacity, and not the device.
    """

    def __init__(self, counts_shares: bool) -> None:
        self._counts_shares = counts_shares
        self.devices: set[DeviceId] = set()
        self.consumed: dict[DeviceId, dict[str, Quantity]] = {}
        self.changes = 0

    def copy(self) -> DevicesInUse:
        """Return a copy."""
        out = DevicesInUse(self._counts_shares)
        out.devices = self.devices.copy()
        out.consumed = {device: amounts.copy() for device, amounts in self.consumed.items()}
        out.changes = self.changes
        return out

    def add(self, allocation: AllocationResult, changed: set[DeviceId] | None = None) -> None:
        """Count the devices of an allocation, and note them in `changed`."""
        self.changes += 1
        for result in allocation.devices.results:
            device = result.driver, result.pool, result.device
            if changed is not None:
                changed.add(device)
            if result.admin_access:
                continue
            if result.share_id is None or not self._counts_shares:
                self.devices.add(device)
                continue
            amounts = self.consumed.setdefault(device, {})
            for name, amount in result.consumed_capacity.items():
                amounts[name] = amounts[name] + Quantity(amount) if name in amounts else Quantity(amount)

    def remove(self, allocation: AllocationResult, changed: set[DeviceId] | None) -> None:
        """Take back what `add` has counted."""
        self.changes += 1
        for result in allocation.devices.results:
            device = result.driver, result.pool, result.device
            if changed is not None:
                changed.add(device)
            if result.admin_access:
                continue
            if not self._is_share(result):
                self.devices.discard(device)
                continue
            amounts = self.consumed.get(device, {})
            for name, amount in result.consumed_capacity.items():
                amounts[name] -= Quantity(amount)
            if all(amount.sign() == 0 for amount in amounts.values()):
                self.consumed.pop(device, None)

    def _is_share(self, result: DeviceRequestAllocationResult) -> bool:
        return self._counts_shares and result.share_id is not None


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

    An allocation is in flight from Reserve until it is written. As upstream, the devices of a claim are those
    of the allocation that it had first, until it has none.

    Parameters
    ----------
    informer : Informer or None
    counts_shares : bool
        See `DevicesInUse`.
    """

    def __init__(self, informer: Informer[ResourceClaim] | None, counts_shares: bool) -> None:
        self._held: dict[str, AllocationResult] = {}  # by key of the claim
        self._in_flight: dict[str, AllocationInFlight] = {}  # by UID of the claim
        self._in_use = DevicesInUse(counts_shares)
        # By UID of a pod, the keys of claims for its extended resources, of those that were deleted as well.
        self._extended: dict[str, list[str]] = {}
        self._changed: set[DeviceId] | None = None  # since the last `take_changes`; None: any devices
        super().__init__(informer, "ResourceClaim", "", _nowhere)

    # ---- devices in use ------------------------------------------------------------------------------------

    def in_use(self) -> AllocatedDevices:
        """Return the devices in use, by allocations that are written or in flight; valid until the next
        change."""
        found = self._in_use
        if self._in_flight:
            found = found.copy()
            for one in self._in_flight.values():
                found.add(one.allocation)
        return AllocatedDevices(found.devices, found.consumed)

    @property
    def in_use_version(self) -> int:
        """A number that grows whenever the devices in use change."""
        return self._in_use.changes

    # ---- changes -------------------------------------------------------------------------------------------

    def take_changes(self) -> set[DeviceId] | None:
        """Return the devices that were taken or given up since the last call; None: any."""
        changed, self._changed = self._changed, set()
        return changed

    def forget_changes(self) -> None:
        """Have the next `take_changes` name all devices."""
        self._changed = None

    def note_changes(self, devices: Iterable[DeviceId]) -> None:
        """Note devices for `take_changes`.

        Parameters
        ----------
        devices : iterable of DeviceId
        """
        if self._changed is not None:
            self._changed.update(devices)

    def _note(self, allocation: AllocationResult) -> None:
        if self._changed is not None:
            for one in allocation.devices.results:
                self._changed.add((one.driver, one.pool, one.device))

    def _observe(self, key: str, obj: ResourceClaim | None) -> None:
        """Count or give up the devices of a claim after a change to a state; None: it is gone."""
        allocation = None if obj is None else obj.status.allocation
        if obj is not None and obj.metadata.annotations.get(ANNOTATION) == "true":
            for owner in obj.metadata.owner_references:
                if owner.controller and key not in (keys := self._extended.setdefault(owner.uid, [])):
                    keys.append(key)
        held = self._held.get(key)
        if held is None and allocation is not None:
            self._held[key] = allocation
            self._in_use.add(allocation, self._changed)
        elif held is not None and allocation is None:
            del self._held[key]
            self._in_use.remove(held, self._changed)

    def remove(self, key: str) -> ResourceClaim | None:
        removed = super().remove(key)
        self._observe(key, None)
        return removed

    def assume(self, obj: ResourceClaim) -> None:
        super().assume(obj)
        self._observe(obj.key, obj)

    def assume_written(self, claim: ResourceClaim) -> None:
        """Take in a claim as it was written, before the informer reports it.

        Parameters
        ----------
        claim : ResourceClaim
        """
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
        allocation : AllocationResult
        cycle : object, optional
            The pod group cycle whose pods may share it.
        """
        with self._lock:
            shared = self._in_flight.get(uid)
            if shared is not None:
                self._in_flight[uid] = shared._replace(sharers=shared.sharers + 1)
                return
            self._in_flight[uid] = AllocationInFlight(allocation, cycle)
            self._in_use.changes += 1
            self._note(allocation)

    def remove_pending(self, uid: str, is_written: bool = False) -> bool:
        """Take back `signal_pending`; an allocation that no pod shares is forgotten.

        Parameters
        ----------
        uid : str
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
            self._in_use.changes += 1
            self._note(shared.allocation)
            return True

    def pending_of(self, uid: str, cycle: object) -> AllocationResult | None:
        """Return the allocation in flight of a claim that the pods of a pod group cycle may share.

        Parameters
        ----------
        uid : str
            UID of the claim.
        cycle : object
            As given to `signal_pending`.

        Returns
        -------
        AllocationResult or None
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
        """Return the latest states of the claims for the extended resources of a pod.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        list of ResourceClaim
        """
        keys = self._extended.get(pod.metadata.uid)
        if keys is None:
            return []
        found = map(self.find, keys)
        return [claim for claim in found if claim is not None]

    # ---- transactions --------------------------------------------------------------------------------------

    def save(self) -> object:
        return super().save(), self._held.copy(), self._in_flight.copy(), self._in_use.copy()

    def undo(self, saved: object) -> None:
        states, held, in_flight, in_use = cast(
            "tuple[object, Mapping[str, Any], Mapping[str, Any], DevicesInUse]", saved
        )
        super().undo(states)
        changes = self._in_use.changes
        self._held, self._in_flight, self._in_use = dict(held), dict(in_flight), in_use.copy()
        self._in_use.changes = changes + 1
        self._changed = None

    def copy_from(self, other: AssumeCache[ResourceClaim]) -> None:
        super().copy_from(other)
        there = cast(ClaimCache, other)
        self._held, self._in_flight = there._held.copy(), there._in_flight.copy()
        self._in_use = there._in_use.copy()
        self._extended = {uid: keys.copy() for uid, keys in there._extended.items()}
        self._changed = None
