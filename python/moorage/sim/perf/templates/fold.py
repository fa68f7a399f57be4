"""Field names as Go's encoding/json takes them: the exact one first, else one that differs only in case."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_origin

import msgspec


def fold_case(value: Any, type_: Any) -> Any:
    """The value with its keys spelt as the struct `type_` and the structs in it spell theirs.

    scheduler_perf reads its files through encoding/json (sigs.k8s.io/yaml, UnmarshalStrict), and some of them
    count on its tolerance.
    """
    options = get_args(type_)
    if isinstance(value, list) and get_origin(type_) in (tuple, list):
        return [fold_case(item, options[0]) for item in value]
    if not isinstance(value, dict):
        return value
    if get_origin(type_) is dict:
        return {key: fold_case(item, options[1]) for key, item in value.items()}
    candidates: list[Any] = [item for item in (type_, *options) if _is_struct(item)]
    if not candidates:
        return value
    fields, folded = _fields(candidates[0])
    out = {}
    for key, item in value.items():
        name = key if key in fields else folded.get(key.lower(), key)
        out[name] = fold_case(item, fields.get(str(name)))
    return out


@cache
def _fields(struct: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Types by name, and names by their lower-case form."""
    types = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    return types, {name.lower(): name for name in types}


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)
