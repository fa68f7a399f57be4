"""Volumes of a workload's pods: each pod has a claim that is bound to its own volume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from msgspec.structs import replace

from moorage.objects.model.meta import Object
from moorage.objects.model.pod import PersistentVolumeClaimVolumeSource, Volume
from moorage.objects.model.storage import ObjectReference, PersistentVolume, PersistentVolumeClaim

from .pods import PodRun
from .templates.object_templates import ObjectTemplate

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"


def bound_volumes(
    claim: ObjectTemplate, volume: ObjectTemplate, number: int, namespace: str
) -> Iterator[Object]:
    """Make claims and volumes that are bound to each other (scheduler_perf, runners.go). Names and volume
    handles are numbered from 0 in each namespace, as upstream; only disks repeat between namespaces."""
    claimed, its = claim.make(0, CLAIM, namespace, claim_name(0)), volume.make(0, VOLUME, name="vol-0")
    assert isinstance(claimed, PersistentVolumeClaim)
    assert isinstance(its, PersistentVolume)
    bound_claim = replace(claimed.status, phase="Bound")
    bound_volume = replace(its.status, phase="Bound")
    for index in range(number):
        name = f"{namespace}-vol-{index}"
        meta = replace(claimed.metadata, name=claim_name(index))
        bound = replace(claimed.spec, volume_name=name)
        yield replace(claimed, metadata=meta, spec=bound, status=bound_claim)
        spec = replace(its.spec, claim_ref=_reference(namespace, meta.name))
        if spec.csi is not None:
            spec = replace(spec, csi=replace(spec.csi, volume_handle=name))
        elif spec.aws_elastic_block_store is not None:
            disk = replace(spec.aws_elastic_block_store, volume_id=f"vol-{index}")
            spec = replace(spec, aws_elastic_block_store=disk)
        yield replace(its, metadata=replace(its.metadata, name=name), spec=spec, status=bound_volume)


def _reference(namespace: str, name: str) -> ObjectReference:
    return ObjectReference(kind=CLAIM, namespace=namespace, name=name, api_version="v1")


def claim_name(index: int) -> str:
    """The claim of pod number `index` of an operation."""
    return f"pvc-{index}"


def with_claims(runs: Iterable[PodRun]) -> Iterator[PodRun]:
    """Replace the volumes of each pod by one claim of its own."""
    numbers = count()
    for run in runs:
        for at in range(len(run)):
            source = PersistentVolumeClaimVolumeSource(claim_name=claim_name(next(numbers)))
            spec = replace(run.template.spec, volumes=(Volume(name="vol", persistent_volume_claim=source),))
            yield PodRun(replace(run.template, spec=spec), run.first + at, 1, run.given_name)
