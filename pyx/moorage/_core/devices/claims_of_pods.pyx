# cython: auto_pickle=False
"""The resource claims of pods, and the devices that they have (kube-scheduler v1.36,
dynamic-resource-allocation, resourceclaim/).
"""

import msgspec
from libc.stdint cimport int32_t

from moorage.errors import MoorageError

from moorage._core.base cimport (
    CONTAINER_STATUSES, DELETION_TIMESTAMP, INIT_CONTAINER_STATUSES, METADATA, NAMESPACE, SPEC, STATUS, UID,
    Field, Quantity,
)
from moorage._core.base.indexed_objects cimport Reader
from moorage._core.decide.pod_batch cimport RepeatedNeeds

cdef Field RESOURCE_CLAIMS = Field("resource_claims"), STATUSES = Field("resource_claim_statuses")
cdef Field USE = Field("name"), STATUS_OF = Field("name")
cdef Field GIVEN = Field("resource_claim_name"), MADE = Field("resource_claim_name")
cdef Field TEMPLATE = Field("resource_claim_template_name")
# Fields of claims: a field is read fastest of objects of one type.
cdef Field CLAIM_METADATA = Field("metadata"), CLAIM_NAME = Field("name"), CLAIM_SPEC = Field("spec")
cdef Field CLAIM_STATUS = Field("status"), ALLOCATION = Field("allocation")
cdef Field OWNERS = Field("owner_references"), CONTROLLER = Field("controller"), OWNER_UID = Field("uid")
cdef Field CLAIM_NAMESPACE = Field("namespace"), CLAIM_DELETION = Field("deletion_timestamp")
cdef Field FINALIZERS = Field("finalizers"), RESERVED_FOR = Field("reserved_for"), USER_UID = Field("uid")
cdef Field TIME = Field("allocation_timestamp"), POD_NAME = Field("name")
cdef Field CLAIM_ANNOTATIONS = Field("annotations"), DEVICES = Field("devices"), RESULTS = Field("results")
cdef Field DRIVER = Field("driver"), POOL = Field("pool"), DEVICE = Field("device")
cdef Field ADMIN_ACCESS = Field("admin_access"), SHARE = Field("share_id")
# Fields of pods that were placed; see `PlacedPod`, `TakenDevices` and `AskingClaim`.
cdef Field PLACED_CLAIMS = Field("claims"), ASKING = Field("asking"), TAKEN = Field("taken")
cdef Field MAPPINGS = Field("mappings"), VIEW = Field("view")
cdef Field SHAPE = Field("shape"), ALLOCATIONS = Field("allocations")

replace = msgspec.structs.replace

FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"


class ClaimError(MoorageError):
    """A claim of a pod is not there, or is not the pod's."""


class ClaimWriteError(MoorageError):
    """A claim could not be written."""


def pod_claims(pod, find, bint of_group=False, str kind="Pod"):
    """Return the claims of a pod, in the order of its spec.

    Parameters
    ----------
    pod : Pod
    find : callable
        Returns the claim of a key, or None.
    of_group : bool, optional
        Whether claims may be owned by the pod's group.
    kind : str, optional
        How the error about a claim of another owner spells the pod's kind: releases before 1.36 write "pod".

    Returns
    -------
    list of ResourceClaim

    Raises
    ------
    ClaimError
        A claim is missing, being deleted, or owned by another pod.
    """
    cdef list found = []
    for use in <tuple>RESOURCE_CLAIMS.of(SPEC.of(pod)):
        claim = _claim_of(pod, use, find, of_group, kind)
        if claim is not None:
            found.append(claim)
    return found


def claims_by_use(pod, find, bint of_group=False, str kind="Pod"):
    """Return the claims of a pod with their names in its spec; see `pod_claims`.

    Parameters
    ----------
    pod, find, of_group, kind
        See `pod_claims`.

    Returns
    -------
    list of (str, ResourceClaim)

    Raises
    ------
    ClaimError
    """
    uses = <tuple>RESOURCE_CLAIMS.of(SPEC.of(pod))
    found = [(USE.of(use), _claim_of(pod, use, find, of_group, kind)) for use in uses]
    return [(name, claim) for name, claim in found if claim is not None]


