"""Sets the defaults of the API server and its admission plugins, as far as scheduling reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from moorage._core.base.fields import SpecMemo
from moorage._core.base.resources import CONTAINERS_ALONE, pod_requests
from moorage.errors import InputError

from ..apiserver.decode import CLUSTER_SCOPED, decode_template
from ..apiserver.struct_tables import (
    host_port,
    requests_of_limits,
    with_defaults,
    with_dependent,
    with_kind_defaults,
)
from ..model.meta import LabelSelector, LabelSelectorRequirement, Object, Struct
from ..model.node import Namespace
from ..model.pod import (
    POD_GATED,
    POD_PENDING,
    PREEMPTS,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
)
from ..model.pod_group import AnyGroup, CompositePodGroup, CompositePodGroupSpec, PodGroup, PodGroupSpec
from ..model.workload import (
    CloneSet,
    ControllerRevision,
    CustomObject,
    DaemonSet,
    Deployment,
    DeploymentConfig,
    Job,
    LeaderWorkerSet,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Rollout,
    StatefulSet,
)
from ..workloads.ownership import Names, stable_uid

T = TypeVar("T", bound=Object)
S = TypeVar("S", bound=Struct)

BUILT_IN_CLASSES = {
    "system-node-critical": PriorityClass(value=2_000_001_000),
    "system-cluster-critical": PriorityClass(value=2_000_000_000),
}
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
GRACE_PERIOD = 30
"""Seconds that a pod has to stop which names no period (kubernetes v1.36, SetDefaults_PodSpec)."""
_NO_STATUS = PodStatus()
_TOLERATION_SECONDS = 300
_OVERCOMMITTABLE = frozenset({"cpu", "memory"})

_REVISIONED = ("StatefulSet", "DaemonSet", "CloneSet")
_WITH_TEMPLATE = (
    *(Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, Job),
    *(CloneSet, DeploymentConfig, Rollout),
)

PriorityClasses = Mapping[str, PriorityClass]


def priority_classes(objects: Iterable[Object]) -> Mapping[str, PriorityClass]:
    """Return priority classes by name with their defaults, including the two built-in ones."""
    listed = {obj.name: with_kind_defaults(obj) for obj in objects if isinstance(obj, PriorityClass)}
    return BUILT_IN_CLASSES | listed if listed else BUILT_IN_CLASSES


def defaults(objects: Iterable[Object]) -> list[Object]:
    """Set the defaults of the API server.

    Priority classes are looked up among the objects. An object with only ``generateName`` gets a name, and an
    object without UID gets a UID; both are functions of the input, so that the same input gives the same
    objects.

    Parameters
    ----------
    objects : iterable of Object
        Valid objects (see `validate`) of one cluster.

    Returns
    -------
    list of Object
        Objects in the same order; an object without missing defaults is returned unchanged.

    Raises
    ------
    InputError
        A pod without a priority names a priority class that does not exist.
    """
    objects = list(objects)
    classes = priority_classes(objects)
    names = Names()
    for obj in objects:
        names.take(obj.kind, default_namespace(obj), obj.name)
    return [default_object(obj, classes, names) for obj in objects]


def default_object(obj: T, classes: PriorityClasses, names: Names, *, admitted: bool = False) -> T:
    """Set the defaults of one object; see `defaults`.

    Parameters
    ----------
    names : Names
        The used names; a generated name is added.
    admitted : bool
        Whether new pods are admitted later. Then a pod, or the template of a workload, whose priority class
        does not exist has no priority; without it this is an error.

    Returns
    -------
    Object
        `obj` itself if no default is missing.

    Raises
    ------
    InputError
        A priority class does not exist.
    """
    meta, namespace = obj.metadata, default_namespace(obj)
    if not (meta.name and meta.uid and meta.namespace == namespace):
        name = meta.name or names.generate(obj.kind, namespace, meta.generate_name)
        uid = meta.uid or stable_uid(obj.kind, namespace, name)
        obj = replace(obj, metadata=replace(meta, name=name, namespace=namespace, uid=uid))
    if not isinstance(obj, Pod):  # many pods share a spec
        obj = with_kind_defaults(obj)
    fill = _DEFAULTS.get(type(obj))
    if fill is None:
        return obj
    try:
        filled: T = fill(obj, classes)
        if not admitted:
            if isinstance(filled, Pod):
                _require_priority(filled.spec, "spec")
            elif isinstance(filled, _WITH_TEMPLATE) and filled.spec.template is not None:
                _require_priority(filled.spec.template.spec, "spec.template.spec")
    except InputError as error:
        raise error.located(obj=obj.full_name) from None
    return filled


def default_namespace(obj: Object) -> str:
    """Return the namespace of an object; "" for cluster-scoped kinds."""
    if obj.kind in CLUSTER_SCOPED:
        return ""
    return obj.metadata.namespace or (
        "" if isinstance(obj, CustomObject) and not obj.is_namespaced else "default"
    )


_changes = {False: SpecMemo(), True: SpecMemo()}
"""By `tolerate`: the priority classes, a spec, that spec with its defaults, the fields in which they differ,
once another spec has them, too, and whether labels are merged into them."""


def _default_pod(pod: Pod, classes: PriorityClasses) -> Pod:
    spec, status = pod.spec, pod.status
    tolerate = not spec.node_name
    known = _changes[tolerate].get(spec)
    if known is None or known[0] is not classes:
        filled = default_pod_spec(spec, classes, tolerate=tolerate)
        known = classes, spec, filled, {}, _has_label_keys(filled)
        _changes[tolerate].put(spec, known)
    _, first, filled, changes, has_label_keys = known
    if spec is first:  # pods of one template without a node share their spec
        spec = filled
    elif filled is not first:
        if not changes:  # most specs are of one pod, or of many
            changes |= {
                name: value
                for name in PodSpec.__struct_fields__
                if (value := getattr(filled, name)) is not getattr(first, name)
            }
        spec = replace(spec, **changes)
    if has_label_keys:
        spec = merge_label_keys(spec, pod.metadata.labels)
    if not status.phase:
        new = POD_GATED if spec.scheduling_gates else POD_PENDING
        status = new if status == _NO_STATUS else replace(status, phase="Pending")
    return pod if spec is pod.spec and status is pod.status else replace(pod, spec=spec, status=status)


def _with(struct: S, **fields: Any) -> S:
    """Return a struct with these field values; the struct itself if it has them."""
    for name, value in fields.items():
        current = getattr(struct, name)
        if value is not current and value != current:
            return replace(struct, **fields)
    return struct


def default_pod_spec(spec: PodSpec, classes: PriorityClasses, *, tolerate: bool) -> PodSpec:
    """Set the defaults of a pod spec.

    See `with_container_defaults` for its containers. The priority is that of the priority class (admission
    plugin Priority). With `tolerate`, the pod tolerates nodes that are not ready or unreachable for 300 s
    (admission plugin DefaultTolerationSeconds).

    Parameters
    ----------
    tolerate : bool
        Whether to add the tolerations of DefaultTolerationSeconds.

    Returns
    -------
    PodSpec
        `spec` itself if no default is missing; without a priority if the class does not exist.
    """
    spec = with_container_defaults(spec)
    resources = spec.resources
    if resources is not None and resources.limits:
        resources = pod_level_requests(resources, spec.containers, spec.init_containers)
    return _with(
        spec,
        **priority_fields(spec, classes),
        resources=resources,
        tolerations=spec.tolerations + tuple(missing_tolerations(spec.tolerations) if tolerate else ()),
    )


def with_container_defaults(spec: PodSpec) -> PodSpec:
    """Return a pod spec with the defaults of the tables and those of its containers.

    Resources are rounded up to thousandths (kubernetes v1.36, SetDefaults_ResourceList). Requests default to
    limits, and host ports to container ports under ``hostNetwork`` (SetDefaults_Pod).
    """
    spec = with_defaults(spec, "core.v1.PodSpec")

    def filled(container: Container) -> Container:
        ports = container.ports
        if spec.host_network:
            ports = tuple([with_dependent(port, host_port) for port in ports])
        resources = with_dependent(container.resources, requests_of_limits)
        return _with(container, resources=resources, ports=ports)

    containers, init_containers = (
        tuple([filled(each) for each in part]) for part in (spec.containers, spec.init_containers)
    )
    return _with(spec, containers=containers, init_containers=init_containers)


def priority_fields(spec: PodSpec, classes: PriorityClasses) -> dict[str, Any]:
    """Return the fields that the admission plugin Priority sets; none if the class does not exist."""
    name = spec.priority_class_name
    if spec.priority is not None or (name and name not in classes):
        return {}
    chosen = _priority_class(name, classes)
    if chosen is None:
        return {"priority": 0}
    policy = chosen.preemption_policy if spec.preemption_policy is None else spec.preemption_policy
    return {"priority": chosen.value, "priority_class_name": name or chosen.name, "preemption_policy": policy}


def with_class(obj: Object, classes: PriorityClasses) -> Object:
    """Return an object whose template, if it has one, has the fields of its priority class."""
    spec: Any = getattr(obj, "spec", None)
    template = getattr(spec, "template", None)
    if not isinstance(template, PodTemplateSpec):
        return obj
    fields = priority_fields(template.spec, classes)
    template = replace(template, spec=replace(template.spec, **fields))
    return _with(obj, spec=replace(spec, template=template)) if fields else obj


def other_preemption_policy(spec: PodSpec, classes: PriorityClasses) -> str | None:
    """Return why the admission plugin Priority refuses a pod: it asks for another preemption policy than its
    class has. None if it does not."""
    own, chosen = spec.preemption_policy, classes.get(spec.priority_class_name)
    computed = (chosen and chosen.preemption_policy) or PREEMPTS
    return None if own in (None, computed) else _other("string", "PreemptionPolicy", own, computed)


def other_priority(spec: PodSpec, classes: PriorityClasses) -> str | None:
    """Return why the admission plugin Priority refuses a pod that names its priority: that of its class is
    another. None if it does not."""
    name, own = spec.priority_class_name, spec.priority
    if own is None or (name and name not in classes):
        return None
    chosen = _priority_class(name, classes)
    computed = 0 if chosen is None else chosen.value
    return None if own == computed else _other("integer", "priority", own, computed)


def _other(kind: str, field: str, own: object, computed: object) -> str:
    return (
        f"the {kind} value of {field} ({own}) must not be provided in pod spec; priority admission "
        f"controller computed {computed} from the given PriorityClass name"
    )


def _priority_class(name: str, classes: PriorityClasses) -> PriorityClass | None:
    """The priority class of a name; without a name the global default with the lowest value."""
    if name:
        return classes[name]
    candidates = (item for item in classes.values() if item.global_default)
    return min(candidates, key=lambda item: (item.value, item.name), default=None)


def _require_priority(spec: PodSpec | PodGroupSpec | CompositePodGroupSpec, path: str) -> None:
    if spec.priority is None:
        name = spec.priority_class_name
        raise InputError(f'there is no PriorityClass "{name}"', path=f"{path}.priorityClassName")


def pod_level_requests(
    resources: ResourceRequirements, containers: tuple[Container, ...], init_containers: tuple[Container, ...]
) -> ResourceRequirements:
    """Default pod-level requests for pod-level limits (kubernetes v1.36, defaultPodRequests).

    A missing request for cpu or memory becomes the sum of the containers' requests. A missing request for
    another resource that a pod can have, or one that no container requests, becomes the limit.
    """
    requests = dict(resources.requests)
    in_all = Pod(spec=PodSpec(containers=containers, init_containers=init_containers))
    for name, quantity in pod_requests(in_all, CONTAINERS_ALONE, resizes=False).items():
        if name in _OVERCOMMITTABLE:
            requests.setdefault(name, str(quantity))
    for name, limit in resources.limits.items():
        if name in _OVERCOMMITTABLE or name.startswith("hugepages-"):
            requests.setdefault(name, limit)
    return replace(resources, requests=requests)


def missing_tolerations(tolerations: tuple[Toleration, ...]) -> Iterable[Toleration]:
    """Yield the tolerations that the admission plugin DefaultTolerationSeconds adds to a pod."""
    for key in (NOT_READY, UNREACHABLE):
        if not any(item.key in (key, "") and item.effect in ("NoExecute", "") for item in tolerations):
            yield Toleration(
                key=key, operator="Exists", effect="NoExecute", toleration_seconds=_TOLERATION_SECONDS
            )


def merge_label_keys(spec: PodSpec, labels: Mapping[str, str]) -> PodSpec:
    """Merge label keys into the selectors of a pod spec (kubernetes v1.36, registry/core/pod/strategy.go).

    Keys that the pod does not have, and constraints without a selector, are skipped. Requirements that were
    merged before, as in objects read from a cluster, are not repeated.

    Returns
    -------
    PodSpec
        `spec` itself if there is nothing to merge.
    """
    if not _has_label_keys(spec):
        return spec
    constraints = tuple(
        [
            _with(each, label_selector=_merged(each.label_selector, "In", each.match_label_keys, labels))
            for each in spec.topology_spread_constraints
        ]
    )
    affinity = spec.affinity
    if affinity is not None:
        affinity = _with(
            affinity,
            pod_affinity=_pod_affinity(affinity.pod_affinity, labels),
            pod_anti_affinity=_pod_affinity(affinity.pod_anti_affinity, labels),
        )
    return _with(spec, topology_spread_constraints=constraints, affinity=affinity)


def _has_label_keys(spec: PodSpec) -> bool:
    affinities = (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else ()
    weighted = [each for affinity in affinities if affinity for each in affinity.preferred]
    terms = [term for affinity in affinities if affinity for term in affinity.required]
    terms += [each.pod_affinity_term for each in weighted]
    return any(each.match_label_keys for each in spec.topology_spread_constraints) or any(
        term.match_label_keys or term.mismatch_label_keys for term in terms
    )


def _pod_affinity(affinity: PodAffinity | None, labels: Mapping[str, str]) -> PodAffinity | None:
    if affinity is None:
        return None
    required = tuple([_term(term, labels) for term in affinity.required])
    preferred = tuple(
        [
            _with(weighted, pod_affinity_term=_term(weighted.pod_affinity_term, labels))
            for weighted in affinity.preferred
        ]
    )
    return _with(affinity, required=required, preferred=preferred)


def _term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _merged(term.label_selector, "In", term.match_label_keys, labels)
    selector = _merged(selector, "NotIn", term.mismatch_label_keys, labels)
    return _with(term, label_selector=selector)


def _merged(
    selector: LabelSelector | None, operator: str, keys: Iterable[str], labels: Mapping[str, str]
) -> LabelSelector | None:
    if selector is None:
        return None
    requirements = [LabelSelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels]
    missing = tuple([item for item in requirements if item not in selector.match_expressions])
    return _with(selector, match_expressions=selector.match_expressions + missing)


def _default_namespace(namespace: Namespace, classes: PriorityClasses) -> Namespace:
    labels = namespace.metadata.labels | {"kubernetes.io/metadata.name": namespace.name}
    return replace(namespace, metadata=replace(namespace.metadata, labels=labels))


def _default_pod_group(group: AnyGroup, classes: PriorityClasses) -> AnyGroup:
    """Set the priority of a pod group from its class (admission plugin Priority)."""
    if group.spec.priority is not None:
        return group
    if group.spec.priority_class_name and group.spec.priority_class_name not in classes:
        _require_priority(group.spec, "spec")
    chosen = _priority_class(group.spec.priority_class_name, classes)
    spec: Any = replace(group.spec, priority=chosen.value if chosen is not None else 0)
    return replace(group, spec=spec)


def _default_template(
    template: PodTemplateSpec, classes: PriorityClasses, *, tolerate: bool
) -> PodTemplateSpec:
    spec = default_pod_spec(template.spec, classes, tolerate=tolerate)
    return replace(template, spec=spec)


def _default_workload(obj: Any, classes: PriorityClasses) -> Any:
    """Set the defaults of a template, and a selector of its labels, as before apps/v1."""
    spec = obj.spec
    # The DaemonSet controller adds tolerations of its own, and admission then finds nothing to add.
    tolerate = not isinstance(obj, DaemonSet)
    template = _default_template(spec.template or PodTemplateSpec(), classes, tolerate=tolerate)
    changes: dict[str, Any] = {"template": template}
    if not (spec.selector or isinstance(obj, Job | ReplicationController | DeploymentConfig)):
        changes["selector"] = LabelSelector(match_labels=template.metadata.labels)
    return replace(obj, spec=replace(spec, **changes))


def decoded_revision(revision: ControllerRevision) -> ControllerRevision:
    """Keep of the data the template of a StatefulSet or a DaemonSet; other controllers have data of their
    own.

    Returns
    -------
    ControllerRevision
        With a PodTemplateSpec, without defaults, or without data.
    """
    owner, data = revision.metadata.controller(), revision.data
    spec = data.get("spec") if isinstance(data, dict) else None
    template = spec.get("template") if isinstance(spec, dict) else None
    if isinstance(template, PodTemplateSpec):
        return revision
    if owner is None or owner.kind not in _REVISIONED or not isinstance(template, dict):
        return replace(revision, data=None)
    try:
        read = decode_template(template)
    except InputError:
        return replace(revision, data=None)
    return replace(revision, data={"spec": {"template": read}})


def _default_revision(revision: ControllerRevision, classes: PriorityClasses) -> ControllerRevision:
    read, owner = decoded_revision(revision), revision.metadata.controller()
    if read is revision or read.data is None or owner is None:
        return read
    template = _default_template(read.data["spec"]["template"], classes, tolerate=owner.kind != "DaemonSet")
    return replace(read, data={"spec": {"template": template}})


def _default_groups(obj: LeaderWorkerSet, classes: PriorityClasses) -> LeaderWorkerSet:
    parts = obj.spec.leader_worker_template
    worker = _default_template(parts.worker_template, classes, tolerate=True)
    leader = parts.leader_template and _default_template(parts.leader_template, classes, tolerate=True)
    parts = replace(parts, worker_template=worker, leader_template=leader)
    return replace(obj, spec=replace(obj.spec, leader_worker_template=parts))


_DEFAULTS: dict[type[Object], Any] = {
    Pod: _default_pod,
    Namespace: _default_namespace,
    ControllerRevision: _default_revision,
    LeaderWorkerSet: _default_groups,
    **dict.fromkeys((PodGroup, CompositePodGroup), _default_pod_group),
    **dict.fromkeys(_WITH_TEMPLATE, _default_workload),
}
"""What the tables do not say of a kind: defaults between fields, and of pods."""
