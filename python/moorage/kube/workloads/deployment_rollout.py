"""What a Deployment does next with its ReplicaSets (kubernetes v1.36, pkg/controller/deployment).

Each step depends on the ReplicaSets and on how many of their pods are available, so that a rollout goes on
wherever a cluster was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity

from ..model.meta import LabelSelector, Object, ObjectMeta, share, whole_number
from ..model.pod import Pod
from ..model.workload import (
    Deployment,
    DeploymentConfig,
    LeaderWorkerSet,
    PodTemplateSpec,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    ReplicationControllerSpec,
    Rollout,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetSpec,
)
from .ownership import HASH_LABEL, controller_reference, refers_to, template_hash
from .rollout_steps import most_unavailable, next_sizes, steps_text

REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_QUANTITIES = frozenset({"requests", "limits", "overhead"})


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
    old = sorted([other for other in sets if new is None or other.name != new.name], key=by_age)
    desired = {each.metadata.annotations.get(_DESIRED) for each in sets if each.spec.replicas}
    is_scaled = not desired <= {None, str(deployment.spec.replicas or 0)}  # an active one, for another number
    if deployment.spec.paused or is_scaled:
        steps = _scale(deployment, new, old, available)
        if steps or deployment.spec.paused:
            return steps
    recreates = deployment.spec.strategy.type == "Recreate"
    if recreates:
        steps = [scaled for replica_set in old for scaled in _scaled(deployment, replica_set, 0)]
        if steps or old_pods:
            return steps
    if new is None:
        return [_make_replica_set(deployment, old)]
    if recreates:
        return _scaled(deployment, new, deployment.spec.replicas or 0)
    scaled = _scaled(deployment, new, _replicas_of_new(deployment, new, sets))
    return scaled or _shrink_old(deployment, new, old, available)


def find_new_replica_set(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Return the oldest ReplicaSet with the template of a Deployment, or None."""
    wanted: Any = None
    for candidate in sorted(sets, key=by_age):
        if without_hash(candidate.spec.template) == deployment.spec.template:
            return candidate
        wanted = wanted or comparable(without_hash(deployment.spec.template))
        if comparable(without_hash(candidate.spec.template)) == wanted:
            return candidate
    return None


def replica_set(deployment: Deployment, suffix: str, template: PodTemplateSpec, replicas: int) -> ReplicaSet:
    """Return a ReplicaSet of a Deployment for a template, without UID and creation time.

    Parameters
    ----------
    suffix : str
        The hash in its name and in its labels.
    """
    new = _replica_set(deployment, HASH_LABEL, suffix, template, replicas)
    return replace(new, metadata=replace(new.metadata, annotations=_marks(deployment)))


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
    return not any(other.spec.replicas for other in sets if other.name != new.name)


# ---- scaling -----------------------------------------------------------------------------------------------


