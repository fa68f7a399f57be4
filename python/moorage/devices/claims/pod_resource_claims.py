"""The claims of a pod."""

from __future__ import annotations

from collections.abc import Callable

from moorage.errors import MoorageError
from moorage.objects import Pod
from moorage.objects.model.pod import PodResourceClaim
from moorage.objects.model.resource_claims import ResourceClaim


class ClaimError(MoorageError):
    """A claim of a pod is not there, or is not the pod's."""


def pod_claims(
    pod: Pod, find: Callable[[str], ResourceClaim | None], of_group: bool = False
) -> list[ResourceClaim]:
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
    found = [_claim_of(pod, use, find, of_group) for use in pod.spec.resource_claims]
    return [claim for claim in found if claim is not None]


def claims_by_use(
    pod: Pod, find: Callable[[str], ResourceClaim | None], of_group: bool = False
) -> list[tuple[str, ResourceClaim]]:
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
    found = [(use.name, _claim_of(pod, use, find, of_group)) for use in pod.spec.resource_claims]
    return [(name, claim) for name, claim in found if claim is not None]


def _claim_of(
    pod: Pod, use: PodResourceClaim, find: Callable[[str], ResourceClaim | None], of_group: bool
) -> ResourceClaim | None:
    """The claim for an entry in the spec of a pod; None if the pod needs none for it."""
    name, own = _claim_name(pod, use), pod.metadata
    if name is None:
        return None
    claim = find(f"{own.namespace}/{name}")
    if claim is None:
        raise ClaimError(f'could not find ResourceClaim "{own.namespace}/{name}"')
    meta = claim.metadata
    if meta.deletion_timestamp is not None:
        raise ClaimError(f'resourceclaim "{name}" is being deleted')
    if use.resource_claim_name is None and not meta.is_controlled_by(own.uid):
        _check_group_owner(claim, pod, of_group)
    return claim


def _check_group_owner(claim: ResourceClaim, pod: Pod, of_group: bool) -> None:
    """Raise a ClaimError, unless the group of a pod owns a claim. A pod without a group is not owner either;
    upstream panics there with the gate for the claims of groups."""
    start, group = f"ResourceClaim {claim.key} was not created for Pod {pod.key}", pod.spec.scheduling_group
    if not of_group or group is None:
        raise ClaimError(f"{start} (Pod is not owner)")
    if not is_owned_by_group(claim, group.pod_group_name):
        raise ClaimError(f"{start} (neither Pod nor PodGroup {group.pod_group_name} is the owner)")


def is_owned_by_group(claim: ResourceClaim, group: str) -> bool:
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
    owner = claim.metadata.controller()
    return (
        owner is not None
        and (owner.name, owner.kind) == (group, "PodGroup")
        and owner.api_version.startswith("scheduling.k8s.io/")
    )


def claim_keys(pod: Pod) -> list[str]:
    """Return the claims of a pod as ``namespace/name``, as far as they are known.

    Parameters
    ----------
    pod : Pod

    Returns
    -------
    list of str
    """
    try:
        names = [_claim_name(pod, use) for use in pod.spec.resource_claims]
        return [f"{pod.namespace}/{name}" for name in names if name is not None]
    except ClaimError:
        return []


def _claim_name(pod: Pod, use: PodResourceClaim) -> str | None:
    """The name of a claim in the spec of a pod; None if the pod needs no claim for it."""
    if use.resource_claim_name is not None:
        return use.resource_claim_name
    if use.resource_claim_template_name is None:
        text = f'spec.resourceClaim "{use.name}": none of the supported fields are set'
        raise ClaimError(f'pod "{pod.key}", {text}')
    for status in reversed(pod.status.resource_claim_statuses):
        if status.name == use.name:
            return status.resource_claim_name
    raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim is reserved for a pod itself.

    Parameters
    ----------
    claim : ResourceClaim
    pod : Pod

    Returns
    -------
    bool
    """
    users = claim.status.reserved_for
    return bool(users) and any(one.uid == pod.metadata.uid for one in users)


def may_be_of(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim may be one of a pod: it was not made for another pod or group, or the pod names it.

    Parameters
    ----------
    claim : ResourceClaim
    pod : Pod

    Returns
    -------
    bool
    """
    uid, group = pod.metadata.uid, pod.spec.scheduling_group
    if not any(owner.controller and owner.uid != uid for owner in claim.metadata.owner_references):
        return True
    if group is not None and is_owned_by_group(claim, group.pod_group_name):
        return True
    return any(use.resource_claim_name == claim.name for use in pod.spec.resource_claims)
