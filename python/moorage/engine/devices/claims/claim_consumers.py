"""Who uses a claim: a pod, or the pod group with which it shares the claim.

kube-scheduler v1.36, dynamicresources/, and dynamic-resource-allocation v0.36, resourceclaim/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moorage._core.devices.claims_of_pods import ClaimError, claims_by_use, pod_claims
from moorage.engine.framework import FrameworkHandle
from moorage.kube import Pod
from moorage.kube.model.pod_group import PodGroup
from moorage.kube.model.resource_claims import ResourceClaim, ResourceClaimConsumerReference
from moorage.store import Lister, NotFoundError

from ..features import Features

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
        found = claims_by_use(pod, find, self.are_groups, self._kind)
        return {use: claim.metadata.uid for use, claim in found}

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
    made = {status.name: status.resource_claim_name for status in group.status.resource_claim_statuses}
    for use in group.spec.resource_claims:
        is_named = use.resource_claim_name is not None
        if not is_named and use.name not in made:
            raise ClaimError(f"PodGroup {group.key}: ResourceClaim not created yet")
        name = use.resource_claim_name if is_named else made[use.name]
        if name is None:
            continue
        key = f"{group.namespace}/{name}"
        claim = find(key)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key}"')
        if is_named or claim.metadata.is_controlled_by(group.metadata.uid):
            yield claim