def claim_keys(pod):
    """Return the claims of a pod as ``namespace/name``, as far as they are known.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    list of str
    """
    cdef list found = []
    try:
        for use in <tuple>RESOURCE_CLAIMS.of(SPEC.of(pod)):
            name = _claim_name(pod, use)
            if name is not None:
                found.append(_key(pod, name))
    except ClaimError:
        return []
    return found


def is_owned_by_group(claim, group):
    """Whether a claim was made for a pod group of a name; pods do not know its UID.

    Parameters
    ----------
    claim : ResourceClaim
    group : str
        Name of the group.

    Returns
    -------
    bool
    """
    owner = _controller(CLAIM_METADATA.of(claim))
    return (
        owner is not None
        and (owner.name, owner.kind) == (group, "PodGroup")
        and owner.api_version.startswith("scheduling.k8s.io/")
    )


cdef class ObservedClaims:
    """What the claims of a cluster have: the devices in use, and which pods' extended resources they serve.

    As upstream, the devices of a claim are those of the allocation that it had first, until it has none; and
    a device that two allocations have is free when the first of them is given up.

    Parameters
    ----------
    counts_shares : bool
        Whether results with a share ID take a part of a device's capacity, and not the device.

    Attributes
    ----------
    devices : set of (str, str, str)
        Those in use by driver, pool and name.
    consumed : dict of (str, str, str) to dict of str to Quantity
        What shares take of the capacity of devices. A device is in it as long as it has a share.
    negative : dict of (str, str, str) to int
        The devices of which shares take a negative amount, with the number of these amounts.
    changes : int
        A number that grows whenever the devices in use change.
    changed : set of (str, str, str) or None
        The devices that were taken or given up since the caller emptied it; None: any.
    extended : dict of str to list of str
        By UID of a pod, the keys of claims for its extended resources, of those that are gone as well.
    """

    cdef readonly set devices
    cdef readonly dict consumed, extended
    cdef readonly object changes
    cdef public set changed
    cdef dict held  # by key of a claim, its allocation
    cdef dict shares  # of a device in `consumed`, their number
    cdef readonly dict negative
    cdef bint counts_shares

    def __init__(self, bint counts_shares):
        self.counts_shares, self.changes = counts_shares, 0
        self.devices, self.consumed, self.extended, self.held, self.shares = set(), {}, {}, {}, {}
        self.negative = {}

    def copy(self):
        """Return a copy, in which any device may have changed.

        Returns
        -------
        ObservedClaims
        """
        cdef ObservedClaims out = ObservedClaims(self.counts_shares)
        out.devices, out.held, out.changes = self.devices.copy(), self.held.copy(), self.changes
        out.consumed = {device: amounts.copy() for device, amounts in self.consumed.items()}
        out.shares, out.negative = self.shares.copy(), self.negative.copy()
        out.extended = {uid: keys.copy() for uid, keys in self.extended.items()}
        return out

    def restore(self, ObservedClaims saved not None):
        """Return to the devices of a copy; what serves extended resources is kept.

        Parameters
        ----------
        saved : ObservedClaims
        """
        cdef ObservedClaims other = saved.copy()
        self.devices, self.consumed, self.held = other.devices, other.consumed, other.held
        self.shares, self.negative = other.shares, other.negative
        self.changed, self.changes = None, self.changes + 1

    def note(self, allocation not None):
        """Note that an allocation has come into flight, or ended that.

        Parameters
        ----------
        allocation : AllocationResult
        """
        self.changes += 1
        if self.changed is not None:
            for result in <tuple>RESULTS.of(DEVICES.of(allocation)):
                self.changed.add((DRIVER.of(result), POOL.of(result), DEVICE.of(result)))

    cpdef int add(self, allocation) except -1:
        """Count the devices of an allocation.

        Parameters
        ----------
        allocation : AllocationResult
        """
        self.changes += 1
        for result in <tuple>RESULTS.of(DEVICES.of(allocation)):
            device = DRIVER.of(result), POOL.of(result), DEVICE.of(result)
            if self.changed is not None:
                self.changed.add(device)
            if ADMIN_ACCESS.of(result):
                continue
            if SHARE.of(result) is None or not self.counts_shares:
                self.devices.add(device)
                continue
            amounts = self.consumed.setdefault(device, {})
            self.shares[device] = self.shares.get(device, 0) + 1
            for name, amount in result.consumed_capacity.items():
                amounts[name] = amounts[name] + Quantity(amount) if name in amounts else Quantity(amount)
                if Quantity(amount).sign() < 0:
                    self.negative[device] = self.negative.get(device, 0) + 1

    cdef int _remove(self, allocation) except -1:
        """Take back what `add` has counted."""
        self.changes += 1
        for result in <tuple>RESULTS.of(DEVICES.of(allocation)):
            device = DRIVER.of(result), POOL.of(result), DEVICE.of(result)
            if self.changed is not None:
                self.changed.add(device)
            if ADMIN_ACCESS.of(result):
                continue
            if SHARE.of(result) is None or not self.counts_shares:
                self.devices.discard(device)
                continue
            amounts = self.consumed.get(device, {})
            for name, amount in result.consumed_capacity.items():
                amounts[name] -= Quantity(amount)
                if Quantity(amount).sign() < 0:
                    self.negative[device] -= 1
                    if not self.negative[device]:
                        del self.negative[device]
            self.shares[device] = self.shares.get(device, 1) - 1
            if not self.shares[device]:
                del self.shares[device]
                self.consumed.pop(device, None)
            elif all([amount.sign() == 0 for amount in amounts.values()]):
                amounts.clear()

    cpdef int observe(self, str key, claim) except -1:
        """Count or give up the devices of a claim after a change to a state.

        Parameters
        ----------
        key : str
            Of the claim.
        claim : ResourceClaim or None
            None: it is gone.
        """
        allocation, held = None, self.held.get(key)
        if claim is not None:
            allocation = ALLOCATION.of(CLAIM_STATUS.of(claim))
            annotations = CLAIM_ANNOTATIONS.of(CLAIM_METADATA.of(claim))
            if annotations and annotations.get(EXTENDED_CLAIM) == "true":
                self._serve(key, claim)
        if held is None and allocation is not None:
            self.held[key] = allocation
            self.add(allocation)
        elif held is not None and allocation is None:
            del self.held[key]
            self._remove(held)

    def observe_all(self, keys, claims):
        """Observe claims, one after the other; see `observe`.

        Parameters
        ----------
        keys : iterable of (str or None)
            None: the claim has not changed.
        claims : iterable of ResourceClaim
        """
        for key, claim in zip(keys, claims):
            if key is not None:
                self.observe(key, claim)

    cdef int _serve(self, key, claim) except -1:
        """Note for which pod a claim serves extended resources."""
        cdef list keys
        for owner in <tuple>OWNERS.of(CLAIM_METADATA.of(claim)):
            if CONTROLLER.of(owner):
                keys = self.extended.setdefault(OWNER_UID.of(owner), [])
                if key not in keys:
                    keys.append(key)


