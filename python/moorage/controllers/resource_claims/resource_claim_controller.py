"""The controller of resource claims (kube-controller-manager v1.36, pkg/controller/resourceclaim)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from moorage.devices.claims.claim_writer import FINALIZER
from moorage.objects.model.meta import ObjectMeta, OwnerReference
from moorage.objects.model.pod import Pod, PodResourceClaim, PodResourceClaimStatus
from moorage.objects.model.resource_claims import ResourceClaim, ResourceClaimTemplate
from moorage.store import NotFoundError, ObjectClient

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: its name in the pod's spec."""
_DONE = ("Succeeded", "Failed")


class ResourceClaimController:
    """Makes the claims of pods from templates, and releases the claims of pods that are gone.

    It keeps nothing: what it does follows from the objects of the store.

    Parameters
    ----------
    client : ObjectClient
    """

    def __init__(self, client: ObjectClient) -> None:
        self._client = client

    def settle(self) -> bool:
        """Do all that is to be done.

        Returns
        -------
        bool
            Whether the store may have changed.
        """
        claims: Sequence[ResourceClaim] = self._client.list(ResourceClaim)[0]
        templates: Sequence[ResourceClaimTemplate] = self._client.list(ResourceClaimTemplate)[0]
        if not claims and not templates:
            return False
        pods: Sequence[Pod] = self._client.list(Pod)[0]
        running = {pod.metadata.uid for pod in pods if not _is_done(pod)}
        for claim in claims:
            self._release(claim, running)
        self.make_claims([pod for pod in pods if pod.metadata.uid in running])
        return True

    # ---- claims of templates -------------------------------------------------------------------------------

    def make_claims(self, pods: Iterable[Pod]) -> None:
        """Make the claims that pods miss, and note their names in the status of the pods.

        Parameters
        ----------
        pods : iterable of Pod
        """
        waiting = [pod for pod in pods if _misses_claims(pod)]
        if not waiting:
            return
        made: dict[tuple[str, str], str] = {}
        for claim in self._client.list(ResourceClaim)[0]:
            owner, use = claim.metadata.controller(), claim.metadata.annotations.get(POD_CLAIM_NAME)
            if owner is not None and use is not None:
                made[owner.uid, use] = claim.name
        for pod in waiting:
            self._complete(pod, made)

    def _complete(self, pod: Pod, existing: Mapping[tuple[str, str], str]) -> None:
        """Make the claims that a pod misses, unless they were made and only its status does not tell; as
        upstream, none after the first whose template is missing."""
        known = {one.name for one in pod.status.resource_claim_statuses}
        made: list[PodResourceClaimStatus] = []
        for use in pod.spec.resource_claims:
            if use.name in known or use.resource_claim_template_name is None:
                continue
            name = existing.get((pod.metadata.uid, use.name))
            if name is not None:
                made.append(PodResourceClaimStatus(use.name, name))
                continue
            try:
                template = self._client.get(
                    ResourceClaimTemplate, use.resource_claim_template_name, pod.namespace
                )
            except NotFoundError:
                break
            claim = self._client.create(claim_of_template(pod, use, template))
            made.append(PodResourceClaimStatus(use.name, claim.name))
        if made:
            status = replace(pod.status, resource_claim_statuses=(*pod.status.resource_claim_statuses, *made))
            self._client.update(replace(pod, status=status))

    # ---- claims of pods that are gone ----------------------------------------------------------------------

    def forget(self, pod: Pod) -> None:
        """Release the claims of a pod that is gone.

        Parameters
        ----------
        pod : Pod
        """
        made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
        for use in pod.spec.resource_claims:
            name = use.resource_claim_name or made.get(use.name)
            if name:
                claim = self._client.get(ResourceClaim, name, pod.namespace)
                users = {one.uid for one in claim.status.reserved_for}
                self._release(claim, users - {pod.metadata.uid})

    def _release(self, claim: ResourceClaim, running: set[str]) -> None:
        """Take the reservations of pods that are gone, with the last of them the devices, and delete a claim
        that was made for such a pod."""
        status = claim.status
        kept = tuple([one for one in status.reserved_for if one.resource != "pods" or one.uid in running])
        if len(kept) < len(status.reserved_for):
            allocation = status.allocation if kept else None
            finalizers = claim.metadata.finalizers
            if allocation is None:
                finalizers = tuple([one for one in finalizers if one != FINALIZER])
            devices = status.devices if kept else ()
            meta = replace(claim.metadata, finalizers=finalizers)
            status = replace(status, reserved_for=kept, allocation=allocation, devices=devices)
            claim = self._client.update(replace(claim, metadata=meta, status=status))
        owner = next((one for one in claim.metadata.owner_references if one.controller), None)
        if owner is not None and owner.kind == "Pod" and owner.uid not in running and not kept:
            self._client.delete(ResourceClaim, claim.name, claim.namespace)


def _is_done(pod: Pod) -> bool:
    """Whether a pod will never run, or has run."""
    is_deleted_early = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
    return pod.status.phase in _DONE or is_deleted_early


def _misses_claims(pod: Pod) -> bool:
    """Whether claims are to be made for a pod; those of pods that are being deleted are not."""
    known = {one.name for one in pod.status.resource_claim_statuses}
    return pod.metadata.deletion_timestamp is None and any(
        one.resource_claim_template_name is not None and one.name not in known
        for one in pod.spec.resource_claims
    )


def claim_of_template(pod: Pod, use: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    """Return the claim of a pod from a template.

    Parameters
    ----------
    pod : Pod
    use : PodResourceClaim
        One of the pod's spec.
    template : ResourceClaimTemplate

    Returns
    -------
    ResourceClaim
        Without a name: it is to be generated.
    """
    owner = OwnerReference("v1", "Pod", pod.name, pod.metadata.uid, True, True)
    meta = ObjectMeta(
        namespace=pod.namespace,
        generate_name=f"{pod.name}-{use.name}-",
        labels=template.spec.metadata.labels,
        annotations=template.spec.metadata.annotations | {POD_CLAIM_NAME: use.name},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=meta, spec=template.spec.spec)
