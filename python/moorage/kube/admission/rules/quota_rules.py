"""Rules of ResourceQuotas and LimitRanges (kubernetes v1.36, pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moorage._core.base.quantity import Quantity

from ...apiserver.struct_tables import limits_of_item
from ...field_errors import Fault, Json, duplicate, forbidden, invalid, part, parts, required
from ..field_checks import Rules, format_causes, quantity, wrong
from ..validate_object import COMPUTE, Use, can_exceed, is_counted, is_quota, name_errors

# ---- quotas ------------------------------------------------------------------------------------------------

_OF_PODS = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_LIMITABLE: Mapping[str, set[str]] = {
    **dict.fromkeys(_OF_PODS, COMPUTE | {"pods"}),
    "BestEffort": {"pods"},
    "VolumeAttributesClass": {"persistentvolumeclaims", "requests.storage"},
}
"""By scope, the standard resources of quotas that it knows."""
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = {*_LIMITABLE} - {"PriorityClass", "VolumeAttributesClass"}
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _is_unlimited(scope: str, hard: Iterable[str]) -> bool:
    """Whether a quota limits a resource that a scope does not know."""
    return scope in _LIMITABLE and not {*filter(is_quota, hard)} <= _LIMITABLE[scope]


def _in_conflict(scopes: Iterable[str]) -> bool:
    names = {*scopes}
    return any(pair <= names for pair in _CONFLICTS)


def _quota_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Resources that a quota cannot count, and scopes that do not fit together or to what it limits.

    Texts show all scopes as Go writes them.
    """
    hard, scopes = part(spec, "hard"), [*(spec.get("scopes") or ())]
    yield from _amounts_errors(hard, f"{path}.hard", "quota")
    field = f"{path}.scopes"
    if not {*scopes} <= {*_LIMITABLE}:
        yield Fault(field, invalid(scopes, "unsupported scope"))
    if any(_is_unlimited(scope, hard) for scope in scopes):
        yield Fault(field, invalid(scopes, "unsupported scope applied to resource"))
    if _in_conflict(scopes):
        yield Fault(field, invalid(scopes, "conflicting scopes"))
    if isinstance(spec.get("scopeSelector"), dict):
        yield from _scope_errors(parts(spec["scopeSelector"], "matchExpressions"), hard, path)


def _scope_errors(rules: list[Json], hard: Json, path: str) -> Iterator[Fault]:
    field, shown = f"{path}.scopeSelector.matchExpressions", list[dict[str, Any]]()
    for rule in rules:
        name, operator = rule.get("scopeName") or "", rule.get("operator") or ""
        shown.append({"ScopeName": name, "Operator": operator, "Values": rule.get("values") or None})
    whole, names = {"MatchExpressions": shown}, [rule["ScopeName"] for rule in shown]
    if any(_is_unlimited(name, hard) for name in names):
        yield Fault(field, invalid(whole, "unsupported scope applied to resource"))
    for rule in shown:
        name, operator, values = rule["ScopeName"], rule["Operator"], rule["Values"]
        if name not in _LIMITABLE:
            yield Fault(f"{field}.scopeName", invalid(name, "unsupported scope"))
        if name in _EXISTS_ONLY and operator != "Exists":
            yield Fault(f"{field}.operator", invalid(operator, _MUST_EXIST))
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield Fault(f"{field}.values", required(why))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield Fault(f"{field}.values", invalid(values, why))
        else:
            yield Fault(f"{field}.operator", invalid(operator, "not a valid selector operator"))
    if _in_conflict(names):
        yield Fault(field, invalid(whole, "conflicting scopes"))


def _amounts_errors(amounts: Json, path: str, use: Use) -> Iterator[Fault]:
    """Names of resources, and amounts that are below zero, or have to be integers."""
    for name in sorted(amounts):
        field, amount = f"{path}[{name}]", quantity(amounts[name])
        for text in name_errors(name, use):
            yield Fault(field, invalid(name, text))
        if use != "quota" or amount is None:
            continue
        yield from wrong("notNegative", amounts[name], field)
        if is_counted(name) and amount.milli_value() % 1000:
            yield Fault(field, invalid(str(amount), "must be an integer"))