cdef class RepeatedClaims(RepeatedNeeds):
    """Notes the pods of a batch whose claims ask for the same as those of the pod before, as
    `DeviceDemands.needs_of` does: the pods share a spec, and all their claims are to be allocated.

    Parameters
    ----------
    pod : Pod
        The first of them, which asks for no extended resource of a device class.
    asking : list of AskingClaim
        Its claims.
    claims : Reader
        Of the claims of the cluster.
    in_flight : dict of str to object
        By UID, the claims of which an allocation is in flight.
    batch : ClaimsOfBatch
    """

    cdef object spec, make, batch
    cdef Reader claims
    cdef list shapes
    cdef dict allocated, claiming, in_flight

    def __init__(self, pod, list asking not None, Reader claims not None, dict in_flight not None, batch):
        if not asking:
            raise ValueError("pods that are alike ask for a claim")
        self.spec, self.make, self.shapes = SPEC.of(pod), type(asking[0]), [one.shape for one in asking]
        self.claims, self.in_flight, self.batch = claims, in_flight, batch
        self.allocated, self.claiming = batch.allocated_for, batch.claims_to_write

    cpdef bint note(self, object pod, int32_t at) except -1:
        """Note a pod that is alike; see `RepeatedNeeds.note`."""
        cdef list claims = [], asking = []
        cdef dict keys = {}
        cdef Py_ssize_t each
        status = STATUS.of(pod)
        if SPEC.of(pod) is not self.spec \
                or CONTAINER_STATUSES.of(status) or INIT_CONTAINER_STATUSES.of(status):
            return False
        try:
            for use in <tuple>RESOURCE_CLAIMS.of(self.spec):
                name = _claim_name(pod, use)
                if name is not None:
                    claims.append(_checked(pod, use, name, self.claims.read(_key(pod, name)), False, "Pod"))
        except ClaimError:
            return False
        if len(claims) != len(self.shapes):
            return False
        for each, claim in enumerate(claims):
            meta, shape = CLAIM_METADATA.of(claim), self.shapes[each]
            key = f"{NAMESPACE.of(meta)}/{CLAIM_NAME.of(meta)}"
            if CLAIM_SPEC.of(claim) is not shape.spec or ALLOCATION.of(CLAIM_STATUS.of(claim)) is not None \
                    or key in self.allocated or key in keys or UID.of(meta) in self.in_flight:
                return False
            keys[key] = at
            asking.append(self.make(claim, shape))
        self.allocated.update(keys)
        self.claiming[at] = claims, asking, ()
        self.batch.last_allocating = at
        return True


