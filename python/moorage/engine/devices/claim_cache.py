"""The claims of a cluster as the scheduler sees them: reported, assumed, their devices, and who uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from moorage._core.devices.claims_of_pods import (
    ClaimError,
    ObservedClaims,
    claims_by_use,
    is_owned_by_group,
    pod_claims,
)
from moorage.kube import Pod
from moorage.kube.model.pod_group import PodGroup
from moorage.kube.model.resource_claims import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from moorage.lazy import NamedTuple
from moorage.store import Informer, Lister, NotFoundError

from ..framework import FrameworkHandle
from ..volume.assume_cache import AssumeCache, ObjectNotFoundError
from ..volume.claims import VolumeError
from .allocator import AllocatedDevices
from .claim_requests import Features
from .device_pools import DeviceId


class AllocationInFlight(NamedTuple):
    """An allocation from Reserve until it is written.

    Attributes
    ----------
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

    fields = (*AssumeCache.fields, "_in_flight", "_observed")

    def __init__(self, informer: Informer[ResourceClaim] | None, counts_shares: bool) -> None:
        self._in_flight: dict[str, AllocationInFlight] = {}  # by UID of the claim
        self._observed = ObservedClaims(counts_shares)
        # Nobody looks for the claims of a namespace.
        super().__init__(informer, "ResourceClaim", "", lambda claim: ())

    # ---- devices in use ------------------------------------------------------------------------------------

    def in_use(self) -> AllocatedDevices:
        """Return the devices in use, by allocations that are written or in flight; valid until the next
        change."""
        observed = self._observed
        if self._in_flight:
            observed = observed.copy()
            for claim in self._in_flight.values():
                observed.add(claim.allocation)
        return AllocatedDevices(observed.devices, observed.consumed)

    def negative(self) -> DeviceId | None:
        """Return a device of which an allocation has consumed a negative capacity; None if there is none."""
        return min(self._observed.negative, default=None)

    # ---- changes -------------------------------------------------------------------------------------------

    def take_changes(self) -> set[DeviceId] | None:
        """Return the devices that were taken or given up since the last call; None: any."""
        changed, self._observed.changed = self._observed.changed, set()
        return changed

    def note_changes(self, devices: Iterable[DeviceId] | None) -> None:
        """Note devices for `take_changes`; None: any."""
        if devices is None:
            self._observed.changed = None
        elif self._observed.changed is not None:
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
        claims = map(self.find, keys)
        return [claim for claim in claims if claim is not None]


# ---- claim consumers ---------------------------------------------------------------------------------------
# Who uses a claim: a pod, or the pod group with which it shares the claim.
#
# kube-scheduler v1.36, dynamicresources/, and dynamic-resource-allocation v0.36, resourceclaim/.

API_GROUP = "scheduling.k8s.io"
RESOURCE = "podgroups"


def of_pod(pod: Pod) -> ResourceClaimConsumerReference:
    """Return the reference to a pod as the user of a claim."""
    meta = pod.metadata
    return ResourceClaimConsumerReference(resource="pods", name=meta.name, uid=meta.uid)


def of_group(group: PodGroup) -> ResourceClaimConsumerReference:
    """Return the reference to a pod group as the user of a claim."""
    return ResourceClaimConsumerReference(API_GROUP, RESOURCE, group.name, group.metadata.uid)


