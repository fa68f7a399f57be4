"""Rules of ResourceQuotas and LimitRanges (kubernetes v1.36, pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from moorage._core.base.quantity import Quantity, parse
from moorage.kube.admission.limit_ranges import container_defaults
from moorage.kube.go_texts import go_json
from moorage.kube.model.admission_policies import LimitRange, LimitRangeItem, LimitRangeSpec, ResourceQuota
from moorage.kube.model.meta import Resources

from ..resource_name_rules import COMPUTE, Use, can_exceed, is_counted, is_quota, name_errors

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
        {"ScopeName": one.scope_name, "Operator": one.operator, "Values": [*one.values] or None}
        for one in required
    ]
    field = "spec.scopeSelector.matchExpressions"
    invalid = f"Invalid value: {go_json({'MatchExpressions': shown})}"
    if any(_is_unlimited(one.scope_name, hard) for one in required):
        yield field, f"{invalid}: unsupported scope applied to resource"
    for one in required:
        if one.scope_name in _EXISTS_ONLY and one.operator != "Exists":
            yield f"{field}.operator", f"Invalid value: {go_json(one.operator)}: {_MUST_EXIST}"
        if one.operator in ("In", "NotIn") and not one.values:
            what = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield f"{field}.values", f"Required value: {what}"
        if one.operator in ("Exists", "DoesNotExist") and one.values:
            what = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield f"{field}.values", f"Invalid value: {go_json([*one.values])}: {what}"
    if _in_conflict(one.scope_name for one in required):
        yield field, f"{invalid}: conflicting scopes"


def _resource_errors(amounts: Resources, path: str, use: Use) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the names of resources, and with amounts that have to be integers."""
    for name in sorted(amounts):
        for text in name_errors(name, use):
            yield f"{path}[{name}]", f"Invalid value: {go_json(name)}: {text}"
        if use == "quota" and is_counted(name) and (amount := parse(amounts[name])).milli_value() % 1000:
            yield f"{path}[{name}]", f'Invalid value: "{amount}": must be an integer'


# ---- Limit ranges ------------------------------------------------------------------------------------------

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