cpdef object reserved(claim, allocation, user, time=None):
    """Return a claim as it is written for a user, with its allocation if it has none yet.

    With an allocation it gets the finalizer.

    Parameters
    ----------
    claim : ResourceClaim
    allocation : AllocationResult or None
    user : ResourceClaimConsumerReference
    time : str, optional
        The time of an allocation that has none.

    Returns
    -------
    ResourceClaim

    Raises
    ------
    ClaimWriteError
        The claim is being deleted, or has an allocation or none against expectation.
    """
    meta, status = CLAIM_METADATA.of(claim), CLAIM_STATUS.of(claim)
    written = ALLOCATION.of(status)
    if CLAIM_DELETION.of(meta) is not None:
        raise ClaimWriteError(f"claim {claim.key} got deleted in the meantime")
    if allocation is not None:
        if written is not None:
            raise ClaimWriteError(f"claim {claim.key} got allocated elsewhere in the meantime")
        written = allocation
        if FINALIZER not in FINALIZERS.of(meta):
            meta = replace(meta, finalizers=(*FINALIZERS.of(meta), FINALIZER))
    if written is None:
        raise ClaimWriteError(f"claim {claim.key} got deallocated elsewhere in the meantime")
    if time is not None and TIME.of(written) is None:
        written = replace(written, allocation_timestamp=time)
    status = replace(status, allocation=written, reserved_for=(*RESERVED_FOR.of(status), user))
    return replace(claim, metadata=meta, status=status)


def reserve_together(pods, find, user_of, time=None):
    """Return the claims of placed pods as they are to be written, each after those of the pods before it.

    Parameters
    ----------
    pods : iterable of (Pod, PlacedPod)
    find : callable
        Returns the allocations of the claims of a PlacedPod that have to be allocated, where these are not
        known from an earlier pod.
    user_of : callable
        Returns the reference to a pod as a user.
    time : str, optional
        The time of allocations.

    Returns
    -------
    claims : dict of str to ResourceClaim
        By key. A claim that is reserved for its pod already is left out.
    new : dict of int to ResourceClaim
        By the index of the pod, the claims for extended resources, which are to be created.
    left : list of int
        The indexes of pods whose claims cannot be written.
    """
    cdef dict claims = {}, new = {}
    cdef list left = [], own
    cdef Py_ssize_t at
    for at, (pod, placed) in enumerate(pods):
        try:
            own = _reserved_for(pod, placed, claims, find, user_of, time)
        except MoorageError:
            left.append(at)
            continue
        if MAPPINGS.of(placed):
            new[at] = own.pop()[1]
        for key, claim in own:
            claims[key] = claim
    return claims, new, left


