"""What a Deployment does next with its ReplicaSets (kubernetes v1.36, pkg/controller/deployment).

Each step depends on the ReplicaSets and on how many of their pods are available, so that a rollout goes on
wherever a cluster was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity

from ..model.field_rules import percent, share, whole_number
from ..model.meta import LabelSelector, ObjectMeta
from ..model.workload import Deployment, PodTemplateSpec, ReplicaSet, ReplicaSetSpec, RollingUpdateDeployment
from .naming import template_hash
from .ownership import HASH_LABEL, controller_reference

REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_QUANTITIES = frozenset({"requests", "limits", "overhead"})
_DEFAULT_SHARE = "25%"


def next_step(
    deployment: Deployment, sets: Sequence[ReplicaSet], available: Mapping[str, int], old_pods: bool
) -> list[ReplicaSet]:
    """Return the ReplicaSets that the controller of a Deployment creates or scales next.

    A changed number of replicas is distributed first. Then the pods are replaced: with Recreate all old ones
    go before the first new one comes; with RollingUpdate no more than `replicas` and `maxSurge` pods exist,
    and no fewer than `replicas` less `maxUnavailable` are available. A percentage is rounded up for the
    surge, down for the unavailable pods.

    Parameters
    ----------
    deployment : Deployment
        With defaults.
    sets : sequence of ReplicaSet
        That it controls.
    available : mapping of str to int
        Number of available pods by name of the ReplicaSet.
    old_pods : bool
        Whether pods of other templates are left (Recreate waits for them).

    Returns
    -------
    list of ReplicaSet
        New ReplicaSets have no UID. Empty if the rollout is complete or waits for pods.
    """
    new = find_new_replica_set(deployment, sets)
    old = sorted([one for one in sets if new is None or one.name != new.name], key=_by_age)
    if deployment.spec.paused or _is_scaling_event(deployment, sets):
        steps = _scale(deployment, new, old, available)
        if steps or deployment.spec.paused:
            return steps
    if deployment.spec.strategy.type == "Recreate":
        return _recreate(deployment, new, old, old_pods)
    if new is None:
        return [_make_replica_set(deployment, old)]
    scaled = _scaled(deployment, new, _replicas_of_new(deployment, new, sets))
    return scaled or _shrink_old(deployment, new, old, available)


def find_new_replica_set(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Return the oldest ReplicaSet with the template of a Deployment, or None.

    Parameters
    ----------
    sets : iterable of ReplicaSet
        That it controls.
    """
    wanted: Any = None
    for one in sorted(sets, key=_by_age):
        if _without_hash(one.spec.template) == deployment.spec.template:
            return one
        wanted = wanted or comparable(_without_hash(deployment.spec.template))
        if comparable(_without_hash(one.spec.template)) == wanted:
            return one
    return None


def replica_set(deployment: Deployment, suffix: str, template: PodTemplateSpec, replicas: int) -> ReplicaSet:
    """Return a ReplicaSet of a Deployment for a template.

    Parameters
    ----------
    suffix : str
        The hash in its name and in its labels.

    Returns
    -------
    ReplicaSet
        Without UID and creation time.
    """
    labels = template.metadata.labels | {HASH_LABEL: suffix}
    selector = deployment.spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.name}-{suffix}",
            namespace=deployment.namespace,
            labels=labels,
            annotations=_marks(deployment),
            owner_references=controller_reference(deployment),
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            selector=replace(selector, match_labels=selector.match_labels | {HASH_LABEL: suffix}),
            template=replace(template, metadata=replace(template.metadata, labels=labels)),
        ),
    )


def is_complete(deployment: Deployment, sets: Sequence[ReplicaSet], available: Mapping[str, int]) -> bool:
    """Whether all pods of a Deployment have its template and are available.

    Parameters
    ----------
    available : mapping of str to int
        Number of available pods by name of the ReplicaSet.
    """
    new, wanted = find_new_replica_set(deployment, sets), deployment.spec.replicas or 0
    if new is None or (new.spec.replicas or 0) != wanted or available.get(new.name, 0) < wanted:
        return False
    return not any(one.spec.replicas for one in sets if one.name != new.name)


