"""Pods that are asked about, with their claims for volumes and devices as controllers make them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from moorage.cluster import PodScheduler
from moorage.controllers.resource_claim_controller import ResourceClaimController
from moorage.kube.model.meta import Object
from moorage.kube.model.pod import Pod
from moorage.kube.model.resource_claims import ResourceClaimTemplate
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.workloads.pod_claims import ephemeral_claims
from moorage.store import AlreadyExistsError, NotFoundError, ObjectClient, find_object

from .templates import as_template


def asks_devices(scheduler: PodScheduler, pod: Pod) -> bool:
    """Whether a pod has claims for devices, or extended resources that device classes provide."""
    return bool(pod.spec.resource_claims) or scheduler.context.engine_of(pod).profile.asks_devices(pod)


def has_ephemeral(pod: Pod) -> bool:
    """Whether a pod has ephemeral volumes, each of which has a claim of its own."""
    return any(volume.ephemeral is not None for volume in pod.spec.volumes)


def store_with_claims(scheduler: PodScheduler, pods: Sequence[Pod]) -> list[Pod]:
    """Make the claims of the ephemeral volumes and devices of pods as controllers do.

    Pods with such claims are stored, since the claims are written when the pods are bound.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction, which takes pods and claims back.
    pods : sequence of Pod
        Those that are in the store already stay as they are.

    Returns
    -------
    list of Pod
        In the same order, as they are in the store; the others unchanged.
    """
    client, out = scheduler.client, list(pods)
    asking = [at for at, pod in enumerate(out) if has_ephemeral(pod) or asks_devices(scheduler, pod)]
    if not asking:
        return out
    for at in asking:
        with suppress(AlreadyExistsError):
            client.create(out[at])
    made = [client.get(Pod, out[at].name, out[at].namespace) for at in asking]
    _make_ephemeral_claims(scheduler, made)
    _controller(scheduler).make_claims(made)
    scheduler.sync()
    if any(has_ephemeral(pod) for pod in made):
        scheduler.volumes.settle()
    for at in asking:
        stored = client.get(Pod, out[at].name, out[at].namespace)
        out[at] = replace(stored, spec=out[at].spec)
    return out


def _make_ephemeral_claims(scheduler: PodScheduler, pods: Sequence[Pod]) -> None:
    """Make the claims of ephemeral volumes, in place of those of earlier pods of the same names.

    Each gets a UID from the store: the volume of an earlier claim is not its own.
    """
    client = scheduler.client
    for made in ephemeral_claims(pods):
        claim = replace(made, metadata=replace(made.metadata, uid=""))
        try:
            client.create(claim)
        except AlreadyExistsError:
            old = client.get(PersistentVolumeClaim, claim.name, claim.namespace).metadata.controller()
            new = claim.metadata.controller()
            if old and new and (old.kind, old.name) == (new.kind, new.name) and old.uid != new.uid:
                _end(client, claim)
                client.create(claim)


def _controller(scheduler: PodScheduler) -> ResourceClaimController:
    for_groups = scheduler.handle.feature_gates["DRAWorkloadResourceClaims"]
    return ResourceClaimController(scheduler.client, for_groups)


def release_claims(scheduler: PodScheduler) -> None:
    """Free the devices of pods that are gone, as a controller does."""
    if _controller(scheduler).settle():
        scheduler.sync()


def make_again(scheduler: PodScheduler, pods: Sequence[Pod]) -> list[Pod]:
    """Make pods anew as their controllers do, with their claims. A pod of the same name is gone at once: in a
    cluster the new one has another name, or waits for what keeps the old one.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction.

    Returns
    -------
    list of Pod
        See `store_with_claims`.
    """
    client = scheduler.client
    for pod in pods:
        _end(client, pod)
    new = [client.create(as_template(pod)) for pod in pods]  # before the controllers that are simulated do
    release_claims(scheduler)
    return store_with_claims(scheduler, new)


def _end(client: ObjectClient, obj: Object) -> None:
    """Remove an object at once, whatever keeps it: finalizers or a grace period."""
    with suppress(NotFoundError):
        current = client.get(type(obj), obj.name, obj.namespace)
        if current.metadata.finalizers:
            meta = replace(current.metadata, finalizers=(), resource_version="")
            client.update(replace(current, metadata=meta))
        client.delete(type(obj), obj.name, obj.namespace, grace_period_seconds=0)


def reason_not_scheduled(scheduler: PodScheduler, pod: Pod) -> str:
    """Return why the scheduler does not schedule pods like one now, once their claims are made.

    Returns
    -------
    str
        "" where it does.
    """
    generated = [
        claim for claim in pod.spec.resource_claims if claim.resource_claim_template_name is not None
    ]
    for use in generated:
        name = str(use.resource_claim_template_name)
        if find_object(scheduler.client, ResourceClaimTemplate, name, pod.namespace) is None:
            return f'ResourceClaimTemplate "{pod.namespace}/{name}" not found'
    named = tuple([claim for claim in pod.spec.resource_claims if claim not in generated])
    if not generated:
        return scheduler.not_ours(pod)
    return scheduler.not_ours(replace(pod, spec=replace(pod.spec, resource_claims=named)))