cdef list _reserved_for(pod, placed, dict earlier, find, user_of, time):
    """The keys of a pod's claims, and the claims as they are to be written after those of earlier pods."""
    cdef list out = [], claims = PLACED_CLAIMS.of(placed), allocations = _allocations_of(placed, find)
    cdef Py_ssize_t at = 0
    uid, user = UID.of(METADATA.of(pod)), user_of(pod)
    for claim in claims:
        allocation = None
        if ALLOCATION.of(CLAIM_STATUS.of(claim)) is None and at < len(allocations):
            allocation, at = allocations[at], at + 1
        meta = CLAIM_METADATA.of(claim)
        key = f"{CLAIM_NAMESPACE.of(meta)}/{CLAIM_NAME.of(meta)}"
        claim = earlier.get(key, claim)
        for other in <tuple>RESERVED_FOR.of(CLAIM_STATUS.of(claim)):
            if USER_UID.of(other) == uid:
                break
        else:
            out.append((key, reserved(claim, allocation, user, time)))
    return out


cdef list _allocations_of(placed, find):
    """The allocations of the claims of a placed pod that have to be allocated."""
    cdef list asking = ASKING.of(placed)
    taken = TAKEN.of(placed)
    if taken is not None and len(asking) == 1:
        _, devices = (<list>DEVICES.of(taken))[0]
        known = (<dict>ALLOCATIONS.of(SHAPE.of(asking[0]))).get((VIEW.of(taken), *devices))
        if known is not None:
            return [known]
    return find(placed)


cdef object _claim_of(pod, use, find, bint of_group, str kind):
    """The claim for an entry in the spec of a pod; None if the pod needs none for it."""
    name = _claim_name(pod, use)
    return None if name is None else _checked(pod, use, name, find(_key(pod, name)), of_group, kind)


cdef object _checked(pod, use, name, claim, bint of_group, str kind):
    """The claim of a name, for an entry in the spec of a pod; ClaimError where the pod cannot use it."""
    if claim is None:
        raise ClaimError(f'could not find ResourceClaim "{_key(pod, name)}"')
    meta = CLAIM_METADATA.of(claim)
    if DELETION_TIMESTAMP.of(meta) is not None:
        raise ClaimError(f'resourceclaim "{name}" is being deleted')
    if GIVEN.of(use) is None:
        owner = _controller(meta)
        if owner is None or OWNER_UID.of(owner) != UID.of(METADATA.of(pod)):
            _check_group_owner(claim, pod, of_group, kind)
    return claim


cdef object _claim_name(pod, use):
    """The name of a claim in the spec of a pod; None if the pod needs no claim for it."""
    cdef tuple statuses
    cdef Py_ssize_t at
    name = GIVEN.of(use)
    if name is not None:
        return name
    if TEMPLATE.of(use) is None:
        raise ClaimError(
            f'pod "{pod.key}", spec.resourceClaim "{use.name}": none of the supported fields are set')
    statuses = STATUSES.of(STATUS.of(pod))
    for at in range(len(statuses) - 1, -1, -1):
        if STATUS_OF.of(statuses[at]) == USE.of(use):
            return MADE.of(statuses[at])
    raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')


cdef str _key(pod, name):
    """A claim of the namespace of a pod as ``namespace/name``."""
    return f"{NAMESPACE.of(METADATA.of(pod))}/{name}"


cdef object _controller(meta):
    """The owner reference whose ``controller`` is true, if there is one."""
    for owner in <tuple>OWNERS.of(meta):
        if CONTROLLER.of(owner):
            return owner
    return None


cdef int _check_group_owner(claim, pod, bint of_group, str kind) except -1:
    """Raise a ClaimError, unless the group of a pod owns a claim. A pod without a group is not owner either;
    upstream panics there with the gate for the claims of groups."""
    start = f"ResourceClaim {claim.key} was not created for {kind} {pod.key}"
    group = pod.spec.scheduling_group
    if not of_group or group is None:
        raise ClaimError(f"{start} ({kind} is not owner)")
    if not is_owned_by_group(claim, group.pod_group_name):
        raise ClaimError(f"{start} (neither {kind} nor PodGroup {group.pod_group_name} is the owner)")