# ---- scaling -----------------------------------------------------------------------------------------------


def _marks(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that tell for how many replicas a ReplicaSet was scaled."""
    wanted = deployment.spec.replicas or 0
    return {_DESIRED: str(wanted), _MAX: str(wanted + max_surge(deployment))}


def _scaled(deployment: Deployment, one: ReplicaSet, replicas: int) -> list[ReplicaSet]:
    """Return a ReplicaSet with another number of replicas, unless it has it already."""
    return [] if (one.spec.replicas or 0) == replicas else _marked(deployment, one, replicas)


def _marked(deployment: Deployment, one: ReplicaSet, replicas: int) -> list[ReplicaSet]:
    """Return a ReplicaSet that was scaled for the replicas of a Deployment, unless it was before."""
    meta = replace(one.metadata, annotations=one.metadata.annotations | _marks(deployment))
    scaled = replace(one, metadata=meta, spec=replace(one.spec, replicas=replicas))
    return [] if scaled == one else [scaled]


def _is_scaling_event(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Whether an active ReplicaSet was scaled for another number of replicas."""
    desired = [one.metadata.annotations.get(_DESIRED) for one in sets if one.spec.replicas]
    return any(one not in (None, str(deployment.spec.replicas or 0)) for one in desired)


def _scale(
    deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet], available: Mapping[str, int]
) -> list[ReplicaSet]:
    """Distribute the replicas of a Deployment over its ReplicaSets, in proportion to their sizes."""
    wanted = deployment.spec.replicas or 0
    sets = [*([new] if new else []), *reversed(old)]
    active = [one for one in sets if one.spec.replicas]
    if len(active) <= 1:
        return [scaled for one in (active or sets[:1]) for scaled in _marked(deployment, one, wanted)]
    if new is not None and new.spec.replicas == wanted == available.get(new.name, 0):
        return [scaled for one in old for scaled in _scaled(deployment, one, 0)]
    if deployment.spec.strategy.type == "Recreate":
        return []
    sizes = _proportions(deployment, active)
    return [scaled for one in active for scaled in _marked(deployment, one, sizes[one.name])]


def _proportions(deployment: Deployment, active: list[ReplicaSet]) -> dict[str, int]:
    """Return the sizes of the active ReplicaSets after a change of the number of replicas."""
    wanted = deployment.spec.replicas or 0
    allowed = wanted + max_surge(deployment) if wanted else 0
    missing = allowed - sum(one.spec.replicas or 0 for one in active)
    by_age = sorted(active, key=_by_age, reverse=missing > 0)
    largest_first = sorted(by_age, key=lambda one: -(one.spec.replicas or 0))
    sizes, added = {one.name: one.spec.replicas or 0 for one in active}, 0
    for one in largest_first:
        share = _fraction(one, allowed) if missing and missing != added else 0
        rest = missing - added
        share = min(share, rest) if missing > 0 else max(share, rest)
        sizes[one.name] += share
        added += share
    first = largest_first[0].name
    sizes[first] = max(0, sizes[first] + missing - added)
    return sizes


def _fraction(one: ReplicaSet, allowed: int) -> int:
    """Return by how much a ReplicaSet changes, for a number of pods that is allowed in all."""
    size = one.spec.replicas or 0
    if not allowed:
        return -size
    most = whole_number(one.metadata.annotations.get(_MAX, "")) or allowed
    return (2 * size * allowed + most) // (2 * most) - size  # rounded to the nearest


# ---- replacing ---------------------------------------------------------------------------------------------


def _make_replica_set(deployment: Deployment, old: Sequence[ReplicaSet]) -> ReplicaSet:
    """Return the ReplicaSet for the template of a Deployment, with its first replicas."""
    template = deployment.spec.template
    made = replica_set(deployment, template_hash(template), template, 0)
    replicas = deployment.spec.replicas or 0
    if deployment.spec.strategy.type != "Recreate":
        replicas = _replicas_of_new(deployment, made, [*old, made])
    revision = str(max([0, *map(_revision, old)]) + 1)
    meta = replace(made.metadata, annotations=made.metadata.annotations | {REVISION: revision})
    return replace(made, metadata=meta, spec=replace(made.spec, replicas=replicas))


