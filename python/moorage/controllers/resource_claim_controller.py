"""The controller of resource claims."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from moorage._core.devices.claims_of_pods import FINALIZER
from moorage.engine.devices.claim_cache import API_GROUP, RESOURCE
from moorage.kube.admission.request import AdmissionRequest, controller_account
from moorage.kube.model.admission_registration import DECIDERS
from moorage.kube.model.meta import ObjectMeta, OwnerReference
from moorage.kube.model.pod import Pod, PodResourceClaim, PodResourceClaimStatus
from moorage.kube.model.pod_group import PodGroup
from moorage.kube.model.resource_claims import (
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimTemplate,
)
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import NotFoundError, ObjectClient, ObjectStore, ServerError, find_object

from .api_server import POLICIES, admitted

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: its name in the pod's spec."""
Owner = Pod | PodGroup
_KINDS = frozenset({Pod, PodGroup, ResourceClaim, ResourceClaimTemplate})


class ResourceClaimController:
    """Makes the claims of pods and pod groups from templates, and releases those of the ones that are gone.

    What it does follows from the objects of the store.

    Parameters
    ----------
    for_groups : bool, optional
        Whether pod groups have claims (gate DRAWorkloadResourceClaims).
    """

    def __init__(self, client: ObjectClient, for_groups: bool = False) -> None:
        self._client = client
        self._store = client if isinstance(client, ObjectStore) else None
        self._for_groups = for_groups
        self._rest: int | None = None  # `changes` of the store when there was nothing to do
        self._is_refused = False  # whether a claim was, when claims were made last

    def settle(self) -> bool:
        """Do all that is to be done in a store; return whether it may have changed."""
        store = self._store
        assert store is not None
        kinds = _KINDS.union(DECIDERS, POLICIES) if self._is_refused else _KINDS
        if self._rest is not None and kinds.isdisjoint(store.changed_since(self._rest)):
            return False
        before = store.changes
        pods: Sequence[Pod] = store.list(Pod)[0]
        running = {  # or will run
            pod.metadata.uid
            for pod in pods
            if pod.status.phase not in FINISHED
            and (pod.metadata.deletion_timestamp is None or pod.spec.node_name)
        }
        groups = {group.metadata.uid for group in self._groups()} if self._for_groups else None
        for claim in store.list(ResourceClaim)[0]:
            self._release(claim, running, groups)
        self.make_claims([pod for pod in pods if pod.metadata.uid in running])
        self._rest = before if store.changes == before else None
        return True

    # ---- claims of templates -------------------------------------------------------------------------------

    def make_claims(self, pods: Iterable[Pod]) -> None:
        """Make the claims that pods and all pod groups miss, and note their names in the status of each."""
        self._is_refused = False
        groups = {group.key: group for group in self._groups()}
        waiting: list[Owner] = [group for group in groups.values() if _misses_claims(group)]
        waiting += [pod for pod in pods if _misses_claims(pod)]
        if not waiting:
            return
        existing: dict[tuple[str, str], str] = {}
        for namespace in {pod.namespace: None for pod in waiting}:
            for claim in self._client.list(ResourceClaim, namespace)[0]:
                owner, use = claim.metadata.controller(), claim.metadata.annotations.get(POD_CLAIM_NAME)
                if owner is not None and use is not None:
                    existing[owner.uid, use] = claim.name
        for waiter in waiting:
            group = None
            if self._for_groups and isinstance(waiter, Pod) and waiter.spec.scheduling_group is not None:
                group = groups.get(f"{waiter.namespace}/{waiter.spec.scheduling_group.pod_group_name}")
                if group is None:
                    continue
            self._complete(waiter, group, existing)

    def _groups(self) -> Iterator[PodGroup]:
        """Return the pod groups that may have claims."""
        groups: Sequence[PodGroup] = self._client.list(PodGroup)[0] if self._for_groups else ()
        return (group for group in groups if not group.is_godel)

    def _complete(self, owner: Owner, group: PodGroup | None, existing: dict[tuple[str, str], str]) -> None:
        """Make the claims that a pod or a group misses, unless they were made and only its status does not
        tell; as upstream, none after the first whose template is missing. Those that a pod shares with its
        group are the group's."""
        known = {status.name for status in owner.status.resource_claim_statuses}
        statuses: list[PodResourceClaimStatus] = []
        for use in owner.spec.resource_claims:
            if use.name in known or use.resource_claim_template_name is None:
                continue
            is_shared = group is not None and use in group.spec.resource_claims
            uid = group.metadata.uid if group is not None and is_shared else owner.metadata.uid
            name = existing.get((uid, use.name))
            if name is None and is_shared:
                continue
            if name is not None:
                statuses.append(PodResourceClaimStatus(use.name, name))
                continue
            named = use.resource_claim_template_name
            template = find_object(self._client, ResourceClaimTemplate, named, owner.namespace)
            if template is None:
                break
            try:
                claim = self._create(claim_of_template(owner, use, template))
            except ServerError as error:  # it is tried again when what decides changes
                if self._store is not None:
                    self._store.denied[owner.full_name] = str(error)
                self._is_refused = True
                break
            if self._store is not None:
                self._store.denied.pop(owner.full_name, None)
            existing[uid, use.name] = claim.name
            statuses.append(PodResourceClaimStatus(use.name, claim.name))
        if statuses:
            all_statuses = (*owner.status.resource_claim_statuses, *statuses)
            status = replace(owner.status, resource_claim_statuses=all_statuses)
            self._client.update(replace(owner, status=status))

    def _create(self, claim: ResourceClaim) -> ResourceClaim:
        if self._store is not None:
            (name,) = self._store.names_of_new([claim])
            claim = replace(claim, metadata=replace(claim.metadata, name=name))
            request = AdmissionRequest(claim, user=controller_account("resourceclaim-controller"))
            claim = cast("ResourceClaim", admitted(self._store, request))
        return self._client.create(claim)

    # ---- claims of pods that are gone ----------------------------------------------------------------------

    def forget(self, pod: Pod) -> None:
        """Release the claims of a pod that is gone."""
        statuses = pod.status.resource_claim_statuses
        claims = {status.name: status.resource_claim_name for status in statuses}
        for use in pod.spec.resource_claims:
            name = use.resource_claim_name or claims.get(use.name)
            if not name:
                continue
            with suppress(NotFoundError):  # somebody has deleted it
                claim = self._client.get(ResourceClaim, name, pod.namespace)
                users = {consumer.uid for consumer in claim.status.reserved_for}
                self._release(claim, users - {pod.metadata.uid})

    def _release(
        self, claim: ResourceClaim, running: Container[str], groups: Container[str] | None = None
    ) -> None:
        """Take the reservations of pods and groups that are gone, with the last of them the devices, and
        delete a claim that was made for one of them. Without `groups` those of groups stay."""
        status = claim.status
        kept = tuple([consumer for consumer in status.reserved_for if _stays(consumer, running, groups)])
        if len(kept) < len(status.reserved_for):
            allocation = status.allocation if kept else None
            finalizers = claim.metadata.finalizers
            if allocation is None:
                finalizers = tuple([finalizer for finalizer in finalizers if finalizer != FINALIZER])
            devices = status.devices if kept else ()
            meta = replace(claim.metadata, finalizers=finalizers)
            status = replace(status, reserved_for=kept, allocation=allocation, devices=devices)
            claim = self._client.update(replace(claim, metadata=meta, status=status))
        owner = claim.metadata.controller()
        if owner is None or kept:
            return
        is_gone = owner.kind == "Pod" and owner.uid not in running
        is_of_group = owner.kind == PodGroup.__name__ and owner.api_version.startswith(f"{API_GROUP}/")
        if groups is not None and is_of_group:
            is_gone = owner.uid not in groups
        if is_gone:
            with suppress(NotFoundError):  # one that was being deleted goes with its last finalizer
                self._client.delete(ResourceClaim, claim.name, claim.namespace)


