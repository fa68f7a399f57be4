"""Validates objects: names, the rules in the annotations of fields, and those between parts of pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import Any, Literal, NoReturn, get_args

from msgspec import to_builtins
from msgspec.structs import fields, replace

from moorage._core.base.fields import FieldRules, SpecMemo
from moorage._core.base.label_syntax import requirement_errors
from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import CONTAINERS_ALONE, pod_requests
from moorage.errors import InputError, shorten

from ..apiserver.decode import CLUSTER_SCOPED
from ..apiserver.unknown_fields import KARPENTER, LISTS, MAPS, fields_of, struct_of
from ..model.meta import (
    DNS_LABEL,
    MAX_DNS_LABEL,
    MAX_SUBDOMAIN,
    SUBDOMAIN,
    Object,
    QuantityLike,
    Resources,
    Rule,
    Struct,
    in_thousandths,
    is_dns_label,
    is_native,
    thousandths,
)
from ..model.pod import Container, Pod, PodSpec, ResourceRequirements
from ..model.workload import KUEUE, CustomObject
from ..releases import ALWAYS
from .field_checks import FieldRule, conditional, field_rules, first_fault
from .field_checks import Rule as StructRule

# ---- gated operators ---------------------------------------------------------------------------------------
#
# Refuses tolerations with operators that a feature gate of the API server allows.

GATE = "TaintTolerationComparisonOperators"
SUPPORTED = '"Equal", "Exists", "Lt", "Gt"'  # as the API server says it


def refuse_comparisons(obj: Object) -> None:
    """Refuse a manifest with tolerations that compare numbers (kubernetes v1.36, ValidateTolerations).

    Call it where the gate TaintTolerationComparisonOperators is off. Objects of a server, which has accepted
    them, stay.

    Parameters
    ----------
    obj : Object
        Of any kind; pods and templates of pods are looked at.

    Raises
    ------
    InputError
        A toleration has the operator Lt or Gt.
    """
    if obj.metadata.uid or obj.metadata.resource_version:
        return
    for path, spec in _pod_specs(obj):
        for at, toleration in enumerate(spec.tolerations):
            if toleration.operator in ("Lt", "Gt"):
                text = f'Unsupported value: "{toleration.operator}": supported values: {SUPPORTED}'
                where = f"{path}.tolerations[{at}].operator"
                raise InputError(f"{text}. This operator needs the feature gate {GATE}", path=where)


def _pod_specs(obj: Object) -> Iterator[tuple[str, PodSpec]]:
    if isinstance(obj, Pod):
        yield "spec", obj.spec
    template = getattr(getattr(obj, "spec", None), "template", None)
    if isinstance(spec := getattr(template, "spec", None), PodSpec):
        yield "spec.template.spec", spec


# ---- resource name rules -----------------------------------------------------------------------------------
#
# Names of resources, by what counts or limits them (kubernetes v1.36, pkg/apis/core/validation).

Use = Literal["container", "quota", "claim"]
"""What a resource is of, or what counts it."""
HUGE_PAGES = "hugepages-"
COMPUTE = {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
"""Quotas of processors and memory."""
_COUNTED = {
    *("pods", "resourcequotas", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"),
    *("services", "services.nodeports", "services.loadbalancers"),
}
_REQUESTS = "requests."
_STORAGE = {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage"}
_QUOTAS = COMPUTE | _COUNTED | _STORAGE
_CONTAINERS = {"cpu", "memory", "ephemeral-storage"}


def is_quota(name: str) -> bool:
    """Whether a quota has a resource as one of Kubernetes."""
    return name in _QUOTAS or name.startswith((HUGE_PAGES, _REQUESTS + HUGE_PAGES))


def is_counted(name: str) -> bool:
    """Whether amounts of a resource are integers."""
    return name in _COUNTED or is_extended(name)


def can_exceed(name: str) -> bool:
    """Whether a limit may be above the request: the resource can be overcommitted."""
    return is_native(name) and not name.startswith(HUGE_PAGES)


@lru_cache(maxsize=4096)
def name_errors(name: str, use: Use) -> tuple[str, ...]:
    """Return what is wrong with the name of a resource."""
    if text := _syntax_error(name):
        return (text,)
    if "/" in name:
        is_wrong = use == "container" and not (is_native(name) or is_extended(name))
        return ("doesn't follow extended resource name standard",) if is_wrong else ()
    errors = []
    if not (is_quota(name) or name == "storage"):
        errors.append("must be a standard resource type or fully qualified")
    if use == "container" and not (name in _CONTAINERS or name.startswith(HUGE_PAGES)):
        errors.append("must be a standard resource for containers")
    if use == "quota" and not is_quota(name):
        errors.append("must be a standard resource for quota")
    return tuple(errors)


def is_extended(name: str) -> bool:
    """Whether a resource is none of Kubernetes; a quota names it with a prefix, once."""
    return not (is_native(name) or name.startswith(_REQUESTS) or _syntax_error(_REQUESTS + name))


def _syntax_error(name: str) -> str:
    """Return what makes a name no qualified name: its rules are those of label keys."""
    return "; ".join([text for _, _, text in requirement_errors(name, "Exists", ())])


# ---- pod rules ---------------------------------------------------------------------------------------------
#
# Rules between the parts of a pod spec (kubernetes v1.36, pkg/apis/core/validation).

_OVERCOMMITTABLE = ("cpu", "memory")
_OF_PODS = '"cpu", "hugepages-", "memory"'
_quantity = lru_cache(maxsize=4096)(thousandths)  # the specs of a dump differ, but have few quantities


def check_pod_spec(spec: PodSpec) -> None:
    """Check the parts of a pod spec against each other.

    The parts may lack their defaults; quantities are compared as the API server rounds them.

    Parameters
    ----------
    spec : PodSpec
        Each field follows its own rules.

    Raises
    ------
    InputError
        Two parts contradict each other.
    """
    claims, names, ports = _claims(spec), set[str](), set[str]()
    for at, container in enumerate(spec.containers):
        try:
            _check_container(container, claims, names, ports, spec.host_network)
        except InputError as error:
            raise error.located(path=f"containers[{at}]") from None
    for at, container in enumerate(spec.init_containers):
        try:  # they run one by one, and share no ports
            _check_container(container, claims, names, set(), False)
        except InputError as error:
            raise error.located(path=f"initContainers[{at}]") from None
    _check_names_in_spec("overhead.limits", spec.overhead)  # as the API server writes it
    if spec.resources is not None:
        _check_pod_level(spec, spec.resources)
    spreading: dict[tuple[str, str], int] = {}
    for at, constraint in enumerate(spec.topology_spread_constraints):
        key = constraint.topology_key, constraint.when_unsatisfiable
        if key in spreading:
            path = f"topologySpreadConstraints[{spreading[key]}].{{topologyKey, whenUnsatisfiable}}"
            _duplicate(f"{{{key[0]}, {key[1]}}}", path)
        spreading[key] = at


def _claims(spec: PodSpec) -> Set[str]:
    """Return the names of a pod's claims."""
    names: set[str] = set()
    for at, claim in enumerate(spec.resource_claims):
        if claim.name in names:
            _duplicate(claim.name, f"resourceClaims[{at}].name")
        given = claim.resource_claim_name is not None, claim.resource_claim_template_name is not None
        if given == (False, False):
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            raise InputError(text, path=f"resourceClaims[{at}]")
        if given == (True, True):
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            raise InputError(text, path=f"resourceClaims[{at}]")
        names.add(claim.name)
    return names


