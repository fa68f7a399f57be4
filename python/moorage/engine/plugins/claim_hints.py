"""What wakes pods that DynamicResources has rejected (kube-scheduler, dynamicresources/)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage._core.devices.claims_of_pods import ClaimError, claim_keys
from moorage.engine import framework as fwk
from moorage.kube import Pod
from moorage.kube.model.resource_claims import ResourceClaim
from moorage.store import NotFoundError

from .. import devices as dra
from ..framework.events import indexed, is_same_pod, of_itself, queue_if
from .sleeping_plugins import DynamicResourcesFacts

if TYPE_CHECKING:
    from ..devices.device_state import DeviceState


class ClaimHints(DynamicResourcesFacts):
    """The queueing hints of a plugin about resource claims."""

    @property
    def devices(self) -> DeviceState:
        """Claims, slices and classes, which all profiles share."""
        return self.required_handle().shared(dra.device_state.DeviceState.of)

    def _reported(self, key: str) -> ResourceClaim | None:
        """The reported state of a claim: events reach the queue before they reach the cache."""
        try:
            claim: ResourceClaim = self.required_handle().informers.lister(ResourceClaim).get(key)
        except NotFoundError:
            return None
        return claim

    def _keys(self, pod: Pod) -> frozenset[str]:
        """The claims of a rejected pod by key: only events about these move it, besides deallocations."""
        return frozenset(claim_keys(pod))

    def _keys_of_claim(
        self, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> tuple[str] | tuple[()] | None:
        if _is_deallocated(old, new):
            return None
        return () if new is None else (new.key,)

    @indexed(_keys, _keys_of_claim, by_class=False)
    def after_claim_change(
        self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> fwk.QueueingHint:
        """Queue if all claims of the pod exist and one of them changed, or any claim was deallocated, or
        deleted with its devices.
        """
        is_lost = _is_deallocated(old, new)
        if new is None:
            return queue_if(is_lost)
        if not is_lost and not dra.claim_cache.may_be_of(new, pod):
            return fwk.QUEUE_SKIP
        claims = self._claims(pod)
        if claims is None:
            return fwk.QUEUE_SKIP
        is_own = any(claim.metadata.uid == new.metadata.uid for claim in claims)
        return queue_if(is_lost or (is_own and (old is None or old.status != new.status)))

    @of_itself
    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the event is about the pod and all its claims exist."""
        return queue_if(is_same_pod(pod, new) and self._claims(new) is not None)

    def _claims(self, pod: Pod) -> list[ResourceClaim] | None:
        """The claims of a pod; None if one is missing, being deleted, or owned by another pod."""
        try:
            return self.devices.consumers.claims_of(pod, self._reported)
        except ClaimError:
            return None


def _is_deallocated(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    is_free = new is None or new.status.allocation is None
    return old is not None and old.status.allocation is not None and is_free