def _marks(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that tell for how many replicas a ReplicaSet was scaled."""
    wanted = deployment.spec.replicas or 0
    return {_DESIRED: str(wanted), _MAX: str(wanted + max_surge(deployment))}


def _scaled(deployment: Deployment, replica_set: ReplicaSet, replicas: int) -> list[ReplicaSet]:
    """Return a ReplicaSet with another number of replicas, unless it has it already."""
    return [] if (replica_set.spec.replicas or 0) == replicas else _marked(deployment, replica_set, replicas)


def _marked(deployment: Deployment, replica_set: ReplicaSet, replicas: int) -> list[ReplicaSet]:
    """Return a ReplicaSet that was scaled for the replicas of a Deployment, unless it was before."""
    meta = replace(replica_set.metadata, annotations=replica_set.metadata.annotations | _marks(deployment))
    scaled = replace(replica_set, metadata=meta, spec=replace(replica_set.spec, replicas=replicas))
    return [] if scaled == replica_set else [scaled]


def _scale(
    deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet], available: Mapping[str, int]
) -> list[ReplicaSet]:
    """Distribute the replicas of a Deployment over its ReplicaSets, in proportion to their sizes."""
    wanted = deployment.spec.replicas or 0
    sets = [*([new] if new else []), *reversed(old)]
    active = [replica_set for replica_set in sets if replica_set.spec.replicas]
    if len(active) <= 1:
        return [
            scaled
            for replica_set in (active or sets[:1])
            for scaled in _marked(deployment, replica_set, wanted)
        ]
    if new is not None and new.spec.replicas == wanted == available.get(new.name, 0):
        return [scaled for replica_set in old for scaled in _scaled(deployment, replica_set, 0)]
    if deployment.spec.strategy.type == "Recreate":
        return []
    sizes = _proportions(deployment, active)
    return [
        scaled
        for replica_set in active
        for scaled in _marked(deployment, replica_set, sizes[replica_set.name])
    ]


def _proportions(deployment: Deployment, active: list[ReplicaSet]) -> dict[str, int]:
    """Return the sizes of the active ReplicaSets after a change of the number of replicas."""
    wanted = deployment.spec.replicas or 0
    allowed = wanted + max_surge(deployment) if wanted else 0
    missing = allowed - sum(replica_set.spec.replicas or 0 for replica_set in active)
    in_order = sorted(active, key=by_age, reverse=missing > 0)
    largest_first = sorted(in_order, key=lambda replica_set: -(replica_set.spec.replicas or 0))
    sizes, added = {replica_set.name: replica_set.spec.replicas or 0 for replica_set in active}, 0
    for replica_set in largest_first:
        share = _fraction(replica_set, allowed) if missing and missing != added else 0
        rest = missing - added
        share = min(share, rest) if missing > 0 else max(share, rest)
        sizes[replica_set.name] += share
        added += share
    first = largest_first[0].name
    sizes[first] = max(0, sizes[first] + missing - added)
    return sizes


def _fraction(replica_set: ReplicaSet, allowed: int) -> int:
    """Return by how much a ReplicaSet changes, for a number of pods that is allowed in all."""
    size = replica_set.spec.replicas or 0
    if not allowed:
        return -size
    most = whole_number(replica_set.metadata.annotations.get(_MAX, "")) or allowed
    return (2 * size * allowed + most) // (2 * most) - size  # rounded to the nearest


# ---- replacing ---------------------------------------------------------------------------------------------


def _make_replica_set(deployment: Deployment, old: Sequence[ReplicaSet]) -> ReplicaSet:
    """Return the ReplicaSet for the template of a Deployment, with its first replicas."""
    template = deployment.spec.template
    new_set = replica_set(deployment, template_hash(template), template, 0)
    replicas = deployment.spec.replicas or 0
    if deployment.spec.strategy.type != "Recreate":
        replicas = _replicas_of_new(deployment, new_set, [*old, new_set])
    revision = str(max([0, *map(revision_of, old)]) + 1)
    meta = replace(new_set.metadata, annotations=new_set.metadata.annotations | {REVISION: revision})
    return replace(new_set, metadata=meta, spec=replace(new_set.spec, replicas=replicas))


def _replicas_of_new(deployment: Deployment, new: ReplicaSet, sets: Iterable[ReplicaSet]) -> int:
    """Return how many replicas the new ReplicaSet may have now (NewRSNewReplicas)."""
    wanted, size = deployment.spec.replicas or 0, new.spec.replicas or 0
    if size >= wanted:
        return wanted
    room = wanted + max_surge(deployment) - sum(replica_set.spec.replicas or 0 for replica_set in sets)
    return size + min(max(0, room), wanted - size)


def _shrink_old(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet], available: Mapping[str, int]
) -> list[ReplicaSet]:
    """Scale old ReplicaSets down: first by pods that are not available, then as far as enough are."""
    wanted = deployment.spec.replicas or 0
    sizes = {replica_set.name: replica_set.spec.replicas or 0 for replica_set in old}
    least = wanted - max_unavailable(deployment)
    of_new = new.spec.replicas or 0
    room = sum(sizes.values()) + of_new - least - (of_new - available.get(new.name, 0))
    if room <= 0 or not any(sizes.values()):
        return []
    for replica_set in old:
        lacking = max(0, sizes[replica_set.name] - available.get(replica_set.name, 0))
        removed = min(room, lacking)
        sizes[replica_set.name] -= removed
        room -= removed
    surplus = sum(available.get(replica_set.name, 0) for replica_set in (*old, new)) - least
    for replica_set in old:
        removed = min(max(0, surplus), sizes[replica_set.name])
        sizes[replica_set.name] -= removed
        surplus -= removed
    return [
        scaled for replica_set in old for scaled in _scaled(deployment, replica_set, sizes[replica_set.name])
    ]


def max_surge(deployment: Deployment) -> int:
    """Return maxSurge as a number of pods; 0 unless pods are replaced one after the other."""
    rolling = deployment.spec.strategy.rolling_update
    return 0 if rolling is None else share(rolling.max_surge or 0, deployment.spec.replicas or 0)


def max_unavailable(deployment: Deployment) -> int:
    """Return maxUnavailable as a number of pods."""
    rolling = deployment.spec.strategy.rolling_update
    value = (rolling and rolling.max_unavailable) or 0
    return most_unavailable(value, max_surge(deployment), deployment.spec.replicas or 0)


def stops_all(deployment: Deployment) -> str:
    """Return the field by which a rolling update may leave none of several pods running; "" if some of them
    stay, and where the strategy is to stop all."""
    rolling, replicas = deployment.spec.strategy.rolling_update, deployment.spec.replicas or 0
    is_whole = rolling is not None and 1 < replicas <= max_unavailable(deployment)
    return f"maxUnavailable {rolling.max_unavailable}" if rolling and is_whole else ""


# ---- templates and ages ------------------------------------------------------------------------------------


def without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
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


def revision_of(replica_set: ReplicaSet) -> int:
    """Return the revision of a ReplicaSet; 0 if it has none."""
    return whole_number(replica_set.metadata.annotations.get(REVISION, ""), 64) or 0


def by_age(replica_set: ReplicaSet) -> tuple[str, int, str]:
    """Return the sort key of the ReplicaSets of a Deployment, the oldest first."""
    return replica_set.metadata.creation_timestamp or "", revision_of(replica_set), replica_set.name


# ---- other kinds -------------------------------------------------------------------------------------------
#
# What controllers of other projects make of their workloads.
#
# The ReplicaSets, ReplicationControllers and StatefulSets make the pods. A change of a template is rolled out
# by Rollouts alone; the strategies of the others are their own.

Parent = Rollout | DeploymentConfig | LeaderWorkerSet
_HASH = "rollouts-pod-template-hash"
_TAKEN = "rollouts.moorage.dev/is-taken"
"""An annotation of ReplicaSets that are made here: a Rollout that waits at a step in a dump stays there."""
_CONFIG, _DEPLOYMENT = "deploymentconfig", "deployment"
_LWS = "leaderworkerset.sigs.k8s.io/"
_NAME, _GROUP, WORKER = f"{_LWS}name", f"{_LWS}group-index", f"{_LWS}worker-index"
_TOPOLOGY = f"{_LWS}exclusive-topology", f"{_LWS}subgroup-exclusive-topology"
_OWN_LABELS = frozenset({_HASH, _CONFIG, _DEPLOYMENT})


def is_simulated(obj: Object) -> bool:
    """Whether the template of a workload of another project is all that its pods follow from.

    Returns
    -------
    bool
        True for all other kinds. False for a Rollout whose template is elsewhere, and a LeaderWorkerSet whose
        groups have a topology of their own.
    """
    if isinstance(obj, Rollout):
        return obj.spec.workload_ref is None
    if isinstance(obj, DeploymentConfig):
        return obj.spec.template is not None
    if isinstance(obj, LeaderWorkerSet):
        return not any(key in obj.metadata.annotations for key in _TOPOLOGY)
    return True


def changed_template(obj: Object) -> str:
    """Return the text that a changed template is not rolled out, with the pods that its steps would have."""
    why = "it is paused" if isinstance(obj, Rollout) and obj.spec.paused else "its strategy is not simulated"
    text = f"the changed template of {obj.kind} {obj.name} is not rolled out: {why}"
    return f"{text}; it would have {steps}" if (steps := steps_text(obj)) else text


def is_child(obj: Parent, child: Object) -> bool:
    """Whether the controller of a workload has made an object.

    Returns
    -------
    bool
        The StatefulSets of a LeaderWorkerSet are known by a label, as those of workers are owned by a pod.
    """
    if isinstance(obj, LeaderWorkerSet):
        return child.namespace == obj.namespace and child.metadata.labels.get(_NAME) == obj.name
    return child.namespace == obj.namespace and refers_to(child.metadata.controller(), obj)


def next_children(
    obj: Parent, owned: Sequence[Object], available: Callable[[Object], int] = lambda _: 0
) -> list[Object] | None:
    """Return what the controller of a workload creates or scales next.

    Parameters
    ----------
    obj : Rollout, DeploymentConfig or LeaderWorkerSet
        With defaults.
    owned : sequence of Object
        Those of `is_child`.
    available : callable
        Returns how many pods of one of them are available.

    Returns
    -------
    list of Object or None
        New ones have no UID. None if the template has changed, and its rollout is not simulated.
    """
    if isinstance(obj, LeaderWorkerSet):
        return _groups(obj, owned)
    template = obj.spec.template or PodTemplateSpec()
    sets = [child for child in owned if isinstance(child, ReplicaSet | ReplicationController)]
    replicas = obj.spec.replicas or 0
    if not sets:
        if isinstance(obj, Rollout):
            return [_replica_set(obj, _HASH, template_hash(template), template, replicas)]
        return [_replication_controller(obj, replicas)]
    same = [child for child in sets if _has_template(child.spec.template, template)]
    if isinstance(obj, Rollout) and (not same or _taken(obj, same)):
        return _rolled(obj, sets, same, available)
    if not same:
        return None
    missing = replicas - sum(child.spec.replicas or 0 for child in sets)
    latest = max(same, key=lambda child: (child.metadata.creation_timestamp or "", child.name))
    return _resized(latest, max(0, (latest.spec.replicas or 0) + missing))


def _rolled(
    obj: Rollout, sets: Sequence[Any], same: Sequence[Any], available: Callable[[Object], int]
) -> list[Object] | None:
    """Take a Rollout to its next step, the oldest of its old pods first."""
    template, annotations = obj.spec.template, {_TAKEN: "true"}
    new: Any = next(iter(_taken(obj, same)), None)
    if new is None:
        new = _replica_set(obj, _HASH, template_hash(template), template, 0)
        new = replace(new, metadata=replace(new.metadata, annotations=annotations))
    old = sorted((each for each in sets if each is not new), key=by_age)
    sizes = (new.spec.replicas or 0, sum(each.spec.replicas or 0 for each in old))
    following = None if obj.spec.paused else next_sizes(obj, *sizes, available(new))
    if following is None:
        return [] if same else None
    steps, surplus = _resized(new, following.new), sizes[1] - following.old
    for each in old:
        fewer = min(surplus, each.spec.replicas or 0)
        surplus -= fewer
        steps += _resized(each, (each.spec.replicas or 0) - fewer)
    return steps


def _taken(obj: Rollout, sets: Sequence[Any]) -> list[Any]:
    """Return the ReplicaSets to which a Rollout is taken: those that are made here, and others than that to
    which it was when the cluster was read."""
    before = obj.status.current_pod_hash
    return [
        each
        for each in sets
        if _TAKEN in each.metadata.annotations
        or (before and each.metadata.labels.get(_HASH, before) != before)
    ]


def step_of(
    obj: Rollout, owned: Sequence[Any], available: Callable[[Object], int]
) -> tuple[str, ReplicaSet] | None:
    """Return the step that a Rollout is taken to, and its new ReplicaSet; None if it is at the end, or was
    under way when the cluster was read."""
    for new in _taken(obj, owned):
        if _has_template(new.spec.template, obj.spec.template):
            old = sum(each.spec.replicas or 0 for each in owned if each is not new)
            following = next_sizes(obj, new.spec.replicas or 0, old, available(new))
            return None if following is None else (following.step, new)
    return None


def _resized(child: Any, replicas: int) -> list[Object]:
    spec = child.spec
    return [] if spec.replicas == replicas else [replace(child, spec=replace(spec, replicas=replicas))]


def _has_template(template: PodTemplateSpec | None, other: PodTemplateSpec) -> bool:
    """Whether two templates are equal but for the labels that the controllers add."""
    bare = []
    for each in (template or PodTemplateSpec(), other):
        labels = each.metadata.labels.items()
        kept = {key: value for key, value in labels if key not in _OWN_LABELS and not key.startswith(_LWS)}
        bare.append(replace(each, metadata=ObjectMeta(labels=kept)))
    ours, its = bare
    return ours == its or bool(comparable(ours) == comparable(its))


def _labelled(template: PodTemplateSpec, labels: dict[str, str]) -> PodTemplateSpec:
    meta = template.metadata
    return replace(template, metadata=replace(meta, labels=meta.labels | labels))


def _meta(obj: Object, name: str, labels: dict[str, str]) -> ObjectMeta:
    references = controller_reference(obj)
    return ObjectMeta(name=name, namespace=obj.namespace, labels=labels, owner_references=references)


def _replica_set(
    obj: Deployment | Rollout, label: str, suffix: str, template: PodTemplateSpec, replicas: int
) -> ReplicaSet:
    """Return a ReplicaSet of a workload for a template; the suffix of its name is a label of its pods."""
    template, selector = _labelled(template, {label: suffix}), obj.spec.selector or LabelSelector()
    selector = replace(selector, match_labels=selector.match_labels | {label: suffix})
    return ReplicaSet(
        metadata=_meta(obj, f"{obj.name}-{suffix}", template.metadata.labels),
        spec=ReplicaSetSpec(replicas=replicas, selector=selector, template=template),
    )


def _replication_controller(obj: DeploymentConfig, replicas: int) -> ReplicationController:
    name = f"{obj.name}-{max(1, obj.status.latest_version)}"
    marks = {_CONFIG: obj.name, _DEPLOYMENT: name}
    template = _labelled(obj.spec.template or PodTemplateSpec(), marks)
    selector = (obj.spec.selector or {}) | marks
    spec = ReplicationControllerSpec(replicas=replicas, selector=selector, template=template)
    return ReplicationController(metadata=_meta(obj, name, template.metadata.labels), spec=spec)


# ---- LeaderWorkerSet ---------------------------------------------------------------------------------------


def group_of(pod: Pod) -> tuple[str, str] | None:
    """Return the LeaderWorkerSet of a pod and the number of its group; None for other pods."""
    name = pod.metadata.labels.get(_NAME)
    return None if name is None else (name, pod.metadata.labels.get(_GROUP) or pod.name.rpartition("-")[2])


def _groups(obj: LeaderWorkerSet, owned: Iterable[Object]) -> list[Object] | None:
    """Return the StatefulSets to create or scale: that of the leaders, and those of the workers by group."""
    sets = {
        stateful_set.name: stateful_set for stateful_set in owned if isinstance(stateful_set, StatefulSet)
    }
    groups, parts = obj.spec.replicas or 0, obj.spec.leader_worker_template
    leader = parts.leader_template or parts.worker_template
    wanted = {obj.name: _stateful_set(obj, obj.name, leader, {WORKER: "0"}, range(groups))}
    for group in range(groups):
        name, ordinals = f"{obj.name}-{group}", range(1, parts.size or 1)
        if ordinals:
            wanted[name] = _stateful_set(obj, name, parts.worker_template, {_GROUP: str(group)}, ordinals)
    steps: list[Object] = []
    for name, stateful_set in wanted.items():
        present = sets.get(name)
        if present is None:
            steps.append(stateful_set)
        elif not _has_template(present.spec.template, stateful_set.spec.template):
            return None
        else:
            steps += _resized(present, stateful_set.spec.replicas or 0)
    return steps + [
        scaled
        for name, stateful_set in sets.items()
        if name not in wanted
        for scaled in _resized(stateful_set, 0)
    ]


def _stateful_set(
    obj: LeaderWorkerSet, name: str, template: PodTemplateSpec, marks: dict[str, str], ordinals: range
) -> StatefulSet:
    labels = {_NAME: obj.name} | marks
    spec = StatefulSetSpec(
        replicas=len(ordinals),
        selector=LabelSelector(match_labels=labels),
        template=_labelled(template, labels),
        ordinals=StatefulSetOrdinals(start=ordinals.start) if ordinals.start else None,
        pod_management_policy="Parallel",
    )
    return StatefulSet(metadata=_meta(obj, name, labels), spec=spec)
