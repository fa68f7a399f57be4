"""Validates manifests as the API server does: all fields, and all that is wrong at once.

Rules of single fields are in validation_rules.txt, by struct and field; those between fields are functions
beside it. They see the JSON value of a manifest, so that fields count that scheduling does not read.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from ..apiserver.unknown_fields import LISTS, MAPS, fields_of, struct_of
from ..model.admission_policies import KINDS as POLICY_KINDS
from ..read.decode import is_json
from .field_checks import CHECKS, Check, Fault, Json, Rule, is_absent, required


class _Field(NamedTuple):
    """The rules of a field: the text if it has to be there, checks of its value, and whether an empty text is
    one."""

    name: str
    required: str | None
    checks: tuple[Check, ...]
    pointer: bool


class _Plan(NamedTuple):
    """What is checked of a struct: fields, rules between them, and the structs in its fields."""

    fields: tuple[_Field, ...]
    rules: tuple[Rule, ...]
    structs: tuple[tuple[str, str, str], ...]


@cache
def _table() -> dict[str, list[_Field]]:
    """The fields with rules, by struct.

    A line that begins at the margin names a struct; the indented ones after it have a field each, and its
    rules between semicolons: a name of `CHECKS` and its arguments, ``required`` and the text of the error,
    or ``pointer`` where an empty text is as wrong as another.
    """
    table: dict[str, list[_Field]] = {}
    listed: list[_Field] = []
    for line in pathlib.Path(__file__).with_name("validation_rules.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            listed = table.setdefault(line, [])
            continue
        name, _, rules = line.strip().partition(": ")
        text, checks, pointer = None, list[Check](), False
        for rule in rules.split("; "):
            word, *arguments = rule.split()
            if word == "required":
                text = required(" ".join(arguments))
            elif word == "pointer":
                pointer = True
            else:
                checks.append(CHECKS[word](*arguments))
        listed.append(_Field(name, text, tuple(checks), pointer))
    return table


@cache
def _plan(struct: str) -> _Plan:
    from .pod_rules import RULES as OF_PODS  # rules between fields are many, and no dump needs them
    from .scheduling_rules import RULES as OF_SCHEDULING
    from .validation_rules import RULES

    tables = [RULES, OF_PODS, OF_SCHEDULING]
    if struct.startswith("admissionregistration."):
        from .policy.policy_rules import RULES as OF_POLICIES  # they compile expressions

        tables.append(OF_POLICIES)
    rules = tuple([rule for listed in tables for rule in listed.get(struct, ())])
    structs = []
    for name, target in fields_of(struct).items():
        form = target[-2:] if target.endswith((LISTS, MAPS)) else ""
        if target and _has_rules(part := target.removesuffix(form)):
            structs.append((name, part, form))
    return _Plan(tuple(_table().get(struct, ())), rules, tuple(structs))


_seen: set[str] = set()


def _has_rules(struct: str) -> bool:
    """Whether a struct or one in it has rules; those of schemas, which hold themselves, have none."""
    if struct in _seen:
        return False
    _seen.add(struct)
    try:
        return any(_plan(struct))
    finally:
        _seen.discard(struct)


def has_rules(kind: str, api_version: str) -> bool:
    """Whether objects of a kind and version are judged."""
    return f"{_version(kind, api_version)}/{kind}" in _judged()


def _version(kind: str, api_version: str) -> str:
    """Return the version by whose rules a kind is judged: autoscaling/v1 has part of the fields of v2."""
    is_older = (kind, api_version) == ("HorizontalPodAutoscaler", "autoscaling/v1")
    return "autoscaling/v2" if is_older else api_version


@cache
def _judged() -> frozenset[str]:
    """The kinds that are judged, with their versions."""
    from .validation_rules import KINDS

    return frozenset((*KINDS, *(f"{struct().api_version}/{struct.__name__}" for struct in POLICY_KINDS)))


def manifest_causes(text: Any, kind: str, api_version: str) -> list[Fault]:
    """Return what an API server finds wrong with a new object.

    Parameters
    ----------
    text : bytes or dict
        A manifest, as JSON text or value.
    kind, api_version : str
        Those that it has.

    Returns
    -------
    list of Fault
        Fields and texts, each once. What cannot be decoded is alone, and has no field.
    """
    if not has_rules(kind, api_version):
        return []
    value = msgspec.json.decode(text) if is_json(text) else text
    if not isinstance(value, dict):
        return []
    from .validation_rules import as_checked, metadata_causes

    value = as_checked(value, kind) | {"kind": kind}
    causes = _causes(value, struct_of(kind, _version(kind, api_version)), "", value)
    listed = [*dict.fromkeys([*metadata_causes(value, kind), *causes])]
    undecodable = [cause for cause in listed if not cause.field]
    return undecodable[:1] or listed


def _causes(value: Json, struct: str, path: str, root: Json) -> Iterator[Fault]:
    plan = _plan(struct)
    prefix = f"{path}." if path else ""
    for name, text, checks, pointer in plan.fields:
        item = value.get(name)
        if is_absent(item) and not (pointer and item == ""):
            if text is not None:
                yield Fault(prefix + name, text)
            continue
        for check in checks:
            for wrong in check(item):
                yield Fault(prefix + name, wrong)
    for rule in plan.rules:
        yield from rule(value, path, root)
    for name, part, form in plan.structs:
        item = value.get(name)
        if item is None:
            if name != "spec" or path:
                continue
            item = {}
        at = prefix + name
        if form == LISTS and isinstance(item, list):
            for index, each in enumerate(item):
                if isinstance(each, dict):
                    yield from _causes(each, part, f"{at}[{index}]", root)
        elif form == MAPS and isinstance(item, dict):
            for key, each in item.items():
                if isinstance(each, dict):
                    yield from _causes(each, part, f"{at}[{key}]", root)
        elif not form and isinstance(item, dict):
            yield from _causes(item, part, at, root)
