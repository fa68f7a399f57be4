"""The resource claims of pods (kube-scheduler v1.36, dynamic-resource-allocation, resourceclaim/)."""

from libc.stdint cimport int32_t

from moorage.errors import MoorageError

from moorage._core.base cimport (
    CONTAINER_STATUSES, DELETION_TIMESTAMP, INIT_CONTAINER_STATUSES, METADATA, NAMESPACE, SPEC, STATUS, UID,
    Field,
)
from moorage._core.base.indexed_objects cimport Reader
from moorage._core.decide.pod_batch cimport Alike

cdef Field RESOURCE_CLAIMS = Field("resource_claims"), STATUSES = Field("resource_claim_statuses")
cdef Field USE = Field("name"), STATUS_OF = Field("name")
cdef Field GIVEN = Field("resource_claim_name"), MADE = Field("resource_claim_name")
cdef Field TEMPLATE = Field("resource_claim_template_name")
# Fields of claims: a field is read fastest of objects of one type.
cdef Field CLAIM_METADATA = Field("metadata"), CLAIM_NAME = Field("name"), CLAIM_SPEC = Field("spec")
cdef Field CLAIM_STATUS = Field("status"), ALLOCATION = Field("allocation")
cdef Field OWNERS = Field("owner_references"), CONTROLLER = Field("controller"), OWNER_UID = Field("uid")


class ClaimError(MoorageError):
    """A claim of a pod is not there, or is not the pod's."""


def pod_claims(pod, find, bint of_group=False):
    """Return the claims of a pod, in the order of its spec.

    Parameters
    ----------
    pod : Pod
    find : callable
        Returns the claim of a key, or None.
    of_group : bool, optional
        Whether claims may be owned by the pod's group.

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
        claim = _claim_of(pod, use, find, of_group)
        if claim is not None:
            found.append(claim)
    return found


def claims_by_use(pod, find, bint of_group=False):
    """Return the claims of a pod with their names in its spec; see `pod_claims`.

    Parameters
    ----------
    pod, find, of_group
        See `pod_claims`.

    Returns
    -------
    list of (str, ResourceClaim)

    Raises
    ------
    ClaimError
    """
    found = [(USE.of(use), _claim_of(pod, use, find, of_group)) for use in RESOURCE_CLAIMS.of(SPEC.of(pod))]
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


cdef class AlikePods(Alike):
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
    batch : VolumesOfBatch
    """

    cdef object spec, make, batch
    cdef Reader claims
    cdef list shapes
    cdef dict allocated, claiming, in_flight

    def __init__(self, pod, list asking not None, Reader claims not None, dict in_flight not None, batch):
        self.spec, self.make, self.shapes = SPEC.of(pod), type(asking[0]), [one.shape for one in asking]
        self.claims, self.in_flight, self.batch = claims, in_flight, batch
        self.allocated, self.claiming = batch.allocated, batch.claiming

    cpdef bint note(self, object pod, int32_t at) except -1:
        """Note a pod that is alike; see `Alike.note`."""
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
                    claims.append(_checked(pod, use, name, self.claims.read(_key(pod, name)), False))
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
        self.batch.leader = at
        return True


cdef object _claim_of(pod, use, find, bint of_group):
    """The claim for an entry in the spec of a pod; None if the pod needs none for it."""
    name = _claim_name(pod, use)
    return None if name is None else _checked(pod, use, name, find(_key(pod, name)), of_group)


cdef object _checked(pod, use, name, claim, bint of_group):
    """The claim of a name, for an entry in the spec of a pod; ClaimError where the pod cannot use it."""
    if claim is None:
        raise ClaimError(f'could not find ResourceClaim "{_key(pod, name)}"')
    meta = CLAIM_METADATA.of(claim)
    if DELETION_TIMESTAMP.of(meta) is not None:
        raise ClaimError(f'resourceclaim "{name}" is being deleted')
    if GIVEN.of(use) is None:
        owner = _controller(meta)
        if owner is None or OWNER_UID.of(owner) != UID.of(METADATA.of(pod)):
            _check_group_owner(claim, pod, of_group)
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


cdef int _check_group_owner(claim, pod, bint of_group) except -1:
    """Raise a ClaimError, unless the group of a pod owns a claim. A pod without a group is not owner either;
    upstream panics there with the gate for the claims of groups."""
    start, group = f"ResourceClaim {claim.key} was not created for Pod {pod.key}", pod.spec.scheduling_group
    if not of_group or group is None:
        raise ClaimError(f"{start} (Pod is not owner)")
    if not is_owned_by_group(claim, group.pod_group_name):
        raise ClaimError(f"{start} (neither Pod nor PodGroup {group.pod_group_name} is the owner)")
