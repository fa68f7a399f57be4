"""Checks a new or changed object by all rules of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from moorage._core.base.quantity import Quantity, parse
from moorage.errors import InputError

from ..go_texts import go_json
from ..model.autoscaling import HorizontalPodAutoscaler
from ..model.meta import LabelSelector, Object, Resources, is_dns_label, percent
from ..model.policy import LimitRange, LimitRangeItem, LimitRangeSpec, ResourceQuota
from ..model.workload import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    unselected,
)
from ..plain import plain
from .job_rules import cron_job_errors, job_errors
from .pod_requests import container_defaults
from .validate_object import COMPUTE, Use, can_exceed, is_counted, is_quota, name_errors, validate

# ---- quota rules -------------------------------------------------------------------------------------------
#
# Rules of ResourceQuotas and LimitRanges (kubernetes v1.36, pkg/apis/core/validation).

_OF_PODS = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_LIMITABLE: Mapping[str, set[str]] = {
    **dict.fromkeys(_OF_PODS, COMPUTE | {"pods"}),
    "BestEffort": {"pods"},
    "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
}
"""By scope, the standard resources of quotas that it knows."""
_OF_CONTAINERS = ("Container", "Pod")
_TYPES = (*_OF_CONTAINERS, "PersistentVolumeClaim")
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = {*_LIMITABLE} - {"PriorityClass", "VolumeAttributesClass"}
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _is_unlimited(scope: str, hard: Resources) -> bool:
    """Whether a quota limits a resource that a scope does not know."""
    return scope in _LIMITABLE and not {*filter(is_quota, hard)} <= _LIMITABLE[scope]


def _in_conflict(scopes: Iterable[str]) -> bool:
    names = {*scopes}
    return any(pair <= names for pair in _CONFLICTS)


def quota_errors(obj: ResourceQuota) -> Iterator[tuple[str, str]]:
    """Yield resources that a quota cannot count, and scopes that do not fit together or to what it limits.

    Texts show all scopes as Go writes them.
    """
    hard, scopes, selector = obj.spec.hard, obj.spec.scopes, obj.spec.scope_selector
    yield from _resource_errors(hard, "spec.hard", "quota")
    field, invalid = "spec.scopes", f"Invalid value: {go_json([*scopes])}"
    if not {*scopes} <= {*_LIMITABLE}:
        yield field, f"{invalid}: unsupported scope"
    if any(_is_unlimited(scope, hard) for scope in scopes):
        yield field, f"{invalid}: unsupported scope applied to resource"
    if _in_conflict(scopes):
        yield field, f"{invalid}: conflicting scopes"
    if selector is None:
        return
    required = selector.match_expressions
    shown = [
        {"ScopeName": rule.scope_name, "Operator": rule.operator, "Values": [*rule.values] or None}
        for rule in required
    ]
    field = "spec.scopeSelector.matchExpressions"
    invalid = f"Invalid value: {go_json({'MatchExpressions': shown})}"
    if any(_is_unlimited(rule.scope_name, hard) for rule in required):
        yield field, f"{invalid}: unsupported scope applied to resource"
    for rule in required:
        if rule.scope_name in _EXISTS_ONLY and rule.operator != "Exists":
            yield f"{field}.operator", f"Invalid value: {go_json(rule.operator)}: {_MUST_EXIST}"
        if rule.operator in ("In", "NotIn") and not rule.values:
            what = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield f"{field}.values", f"Required value: {what}"
        if rule.operator in ("Exists", "DoesNotExist") and rule.values:
            what = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield f"{field}.values", f"Invalid value: {go_json([*rule.values])}: {what}"
    if _in_conflict(rule.scope_name for rule in required):
        yield field, f"{invalid}: conflicting scopes"


def _resource_errors(amounts: Resources, path: str, use: Use) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the names of resources, and with amounts that have to be integers."""
    for name in sorted(amounts):
        for text in name_errors(name, use):
            yield f"{path}[{name}]", f"Invalid value: {go_json(name)}: {text}"
        if use == "quota" and is_counted(name) and (amount := parse(amounts[name])).milli_value() % 1000:
            yield f"{path}[{name}]", f'Invalid value: "{amount}": must be an integer'


# ---- limit ranges ------------------------------------------------------------------------------------------

