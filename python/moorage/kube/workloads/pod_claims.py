"""Claims that come with pods: those of a StatefulSet's templates and those of ephemeral volumes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..model.meta import Object, ObjectMeta, OwnerReference
from ..model.pod import PersistentVolumeClaimTemplate, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume
from ..model.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from ..model.workload import StatefulSet
from .naming import stable_uid
from .ownership import controller_reference, refers_to

_CLAIM_PENDING = PersistentVolumeClaimStatus(phase="Pending")


def with_claims(obj: StatefulSet, ordinal: int, spec: PodSpec) -> PodSpec:
    """Return the spec of a template with a volume per claim template, which replaces a volume of that name.

    Parameters
    ----------
    ordinal : int
        Of the pod.
    """
    claims = {
        claim.metadata.name: _claim_name(claim, obj, ordinal) for claim in obj.spec.volume_claim_templates
    }
    if not claims:
        return spec
    volumes = tuple(
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
        for name, claim in claims.items()
    )
    return replace(spec, volumes=volumes + tuple(item for item in spec.volumes if item.name not in claims))


def claims_of(obj: StatefulSet, ordinal: int) -> list[PersistentVolumeClaim]:
    """Make the claims of one pod of a StatefulSet, with the labels by which the StatefulSet selects.

    They are owned by a StatefulSet that has them deleted with it.

    Parameters
    ----------
    ordinal : int
        Of the pod.
    """
    selected = obj.spec.selector.match_labels if obj.spec.selector else {}
    is_owner = obj.spec.persistent_volume_claim_retention_policy.when_deleted == "Delete"
    owners, claims = controller_reference(obj) if is_owner else (), []
    for template in obj.spec.volume_claim_templates:
        meta = template.metadata
        labelled = replace(template, metadata=replace(meta, labels=meta.labels | selected))
        claims.append(_new_claim(obj, _claim_name(template, obj, ordinal), labelled, owners))
    return claims


def claim_owners(
    obj: StatefulSet, pod: Pod, is_surplus: bool, claim: PersistentVolumeClaim
) -> tuple[OwnerReference, ...]:
    """Return the owner references of a claim by the retention policy of its StatefulSet (kubernetes v1.36,
    updateClaimOwnerRefForSetAndPod).

    The owner is the StatefulSet or the pod with which the claim is to be deleted. References to a former
    StatefulSet or pod of the name stay; a claim with another controller gets none.

    Parameters
    ----------
    pod : Pod
        That has the claim.
    is_surplus : bool
        Whether the pod is beyond the replicas.
    """
    policy, references = obj.spec.persistent_volume_claim_retention_policy, claim.metadata.owner_references
    own = {(one.kind, one.name): one for one in (obj, pod)}
    others = tuple(one for one in references if (one.kind, one.name) not in own)
    if any(not refers_to(one, own[one.kind, one.name]) for one in references if one not in others):
        return references
    if any(one.controller for one in others):
        return others
    if is_surplus and policy.when_scaled == "Delete":
        return others + controller_reference(pod)
    return others + controller_reference(obj) if policy.when_deleted == "Delete" else others


def _claim_name(template: PersistentVolumeClaimTemplate, obj: StatefulSet, ordinal: int) -> str:
    return f"{template.metadata.name}-{obj.name}-{ordinal}"


def _new_claim(
    maker: Object, name: str, template: PersistentVolumeClaimTemplate, owners: tuple[OwnerReference, ...] = ()
) -> PersistentVolumeClaim:
    """Make an unbound claim in the namespace of the object that requests it."""
    meta = ObjectMeta(
        name=name,
        namespace=maker.namespace,
        uid=stable_uid("PersistentVolumeClaim", maker.namespace, name),
        creation_timestamp=maker.metadata.creation_timestamp,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=owners,
    )
    return PersistentVolumeClaim(metadata=meta, spec=template.spec, status=_CLAIM_PENDING)


def ephemeral_claims(pods: Iterable[Pod]) -> list[PersistentVolumeClaim]:
    """Make the claims of ephemeral volumes, each owned by its pod.

    Source: kube-controller-manager v1.36, ephemeral volume controller.

    Parameters
    ----------
    pods : iterable of Pod
        Pods that may have ephemeral volumes.

    Returns
    -------
    list of PersistentVolumeClaim
        Claims in the order of pods and volumes, existing ones included.
    """
    claims = []
    for pod in pods:
        for volume in pod.spec.volumes:
            template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
            if template is not None and pod.metadata.deletion_timestamp is None:
                name = f"{pod.name}-{volume.name}"
                claims.append(_new_claim(pod, name, template, controller_reference(pod)))
    return claims