# ---- limit ranges ------------------------------------------------------------------------------------------

_REQUEST, _RATIO = "defaultRequest", "maxLimitRequestRatio"
_ABOVE_LIMIT = "default request value {} is greater than default limit value {}"
_ORDERS = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", _REQUEST, _REQUEST, _REQUEST, "min value {} is greater than default request value {}"),
    (_REQUEST, "max", _REQUEST, _REQUEST, "default request value {} is greater than max value {}"),
    (_REQUEST, "default", _REQUEST, _REQUEST, _ABOVE_LIMIT),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""Amounts of which the first is at most the second; the field, the amount and the text of an error."""
_OF_CONTAINERS = ("Container", "Pod")
_TYPES = (*_OF_CONTAINERS, "PersistentVolumeClaim")


def _limit_range_errors(spec: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Types that are not known or stand twice, and amounts that are not in order."""
    items = parts(spec, "limits")
    types = [item.get("type") or "" for item in items]
    for at, item in enumerate(items):
        field, type_ = f"{path}.limits[{at}]", types[at]
        syntax = [*format_causes("qualifiedName", type_, f"{field}.type")]
        yield from syntax
        if not syntax and "/" not in type_ and type_ not in _TYPES:
            why = "must be a standard limit type or fully qualified"
            yield Fault(f"{field}.type", invalid(type_, why))
        if type_ in types[:at]:
            yield Fault(f"{field}.type", duplicate(type_))
        whole = item | limits_of_item(item.get)
        amounts = {name: part(whole, name) for name in ("max", "min", "default", _REQUEST, _RATIO)}
        for name, values in amounts.items():
            if type_ == "Pod" and values and name in ("default", _REQUEST):
                yield Fault(f"{field}.{name}", forbidden("may not be specified when `type` is 'Pod'"))
            else:
                yield from _amounts_errors(
                    values, f"{field}.{name}", "container" if type_ in _OF_CONTAINERS else "claim"
                )
        if type_ == "PersistentVolumeClaim" and "storage" not in amounts["min"] | amounts["max"]:
            why = "either minimum or maximum storage value is required, but neither was provided"
            yield Fault(f"{field}.limits", required(why))
        yield from (Fault(f"{field}.{name}", text) for name, text in _order_errors(amounts))


def _order_errors(fields: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the amounts of an item, by their fields."""
    for name in sorted(set[str]().union(*fields.values())):
        listed: dict[str, Any] = {field: quantity(values.get(name)) for field, values in fields.items()}
        amounts: dict[str, Quantity] = {field: value for field, value in listed.items() if value is not None}
        for low, high, field, shown, text in _ORDERS:
            if low in amounts and high in amounts and amounts[low] > amounts[high]:
                why = text.format(amounts[low], amounts[high])
                yield f"{field}[{name}]", invalid(str(amounts[shown]), why)
        if (ratio := amounts.get(_RATIO)) is not None:
            field = f"{_RATIO}[{name}]"
            if ratio < Quantity("1"):
                yield field, invalid(str(ratio), f"ratio {ratio} is less than 1")
            if "min" in amounts and "max" in amounts and (least := amounts["min"].milli_value()):
                most = amounts["max"].milli_value() / least
                if ratio.milli_value() / 1000 > most:
                    why = f"ratio {ratio} is greater than max/min = {most:.6f}"
                    yield field, invalid(str(ratio), why)
        limit, request = amounts.get("default"), amounts.get(_REQUEST)
        if limit is not None and request is not None and limit != request and not can_exceed(name):
            why = f"default value {limit} must equal to defaultRequest value {request} in {name}"
            yield f"{_REQUEST}[{name}]", invalid(str(request), why)


RULES: Rules = {
    "core.v1.ResourceQuotaSpec": (_quota_errors,),
    "core.v1.LimitRangeSpec": (_limit_range_errors,),
}
"""By struct, the rules between its fields."""