def _check_container(
    container: Container, claims: Set[str], names: set[str], ports: set[str], host_network: bool
) -> None:
    """Check a container, and add its name and host ports to those before it."""
    if container.name in names:
        _duplicate(container.name, "name")
    if container.name:
        names.add(container.name)
    for at, port in enumerate(container.ports):
        if port.host_port:
            path, key = f"ports[{at}].hostPort", f"{port.protocol or 'TCP'}/{port.host_ip}/{port.host_port}"
            if key in ports:
                _duplicate(key, path)
            ports.add(key)
            if host_network and port.host_port != port.container_port:
                text = "must match `containerPort` when `hostNetwork` is true"
                raise InputError(f"Invalid value: {port.host_port}: {text}", path=path)
    for at, use in enumerate(container.resources.claims):
        if use.name not in claims:
            listed = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            raise InputError(f'Not found: "{use.name}": {text}', path=f"resources.claims[{at}]")
    _check_names_in_spec("resources.limits", container.resources.limits)
    _check_names_in_spec("resources.requests", container.resources.requests)
    _check_resources(container.resources)


def _check_names_in_spec(path: str, amounts: Resources) -> None:
    """Check the names of resources that a container can have."""
    for name in amounts:
        if errors := name_errors(name, "container"):
            raise InputError(
                f'Invalid value: "{shorten(name)}": {errors[-1]}', path=f"{path}[{shorten(name)}]"
            )


