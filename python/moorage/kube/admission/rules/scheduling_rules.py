"""Rules of selectors, affinity, tolerations and spread constraints (kubernetes v1.36,
pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage._core.base.selectors import LabelSelectorMatcher, decimal_integer

from ...apiserver.decode import decode
from ...field_errors import Fault, Json, duplicate, forbidden, invalid, parts, required, unsupported
from ...model.meta import LabelSelector
from ..field_checks import Rules, during, format_causes, label_faults, wrong, wrong_choice

_NEEDED = "must be specified when `operator` is 'In' or 'NotIn'"
_NOT_NEEDED = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_OPERATOR = "not a valid selector operator"
_LISTING, _EXISTING = ("In", "NotIn"), ("Exists", "DoesNotExist")

# ---- selectors ---------------------------------------------------------------------------------------------


def _requirement_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A requirement of a selector of labels; those of metrics are not looked at."""
    if ".metrics[" in path:
        return
    operator, values = value.get("operator"), value.get("values") or []
    if operator in _LISTING and not values:
        yield Fault(f"{path}.values", required(_NEEDED))
    elif operator in _EXISTING and values:
        yield Fault(f"{path}.values", forbidden(_NOT_NEEDED))
    elif operator not in (*_LISTING, *_EXISTING):
        yield Fault(f"{path}.operator", invalid(operator or "", _OPERATOR))
    yield from format_causes("qualifiedName", value.get("key") or "", f"{path}.key")
    for at, text in enumerate(values):
        yield from format_causes("labelValue", text, f"{path}.values[{at}]")


def _selector_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    if ".metrics[" not in path:
        yield from label_faults(value.get("matchLabels"), f"{path}.matchLabels")


def selector_causes(selector: Json) -> list[Fault]:
    """Return what is wrong with a selector of labels."""
    causes = [*_selector_errors(selector, "", {})]
    for at, rule in enumerate(parts(selector, "matchExpressions")):
        causes += _requirement_errors(rule, f".matchExpressions[{at}]", {})
    return causes


def selects(selector: Json, labels: Json) -> bool:
    """Whether a selector without errors matches labels."""
    return bool(LabelSelectorMatcher(decode(selector, LabelSelector)).matches(labels))


def _node_term_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A term of a selector of nodes."""
    for at, rule in enumerate(parts(value, "matchExpressions")):
        field, operator, values = (
            f"{path}.matchExpressions[{at}]",
            rule.get("operator"),
            rule.get("values") or [],
        )
        if operator in ("Gt", "Lt"):
            if len(values) != 1:
                why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield Fault(f"{field}.values", required(why))
            rule = rule | {"operator": "In", "values": values[:1] or ["0"]}
        yield from _requirement_errors(rule, field, {})
    for at, rule in enumerate(parts(value, "matchFields")):
        field, operator, values = f"{path}.matchFields[{at}]", rule.get("operator"), rule.get("values") or []
        if operator not in _LISTING:
            yield Fault(f"{field}.operator", invalid(operator or "", _OPERATOR))
        elif len(values) != 1:
            why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield Fault(f"{field}.values", required(why))
        if rule.get("key") == "metadata.name":
            for index, name in enumerate(values):
                yield from format_causes("dns1123Subdomain", name, f"{field}.values[{index}]")
        else:
            yield Fault(f"{field}.key", invalid(rule.get("key") or "", "not a valid field selector key"))


# ---- affinity ----------------------------------------------------------------------------------------------


def _pod_term_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    for name in value.get("namespaces") or ():
        yield from format_causes("dns1123Label", name, f"{path}.namespace")
    other = value.get("mismatchLabelKeys") or ()
    for at, key in enumerate(value.get("matchLabelKeys") or ()):
        if key in other:
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield Fault(f"{path}.matchLabelKeys[{at}]", invalid(key, why))


# ---- taints, tolerations and spreading -----------------------------------------------------------------

_ALL = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def _taint_errors(taint: Json, path: str, _root: Json) -> Iterator[Fault]:
    field, effect = path.replace("spec.", "metadata.", 1), taint.get("effect") or ""  # as the server says it
    yield from format_causes("qualifiedName", taint.get("key") or "", f"{field}.key")
    yield from format_causes("labelValue", taint.get("value") or "", f"{field}.value")
    yield from wrong_choice(effect, f"{field}.effect", "NoSchedule", "PreferNoSchedule", "NoExecute")


def _toleration_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    key, operator = value.get("key") or "", value.get("operator") or "Equal"
    text, effect = value.get("value") or "", value.get("effect") or ""
    if not key and operator != "Exists":
        yield Fault(f"{path}.operator", invalid(value.get("operator") or "", _ALL))
    if operator in ("Lt", "Gt") and decimal_integer(text) is None:
        yield Fault(f"{path}.value", invalid(text, "must be a valid decimal integer in canonical form"))
    if value.get("tolerationSeconds") is not None and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield Fault(f"{path}.effect", invalid(effect, why))
    if operator == "Equal":
        yield from format_causes("labelValue", text, f"{path}.operator")
    elif operator == "Exists" and text:
        why = "value must be empty when `operator` is 'Exists'"
        yield Fault(f"{path}.operator", invalid(text, why))


def comparison_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A toleration that compares numbers; a server lists these operators as supported all the same."""
    if (operator := value.get("operator")) in ("Lt", "Gt"):
        yield Fault(f"{path}.operator", unsupported(operator, ("Equal", "Exists", "Lt", "Gt")))


def _spread_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    least, when = value.get("minDomains"), value.get("whenUnsatisfiable") or ""
    if isinstance(least, int) and when != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        yield Fault(f"{path}.minDomains", invalid(least, why))


def _pod_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """Constraints of spreading that stand twice."""
    seen: dict[tuple[Any, Any], int] = {}
    for at, constraint in enumerate(parts(value, "topologySpreadConstraints")):
        pair = constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")
        if pair in seen:
            field = f"{path}.topologySpreadConstraints[{seen[pair]}].{{topologyKey, whenUnsatisfiable}}"
            yield Fault(field, duplicate(f"{{{pair[0]}, {pair[1]}}}"))
        seen[pair] = at


def _system_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """The operating system of a pod; one that is not known is told at the struct, not at its name."""
    if system := value.get("name"):
        yield from wrong("in", system, path, "linux", "windows")


RULES: Rules = {
    "meta.v1.LabelSelector": (_selector_errors,),
    "meta.v1.LabelSelectorRequirement": (_requirement_errors,),
    "core.v1.NodeSelectorTerm": (_node_term_errors,),
    "core.v1.PodAffinityTerm": (_pod_term_errors,),
    "core.v1.Taint": (_taint_errors,),
    "core.v1.Toleration": (
        _toleration_errors,
        during("since 1.35; off TaintTolerationComparisonOperators", comparison_errors),
    ),
    "core.v1.TopologySpreadConstraint": (_spread_errors,),
    "core.v1.PodOS": (_system_errors,),
    "core.v1.PodSpec": (_pod_errors,),
}
"""By struct, the rules between its fields."""