def _replicas_of_new(deployment: Deployment, new: ReplicaSet, sets: Iterable[ReplicaSet]) -> int:
    """Return how many replicas the new ReplicaSet may have now (NewRSNewReplicas)."""
    wanted, size = deployment.spec.replicas or 0, new.spec.replicas or 0
    if size >= wanted:
        return wanted
    room = wanted + max_surge(deployment) - sum(one.spec.replicas or 0 for one in sets)
    return size + min(max(0, room), wanted - size)


def _recreate(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], old_pods: bool
) -> list[ReplicaSet]:
    """Remove all old pods before the first new one is created."""
    steps = [scaled for one in old for scaled in _scaled(deployment, one, 0)]
    if steps or old_pods:
        return steps
    if new is None:
        return [_make_replica_set(deployment, old)]
    return _scaled(deployment, new, deployment.spec.replicas or 0)


def _shrink_old(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet], available: Mapping[str, int]
) -> list[ReplicaSet]:
    """Scale old ReplicaSets down: first by pods that are not available, then as far as enough are."""
    wanted = deployment.spec.replicas or 0
    sizes = {one.name: one.spec.replicas or 0 for one in old}
    least = wanted - max_unavailable(deployment)
    of_new = new.spec.replicas or 0
    room = sum(sizes.values()) + of_new - least - (of_new - available.get(new.name, 0))
    if room <= 0 or not any(sizes.values()):
        return []
    for one in old:
        lacking = max(0, sizes[one.name] - available.get(one.name, 0))
        removed = min(room, lacking)
        sizes[one.name] -= removed
        room -= removed
    surplus = sum(available.get(one.name, 0) for one in (*old, new)) - least
    for one in old:
        removed = min(max(0, surplus), sizes[one.name])
        sizes[one.name] -= removed
        surplus -= removed
    return [scaled for one in old for scaled in _scaled(deployment, one, sizes[one.name])]


def _rolling(deployment: Deployment) -> RollingUpdateDeployment:
    return deployment.spec.strategy.rolling_update or RollingUpdateDeployment()


def max_surge(deployment: Deployment) -> int:
    """Return maxSurge as a number of pods; 0 unless pods are replaced one after the other."""
    if deployment.spec.strategy.type == "Recreate":
        return 0
    value = _rolling(deployment).max_surge
    value = _DEFAULT_SHARE if value is None else value
    return share(value, deployment.spec.replicas or 0)


def max_unavailable(deployment: Deployment) -> int:
    """Return maxUnavailable as a number of pods: 1 if neither it nor maxSurge would let a pod be replaced."""
    value = _rolling(deployment).max_unavailable
    value = _DEFAULT_SHARE if value is None else value
    replicas = deployment.spec.replicas or 0
    number = value if isinstance(value, int) else percent(value) * replicas // 100
    return min(number or (0 if max_surge(deployment) else 1), replicas)


# ---- templates and ages ------------------------------------------------------------------------------------


def _without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
    """Return a template without the label pod-template-hash."""
    labels = {key: value for key, value in template.metadata.labels.items() if key != HASH_LABEL}
    return replace(template, metadata=replace(template.metadata, labels=labels))


def comparable(value: object) -> Any:
    """Return structs as JSON values, with quantities in a form in which equal ones are equal.

    Parameters
    ----------
    value : object
        A struct, or a list of structs.
    """
    return _with_quantities(msgspec.to_builtins(value))


def _with_quantities(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: {name: Quantity(each) for name, each in item.items()}
            if key in _QUANTITIES and isinstance(item, dict)
            else _with_quantities(item)
            for key, item in value.items()
        }
    return [_with_quantities(item) for item in value] if isinstance(value, list | tuple) else value


def _revision(one: ReplicaSet) -> int:
    """Return the revision of a ReplicaSet; 0 if it has none."""
    return whole_number(one.metadata.annotations.get(REVISION, ""), 64) or 0


def _by_age(one: ReplicaSet) -> tuple[str, int, str]:
    """Return the sort key of the ReplicaSets of a Deployment, the oldest first."""
    return one.metadata.creation_timestamp or "", _revision(one), one.name
