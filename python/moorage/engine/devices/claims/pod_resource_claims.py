"""Whose claims are."""

from __future__ import annotations

from moorage._core.devices.claims_of_pods import is_owned_by_group
from moorage.kube import Pod
from moorage.kube.model.resource_claims import ResourceClaim


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