def _check_resources(resources: ResourceRequirements) -> None:
    requests, limits = resources.requests, resources.limits
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, raw in amounts.items():
            if not is_native(name) and _quantity(raw).milli_value() % 1000:
                _invalid(raw, "must be an integer", f"resources.{field}[{name}]")
    for name, raw in requests.items():
        if name not in limits:
            if not can_exceed(name):
                text = "Required value: Limit must be set for non overcommitable resources"
                raise InputError(text, path="resources.limits")
        elif (limited := limits[name]) != raw:
            request, limit = _quantity(raw), _quantity(limited)
            if request > limit or (request < limit and not can_exceed(name)):
                relation = "less than or equal" if can_exceed(name) else "equal"
                _invalid(raw, f"must be {relation} to {name} limit of {limit}", "resources.requests")


def _check_pod_level(spec: PodSpec, resources: ResourceRequirements) -> None:
    """Check pod-level resources; requests that they lack are the sums of the containers'."""
    for path, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        for name in amounts:
            if name not in _OVERCOMMITTABLE and not name.startswith(HUGE_PAGES):
                text = f'Unsupported value: "{shorten(name)}": supported values: {_OF_PODS}'
                raise InputError(text, path=f"resources.{path}[{shorten(name)}]")
    total = _requests_of_containers(spec)
    sums: Resources = {name: str(total[name]) for name in _OVERCOMMITTABLE if name in total}
    own = _with_requests(replace(resources, requests=sums | resources.requests))
    _check_resources(own)
    for error in pod_level_errors(spec):
        raise error
    for at, container in enumerate(spec.containers):
        for name, raw in container.resources.limits.items():
            if name in resources.limits and _quantity(raw) > (limit := _quantity(resources.limits[name])):
                path = f"resources.containers[{at}][{name}].limits"  # as the API server writes it
                _invalid(raw, f"must be less than or equal to pod limits of {limit}", path)


def pod_level_errors(spec: PodSpec) -> Iterator[InputError]:
    """Yield an error for each request of a pod that is below those of its containers."""
    if spec.resources is None:
        return
    given, total = _with_requests(spec.resources).requests, _requests_of_containers(spec)
    for name in given:
        if name in total and total[name] > _quantity(given[name]):
            text = f"must be greater than or equal to aggregate container requests of {total[name]}"
            value = shorten(str(given[name]))
            yield InputError(f'Invalid value: "{value}": {text}', path=f"resources.requests[{name}]")


def _requests_of_containers(spec: PodSpec) -> Mapping[str, Quantity]:
    alone = PodSpec(containers=spec.containers, init_containers=spec.init_containers)
    inner = Pod(spec=with_limits_requested(alone))
    return pod_requests(inner, CONTAINERS_ALONE, resizes=False)


def with_limits_requested(spec: PodSpec) -> PodSpec:
    """Return a spec whose containers request their limits of resources that they do not request."""
    containers, init_containers = (
        tuple([replace(container, resources=_with_requests(container.resources)) for container in part])
        for part in (spec.containers, spec.init_containers)
    )
    return replace(spec, containers=containers, init_containers=init_containers)


