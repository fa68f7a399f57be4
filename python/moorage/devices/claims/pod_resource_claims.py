"""The claims of a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moorage.errors import MoorageError
from moorage.objects import Pod
from moorage.objects.model.resource_claims import ResourceClaim


class ClaimError(MoorageError):
    """A claim of a pod is not there, or is not the pod's."""


def pod_claims(pod: Pod, find: Callable[[str], ResourceClaim | None]) -> list[ResourceClaim]:
    """Return the claims of a pod, in the order of its spec.

    Parameters
    ----------
    pod : Pod
    find : callable
        Returns the claim of a key, or None.

    Returns
    -------
    list of ResourceClaim

    Raises
    ------
    ClaimError
        A claim is missing, being deleted, or owned by another pod.
    """
    found = []
    for name, is_generated in _claim_names(pod):
        key = f"{pod.namespace}/{name}"
        claim = find(key)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        if is_generated and not claim.metadata.is_controlled_by(pod.metadata.uid):
            raise ClaimError(f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)")
        found.append(claim)
    return found


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
        return (
            [f"{pod.namespace}/{name}" for name, _ in _claim_names(pod)] if pod.spec.resource_claims else []
        )
    except ClaimError:
        return []


def _claim_names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The names of the claims of a pod, and whether each was made from a template."""
    statuses = {status.name: status for status in pod.status.resource_claim_statuses}
    for use in pod.spec.resource_claims:
        if use.resource_claim_name is not None:
            yield use.resource_claim_name, False
        elif use.resource_claim_template_name is None:
            text = f'spec.resourceClaim "{use.name}": none of the supported fields are set'
            raise ClaimError(f'pod "{pod.key}", {text}')
        elif use.name not in statuses:
            raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')
        elif (name := statuses[use.name].resource_claim_name) is not None:
            yield name, True


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim is reserved for a pod.

    Parameters
    ----------
    claim : ResourceClaim
    pod : Pod

    Returns
    -------
    bool
    """
    return any(one.uid == pod.metadata.uid for one in claim.status.reserved_for)


def may_be_of(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a claim may be one of a pod: it was not made for another, or the pod names it.

    Parameters
    ----------
    claim : ResourceClaim
    pod : Pod

    Returns
    -------
    bool
    """
    uid = pod.metadata.uid
    if not any(owner.controller and owner.uid != uid for owner in claim.metadata.owner_references):
        return True
    return any(use.resource_claim_name == claim.name for use in pod.spec.resource_claims)