_REQUEST, _RATIO = "defaultRequest", "maxLimitRequestRatio"
_ORDERS = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", _REQUEST, _REQUEST, _REQUEST, "min value {} is greater than default request value {}"),
    (_REQUEST, "max", _REQUEST, _REQUEST, "default request value {} is greater than max value {}"),
    (
        _REQUEST,
        "default",
        _REQUEST,
        _REQUEST,
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""Amounts of which the first is at most the second; the field, the amount and the text of an error."""


def limit_range_errors(obj: LimitRange) -> Iterator[tuple[str, str]]:
    """Yield types that are not known or stand twice, and amounts that are not in order."""
    types = [item.type for item in obj.spec.limits]
    for at, item in enumerate(obj.spec.limits):
        path = f"spec.limits[{at}]"
        if item.type and "/" not in item.type and item.type not in _TYPES:
            text = "must be a standard limit type or fully qualified"
            yield f"{path}.type", f'Invalid value: "{item.type}": {text}'
        if item.type in types[:at]:
            yield f"{path}.type", f'Duplicate value: "{item.type}"'
        fields = _completed(item)
        for field, amounts in fields.items():
            if item.type == "Pod" and amounts and field in ("default", _REQUEST):
                yield f"{path}.{field}", "Forbidden: may not be specified when `type` is 'Pod'"
            else:
                use: Use = "container" if item.type in _OF_CONTAINERS else "claim"
                yield from _resource_errors(amounts, f"{path}.{field}", use)
        if item.type == "PersistentVolumeClaim" and "storage" not in item.min | item.max:
            text = "either minimum or maximum storage value is required, but neither was provided"
            yield f"{path}.limits", f"Required value: {text}"
        for field, text in _amount_errors(fields):
            yield f"{path}.{field}", text


def _completed(item: LimitRangeItem) -> dict[str, Resources]:
    """Return the amounts of an item by their fields, after the API server has set defaults."""
    limits, requests = item.default, item.default_request
    if item.type == "Container":
        limits, requests = container_defaults(LimitRange(spec=LimitRangeSpec(limits=(item,))))
    fields = {"max": item.max, "min": item.min, "default": limits, _REQUEST: requests}
    return fields | {_RATIO: item.max_limit_request_ratio}


def _amount_errors(fields: Mapping[str, Resources]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the amounts of an item, by their fields."""
    for name in sorted(set[str]().union(*fields.values())):
        amounts = {field: parse(values[name]) for field, values in fields.items() if name in values}
        for low, high, field, shown, text in _ORDERS:
            if low in amounts and high in amounts and amounts[low] > amounts[high]:
                text = text.format(amounts[low], amounts[high])
                yield f"{field}[{name}]", f'Invalid value: "{amounts[shown]}": {text}'
        if (ratio := amounts.get(_RATIO)) is not None:
            field, invalid = f"{_RATIO}[{name}]", f'Invalid value: "{ratio}": ratio {ratio} is'
            if ratio < Quantity("1"):
                yield field, f"{invalid} less than 1"
            if "min" in amounts and "max" in amounts and (least := amounts["min"].milli_value()):
                most = amounts["max"].milli_value() / least
                if ratio.milli_value() / 1000 > most:
                    yield field, f"{invalid} greater than max/min = {most:.6f}"
        limit, request = amounts.get("default"), amounts.get(_REQUEST)
        if limit is not None and request is not None and limit != request and not can_exceed(name):
            text = f"default value {limit} must equal to defaultRequest value {request} in {name}"
            yield f"{_REQUEST}[{name}]", f'Invalid value: "{request}": {text}'


# ---- workload rules ----------------------------------------------------------------------------------------
#
# Rules of workloads whose pods never end, and of what scales them (kubernetes v1.36, pkg/apis/apps,
# pkg/apis/autoscaling).

_DEADLINE = 600
"""Default of the seconds in which a rollout has to progress."""


def _template(obj: Any) -> PodTemplateSpec:
    template: PodTemplateSpec | None = obj.spec.template
    return PodTemplateSpec() if template is None else template


def _number(value: int | str | None) -> int | None:
    return percent(value) if isinstance(value, str) else value


def selector_errors(obj: Deployment | ReplicaSet | StatefulSet | DaemonSet) -> Iterator[tuple[str, str]]:
    """Yield that a selector is empty or missing. One that is missing matches no pod, as the API server finds,
    too."""
    if obj.spec.selector is None:
        if not isinstance(obj, DaemonSet):
            yield "spec.selector", "Required value"
        yield "spec.template.metadata.labels", unselected(_template(obj).metadata.labels)
    elif obj.spec.selector == LabelSelector():
        kind = type(obj).__name__.lower()
        kind = "deployment" if kind == "replicaset" else kind  # as the API server calls it
        yield "spec.selector", f"Invalid value: {{}}: empty selector is invalid for {kind}"


def replication_controller_errors(obj: ReplicationController) -> Iterator[tuple[str, str]]:
    """Yield that a selector has labels that the template does not have."""
    labels, selector = _template(obj).metadata.labels, obj.spec.selector
    if not (selector or labels):
        yield "spec.selector", "Required value"
    elif selector and not selector.items() <= labels.items():
        yield "spec.template.metadata.labels", unselected(labels)


def container_errors(obj: Any) -> Iterator[tuple[str, str]]:
    """Yield that a template has no container."""
    if not _template(obj).spec.containers:
        yield "spec.template.spec.containers", "Required value"


def lasting_pod_errors(obj: Any) -> Iterator[tuple[str, str]]:
    """Yield what would end pods that have to last."""
    spec = _template(obj).spec
    if spec.restart_policy not in ("", "Always"):
        text = f'Unsupported value: "{spec.restart_policy}": supported values: "Always"'
        yield "spec.template.spec.restartPolicy", text
    if spec.active_deadline_seconds is not None:
        kind = "ReplicaSet" if isinstance(obj, Deployment) else type(obj).__name__
        text = f"Forbidden: activeDeadlineSeconds in {kind} is not Supported"
        yield "spec.template.spec.activeDeadlineSeconds", text


def deployment_errors(obj: Deployment) -> Iterator[tuple[str, str]]:
    """Yield what no rollout gets through: it may neither add a pod first nor remove one first, or has to end
    before new pods are ready."""
    rolling, field = obj.spec.strategy.rolling_update, "spec.strategy.rollingUpdate"
    if rolling is not None and obj.spec.strategy.type == "Recreate":
        yield field, "Forbidden: may not be specified when strategy `type` is 'Recreate'"
    elif rolling is not None and _number(rolling.max_surge) == 0 and _number(rolling.max_unavailable) == 0:
        shown = go_json(rolling.max_unavailable)
        yield f"{field}.maxUnavailable", f"Invalid value: {shown}: may not be 0 when `maxSurge` is 0"
    given = obj.spec.progress_deadline_seconds
    deadline, field = _DEADLINE if given is None else given, "spec.progressDeadlineSeconds"
    if deadline < 0:
        yield field, f"Invalid value: {deadline}: must be greater than or equal to 0"
    if deadline <= obj.spec.min_ready_seconds:
        yield field, f"Invalid value: {deadline}: must be greater than minReadySeconds"


def stateful_set_errors(obj: StatefulSet) -> Iterator[tuple[str, str]]:
    """Yield names that no host can have, and steps of an update that replaces no pods."""
    for field, name in (("metadata.name", obj.name), ("spec.serviceName", obj.spec.service_name)):
        if not name or is_dns_label(name):
            continue
        from ..cel.text_formats import format_errors  # few names are wrong

        for text in format_errors("dns1123Label", name):
            yield field, f"Invalid value: {go_json(name)}: {text}"
    rolling = obj.spec.update_strategy.rolling_update
    if rolling is not None and obj.spec.update_strategy.type == "OnDelete":
        shown = go_json({"Partition": rolling.partition, "MaxUnavailable": None})
        text = f"Invalid value: {shown}: only allowed for updateStrategy 'RollingUpdate'"
        yield "spec.updateStrategy.rollingUpdate", text


def autoscaler_errors(obj: HorizontalPodAutoscaler) -> Iterator[tuple[str, str]]:
    """Yield bounds of replicas that are not positive, or not in order."""
    greatest = obj.spec.max_replicas
    least = 1 if obj.spec.min_replicas is None else obj.spec.min_replicas
    if least < 1:
        yield "spec.minReplicas", f"Invalid value: {least}: must be greater than or equal to 1"
    if greatest < 1:
        yield "spec.maxReplicas", "Required value: must be set and greater than 0"
    if greatest < least:
        text = f"Invalid value: {greatest}: must be greater than or equal to `minReplicas`"
        yield "spec.maxReplicas", text


def priority_class_errors(obj: PriorityClass) -> Iterator[tuple[str, str]]:
    """Yield that a name begins with ``system-``, as only those of the API server itself do."""
    if obj.name.startswith("system-") and obj.name not in ("system-node-critical", "system-cluster-critical"):
        text = "priority class names with 'system-' prefix are reserved for system use only"
        known = f"{obj.name} is not a known system priority class"
        yield "metadata.name", f"Forbidden: {text}. error: {known}"


# ---- check manifest ----------------------------------------------------------------------------------------

_LASTING = (container_errors, lasting_pod_errors)
_RULES: Mapping[type[Object], tuple[Callable[[Any], Iterator[tuple[str, str]]], ...]] = {
    Deployment: (selector_errors, *_LASTING, deployment_errors),
    ReplicaSet: (selector_errors, *_LASTING),
    StatefulSet: (selector_errors, *_LASTING, stateful_set_errors),
    DaemonSet: (selector_errors, *_LASTING),
    ReplicationController: (replication_controller_errors, *_LASTING),
    HorizontalPodAutoscaler: (autoscaler_errors,),
    Job: (container_errors, job_errors),
    CronJob: (cron_job_errors,),
    ResourceQuota: (quota_errors,),
    LimitRange: (limit_range_errors,),
    PriorityClass: (priority_class_errors,),
}
"""By kind, what yields fields that the API server refuses, with its texts. Objects have no defaults yet."""


def check_new(obj: Object, text: bytes) -> None:
    """Check a manifest of a change by all its fields, also those that are not read.

    Parameters
    ----------
    obj : Object
        As it was decoded.
    text : bytes
        Its JSON text.

    Raises
    ------
    InputError
        It is refused. The text has all causes.
    """
    from .manifest_validation import manifest_causes  # only changes are judged

    wrong = manifest_causes(text, obj.kind, obj.api_version)
    causes, known = [": ".join(cause) for cause in wrong], {cause.field for cause in wrong}
    with suppress(InputError, ValueError):  # what is wrong already may keep these rules from being asked
        for cause in _causes(obj):
            if cause.partition(": ")[0] not in known:
                causes.append(cause)
    refuse([*dict.fromkeys(causes)])
    validate(obj)


_ONLY_NEW = ("Required value", "Forbidden: cannot be set on create")


def check_applied(old: Object, changed: Object, text: bytes) -> None:
    """Check what becomes of an object when a manifest is applied, also fields that are not read.

    Of these only what the manifest has is known: that it lacks one is no error, and what was wrong before is
    none either.

    Parameters
    ----------
    old, changed : Object
        Before and after.
    text : bytes
        The manifest.

    Raises
    ------
    InputError
        It is refused. The text has all causes.
    """
    from .manifest_validation import manifest_causes  # only changes are judged

    kind, version = changed.kind, changed.api_version
    value = _with_fields(plain(changed), msgspec.json.decode(text))
    known = {cause.field for cause in manifest_causes(plain(old), kind, version)}
    causes = [
        cause
        for cause in manifest_causes(value, kind, version)
        if cause.field not in known and not cause.text.startswith(_ONLY_NEW)
    ]
    refuse([": ".join(cause) for cause in causes])


def _with_fields(value: Any, manifest: Any) -> Any:
    """Return a value with the fields of a manifest that it lacks; items of lists are known by their names."""
    if isinstance(value, dict) and isinstance(manifest, dict):
        own = {name: _with_fields(item, manifest.get(name)) for name, item in value.items()}
        return {name: item for name, item in manifest.items() if item is not None} | own
    if isinstance(value, list) and isinstance(manifest, list):
        named = {item.get("name"): item for item in manifest if isinstance(item, dict) and item.get("name")}
        return [
            _with_fields(item, named.get(item.get("name"))) if isinstance(item, dict) else item
            for item in value
        ]
    return value


def check_unread(document: Any, kind: str, api_version: str) -> None:
    """Check a manifest of a kind that is not read; the parameters are those of `check_new`.

    Raises
    ------
    InputError
        It is refused.
    """
    from .manifest_validation import manifest_causes  # only changes are judged

    refuse([": ".join(cause) for cause in manifest_causes(document, kind, api_version)])


def check_manifest(obj: Object, before: Object | None = None) -> None:
    """Check an object as the API server does that creates or changes it.

    Objects that are in a cluster have passed these rules once, and are not looked at.

    Parameters
    ----------
    obj : Object
        Valid (see `validate`), without defaults.
    before : Object, optional
        What it changes. The API server has accepted what is wrong with that as well.

    Raises
    ------
    InputError
        It is refused. The text has all causes, in the order of the rules.
    """
    known = () if before is None else {*_causes(before)}
    refuse([cause for cause in dict.fromkeys(_causes(obj)) if cause not in known])


def refuse(causes: list[str]) -> None:
    """Raise an InputError about all causes, if there are any."""
    if len(causes) == 1:
        path, _, text = causes[0].partition(": ")
        raise InputError(text, path=path)
    if causes:
        raise InputError(f"[{', '.join(causes)}]")


def _causes(obj: Object) -> Iterator[str]:
    """Yield field and text of what is wrong."""
    for rules in _RULES.get(type(obj), ()):
        yield from (f"{field}: {text}" for field, text in rules(obj))
