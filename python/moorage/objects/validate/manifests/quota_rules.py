"""Rules of ResourceQuotas and LimitRanges (kubernetes v1.36, pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from moorage._core.base.quantity import Quantity, parse
from moorage.go_texts import go_json
from moorage.objects.admission.limit_ranges import container_defaults
from moorage.objects.model.admission_policies import (
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    ResourceQuota,
    ScopedResourceSelectorRequirement,
)
from moorage.objects.model.meta import Resources, is_native

from .rule import Breaches, Rule, when

_COMPUTE = {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
_CLAIMS = {"persistentvolumeclaims", "requests.storage"}
_STANDARD = (
    _COMPUTE
    | _CLAIMS
    | {
        *("pods", "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"),
        *("resourcequotas", "replicationcontrollers", "secrets", "configmaps"),
        *("services", "services.nodeports", "services.loadbalancers"),
    }
)
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_OF_PODS = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_LIMITABLE: Mapping[str, set[str]] = {
    **dict.fromkeys(_OF_PODS, _COMPUTE | {"pods"}),
    "BestEffort": {"pods"},
    "VolumeAttributesClass": _CLAIMS,
}
"""By scope, the standard resources of quotas that it knows."""
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = {*_LIMITABLE} - {"PriorityClass", "VolumeAttributesClass"}


def _is_unlimited(scope: str, hard: Resources) -> bool:
    """Whether a quota limits a resource that a scope does not know."""
    named = {name for name in hard if name in _STANDARD or name.startswith(_HUGE_PAGES)}
    return scope in _LIMITABLE and not named <= _LIMITABLE[scope]


def _in_conflict(scopes: Iterable[str]) -> bool:
    names = {*scopes}
    return any(pair <= names for pair in _CONFLICTS)


def _of_scopes(is_broken: Callable[[ResourceQuota], bool]) -> Callable[[ResourceQuota], Breaches]:
    """Return a rule of which a breach shows all scopes."""
    return lambda obj: when(is_broken(obj), go_json([*obj.spec.scopes]))


def _requirements(obj: ResourceQuota) -> tuple[ScopedResourceSelectorRequirement, ...]:
    selector = obj.spec.scope_selector
    return () if selector is None else selector.match_expressions


def _of_selector(is_broken: Callable[[ResourceQuota], bool]) -> Callable[[ResourceQuota], Breaches]:
    """Return a rule of which a breach shows the selector of scopes, as Go writes its struct."""

    def breaches(obj: ResourceQuota) -> Breaches:
        shown = [
            {"ScopeName": one.scope_name, "Operator": one.operator, "Values": [*one.values] or None}
            for one in _requirements(obj)
        ]
        return when(is_broken(obj), go_json({"MatchExpressions": shown}))

    return breaches


# ---- Limit ranges ------------------------------------------------------------------------------------------


def _items(obj: LimitRange) -> Iterator[tuple[int, LimitRangeItem, dict[str, Resources]]]:
    """Yield index, item, and its amounts by field, with what the API server sets before it compares them."""
    for at, item in enumerate(obj.spec.limits):
        limits, requests = item.default, item.default_request
        if item.type == "Container":
            limits, requests = container_defaults(LimitRange(spec=LimitRangeSpec(limits=(item,))))
        yield at, item, {"min": item.min, "max": item.max, "default": limits, "defaultRequest": requests}


def _order(low: str, high: str, field: str, text: str, shows_high: bool = False) -> Rule:
    """Return the rule that one amount of an item is at most another one.

    Parameters
    ----------
    field : str
        The field of an error.
    shows_high : bool, optional
        Whether the value of the error is the other amount.
    """

    def breaches(obj: LimitRange) -> Iterator[tuple[object, ...]]:
        for at, _, amounts in _items(obj):
            for name in sorted(amounts[low].keys() & amounts[high].keys()):
                less, more = parse(amounts[low][name]), parse(amounts[high][name])
                if less > more:
                    yield at, name, more if shows_high else less, less, more

    return Rule("LimitRange", f"spec.limits[{{}}].{field}[{{}}]", breaches, f'Invalid value: "{{}}": {text}')


def _defaults_of_pods(field: str) -> Callable[[LimitRange], Breaches]:
    return lambda obj: [
        (at,) for at, item in enumerate(obj.spec.limits) if item.type == "Pod" and getattr(item, field)
    ]


def _repeated_types(obj: LimitRange) -> Breaches:
    types = [item.type for item in obj.spec.limits]
    return [(at, name) for at, name in enumerate(types) if name in types[:at]]


def _other_types(obj: LimitRange) -> Breaches:
    return [
        (at, item.type)
        for at, item in enumerate(obj.spec.limits)
        if item.type
        and "/" not in item.type
        and item.type not in ("Container", "Pod", "PersistentVolumeClaim")
    ]


def _unbounded_claims(obj: LimitRange) -> Breaches:
    return [
        (at,)
        for at, item in enumerate(obj.spec.limits)
        if item.type == "PersistentVolumeClaim" and "storage" not in item.min | item.max
    ]


def _small_ratios(obj: LimitRange) -> Iterator[tuple[object, ...]]:
    for at, item in enumerate(obj.spec.limits):
        for name, raw in sorted(item.max_limit_request_ratio.items()):
            ratio = parse(raw)
            if ratio < Quantity("1"):
                yield at, name, ratio, ratio


def _large_ratios(obj: LimitRange) -> Iterator[tuple[object, ...]]:
    for at, item in enumerate(obj.spec.limits):
        for name, raw in sorted(item.max_limit_request_ratio.items()):
            least, greatest, ratio = item.min.get(name), item.max.get(name), parse(raw)
            if least is not None and greatest is not None and (low := parse(least).milli_value()):
                most = parse(greatest).milli_value() / low
                if ratio.milli_value() / 1000 > most:
                    yield at, name, ratio, ratio, f"{most:.6f}"


def _unequal_defaults(obj: LimitRange) -> Iterator[tuple[object, ...]]:
    """What cannot be overcommitted is requested as it is limited."""
    for at, _, amounts in _items(obj):
        for name in sorted(amounts["default"].keys() & amounts["defaultRequest"].keys()):
            limit, request = parse(amounts["default"][name]), parse(amounts["defaultRequest"][name])
            can_exceed = is_native(name) and not name.startswith("hugepages-")
            if limit != request and not can_exceed:
                yield at, name, request, limit, request, name


_ITEM = "spec.limits[{}]"
_MIN, _MAX = "min value {} is greater than ", "{} value {{}} is greater than max value {{}}"
_SCOPES = "spec.scopes"
_SELECTOR = "spec.scopeSelector.matchExpressions"

RULES = (
    Rule(
        "ResourceQuota",
        _SCOPES,
        _of_scopes(lambda obj: not {*obj.spec.scopes} <= {*_LIMITABLE}),
        "Invalid value: {}: unsupported scope",
    ),
    Rule(
        "ResourceQuota",
        _SCOPES,
        _of_scopes(lambda obj: any(_is_unlimited(scope, obj.spec.hard) for scope in obj.spec.scopes)),
        "Invalid value: {}: unsupported scope applied to resource",
    ),
    Rule(
        "ResourceQuota",
        _SCOPES,
        _of_scopes(lambda obj: _in_conflict(obj.spec.scopes)),
        "Invalid value: {}: conflicting scopes",
    ),
    Rule(
        "ResourceQuota",
        _SELECTOR,
        _of_selector(
            lambda obj: any(_is_unlimited(one.scope_name, obj.spec.hard) for one in _requirements(obj))
        ),
        "Invalid value: {}: unsupported scope applied to resource",
    ),
    Rule(
        "ResourceQuota",
        f"{_SELECTOR}.operator",
        lambda obj: [
            (go_json(one.operator),)
            for one in _requirements(obj)
            if one.scope_name in _EXISTS_ONLY and one.operator != "Exists"
        ],
        "Invalid value: {}: must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
        "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
        "ResourceQuotaScopeCrossNamespacePodAffinity",
    ),
    Rule(
        "ResourceQuota",
        f"{_SELECTOR}.values",
        lambda obj: [() for one in _requirements(obj) if one.operator in ("In", "NotIn") and not one.values],
        "Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
    ),
    Rule(
        "ResourceQuota",
        f"{_SELECTOR}.values",
        lambda obj: [
            (go_json([*one.values]),)
            for one in _requirements(obj)
            if one.operator in ("Exists", "DoesNotExist") and one.values
        ],
        "Invalid value: {}: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
    ),
    Rule(
        "ResourceQuota",
        _SELECTOR,
        _of_selector(lambda obj: _in_conflict(one.scope_name for one in _requirements(obj))),
        "Invalid value: {}: conflicting scopes",
    ),
    Rule(
        "LimitRange",
        f"{_ITEM}.type",
        _other_types,
        'Invalid value: "{}": must be a standard limit type or fully qualified',
    ),
    Rule("LimitRange", f"{_ITEM}.type", _repeated_types, 'Duplicate value: "{}"'),
    *(
        Rule(
            "LimitRange",
            f"{_ITEM}.{field}",
            _defaults_of_pods(name),
            "Forbidden: may not be specified when `type` is 'Pod'",
        )
        for field, name in (("default", "default"), ("defaultRequest", "default_request"))
    ),
    Rule(
        "LimitRange",
        f"{_ITEM}.limits",
        _unbounded_claims,
        "Required value: either minimum or maximum storage value is required, but neither was provided",
    ),
    _order("min", "max", "min", f"{_MIN}max value {{}}"),
    _order("min", "defaultRequest", "defaultRequest", f"{_MIN}default request value {{}}", True),
    _order("defaultRequest", "max", "defaultRequest", _MAX.format("default request")),
    _order(
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    _order("min", "default", "default", f"{_MIN}default value {{}}"),
    _order("default", "max", "default", _MAX.format("default"), True),
    Rule(
        "LimitRange",
        f"{_ITEM}.maxLimitRequestRatio[{{}}]",
        _small_ratios,
        'Invalid value: "{}": ratio {} is less than 1',
    ),
    Rule(
        "LimitRange",
        f"{_ITEM}.maxLimitRequestRatio[{{}}]",
        _large_ratios,
        'Invalid value: "{}": ratio {} is greater than max/min = {}',
    ),
    Rule(
        "LimitRange",
        f"{_ITEM}.defaultRequest[{{}}]",
        _unequal_defaults,
        'Invalid value: "{}": default value {} must equal to defaultRequest value {} in {}',
    ),
)
