"""What an API server refuses of the kinds of Karpenter and its providers, by the schemas and rules of their
CustomResourceDefinitions, which karpenter_schemas.json has: v1.15.0, and commits for Azure and GCP.

Texts: kube-openapi, pkg/validation/errors, and k8s.io/apiextensions-apiserver, pkg/apiserver (validation,
schema/listtype, schema/cel). A server drops the status of a manifest; only the types there are looked at,
since the conditions decide whether a pool makes nodes.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from moorage.errors import InputError, shorten
from moorage.lazy import NamedTuple

from ..cel.cel_errors import CostError, EvaluationError, begin_work
from ..cel.kubernetes_functions import library
from ..cel.parser import parse
from ..cel.program import Evaluate, Evaluation, compile_expression
from ..cel.standard_functions import matches
from ..cel.type_checker import TypeChecker
from ..cel.values import DYN, of_json
from ..model.meta import Object
from ..plain import plain

Schema = dict[str, Any]
_TYPES = {str: "string", int: "integer", bool: "boolean", float: "number", dict: "object", list: "array"}
_WRONG_TYPE = " in body must be of type "
_ENDS_HERE = ("Unsupported value", "Required value", "Too long", "Too many")
"""What keeps a server from asking the rules."""
_MOST = 10
"""Maximum number of fields that an error names besides the first."""


class FieldProblem(NamedTuple):
    """A field that is refused, and the text of the server."""

    path: str
    text: str


class _File(msgspec.Struct):
    kinds: dict[str, Schema]


@cache
def schemas() -> dict[str, Schema]:
    """The schemas by ``group/version/kind``."""
    text = pathlib.Path(__file__).with_name("karpenter_schemas.json").read_bytes()
    return msgspec.json.decode(text, type=_File).kinds


@cache
def struct_fields(struct: str) -> dict[str, str]:
    """The fields of a struct, as `unknown_fields.fields_of` has them; its name is a kind and a path."""
    kind, *path = struct.split(".properties.")
    schema = schemas()[kind]
    for name in path:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    fields = {} if path else {"metadata": "meta.v1.ObjectMeta"}
    for name, of in schema["properties"].items():
        inner = of.get("items", of)
        target = f"{struct}.properties.{name}" + "[]" * (inner is not of)
        fields.setdefault(name, target if "properties" in inner else "")
    return fields


def check_custom(obj: Object, before: Object | None = None) -> None:
    """Refuse an object as a server does, in its words.

    Parameters
    ----------
    before : Object, optional
        What the server has, for the rules about changes.

    Raises
    ------
    InputError
    """
    name, meta = f"{obj.api_version}/{obj.kind}", obj.metadata
    old = None if before is None else plain(before).get("spec")
    is_manifest = not (meta.uid or meta.resource_version)
    value = plain(obj)
    problems = spec_problems(name, value.get("spec", {}), old, is_manifest or before is not None)
    of_status = _problems(value.get("status", {}), schemas()[name]["properties"].get("status", {}), "status")
    problems += [each for each in of_status if _WRONG_TYPE in each.text and '"null"' not in each.text]
    if problems:
        (path, text), *others = problems
        text += "".join(f"; {field}: {why}" for field, why in others[:_MOST])
        text += f"; and {len(others) - _MOST} more" * (len(others) > _MOST)
        raise InputError(text, obj=shorten(obj.full_name), path=path)


def spec_problems(name: str, spec: Any, before: Any = None, has_rules: bool = True) -> list[FieldProblem]:
    """What a server refuses of the spec of an object.

    Parameters
    ----------
    name : str
        ``group/version/kind``.
    spec, before : object
        JSON values; None where there is no object before.
    has_rules : bool
        Whether the rules of CEL are asked.
    """
    schema = schemas()[name]["properties"]["spec"]
    spec = _with_defaults(spec, schema)
    problems = list(_problems(spec, schema, "spec"))
    if has_rules and not any(text.startswith(_ENDS_HERE) or _WRONG_TYPE in text for _, text in problems):
        problems += _rule_problems(spec, before, schema, "spec")
    return problems


def _with_defaults(value: Any, schema: Schema) -> Any:
    """A value with the defaults that a server sets before it looks at it."""
    if isinstance(value, list):
        return [_with_defaults(item, schema["items"]) for item in value] if "items" in schema else value
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    absent = {name: of["default"] for name, of in known.items() if "default" in of}
    return {
        name: _with_defaults(item, known[name]) if name in known else item
        for name, item in (absent | value).items()
    }


def _problems(value: Any, schema: Schema, path: str) -> Iterator[FieldProblem]:
    """Yield what the schema refuses of a value and of what it has."""
    wanted, kind = schema.get("type"), _TYPES.get(type(value), "null")
    if wanted and kind != wanted and (kind, wanted) != ("integer", "number"):
        text = f'Invalid value: "{kind}": {path}{_WRONG_TYPE}{wanted}: "{kind}"'
        yield FieldProblem(path, text)
        return
    yield from (FieldProblem(path, text) for text in _texts(value, schema, path))
    if isinstance(value, list) and schema.get("x-kubernetes-list-type") == "set":
        for at, item in enumerate(value):
            if value[:at].count(item) == 1:
                yield FieldProblem(f"{path}[{at}]", f"Duplicate value: {_shown(item)}")
    if isinstance(value, dict):
        missing = [name for name in schema.get("required", ()) if name not in value]
        yield from (FieldProblem(f"{path}.{name}", "Required value") for name in missing)
    for item, _, own_schema, step in _parts(value, None, schema):
        yield from _problems(item, own_schema, path + step)


def _parts(value: Any, before: Any, schema: Schema) -> Iterator[tuple[Any, Any, Schema, str]]:
    """Yield items, fields, and entries of maps: what they were before, which is not known of items, their
    schema, and what their path ends with. A server drops what has no schema."""
    if isinstance(value, list) and "items" in schema:
        yield from ((item, None, schema["items"], f"[{at}]") for at, item in enumerate(value))
    elif isinstance(value, dict):
        old = before if isinstance(before, dict) else {}
        for name, item in sorted(value.items()):
            own_schema = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if own_schema is not None:
                yield item, old.get(name), own_schema, f".{name}"


def _texts(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """Yield what the limits of a schema say of a value."""
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(map(_shown, schema["enum"]))
        yield f"Unsupported value: {_shown(value)}: supported values: {supported}"
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            yield f"Too long: may not be more than {schema['maxLength']} bytes"
        if len(value) < schema.get("minLength", 0):
            least = f"{path} in body should be at least {schema['minLength']} chars long"
            yield f"Invalid value: {_shown(value)}: {least}"
        if "pattern" in schema and not matches(value, schema["pattern"]):
            yield f"Invalid value: {_shown(value)}: {path} in body should match '{schema['pattern']}'"
    elif isinstance(value, int):
        for name, is_beyond, words in (("minimum", int.__lt__, "greater"), ("maximum", int.__gt__, "less")):
            if name in schema and is_beyond(value, schema[name]):
                bound = f"{path} in body should be {words} than or equal to {schema[name]}"
                yield f"Invalid value: {value}: {bound}"
    elif isinstance(value, list | dict):
        most = schema.get("maxItems" if isinstance(value, list) else "maxProperties", len(value))
        if len(value) > most:
            yield f"Too many: {len(value)}: must have at most {most} items"


def _shown(value: Any) -> str:
    return shorten(msgspec.json.encode(value).decode())


# ---- rules of CEL ------------------------------------------------------------------------------------------


def _rule_problems(value: Any, before: Any, schema: Schema, path: str) -> Iterator[FieldProblem]:
    """Yield what the rules say of a value and of what it has."""
    for rule in schema.get("x-kubernetes-validations", ()):
        text = _refusal(rule["rule"], rule["message"].strip(), value, before)
        if text:
            yield FieldProblem(path, text)
    for item, item_before, own_schema, step in _parts(value, before, schema):
        yield from _rule_problems(item, item_before, own_schema, path + step)


def _refusal(rule: str, message: str, value: Any, before: Any) -> str:
    """What a server says of a value that a rule refuses; "" for others."""
    if before is None and "oldSelf" in rule:
        return ""
    begin_work()
    try:
        result = _compiled(rule)(Evaluation({"self": of_json(value), "oldSelf": of_json(before)}))
    except (EvaluationError, CostError) as error:
        result = error
    if result is True:
        return ""
    if isinstance(result, Exception):
        return f'Invalid value: "{_TYPES[type(value)]}": {result} evaluating rule: {message}'
    shown = "" if isinstance(value, list | dict) else f" {_shown(value)}:"
    return f"Invalid value:{shown} {message}"


@cache
def _compiled(rule: str) -> Evaluate:
    root = parse(rule)
    TypeChecker(rule, library().functions, {"self": DYN, "oldSelf": DYN}).check(root)
    return compile_expression(root)