def _stays(
    user: ResourceClaimConsumerReference, running: Container[str], groups: Container[str] | None
) -> bool:
    """Whether a user of a claim may use it still; others than pods and groups always."""
    if user.resource == "pods":
        return user.uid in running
    is_group = groups is not None and (user.api_group, user.resource) == (API_GROUP, RESOURCE)
    return groups is None or not is_group or user.uid in groups


def _misses_claims(owner: Owner) -> bool:
    """Whether claims are to be made for a pod or a group; those that are being deleted get none."""
    known = {status.name for status in owner.status.resource_claim_statuses}
    return owner.metadata.deletion_timestamp is None and any(
        claim.resource_claim_template_name is not None and claim.name not in known
        for claim in owner.spec.resource_claims
    )


def claim_of_template(owner: Owner, use: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    """Return the claim of a pod or a pod group from a template, without a name: it is to be generated.

    Parameters
    ----------
    use : PodResourceClaim
        One of the owner's spec.
    """
    is_pod = isinstance(owner, Pod)
    version = "v1" if is_pod else owner.api_version
    reference = OwnerReference(version, owner.kind, owner.name, owner.metadata.uid, True, is_pod)
    meta = ObjectMeta(
        namespace=owner.namespace,
        generate_name=f"{owner.name}-{use.name}-",
        labels=template.spec.metadata.labels,
        annotations=template.spec.metadata.annotations | {POD_CLAIM_NAME: use.name},
        owner_references=(reference,),
    )
    return ResourceClaim(metadata=meta, spec=template.spec.spec)
