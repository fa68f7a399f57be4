"""Validates objects: names, and the rules in the annotations of fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, get_args

from msgspec.structs import fields

from moorage._core.base.fields import FieldRules, SpecMemo
from moorage.errors import InputError, shorten

from ..model.field_rules import DNS_LABEL, MAX_DNS_LABEL, Rule, each, is_dns_label
from ..model.meta import Object, Struct
from ..model.other_workloads import CustomObject
from ..model.pod import PodSpec
from ..read.decode import CLUSTER_SCOPED
from .pod_rules import check_pod_spec
from .unknown_fields import KARPENTER

_NAME = re.compile(rf"{DNS_LABEL.pattern}(?:\.{DNS_LABEL.pattern})*")
_MAX_NAME = 253
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
        _check(obj)
    except InputError as error:
        named = f"{obj.kind} {obj.key}".strip()
        raise InputError(shorten(error.message), obj=shorten(named), path=shorten(error.path)) from None
    if f"{obj.api_version}/{obj.kind}" in KARPENTER:
        from .custom_schemas import check_custom  # few clusters have Karpenter

        check_custom(obj)


def is_subdomain(name: str) -> bool:
    """Whether a text is a DNS subdomain, as names of most objects are."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def _check_names(obj: Object) -> None:
    meta = obj.metadata
    name = meta.name or meta.generate_name.rstrip("-.")
    field = "metadata.name" if meta.name else "metadata.generateName"
    namespace_kind = obj.kind == "Namespace"
    if not name:
        raise InputError("required", path="metadata.name")
    limit, pattern = (MAX_DNS_LABEL, DNS_LABEL) if namespace_kind else (_MAX_NAME, _NAME)
    if len(name) > limit:
        raise InputError(f"must not be longer than {limit} characters", path=field)
    if pattern.fullmatch(name) is None:
        what = "label" if namespace_kind else "subdomain"
        raise InputError(f'"{name}" is not a DNS {what}', path=field)
    namespace = "" if obj.kind in CLUSTER_SCOPED else meta.namespace
    if namespace and not _is_namespace(namespace):
        raise InputError(f'"{namespace}" is not a DNS label', path="metadata.namespace")


def _check(value: object) -> None:
    """Check a struct, or all structs of a list or map, including the structs in their fields."""
    if isinstance(value, Struct):
        _rules(type(value)).check(value)
        if type(value).check is not Struct.check:
            value.check()
    elif value and isinstance(value, tuple | dict):
        _check_each(value)


_check_each = each(_check)
_valid_specs = SpecMemo()


def _check_pod_spec(spec: PodSpec) -> None:
    """Check a pod spec, unless one of the same template was checked: no rule reads what differs."""
    if _valid_specs.get(spec) is None:
        _check(spec)
        check_pod_spec(spec)
        _valid_specs.put(spec, True)


@cache
def _rules(struct: type[Struct]) -> FieldRules:
    """The rules of a struct's fields."""
    return FieldRules(_listed_rules(struct))


def _listed_rules(struct: type[Struct]) -> Iterator[tuple[list[str], str, object, Rule]]:
    """Yield the rules of a struct's fields, and those of structs that always are there."""
    default = struct()
    for field in fields(struct):
        rules: list[Rule] = [rule for rule in getattr(field.type, "__metadata__", ()) if callable(rule)]
        absent = getattr(default, field.name)
        is_always_there = isinstance(absent, Struct) and field.type is type(absent)
        if field.type is PodSpec:
            rules.append(_check_pod_spec)
        elif is_always_there and type(absent).check is Struct.check:
            for names, encoded, omitted, rule in _listed_rules(type(absent)):
                yield [field.name, *names], f"{field.encode_name}.{encoded}", omitted, rule
        elif any(len(_rules(part)) or part.check is not Struct.check for part in _structs(field.type)):
            rules.append(_check)
        for rule in rules:
            omitted = absent if _follows(absent, rule) else _NOTHING
            yield [field.name], field.encode_name, omitted, rule


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