def _with_requests(resources: ResourceRequirements) -> ResourceRequirements:
    """Default requests to limits, and round them up as the API server does before it adds them."""
    return replace(resources, requests=in_thousandths(resources.limits | resources.requests))


def _invalid(raw: QuantityLike, text: str, path: str) -> NoReturn:
    raise InputError(f'Invalid value: "{_quantity(raw)}": {text}', path=path)


def _duplicate(value: str, path: str) -> NoReturn:
    raise InputError(f'Duplicate value: "{shorten(value)}"', path=path)


# ---- validate object ---------------------------------------------------------------------------------------

_is_namespace = lru_cache(1024)(is_dns_label)
_NOTHING = object()


def validate(obj: Object) -> None:
    """Check one object, before or after `defaults`.

    Checked are the fields that scheduling reads: names, labels, quantities, ranges, enumerations, selectors.
    Types and integer sizes were checked when the object was decoded.

    Parameters
    ----------
    obj : Object
        An object of any kind.

    Raises
    ------
    InputError
        The object is invalid; names the object and the field of the first error.
    """
    if isinstance(obj, CustomObject):  # nothing of it is read
        return
    try:
        _check_names(obj)
        _check(struct_of(obj.kind, obj.api_version) or type(obj).__name__, obj)
    except InputError as error:
        named = obj.full_name.strip()
        raise InputError(shorten(error.message), obj=shorten(named), path=shorten(error.path)) from None
    if f"{obj.api_version}/{obj.kind}" in KARPENTER:
        from ..apiserver.custom_schemas import check_custom  # few clusters have Karpenter

        check_custom(obj)
    elif obj.api_version.startswith(f"{KUEUE}/"):
        from .kueue_refusals import refusals  # few clusters have Kueue

        for text in refusals(obj):
            path, _, message = text.partition(": ")
            raise InputError(message, obj=shorten(obj.full_name), path=path)


def _check_names(obj: Object) -> None:
    meta = obj.metadata
    name = meta.name or meta.generate_name.rstrip("-.")
    field = "metadata.name" if meta.name else "metadata.generateName"
    namespace_kind = obj.kind == "Namespace"
    if not name:
        raise InputError("required", path="metadata.name")
    limit, pattern = (MAX_DNS_LABEL, DNS_LABEL) if namespace_kind else (MAX_SUBDOMAIN, SUBDOMAIN)
    if len(name) > limit:
        raise InputError(f"must not be longer than {limit} characters", path=field)
    if pattern.fullmatch(name) is None:
        what = "label" if namespace_kind else "subdomain"
        raise InputError(f'"{name}" is not a DNS {what}', path=field)
    namespace = "" if obj.kind in CLUSTER_SCOPED else meta.namespace
    if namespace and not _is_namespace(namespace):
        raise InputError(f'"{namespace}" is not a DNS label', path="metadata.namespace")


def _check(name: str, value: object) -> None:
    """Check a struct of a name, or all structs of a list or map, including the structs in their fields."""
    if isinstance(value, Struct):
        _rules(type(value), name).check(value)
        if name in _BETWEEN:
            _check_between(name, value)
        if type(value).check is not Struct.check:
            value.check()
    elif value and isinstance(value, tuple | dict):
        for at, item in value.items() if isinstance(value, dict) else enumerate(value):
            try:
                _check(name, item)
            except InputError as error:
                raise error.located(path=f"[{at}]") from None


_BETWEEN = dict.fromkeys(
    (
        *(f"core.v1.{struct}" for struct in ("NodeSelectorTerm", "PodAffinityTerm", "Toleration")),
        *("core.v1.TopologySpreadConstraint", "meta.v1.LabelSelector", "meta.v1.LabelSelectorRequirement"),
    ),
    "scheduling_rules",
)
"""By struct, the module with the rules between fields that objects follow, too."""


