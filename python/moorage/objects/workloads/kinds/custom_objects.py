"""Reads objects of kinds that scheduling does not know: what they ask for, and who owns them."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.errors import InputError
from moorage.objects.model.field_rules import whole_number
from moorage.objects.model.meta import Int64, Object, ObjectMeta
from moorage.objects.model.other_workloads import CustomObject, full_kind
from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import MAX_PODS
from moorage.objects.read.decode import decode

from .groups import first, select
from .kind_table import Rule, rule_of
from .kind_values import Values

_CONTAINERS = b'"containers"'
_COUNTS = ("replicas", "parallelism")
_READY = ("readyReplicas", "availableReplicas")


class _Spec(msgspec.Struct, frozen=True):
    replicas: Int64 | None = None


class _Outline(msgspec.Struct, frozen=True):
    metadata: ObjectMeta | None = None
    spec: _Spec = _Spec()


def makes_pods(obj: Object) -> bool:
    """Whether an object is a pod, or a workload that makes pods.

    Parameters
    ----------
    obj : Object
    """
    return isinstance(obj, Pod | CustomObject) or hasattr(getattr(obj, "spec", None), "template")


def read_custom(
    document: bytes | msgspec.Raw | dict[str, Any], kind: str, api_version: str
) -> CustomObject | None:
    """Read an object of a kind that scheduling does not know.

    Parameters
    ----------
    document : dict or bytes
        The object as a JSON value, or its JSON text.
    kind, api_version : str
        Its kind.

    Returns
    -------
    CustomObject or None
        None for an object without a name, from which no pods follow.
    """
    rule = rule_of(full_kind(kind, api_version))
    try:
        found = decode(document, _Outline)
    except InputError:  # of another shape than objects have, or its replicas are no number
        found = _Outline(_metadata(document))
    meta = found.metadata
    if meta is None or not (meta.name or meta.generate_name):
        return None
    made = CustomObject(
        kind=kind,
        api_version=api_version,
        metadata=meta,
        is_namespaced=bool(meta.namespace) or not (meta.uid or meta.resource_version),
    )
    if rule is not None and rule.why_none == "" and not rule.is_read:
        return made
    text = msgspec.json.encode(document) if isinstance(document, dict) else bytes(document)
    if rule is None:
        if not (found.spec.replicas or _CONTAINERS in text):
            return made
        value, text = msgspec.json.decode(text), b""
        wanted, is_exact = _wanted(found.spec, value)
    else:
        value = msgspec.json.decode(text)
        wanted, is_exact = _by_rule(rule, value), rule.is_exact
    ready = _ready(value) if wanted else 0
    return msgspec.structs.replace(made, document=text, wanted=wanted, is_exact=is_exact, ready=ready)


def _metadata(document: Any) -> ObjectMeta | None:
    class Named(msgspec.Struct):
        metadata: ObjectMeta | None = None

    try:
        return decode(document, Named).metadata
    except InputError:
        return None


def _by_rule(rule: Rule, value: Values) -> int:
    """Return how many pods an object of a known kind asks for, if its pods do not follow from it."""
    wanted = 1
    if rule.unless[0] and first(value, rule.unless[0]) in rule.unless[1]:
        return 0
    if rule.sums:
        return min(sum(_enabled(value, path) for path in rule.sums) or 1, MAX_PODS)
    for path in rule.numbers:
        number = first(value, path)
        wanted *= number if isinstance(number, int) and number >= 0 else 1
    return min(wanted, MAX_PODS)


def _enabled(value: Values, path: str) -> int:
    """Return the sum of the numbers at a path; none is counted of a part that is not enabled."""
    inside, _, field = path.rpartition(".")
    parts = (part for _, _, part in select(value, inside) if isinstance(part, dict))
    numbers = [part.get(field) for part in parts if part.get("enabled") is not False]
    return sum(one for one in numbers if isinstance(one, int) and one >= 0)


def _wanted(spec: _Spec, value: Values) -> tuple[int, bool]:
    """Return how many pods an object asks for, and whether it gives the number."""
    if found := _in_templates(value.get("spec")):
        return min(found, MAX_PODS), spec.replicas is not None
    return min(max(spec.replicas or 0, 0), MAX_PODS), True


def _in_templates(value: Any) -> int:
    """Return the number of pods of all templates in a value: one for each, times the replicas around it."""
    total, pending = 0, [(value, 1)]
    while pending:
        item, times = pending.pop()
        if isinstance(item, list):
            pending += [(part, times) for part in item]
        elif isinstance(item, dict):
            for field in _COUNTS:
                count = item.get(field)
                times *= count if isinstance(count, int) and count >= 0 else 1
            for key, part in item.items():
                if key.lower().endswith("template") and _is_template(part):
                    total += times
                else:
                    pending.append((part, times))
    return total


def _is_template(value: Any) -> bool:
    spec = value.get("spec") if isinstance(value, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return isinstance(containers, list) and bool(containers)


def _ready(value: Values) -> int:
    """Return the number of replicas that the status of an object calls ready."""
    status = value.get("status")
    status = status if isinstance(status, dict) else {}
    numbers = [status.get(field) for field in _READY]
    scale = status.get("scale")
    if isinstance(scale, dict):  # ready/all, as OpenTelemetryCollectors have it
        ready = str(scale.get("statusReplicas", "")).partition("/")[0]
        numbers.append(whole_number(ready) or 0)
    return max([number for number in numbers if isinstance(number, int)], default=0)
