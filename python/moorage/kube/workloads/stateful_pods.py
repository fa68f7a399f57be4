"""What a StatefulSet does next with its pods (kubernetes v1.36, pkg/controller/statefulset)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ..model.meta import Object, ObjectMeta, OwnerReference, percent, whole_number
from ..model.pod import PersistentVolumeClaimTemplate, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume
from ..model.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from ..model.workload import ControllerRevision, RollingUpdateStatefulSetStrategy, StatefulSet
from .ownership import FINISHED, controller_reference, is_healthy, refers_to, stable_uid
from .revisions import is_updated, mark_of


class Revisions(NamedTuple):
    """The revisions of a StatefulSet: that of pods below the partition, and that of its template."""

    current: ControllerRevision
    update: ControllerRevision


class StatefulStep(NamedTuple):
    """What a StatefulSet does next.

    Attributes
    ----------
    created : list of int
        The ordinals of the pods that it creates.
    deleted : list of Pod
        The pods that it deletes, in order.
    is_complete : bool
        Whether nothing is left to do, now or later.
    """

    created: list[int]
    deleted: list[Pod]
    is_complete: bool


def ordinals(obj: StatefulSet) -> range:
    """Return the ordinals of the pods of a StatefulSet."""
    start = obj.spec.ordinals.start if obj.spec.ordinals else 0
    return range(start, start + (obj.spec.replicas or 0))


def by_ordinal(obj: StatefulSet, pods: Iterable[Pod]) -> dict[int, Pod]:
    """Return the pods of a StatefulSet by the ordinals in their names; others are left out."""
    prefix, pods_by_ordinal = f"{obj.name}-", {}
    for pod in pods:
        text = pod.name.removeprefix(prefix) if pod.name.startswith(prefix) else ""
        if (ordinal := whole_number(text)) is not None:
            pods_by_ordinal[ordinal] = pod
    return pods_by_ordinal


def revision_for(obj: StatefulSet, ordinal: int, revisions: Revisions) -> ControllerRevision:
    """Return the revision of which a StatefulSet creates the pod of an ordinal."""
    is_old = _is_rolling(obj) and ordinal < ordinals(obj).start + (_rolling(obj).partition or 0)
    return revisions.current if is_old else revisions.update


def next_step(
    obj: StatefulSet,
    pods: dict[int, Pod],
    revisions: Revisions,
    is_available: Callable[[Pod], bool],
    max_unavailable: bool = False,
) -> StatefulStep:
    """Return what a StatefulSet does next.

    Missing pods are created in the order of the ordinals, then pods beyond the replicas are deleted, the
    highest first; then a rolling update replaces the highest pod of another revision. With OrderedReady, each
    of these waits until all pods before it are available.

    Parameters
    ----------
    obj : StatefulSet
        With defaults.
    pods : dict of int to Pod
        Its pods by ordinal, in any state.
    is_available : callable
        Whether a pod is available.
    max_unavailable : bool
        Whether `maxUnavailable` counts, the gate MaxUnavailableStatefulSet.
    """
    is_ordered, created = obj.spec.pod_management_policy != "Parallel", []
    wanted = ordinals(obj)
    for ordinal in wanted:
        pod = pods.get(ordinal)
        if pod is None:
            created.append(ordinal)
        elif pod.status.phase in FINISHED and pod.metadata.deletion_timestamp is None:
            return StatefulStep(created, [pod], False)
        if is_ordered and (pod is None or not is_available(pod)):
            return StatefulStep(created, [], False)
    condemned = [pods[ordinal] for ordinal in sorted(set(pods) - set(wanted), reverse=True)]
    present = [pods[ordinal] for ordinal in wanted if ordinal in pods]
    if condemned:
        sick = [pod for pod in (*present, *reversed(condemned)) if not is_healthy(pod)]
        deleted = _next_to_go(condemned[0], sick, is_available) if is_ordered else _present(condemned)
        return StatefulStep(created, deleted, False)
    if created or not _is_rolling(obj):
        waits_for_none = not is_ordered and revisions.current == revisions.update
        is_complete = waits_for_none or (not created and all(map(is_available, present)))
        return StatefulStep(created, [], is_complete)
    old = _old_pods(obj, pods, mark_of(obj, revisions.update))
    if max_unavailable:
        return _replace_several(obj, old, sum(not is_available(pod) for pod in present))
    return _replace_one(old, list(reversed(present)), is_available)


def _present(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None]


def _next_to_go(pod: Pod, sick: Sequence[Pod], is_available: Callable[[Pod], bool]) -> list[Pod]:
    """Return the highest of the pods that have to go, unless another one is waited for."""
    return _present([pod]) if is_available(pod) or sick[:1] == [pod] else []


def _old_pods(obj: StatefulSet, pods: dict[int, Pod], mark: str) -> list[Pod]:
    """Return the pods that a rolling update replaces, the highest first."""
    wanted = ordinals(obj)
    least = wanted.start + (_rolling(obj).partition or 0)
    old = [pods[ordinal] for ordinal in reversed(wanted) if ordinal >= least]
    return [pod for pod in _present(old) if not is_updated(pod, mark)]


def _replace_one(
    old: Sequence[Pod], highest_first: Sequence[Pod], is_available: Callable[[Pod], bool]
) -> StatefulStep:
    """Delete the highest old pod, once all pods above it are available."""
    for pod in highest_first:
        if old and pod is old[0]:
            return StatefulStep([], [pod], False)
        if not is_available(pod):
            return StatefulStep([], [], False)
    return StatefulStep([], [], True)


def _replace_several(obj: StatefulSet, old: Sequence[Pod], unavailable: int) -> StatefulStep:
    """Delete the highest old pods, as far as maxUnavailable allows."""
    room = max(0, _maximum(obj) - unavailable)
    return StatefulStep([], list(old[:room]), not old and not unavailable)


def _is_rolling(obj: StatefulSet) -> bool:
    return obj.spec.update_strategy.type != "OnDelete"


def _rolling(obj: StatefulSet) -> RollingUpdateStatefulSetStrategy:
    return obj.spec.update_strategy.rolling_update or RollingUpdateStatefulSetStrategy()


def _maximum(obj: StatefulSet) -> int:
    """Return maxUnavailable as a number of pods, at least 1; percentages are rounded down."""
    value = _rolling(obj).max_unavailable
    if isinstance(value, str):
        value = percent(value) * (obj.spec.replicas or 0) // 100
    return max(1, value or 1)


# ---- pod claims --------------------------------------------------------------------------------------------
#
# Claims that come with pods: those of a StatefulSet's templates and those of ephemeral volumes.

_CLAIM_PENDING = PersistentVolumeClaimStatus(phase="Pending")


def with_claims(obj: StatefulSet, ordinal: int, spec: PodSpec) -> PodSpec:
    """Return the spec of a template with a volume per claim template, in place of a volume of that name."""
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
    is_surplus : bool
        Whether the pod is beyond the replicas.
    """
    policy, references = obj.spec.persistent_volume_claim_retention_policy, claim.metadata.owner_references
    own = {(owner.kind, owner.name): owner for owner in (obj, pod)}
    others = tuple(reference for reference in references if (reference.kind, reference.name) not in own)
    ours = [reference for reference in references if reference not in others]
    if not all(refers_to(reference, own[reference.kind, reference.name]) for reference in ours):
        return references
    if any(reference.controller for reference in others):
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
