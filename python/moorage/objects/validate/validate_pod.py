"""Validation of pod specs; called by `validate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NoReturn, TypeVar

from moorage._core.base.quantity import Quantity, parse_value
from moorage._core.base.selectors import decimal_integer, field_requirement_error, requirement_error
from moorage.errors import InputError
from moorage.objects.model.meta import LabelSelector, QuantityLike, Resources
from moorage.objects.model.pod import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelectorTerm,
    PersistentVolumeClaimSpec,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from moorage.objects.read.decode import shorten

VOLUME_MODES = ("Filesystem", "Block")
_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION_POLICIES = ("Honor", "Ignore")
_MAX_PORT = 65535
_EXCERPT = 80
_LABEL_VALUE = "at most 63 of letters, digits, -, _ and ., with a letter or digit at both ends"

T = TypeVar("T")


def fail(path: str, message: str) -> NoReturn:
    """Raise an InputError about a field.

    Parameters
    ----------
    path : str
        The field, for errors.
    message : str
    """
    raise InputError(message, path=path)


def check_enum(value: str | None, allowed: tuple[str, ...], path: str, *, required: bool = False) -> None:
    """Check that a field has one of some values.

    Parameters
    ----------
    value : str or None
        Empty values are allowed unless `required`.
    allowed : tuple of str
    path : str
        The field, for errors.
    required : bool
    """
    if value in allowed or (not value and not required):
        return
    fail(path, f'must be one of {", ".join(allowed)}, not "{value or ""}"')


def check_range(value: int | None, low: int, high: int | None, path: str) -> None:
    """Check that a number is in a range.

    Parameters
    ----------
    value : int or None
        None is allowed.
    low : int
    high : int or None
        None is no upper bound.
    path : str
        The field, for errors.
    """
    if value is None or (value >= low and (high is None or value <= high)):
        return
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"
    fail(path, f"must be {bounds}, not {value}")


@lru_cache(maxsize=65536)
def _label_error(key: str, value: str) -> str | None:
    if requirement_error(key, "In", (value,), node=False) is None:
        return None
    if requirement_error(key, "Exists", (), node=False) is not None:
        return f'"{shorten(key, _EXCERPT)}" is not a label key'
    return f'"{shorten(value, _EXCERPT)}" is not a label value: {_LABEL_VALUE}'


def check_labels(labels: dict[str, str] | None, path: str) -> None:
    """Check keys and values of labels.

    Parameters
    ----------
    labels : dict of str to str, or None
    path : str
        The field, for errors.
    """
    for key, value in (labels or {}).items():
        error = _label_error(key, value)
        if error is not None:
            fail(f"{path}[{key}]", error)


def check_resources(resources: Resources, path: str) -> None:
    """Check the quantities of resources.

    Parameters
    ----------
    resources : dict of str to quantity
    path : str
        The field, for errors.
    """
    for name, raw in resources.items():
        check_quantity(raw, f"{path}[{name}]")


def check_quantity(raw: QuantityLike, path: str) -> None:
    """Check that a quantity can be parsed and is not negative.

    Parameters
    ----------
    raw : str, int or float
    path : str
        The field, for errors.
    """
    error = _quantity_error(raw)
    if error is not None:
        fail(path, error)


def _quantity_error(raw: QuantityLike) -> str | None:
    try:
        parse_value(raw)
    except ValueError as error:
        return f'"{raw}" is not a quantity: {error}'
    negative = raw.startswith("-") if isinstance(raw, str) else raw < 0
    return f"must not be negative, not {raw}" if negative and Quantity(raw).sign() < 0 else None


def check_selector(selector: LabelSelector | None, path: str) -> None:
    """Check a label selector.

    Parameters
    ----------
    selector : LabelSelector or None
        None is allowed.
    path : str
        The field, for errors.
    """
    if selector is None:
        return
    check_labels(selector.match_labels, f"{path}.matchLabels")
    for i, requirement in enumerate(selector.match_expressions):
        error = requirement_error(requirement.key, requirement.operator, requirement.values, node=False)
        if error is not None:
            fail(f"{path}.matchExpressions[{i}]", error)


def check_pod_spec(spec: PodSpec, path: str) -> None:
    """Check all fields of a pod spec that scheduling reads.

    Parameters
    ----------
    spec : PodSpec
    path : str
        Field of the spec in its object, for errors.

    Raises
    ------
    InputError
        With the field's path, which begins with `path`.
    """
    if spec.resource_claims:
        fail(f"{path}.resourceClaims", "dynamic resource allocation is not supported")
    if not spec.containers:
        fail(f"{path}.containers", "a pod needs at least one container")
    _check_each(spec.containers, _check_container, f"{path}.containers")
    _check_each(spec.init_containers, _check_container, f"{path}.initContainers")
    check_resources(spec.overhead, f"{path}.overhead")
    if spec.resources is not None:
        _check_requirements(spec.resources, f"{path}.resources")
    check_labels(spec.node_selector, f"{path}.nodeSelector")
    if spec.affinity is not None:
        _check_affinity(spec.affinity, f"{path}.affinity")
    _check_each(spec.tolerations, _check_toleration, f"{path}.tolerations")
    _check_each(spec.topology_spread_constraints, _check_spread, f"{path}.topologySpreadConstraints")
    _check_each(spec.volumes, _check_volume, f"{path}.volumes")
    if spec.scheduling_group is not None and not spec.scheduling_group.pod_group_name:
        fail(f"{path}.schedulingGroup.podGroupName", "required")
    check_enum(spec.restart_policy, _RESTART_POLICIES, f"{path}.restartPolicy")
    check_enum(spec.preemption_policy, PREEMPTION_POLICIES, f"{path}.preemptionPolicy")


def _check_each(items: Iterable[T], check: Callable[[T, str], None], path: str) -> None:
    for i, item in enumerate(items):
        check(item, f"{path}[{i}]")


def _check_container(container: Container, path: str) -> None:
    _check_requirements(container.resources, f"{path}.resources")
    if container.ports:
        _check_each(container.ports, _check_port, f"{path}.ports")
    check_enum(container.restart_policy, _RESTART_POLICIES, f"{path}.restartPolicy")


def _check_requirements(resources: ResourceRequirements, path: str) -> None:
    if resources.requests:
        check_resources(resources.requests, f"{path}.requests")
    if resources.limits:
        check_resources(resources.limits, f"{path}.limits")


def _check_volume(volume: Volume, path: str) -> None:
    if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.claim_name:
        fail(f"{path}.persistentVolumeClaim.claimName", "required")
    template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
    if template is not None:
        check_claim_spec(template.spec, f"{path}.ephemeral.volumeClaimTemplate.spec")


def check_claim_spec(spec: PersistentVolumeClaimSpec, path: str) -> None:
    """Check the spec of a claim.

    Parameters
    ----------
    spec : PersistentVolumeClaimSpec
    path : str
        The field, for errors.
    """
    check_resources(spec.resources.requests, f"{path}.resources.requests")
    check_access_modes(spec.access_modes, f"{path}.accessModes")
    check_enum(spec.volume_mode, VOLUME_MODES, f"{path}.volumeMode")
    check_selector(spec.selector, f"{path}.selector")


def check_access_modes(modes: tuple[str, ...], path: str) -> None:
    """Check the access modes of a volume or claim.

    Parameters
    ----------
    modes : tuple of str
    path : str
        The field, for errors.
    """
    for i, mode in enumerate(modes):
        check_enum(mode, _ACCESS_MODES, f"{path}[{i}]", required=True)


def _check_port(port: ContainerPort, path: str) -> None:
    check_range(port.container_port, 1, _MAX_PORT, f"{path}.containerPort")
    check_range(port.host_port, 0, _MAX_PORT, f"{path}.hostPort")
    check_enum(port.protocol, _PROTOCOLS, f"{path}.protocol")


def _check_toleration(toleration: Toleration, path: str) -> None:
    check_enum(toleration.operator, _OPERATORS, f"{path}.operator")
    check_enum(toleration.effect, EFFECTS, f"{path}.effect")
    if not toleration.key and toleration.operator != "Exists":
        fail(f"{path}.operator", "must be Exists when the key is empty")
    if toleration.operator in ("Lt", "Gt") and decimal_integer(toleration.value) is None:
        fail(f"{path}.value", "must be a valid decimal integer in canonical form")


def _check_spread(constraint: TopologySpreadConstraint, path: str) -> None:
    check_range(constraint.max_skew, 1, None, f"{path}.maxSkew")
    _check_topology_key(constraint.topology_key, path)
    check_enum(constraint.when_unsatisfiable, _UNSATISFIABLE, f"{path}.whenUnsatisfiable", required=True)
    check_range(constraint.min_domains, 1, None, f"{path}.minDomains")
    check_enum(constraint.node_affinity_policy, _INCLUSION_POLICIES, f"{path}.nodeAffinityPolicy")
    check_enum(constraint.node_taints_policy, _INCLUSION_POLICIES, f"{path}.nodeTaintsPolicy")
    check_selector(constraint.label_selector, f"{path}.labelSelector")


def _check_topology_key(key: str, path: str) -> None:
    if not key:
        fail(f"{path}.topologyKey", "required")
    error = _label_error(key, "")
    if error is not None:
        fail(f"{path}.topologyKey", error)


def _check_affinity(affinity: Affinity, path: str) -> None:
    if affinity.node_affinity is not None:
        _check_node_affinity(affinity.node_affinity, f"{path}.nodeAffinity")
    if affinity.pod_affinity is not None:
        _check_pod_affinity(affinity.pod_affinity, f"{path}.podAffinity")
    if affinity.pod_anti_affinity is not None:
        _check_pod_affinity(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def _check_node_affinity(affinity: NodeAffinity, path: str) -> None:
    if affinity.required is not None:
        terms = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        if not affinity.required.node_selector_terms:
            fail(terms, "at least one term is required")
        _check_each(affinity.required.node_selector_terms, check_node_term, terms)
    for i, preferred in enumerate(affinity.preferred or ()):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        check_range(preferred.weight, 1, 100, f"{at}.weight")
        check_node_term(preferred.preference, f"{at}.preference")


def check_node_term(term: NodeSelectorTerm, path: str) -> None:
    """Check a term of a node selector.

    Parameters
    ----------
    term : NodeSelectorTerm
    path : str
        The field, for errors.
    """
    for i, requirement in enumerate(term.match_expressions):
        error = requirement_error(requirement.key, requirement.operator, requirement.values, node=True)
        if error is not None:
            fail(f"{path}.matchExpressions[{i}]", error)
    for i, requirement in enumerate(term.match_fields):
        error = field_requirement_error(requirement.key, requirement.operator, requirement.values)
        if error is not None:
            fail(f"{path}.matchFields[{i}]", error)


def _check_pod_affinity(affinity: PodAffinity, path: str) -> None:
    required = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    _check_each(affinity.required, _check_pod_term, required)
    for i, preferred in enumerate(affinity.preferred):
        at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        check_range(preferred.weight, 1, 100, f"{at}.weight")
        _check_pod_term(preferred.pod_affinity_term, f"{at}.podAffinityTerm")


def _check_pod_term(term: PodAffinityTerm, path: str) -> None:
    _check_topology_key(term.topology_key, path)
    check_selector(term.label_selector, f"{path}.labelSelector")
    check_selector(term.namespace_selector, f"{path}.namespaceSelector")
