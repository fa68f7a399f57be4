"""Validates objects: names, the rules of their fields, and those between parts of pods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import chain
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta, to_builtins
from msgspec.json import encode
from msgspec.structs import replace

from moorage._core.base.fields import FieldRules, SpecRule
from moorage._core.base.label_syntax import requirement_errors
from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import CONTAINERS_ALONE, pod_requests
from moorage.errors import InputError, located, shorten
from moorage.lazy import lazy_attribute

from ..apiserver.decode import CLUSTER_SCOPED, decode
from ..apiserver.struct_tables import held_structs, name_of
from ..apiserver.unknown_fields import KARPENTER
from ..apiserver.unread_fields import POD_SPEC
from ..field_errors import (
    Fault,
    Json,
    duplicate,
    forbidden,
    invalid,
    not_found,
    part,
    parts,
    required,
    unsupported,
)
from ..model.meta import (
    Object,
    QuantityLike,
    Struct,
    is_dns_label,
    is_native,
    is_subdomain,
    thousandths,
)
from ..model.meta import (
    quantity as check_quantity,
)
from ..model.pod import Pod, PodSpec
from ..model.workload import MIN_PARALLELISM, CustomObject, is_of_kueue
from ..releases import ALWAYS, DEFAULT_GATES
from .field_checks import (
    FieldRule,
    conditional,
    dependent_rules,
    field_rules,
    first_fault,
    format_causes,
    label_faults,
    quantity,
)
from .field_checks import Rule as StructRule

# ---- gated operators ---------------------------------------------------------------------------------------
#
# Refuses tolerations with operators that a feature gate of the API server allows.

GATE = "TaintTolerationComparisonOperators"


def refuse_comparisons(obj: Object) -> None:
    """Refuse an object with tolerations that compare numbers (kubernetes v1.36, ValidateTolerations).

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
            from .rules.scheduling_rules import comparison_errors  # few objects have tolerations

            _refuse(comparison_errors({"operator": toleration.operator}, f"{path}.tolerations[{at}]", {}))


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
REQUESTS = "requests."
QUOTA_OF_CLASS = ".storageclass.storage.k8s.io/"
_STORAGE = {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage"}
_QUOTAS = COMPUTE | _COUNTED | _STORAGE
_CONTAINERS = {"cpu", "memory", "ephemeral-storage"}


def is_quota(name: str) -> bool:
    """Whether a quota has a resource as one of Kubernetes."""
    return name in _QUOTAS or name.startswith((HUGE_PAGES, REQUESTS + HUGE_PAGES))


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
    return not (is_native(name) or name.startswith(REQUESTS) or _syntax_error(REQUESTS + name))


def _syntax_error(name: str) -> str:
    """Return what makes a name no qualified name: its rules are those of label keys."""
    return "; ".join([text for _, _, text in requirement_errors(name, "Exists", ())])


# ---- pod rules ---------------------------------------------------------------------------------------------
#
# Rules between the parts of a pod spec (kubernetes v1.36, pkg/apis/core/validation).

_OVERCOMMITTABLE = ("cpu", "memory")
_OF_PODS = ("cpu", HUGE_PAGES, "memory")
CONTAINERS = ("initContainers", "containers")


@lru_cache(maxsize=4096, typed=True)
def _amount(raw: QuantityLike | None) -> Quantity | None:
    """Return a quantity as the API server rounds it; None for what is none. Specs differ more than these."""
    return None if quantity(raw) is None or raw is None else thousandths(raw)


def pod_spec_faults(spec: Json, path: str) -> Iterator[Fault]:
    """Yield what is wrong between the parts of a pod's spec that scheduling reads.

    The parts may lack their defaults; quantities are compared as the API server rounds them.

    Parameters
    ----------
    spec : dict
        Its JSON value. Each field follows its own rules.
    """
    yield from name_faults(spec, path)
    for name in CONTAINERS:
        for at, container in enumerate(parts(spec, name)):
            if resources := part(container, "resources"):
                field = f"{path}.{name}[{at}].resources"
                yield from unknown_claim_faults(spec, resources, field)
                yield from resource_faults(resources, field, is_pod=True)
    yield from pod_level_faults(spec, path, is_pod=True)


def name_faults(spec: Json, path: str) -> Iterator[Fault]:
    """Yield what is wrong with the names of containers and claims: each pod has one of a name."""
    after = parts(spec, "initContainers")
    seen = {container.get("name") for container in parts(spec, "containers")} if after else set()
    for at, container in enumerate(after):
        if (name := container.get("name")) and name in seen:
            yield Fault(f"{path}.initContainers[{at}].name", duplicate(name))
        seen.add(name)
    yield from claim_faults(spec, path)


def claim_faults(spec: Json, path: str) -> Iterator[Fault]:
    """Yield the claims of a pod or group that name both a claim and a template, or neither."""
    for at, claim in enumerate(parts(spec, "resourceClaims")):
        given = [claim.get(name) is not None for name in ("resourceClaimName", "resourceClaimTemplateName")]
        if sum(given) != 1:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            if all(given):
                why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield Fault(f"{path}.resourceClaims[{at}]", invalid(claim, why))


def unknown_claim_faults(spec: Json, resources: Json, field: str) -> Iterator[Fault]:
    """Yield the claims that are used, and that the pod lacks."""
    if not resources.get("claims"):
        return
    claims = {claim.get("name") for claim in parts(spec, "resourceClaims")}
    listed = f": {', '.join(sorted(map(str, claims)))}" if claims else " which is empty"
    for at, claim in enumerate(parts(resources, "claims")):
        if (name := claim.get("name")) and name not in claims:
            why = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield Fault(f"{field}.claims[{at}]", f"{not_found(name)}: {why}")


def resource_faults(resources: Json, path: str, is_pod: bool) -> Iterator[Fault]:
    """Yield what is wrong with names and amounts of resources; in a pod a limit is the request, too, where
    that is not given."""
    limits = part(resources, "limits")
    requests = (limits if is_pod else {}) | part(resources, "requests")
    huge = [name for name in (*limits, *requests) if name.startswith(HUGE_PAGES)]
    if huge and not (limits | requests).keys() & {*_OVERCOMMITTABLE}:
        yield Fault(path, forbidden("HugePages require cpu or memory"))
    for which, amounts in (("limits", limits), ("requests", requests)):
        for name, given in amounts.items():
            if name in _OVERCOMMITTABLE and not str(given).startswith("-"):
                continue  # any amount will do
            if errors := name_errors(name, "container"):
                yield Fault(f"{path}.{which}[{name}]", invalid(name, errors[-1]))
            amount, field = _amount(given), f"{path}.{which}[{name}]"
            if amount is None:
                continue
            if amount.sign() < 0:
                yield Fault(field, invalid(str(amount), "must be greater than or equal to 0"))
            if not is_native(name) and amount.milli_value() % 1000:
                yield Fault(field, invalid(str(amount), "must be an integer"))
            if name in huge:
                size = quantity(name.removeprefix(HUGE_PAGES))
                units = 0 if size is None else size.milli_value()
                if units <= 0 or amount.milli_value() % units:
                    why = f"{amount} is not positive integer multiple of {name}"
                    yield Fault(field, invalid(str(amount), why))
    for name, given in requests.items():
        if (limited := limits.get(name)) is None or limited == given:
            if limited is None and not can_exceed(name):
                yield Fault(f"{path}.limits", required("Limit must be set for non overcommitable resources"))
            continue
        request, limit = _amount(given), _amount(limited)
        if request is None or limit is None or request == limit or (request < limit and can_exceed(name)):
            continue
        relation = "less than or equal" if can_exceed(name) else "equal"
        why = f"must be {relation} to {name} limit of {limit}"
        yield Fault(f"{path}.requests", invalid(str(request), why))


def pod_level_faults(spec: Json, path: str, is_pod: bool) -> Iterator[Fault]:
    """Yield what is wrong with requests and limits of a whole pod, against those of its containers, with its
    overhead, and with ports of the host."""
    yield from _host_port_faults(spec, path)
    yield from resource_faults({"limits": part(spec, "overhead")}, f"{path}.overhead", is_pod=False)
    resources, field = part(spec, "resources"), f"{path}.resources"
    if not resources:
        return
    if resources.get("claims"):
        yield Fault(f"{field}.claims", forbidden("claims may not be set for Resources at pod-level"))
    yield from unknown_claim_faults(spec, resources, field)
    for which in ("limits", "requests"):
        for name in part(resources, which):
            if not (name.startswith(_OF_PODS) or name_errors(name, "claim")):
                yield Fault(f"{field}.{which}[{name}]", unsupported(name, _OF_PODS))
    total = _sums_of_containers(spec)
    if is_pod:  # requests that it lacks are the sums of the containers'
        sums = {name: str(total[name]) for name in _OVERCOMMITTABLE if name in total}
        resources = resources | {"requests": sums | part(resources, "requests")}
    yield from resource_faults(resources, field, is_pod)
    for name, given in part(resources, "requests").items():
        request, needed = _amount(given), total.get(name)
        if request is not None and needed is not None and needed > request:
            why = f"must be greater than or equal to aggregate container requests of {needed}"
            yield Fault(f"{field}.requests[{name}]", invalid(str(request), why))
    for at, container in enumerate(parts(spec, "containers")):
        for name, given in part(part(container, "resources"), "limits").items():
            own, limit = _amount(given), _amount(part(resources, "limits").get(name))
            if own is not None and limit is not None and own > limit:
                why = f"must be less than or equal to pod limits of {limit}"
                yield Fault(f"{field}.containers[{at}][{name}].limits", invalid(str(own), why))


def _host_port_faults(spec: Json, path: str) -> Iterator[Fault]:
    """Ports of the host that stand twice: containers that run one by one share none."""
    of_pod = set[str]()
    for listed in CONTAINERS:
        for at, container in enumerate(parts(spec, listed)):
            seen = of_pod if listed == "containers" else set[str]()
            for index, port in enumerate(parts(container, "ports")):
                if not (number := port.get("hostPort")):
                    continue
                field = f"{path}.{listed}[{at}].ports[{index}].hostPort"
                key = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{number}"
                if key in seen:
                    yield Fault(field, duplicate(key))
                seen.add(key)
                is_shared = seen is of_pod and spec.get("hostNetwork") is True
                if is_shared and number != port.get("containerPort"):
                    why = "must match `containerPort` when `hostNetwork` is true"
                    yield Fault(field, invalid(number, why))


def _sums_of_containers(spec: Json) -> Mapping[str, Quantity]:
    """Return what the containers of a pod request; what cannot be summed is told at its place."""
    from ..read.object_defaults import with_container_defaults  # few pods have resources of their own

    bare = {name: spec[name] for name in CONTAINERS if spec.get(name)}
    try:
        alone = with_container_defaults(decode(encode(bare), PodSpec))
        return pod_requests(Pod(spec=alone), CONTAINERS_ALONE, resizes=False)
    except (InputError, ValueError):
        return {}


# ---- validate object ---------------------------------------------------------------------------------------

Rule = Callable[[Any], None]
"""Raises an InputError about a value."""
_NOTHING = object()


def validate(obj: Object, before: Object | None = None) -> None:
    """Check one object, before or after `defaults`.

    Checked are the fields that scheduling reads: names, labels, quantities, ranges, enumerations, selectors.
    Types and integer sizes were checked when the object was decoded.

    Parameters
    ----------
    obj : Object
        An object of any kind.
    before : Object, optional
        What the server has, for Karpenter's rules about changes.

    Raises
    ------
    InputError
        The object is invalid; names the object and the field of the first error.
    """
    if isinstance(obj, CustomObject):  # nothing of it is read
        return
    try:
        _check_names(obj)
        _check(name_of(type(obj)), obj)
    except InputError as error:
        named = obj.full_name.strip()
        raise InputError(shorten(error.message), obj=shorten(named), path=shorten(error.path)) from None
    if obj.api_version == "v1" and MIN_PARALLELISM not in obj.metadata.annotations:
        return  # Kubernetes' own kind, as nearly all are
    if f"{obj.api_version}/{obj.kind}" in KARPENTER:
        from ..apiserver.custom_schemas import check_custom  # few clusters have Karpenter

        check_custom(obj, before)
    else:
        check_as_kueue(obj)


def check_as_kueue(obj: Object) -> None:
    """Refuse an object of Kueue's kinds, or a Job, as Kueue does.

    Raises
    ------
    InputError
        It is refused; names the object and the field of the first error.
    """
    annotations = obj.metadata.annotations
    if is_of_kueue(obj) or MIN_PARALLELISM in annotations:
        from .kueue_refusals import refusals  # few clusters have Kueue

        with located(obj=shorten(obj.full_name)):
            _refuse(refusals(obj))


def _check_names(obj: Object) -> None:
    meta = obj.metadata
    is_right = is_dns_label if obj.kind == "Namespace" else is_subdomain
    if not is_right(meta.name or meta.generate_name.rstrip("-.")):
        module = import_module(".rules.validation_rules", __package__)  # nearly all names are right
        given = {"name": meta.name, "generateName": meta.generate_name}
        _refuse(module.name_causes(given, obj.kind, DEFAULT_GATES))
    if meta.namespace and not is_dns_label(meta.namespace) and obj.kind not in CLUSTER_SCOPED:
        _refuse(format_causes("dns1123Label", meta.namespace, "metadata.namespace"))


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise an InputError if a key or a value is not valid for labels."""
    _refuse(label_faults(labels, ""))


def _refuse(faults: Iterable[Fault]) -> None:
    for field, text in faults:
        raise InputError(text, path=field.lstrip("."))


def _check(name: str, value: object) -> None:
    """Check a struct of a name, or all structs of a list or map, including the structs in their fields."""
    if isinstance(value, Struct):
        _rules(type(value), name).check(value)
        if name in _BETWEEN and not isinstance(value, PodSpec):
            # Of a template the labels alone: its spec has rules of its own.
            template: Any = getattr(value, "template", None)
            of_labels = {} if template is None else {"template": replace(template, spec=PodSpec())}
            view = to_builtins(replace(value, **of_labels) if of_labels else value)
            _refuse(chain.from_iterable(rule(view, "", {}) for rule in _rules_between(name)))
    elif value and isinstance(value, tuple | dict):
        for at, item in value.items() if isinstance(value, dict) else enumerate(value):
            try:
                _check(name, item)
            except InputError as error:
                raise error.located(path=f"[{at}]") from None


_BETWEEN = {
    f"{group}.{struct}": module
    for group, module, structs in (
        (
            "apps.v1",
            "workload_rules",
            "DaemonSetSpec DaemonSetUpdateStrategy DeploymentSpec DeploymentStrategy ReplicaSetSpec "
            "StatefulSetSpec StatefulSetUpdateStrategy",
        ),
        ("batch.v1", "job_rules", "JobSpec SuccessPolicyRule"),
        ("core.v1", "quota_rules", "LimitRangeSpec ResourceQuotaSpec"),
        ("core.v1", "workload_rules", "ReplicationControllerSpec"),
        (
            "core.v1",
            "scheduling_rules",
            "NodeSelectorTerm PodAffinityTerm PodOS PodSpec Taint Toleration TopologySpreadConstraint",
        ),
        ("meta.v1", "scheduling_rules", "LabelSelector LabelSelectorRequirement"),
        ("policy.v1", "workload_rules", "PodDisruptionBudgetSpec"),
        (
            "resource.v1",
            "device_rules",
            "DeviceAttribute DeviceClaim DeviceConstraint DeviceSubRequest DeviceToleration "
            "ExactDeviceRequest ResourceSliceSpec",
        ),
        ("scheduling.v1", "workload_rules", "PriorityClass"),
    )
    for struct in structs.split()
} | dict.fromkeys(
    (
        *("scheduling.v1beta1.PodGroup", "scheduling.v1beta1.PodGroupSchedulingPolicy"),
        *("scheduling.v1beta1.PodGroupSpec", "scheduling.v1beta1.DisruptionMode"),
        "scheduling.v1alpha3.CompositePodGroupSchedulingPolicy",
        *("scheduling.v1alpha3.CompositeDisruptionMode", "LeaderWorkerSetSpec"),
    ),
    "group_rules",
)
"""By struct, the module with the rules between fields that objects follow, too."""


@cache
def _rules_between(name: str) -> list[StructRule]:
    """The rules of a struct for objects whose server is not known: of two that exclude each other, the one
    that allows more."""
    module = import_module(f".rules.{_BETWEEN[name]}", __package__)  # most objects have no such struct
    rules = *dependent_rules().get(name, ()), *map(conditional, module.RULES[name])
    listed = [each for each in rules if not each.is_of_new]
    always = [rule for rule, when, _ in listed if when is ALWAYS]
    return always or [each.rule for each in listed[-1:]]


_RELATED = {
    "containers": "containers",
    "init_containers": "initContainers",
    "resource_claims": "resourceClaims",
    "resources": "resources",
    "overhead": "overhead",
    "host_network": "hostNetwork",
    "topology_spread_constraints": "topologySpreadConstraints",
}
"""The fields of a pod's spec that rules compare: attributes, and their names in JSON."""


@SpecRule
def _check_pod_spec(spec: PodSpec) -> None:
    """Check a pod spec; of those of one template the first, as no rule reads what differs."""
    _check(POD_SPEC, spec)
    view = {
        encoded: to_builtins(value) for name, encoded in _RELATED.items() if (value := getattr(spec, name))
    }
    faults = pod_spec_faults(view, "")
    if spec.topology_spread_constraints:  # most pods need no more modules
        faults = chain(faults, *[rule(view, "", {}) for rule in _rules_between(POD_SPEC)])
    _refuse(faults)


@cache
def _rules(struct: type[Struct], name: str) -> FieldRules:
    """The rules of the fields of a struct, which Kubernetes calls by a name."""
    return FieldRules(_listed_rules(struct, name))


class _HeldRules:
    """Checks the structs in a field. Those of one that may be absent are looked at when it is there: most
    objects have few of these."""

    def __init__(self, held: Sequence[type[Struct]], names: Sequence[str]) -> None:
        self._held, self._names = held, names

    @lazy_attribute
    def are_there(self) -> bool:
        """Whether the structs, or those in their fields, have rules."""
        return any(
            name in _BETWEEN
            or any(getattr(rule, "are_there", True) for *_, rule in _listed_rules(struct, name))
            for struct, name in zip(self._held, self._names, strict=True)
        )

    def __call__(self, value: Any) -> None:
        if value and self.are_there:
            _check(self._names[0], value)


def _listed_rules(struct: type[Struct], name: str) -> Iterator[tuple[list[str], str, object, Rule]]:
    """Yield the rules of a struct's fields, and those of structs that always are there."""
    default = struct()
    table: dict[str, list[FieldRule]] = {}
    for row in field_rules().get(name, ()):
        if not row.is_of_new:
            table.setdefault(row.name, []).append(row)
    for field, held, names in held_structs(struct, name):
        absent, listed = getattr(default, field.name), table.get(field.encode_name)
        rules: list[Rule] = [partial(_check_field, listed, absent)] if listed else []
        rules += _rules_of_type(field.type)
        is_always_there = isinstance(absent, Struct) and field.type is type(absent)
        if field.type is PodSpec:
            rules.append(_check_pod_spec)
        elif is_always_there and not rules and names[0] not in _BETWEEN:
            for path, encoded, omitted, rule in _listed_rules(type(absent), names[0]):
                if (name, encoded) != ("core.v1.PodTemplateSpec", "labels"):  # of these a server says no more
                    encoded = f"{field.encode_name}.{encoded}"
                yield [field.name, *path], encoded, omitted, rule
        elif held:
            inner = _HeldRules(held, names)
            rules += [inner] if absent is None or inner.are_there else []
        for rule in rules:
            is_known = not (isinstance(absent, Struct) and names[0] in _BETWEEN)  # these load their rules
            omitted = absent if is_known and _follows(absent, rule) else _NOTHING
            yield [field.name], field.encode_name, omitted, rule


_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def _check_time(text: str | None) -> None:
    if text is None:
        return
    try:
        if _TIMESTAMP.fullmatch(text) is None:
            raise ValueError
        datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f'"{text}" is not a timestamp like 2006-01-02T15:04:05Z') from None


def _check_amounts(amounts: Mapping[str, QuantityLike] | None) -> None:
    for name, amount in (amounts or {}).items():
        with located(path=f"[{name}]"):
            check_quantity(amount)


_OF_TYPES: dict[str, Rule] = {
    "quantity": check_quantity,
    "resources": _check_amounts,
    "time": _check_time,
}


def _rules_of_type(type_: Any) -> Iterator[Rule]:
    """Yield what the type of a field says of its values: amounts and times."""
    if get_origin(type_) is Annotated:
        titles = [item.title for item in type_.__metadata__ if isinstance(item, Meta)]
        yield from (_OF_TYPES[title] for title in titles if title)
    elif get_origin(type_) is not tuple:
        yield from chain.from_iterable(map(_rules_of_type, get_args(type_)))


def _check_field(rules: list[FieldRule], absent: object, value: Any) -> None:
    """Check a field by its rules; one that is empty as an absent one is absent."""
    given = None if value == absent and not value else to_builtins(value)
    if (fault := first_fault(rules, given)) is not None:
        raise InputError(fault.text, path=fault.field.lstrip("."))


def _follows(value: object, rule: Rule) -> bool:
    try:
        rule(value)
    except InputError:
        return False
    return True
