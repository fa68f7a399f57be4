"""Claims made by controllers: for claim templates of StatefulSets, and for ephemeral volumes."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.objects.model.meta import Object, ObjectMeta, OwnerReference
from moorage.objects.model.pod import PersistentVolumeClaimSpec, Pod
from moorage.objects.model.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus

from .expansion import controller_reference
from .naming import stable_uid

_PENDING = PersistentVolumeClaimStatus(phase="Pending")


def new_claim(
    maker: Object,
    name: str,
    template: ObjectMeta,
    spec: PersistentVolumeClaimSpec,
    owners: tuple[OwnerReference, ...] = (),
) -> PersistentVolumeClaim:
    """Make an unbound claim in the namespace of the object that requests it."""
    meta = ObjectMeta(
        name=name,
        namespace=maker.namespace,
        uid=stable_uid("PersistentVolumeClaim", maker.namespace, name),
        creation_timestamp=maker.metadata.creation_timestamp,
        labels=template.labels,
        annotations=template.annotations,
        owner_references=owners,
    )
    return PersistentVolumeClaim(metadata=meta, spec=spec, status=_PENDING)


def ephemeral_claims(pods: Iterable[Pod]) -> list[PersistentVolumeClaim]:
    """Make the claims of ephemeral volumes, each owned by its pod (kube-controller-manager v1.36, ephemeral
    volume controller)."""
    made = []
    for pod in pods:
        for volume in pod.spec.volumes:
            template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
            if template is not None and pod.metadata.deletion_timestamp is None:
                name = f"{pod.name}-{volume.name}"
                owners = controller_reference(pod)
                made.append(new_claim(pod, name, template.metadata, template.spec, owners))
    return made
