"""The resource claims of pods (kube-scheduler v1.36, dynamic-resource-allocation, resourceclaim/)."""

from moorage.errors import MoorageError

from moorage._core.base cimport DELETION_TIMESTAMP, METADATA, NAMESPACE, SPEC, STATUS, UID, Field

cdef Field RESOURCE_CLAIMS = Field("resource_claims"), STATUSES = Field("resource_claim_statuses")
cdef Field USE = Field("name"), STATUS_OF = Field("name")
cdef Field GIVEN = Field("resource_claim_name"), MADE = Field("resource_claim_name")
cdef Field TEMPLATE = Field("resource_claim_template_name")
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
    owner = _controller(METADATA.of(claim))
    return (
        owner is not None
        and (owner.name, owner.kind) == (group, "PodGroup")
        and owner.api_version.startswith("scheduling.k8s.io/")
    )


cdef object _claim_of(pod, use, find, bint of_group):
    """The claim for an entry in the spec of a pod; None if the pod needs none for it."""
    name = _claim_name(pod, use)
    if name is None:
        return None
    key = _key(pod, name)
    claim = find(key)
    if claim is None:
        raise ClaimError(f'could not find ResourceClaim "{key}"')
    meta = METADATA.of(claim)
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