class ClaimConsumers:
    """Tells which claims a pod shares with its pod group.

    Parameters
    ----------
    groups : Lister of PodGroup or None
        None without the gate DRAWorkloadResourceClaims: claims are used by pods alone.
    kind : str, optional
        How errors spell the pod's kind; see `pod_claims`.
    """

    def __init__(self, groups: Lister[PodGroup] | None, kind: str = "Pod") -> None:
        self._groups, self._kind = groups, kind

    @classmethod
    def of(cls, handle: FrameworkHandle) -> ClaimConsumers:
        """Return the consumers for a handle. Without any claim, groups need no more than this."""
        features = Features.of(handle.feature_gates)
        groups = handle.informers.lister(PodGroup) if features.claims_of_groups else None
        return cls(groups, "Pod" if features.release.claim_errors_spell_pod else "pod")

    @property
    def are_groups(self) -> bool:
        """Whether pod groups use claims."""
        return self._groups is not None

    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the pod group with which a pod may share claims.

        Raises
        ------
        ClaimError
            The group does not exist.
        """
        group = pod.spec.scheduling_group
        if self._groups is None or group is None:
            return None
        try:
            return self._groups.get(f"{pod.namespace}/{group.pod_group_name}")
        except NotFoundError:
            text = f'podgroup.{API_GROUP} "{group.pod_group_name}" not found'
            raise ClaimError(text) from None

    def misses_group(self, pod: Pod) -> bool:
        """Whether the pod group of a pod does not exist."""
        try:
            self.group_of(pod)
        except ClaimError:
            return True
        return False

    def claims_of(self, pod: Pod, find: Callable[[str], ResourceClaim | None]) -> list[ResourceClaim]:
        """Return the claims of a pod; see `pod_claims`.

        Parameters
        ----------
        find : callable
            Returns the claim of a key, or None.

        Raises
        ------
        ClaimError
        """
        return pod_claims(pod, find, self.are_groups, self._kind)

    def uses_of(self, pod: Pod, find: Callable[[str], ResourceClaim | None]) -> dict[str, str]:
        """Return the UIDs of the claims of a pod by their names in its spec; see `claims_of`.

        Raises
        ------
        ClaimError
        """
        claims = claims_by_use(pod, find, self.are_groups, self._kind)
        return {use: claim.metadata.uid for use, claim in claims}

    def consumers_of(self, pod: Pod) -> list[ResourceClaimConsumerReference]:
        """Return who is to use the claims of a pod.

        Returns
        -------
        list of ResourceClaimConsumerReference
            The group, where an entry of its spec equals that of the pod; otherwise the pod. One for each
            entry of the pod's spec. As upstream, the claims of a cycle are counted without the entries that
            need no claim, so that those after such an entry have the users of others.

        Raises
        ------
        ClaimError
            The group does not exist.
        """
        group, own = self.group_of(pod), of_pod(pod)
        if group is None:
            return []
        shared = frozenset(group.spec.resource_claims)
        return [of_group(group) if use in shared else own for use in pod.spec.resource_claims]

    def is_reserved_for(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Whether a claim is reserved for a pod, or for its group by name."""
        group = pod.spec.scheduling_group if self.are_groups else None
        return any(
            consumer.uid == pod.metadata.uid
            or (
                group is not None
                and (consumer.api_group, consumer.resource, consumer.name)
                == (API_GROUP, RESOURCE, group.pod_group_name)
            )
            for consumer in claim.status.reserved_for
        )


def group_claims(group: PodGroup, find: Callable[[str], ResourceClaim | None]) -> Iterator[ResourceClaim]:
    """Yield the claims of a pod group that it has by name, or that were made for it.

    Parameters
    ----------
    find : callable
        Returns the claim of a key, or None.

    Raises
    ------
    ClaimError
        A claim is missing.
    """
    names = {status.name: status.resource_claim_name for status in group.status.resource_claim_statuses}
    for use in group.spec.resource_claims:
        is_named = use.resource_claim_name is not None
        if not is_named and use.name not in names:
            raise ClaimError(f"PodGroup {group.key}: ResourceClaim not created yet")
        name = use.resource_claim_name if is_named else names[use.name]
        if name is None:
            continue
        key = f"{group.namespace}/{name}"
        claim = find(key)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key}"')
        if is_named or claim.metadata.is_controlled_by(group.metadata.uid):
            yield claim


# ---- pod resource claims -----------------------------------------------------------------------------------
# Whose claims are.


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim is reserved for a pod itself."""
    users = claim.status.reserved_for
    return bool(users) and any(user.uid == pod.metadata.uid for user in users)


def may_be_of(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim may be one of a pod: it was not made for another pod or group, or the pod names it."""
    uid, group = pod.metadata.uid, pod.spec.scheduling_group
    if not any(owner.controller and owner.uid != uid for owner in claim.metadata.owner_references):
        return True
    if group is not None and is_owned_by_group(claim, group.pod_group_name):
        return True
    return any(use.resource_claim_name == claim.name for use in pod.spec.resource_claims)
