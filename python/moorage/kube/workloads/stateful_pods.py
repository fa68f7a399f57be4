"""What a StatefulSet does next with its pods (kubernetes v1.34 to v1.38, pkg/controller/statefulset)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from moorage.lazy import NamedTuple

from ..model.meta import Object, ObjectMeta, OwnerReference, percent, whole_number
from ..model.pod import PersistentVolumeClaimTemplate, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume
from ..model.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from ..model.workload import ControllerRevision, RollingUpdateStatefulSetStrategy, StatefulSet
from ..releases import FeatureGates
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
    first : list of Pod
        The pods that it deletes before it creates others, in order.
    created : list of int
        The ordinals of the pods that it creates.
    deleted : list of Pod
        The pods that it deletes then, in order.
    is_complete : bool
        Whether nothing is left to do, now or later.
    """

    first: list[Pod]
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
    is_old = _is_rolling(obj) and ordinal < ordinals(obj).start + (rolling_update(obj).partition or 0)
    return revisions.current if is_old else revisions.update


IsAvailable = Callable[[Pod], bool]
_RECREATE, _SEVERAL = "StatefulSetRecreateStrategy", "MaxUnavailableStatefulSet"


def next_step(
    obj: StatefulSet,
    pods: dict[int, Pod],
    revisions: Revisions,
    is_available: IsAvailable,
    gates: FeatureGates,
) -> StatefulStep:
    """Return what a StatefulSet does next.

    Missing pods are created in the order of the ordinals, and pods beyond the replicas are deleted, the
    highest first; then a rolling update replaces the highest pods of another revision. With OrderedReady,
    each of these waits until all pods before it are available. Recreate first deletes all pods of other
    revisions, and waits until they are gone.

    Parameters
    ----------
    obj : StatefulSet
        With defaults.
    pods : dict of int to Pod
        Its pods by ordinal, in any state.
    is_available : callable
        Whether a pod is available.
    gates : FeatureGates
        Those of the controllers, with their release.
    """
    mark = mark_of(obj, revisions.update)
    if obj.spec.update_strategy.type == "Recreate":
        if not gates[_RECREATE]:
            return StatefulStep([], [], [], True)  # it only says so
        if old := [pod for _, pod in sorted(pods.items()) if not is_updated(pod, mark)]:
            return StatefulStep(_present(old), [], [], False)
    take = _all_at_once if _is_parallel(obj) else _in_order
    return take(obj, pods, is_available, _Update(mark, revisions.current == revisions.update, gates))


class _Update(NamedTuple):
    """The mark of the revision to which a StatefulSet comes, whether it is there, and by which rules."""

    mark: str
    is_over: bool
    gates: FeatureGates


def missing_ordinals(obj: StatefulSet, pods: dict[int, Pod], is_available: IsAvailable) -> list[int]:
    """Return the ordinals of the pods that a StatefulSet creates before others become available."""
    missing = [ordinal for ordinal in ordinals(obj) if ordinal not in pods]
    if _is_parallel(obj) or not missing:
        return missing
    return missing[:1] if all(is_available(pods[at]) for at in ordinals(obj) if at < missing[0]) else []


def _in_order(
    obj: StatefulSet, pods: dict[int, Pod], is_available: IsAvailable, update: _Update
) -> StatefulStep:
    """Return the next step of a StatefulSet that waits for one pod before another."""
    if created := missing_ordinals(obj, pods, is_available):
        return StatefulStep([], created, [], False)
    present = [pods[ordinal] for ordinal in ordinals(obj) if ordinal in pods]
    for pod in present:
        if not is_available(pod):
            return StatefulStep([], [], _present([pod] * (pod.status.phase in FINISHED)), False)
    if condemned := _condemned(obj, pods):
        sick = [pod for pod in (*present, *reversed(condemned)) if not is_healthy(pod)]
        highest = condemned[0]
        may_go = is_available(highest) or sick[:1] == [highest]  # unless another one is waited for
        return StatefulStep([], [], _present([highest]) if may_go else [], False)
    return StatefulStep([], [], *_replaced(obj, pods, is_available, update))


def _all_at_once(
    obj: StatefulSet, pods: dict[int, Pod], is_available: IsAvailable, update: _Update
) -> StatefulStep:
    """Return the next step of a StatefulSet that creates and deletes pods whatever becomes of others."""
    created, condemned = missing_ordinals(obj, pods, is_available), _condemned(obj, pods)
    finished = [pods[at] for at in ordinals(obj) if at in pods and pods[at].status.phase in FINISHED]
    replaced, is_done = _replaced(obj, pods, is_available, update)
    deleted = [*finished, *(pod for pod in replaced if pod not in finished)]
    is_done = is_done or (update.is_over and (bool(created) or not _is_rolling(obj)))
    is_complete = is_done and not (condemned or finished)
    if update.gates.release.condemned_pods_go_first:
        return StatefulStep(_present(condemned), created, _present(deleted), is_complete)
    return StatefulStep([], created, _present([*condemned, *deleted]), is_complete)


def _condemned(obj: StatefulSet, pods: dict[int, Pod]) -> list[Pod]:
    """Return the pods beyond the replicas, the highest first."""
    return [pods[ordinal] for ordinal in sorted(set(pods) - set(ordinals(obj)), reverse=True)]


def _present(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None]


def _replaced(
    obj: StatefulSet, pods: dict[int, Pod], is_available: IsAvailable, update: _Update
) -> tuple[list[Pod], bool]:
    """Return the pods that a rolling update deletes now, the highest first, and whether all are available
    and of the revision."""
    wanted, release = ordinals(obj), update.gates.release
    available = {ordinal for ordinal in wanted if ordinal in pods and is_available(pods[ordinal])}
    if not _is_rolling(obj):
        return [], len(available) == len(wanted)
    old = [at for at in reversed(_updated_range(obj)) if at in pods and not is_updated(pods[at], update.mark)]
    old = [at for at in old if pods[at].metadata.deletion_timestamp is None]
    if update.gates[_SEVERAL]:
        counted = _updated_range(obj) if release.partition_bounds_unavailability else wanted
        sick = [at for at in old if at not in available and release.unavailable_pods_go_first]
        sick = sick if _is_parallel(obj) else []
        room = _maximum(obj, len(counted)) - len(set(counted) - available)
        going = [*sick, *[at for at in old if at not in sick][: max(0, room)]]
    else:
        going = old[:1] if old and available.issuperset(range(old[0] + 1, wanted.stop)) else []
    return [pods[at] for at in going], not old and len(available) == len(wanted)


def _updated_range(obj: StatefulSet) -> range:
    """Return the ordinals from the partition on."""
    wanted = ordinals(obj)
    return range(min(wanted.start + (rolling_update(obj).partition or 0), wanted.stop), wanted.stop)


def _is_parallel(obj: StatefulSet) -> bool:
    return obj.spec.pod_management_policy == "Parallel"


def _is_rolling(obj: StatefulSet) -> bool:
    return obj.spec.update_strategy.type == "RollingUpdate"


def rolling_update(obj: StatefulSet) -> RollingUpdateStatefulSetStrategy:
    """Return what a rolling update of a StatefulSet heeds, which the API server does not always write."""
    return obj.spec.update_strategy.rolling_update or RollingUpdateStatefulSetStrategy()


def _maximum(obj: StatefulSet, pods: int) -> int:
    """Return maxUnavailable as a number, at least 1; percentages of some pods are rounded down."""
    value = rolling_update(obj).max_unavailable
    return max(1, percent(value) * pods // 100 if isinstance(value, str) else value or 1)


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