def _check_between(name: str, value: Struct) -> None:
    """Check the fields of a struct against each other."""
    view = to_builtins(value)
    for rule in _rules_between(name):
        for fault in rule(view, "", {}):
            raise InputError(fault.text, path=fault.field.lstrip("."))


@cache
def _rules_between(name: str) -> list[StructRule]:
    module = import_module(f".rules.{_BETWEEN[name]}", __package__)  # most objects have no such struct
    return [rule for rule, when in map(conditional, module.RULES[name]) if when is ALWAYS]


_valid_specs = SpecMemo()


def _check_pod_spec(spec: PodSpec) -> None:
    """Check a pod spec, unless one of the same template was checked: no rule reads what differs."""
    if _valid_specs.get(spec) is None:
        _check(_COMMON["PodSpec"], spec)
        check_pod_spec(spec)
        _valid_specs.put(spec, True)


_COMMON = {
    "LabelSelector": "meta.v1.LabelSelector",
    "ObjectMeta": "meta.v1.ObjectMeta",
    "PodSpec": "core.v1.PodSpec",
    "PodTemplateSpec": "core.v1.PodTemplateSpec",
}
"""Structs that objects of other projects have, too; their own structs have the names of their classes."""


@cache
def _rules(struct: type[Struct], name: str) -> FieldRules:
    """The rules of the fields of a struct, which Kubernetes calls by a name."""
    return FieldRules(_listed_rules(struct, name))


def _listed_rules(struct: type[Struct], name: str) -> Iterator[tuple[list[str], str, object, Rule]]:
    """Yield the rules of a struct's fields, and those of structs that always are there."""
    default, known = struct(), fields_of(name) if "." in name else {}
    table: dict[str, list[FieldRule]] = {}
    for row in field_rules().get(name, ()):
        if not row.is_of_new:
            table.setdefault(row.name, []).append(row)
    for field in fields(struct):
        rules: list[Rule] = [rule for rule in getattr(field.type, "__metadata__", ()) if callable(rule)]
        absent = getattr(default, field.name)
        if listed := table.get(field.encode_name):
            rules.append(partial(_check_field, listed, absent))
        is_always_there = isinstance(absent, Struct) and field.type is type(absent)
        held, inner = _structs(field.type), known.get(field.encode_name, "").rstrip(LISTS + MAPS)
        names = [_COMMON.get(part.__name__) or inner or part.__name__ for part in held]
        if field.type is PodSpec:
            rules.append(_check_pod_spec)
        elif is_always_there and not rules and not _has_rules_between(type(absent), names[0]):
            for path, encoded, omitted, rule in _listed_rules(type(absent), names[0]):
                yield [field.name, *path], f"{field.encode_name}.{encoded}", omitted, rule
        elif any(map(_has_rules, held, names)):
            rules.append(partial(_check, names[0]))
        for rule in rules:
            is_known = not (isinstance(absent, Struct) and names[0] in _BETWEEN)  # these load their rules
            omitted = absent if is_known and _follows(absent, rule) else _NOTHING
            yield [field.name], field.encode_name, omitted, rule


def _has_rules(struct: type[Struct], name: str) -> bool:
    return _has_rules_between(struct, name) or len(_rules(struct, name)) > 0


def _has_rules_between(struct: type[Struct], name: str) -> bool:
    return struct.check is not Struct.check or name in _BETWEEN


def _check_field(rules: list[FieldRule], absent: object, value: Any) -> None:
    """Check a field by its rules; one that is empty as an absent one is absent."""
    given = None if value == absent and not value else to_builtins(value)
    if (fault := first_fault(rules, given)) is not None:
        raise InputError(fault.text, path=fault.field)


def _follows(value: object, rule: Rule) -> bool:
    try:
        rule(value)
    except InputError:
        return False
    return True


def _structs(type_: Any) -> list[type[Struct]]:
    """The struct classes in the type of a field, for example in ``tuple[Container, ...]``."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        return [type_]
    return [struct for argument in get_args(type_) for struct in _structs(argument)]
