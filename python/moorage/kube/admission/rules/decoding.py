"""What cannot be decoded: values of wrong types, in all fields of a manifest (k8s.io/apimachinery v0.36).

The types are in field_types.txt. The API server names the first value that it cannot read.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Any

from moorage._core.base.quantity import parse

from ...apiserver.unknown_fields import LISTS, MAPS, fields_of
from ..field_checks import Fault, Json, undecodable

QUANTITIES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_TIME = "2006-01-02T15:04:05Z07:00"
_LEAST, _MAX = {"int32": -(2**31), "int64": -(2**63)}, {"int32": 2**31 - 1, "int64": 2**63 - 1}


@cache
def _types() -> dict[str, str]:
    """The types of fields, by name or by struct and name."""
    types, current = dict[str, str](), ""
    for line in pathlib.Path(__file__).with_name("field_types.txt").read_text().splitlines():
        if line.startswith(" "):
            types |= dict.fromkeys(line.split(), current)
        elif line and not line.startswith("#"):
            current = line
    return types


@cache
def _fields(struct: str) -> dict[str, tuple[str, str, str]]:
    """The fields of a struct whose types are known: the struct in each, the form of its list or map, the
    type."""
    short, types = struct.rpartition(".")[2], _types()
    fields = {}
    for name, target in fields_of(struct).items():
        form = target[-2:] if target.endswith((LISTS, MAPS)) else ""
        held = target.removesuffix(form)
        type_ = "" if held else types.get(f"{short}.{name}") or types.get(name, "")
        if held or type_:
            fields[name] = held, form, type_
    return fields


def decoding_fault(value: Json, struct: str) -> Fault | None:
    """Return the first value of an object that cannot be decoded; None for none.

    Parameters
    ----------
    struct : str
        That of its kind; see `struct_of`.
    """
    for why in _of_struct(value, struct, ()):
        return undecodable(value, why)
    return None


def _of_struct(value: Json, struct: str, path: tuple[str, ...]) -> Iterator[str]:
    fields, short = _fields(struct), struct.rpartition(".")[2]
    item: Any
    for name, item in value.items():
        if item is None or name not in fields:
            continue
        held, form, type_ = fields[name]
        at = *path, name
        if not held:
            yield from _of_type(item, type_, short, at)
            continue
        shown = f"v1.{held.rpartition('.')[2]}"
        if not isinstance(item, list if form == LISTS else dict):
            marks = {LISTS: "[]", MAPS: "map[string]"}
            yield _mismatch(item, short, at, marks.get(form, "") + shown)
            continue
        held_parts: Any = item if form else [item]
        for part in held_parts.values() if form == MAPS else held_parts:
            if isinstance(part, dict):
                yield from _of_struct(part, held, at)
            elif part is not None:
                yield _mismatch(part, short, at, shown)


def _of_type(value: Any, type_: str, struct: str, path: tuple[str, ...]) -> Iterator[str]:
    """Yield why a value is not of a type."""
    if type_.startswith("[]"):
        if not isinstance(value, list):
            yield _mismatch(value, struct, path, type_)
            return
        yield from chain.from_iterable(_of_type(item, type_[2:], struct, path) for item in value)
    elif type_.startswith("map[string]"):
        if not isinstance(value, dict):
            yield _mismatch(value, struct, path, type_)
            return
        inner = type_.removeprefix("map[string]")
        yield from chain.from_iterable(_of_type(item, inner, struct, path) for item in value.values())
    elif value is not None:
        why = _SCALARS[type_](value)
        if why is not None:
            yield why or _mismatch(value, struct, path, "int32" if type_ == "intOrString" else type_)


def _mismatch(value: Any, struct: str, path: tuple[str, ...], type_: str) -> str:
    shown = "string"
    if isinstance(value, bool):
        shown = "bool"
    elif isinstance(value, int | float):
        shown = f"number {value}" if type_.startswith("int") else "number"
    elif isinstance(value, list | dict):
        shown = "array" if isinstance(value, list) else "object"
    return f"json: cannot unmarshal {shown} into Go struct field {struct}.{'.'.join(path)} of type {type_}"


# ---- scalars -----------------------------------------------------------------------------------------------
#
# Each returns None for a value of its type, else the text; "" stands for that of any mismatch.


def _of_kind(kind: type) -> Callable[[Any], str | None]:
    return lambda value: None if isinstance(value, kind) else ""


def _integer(type_: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if is_number and value == int(value) and _LEAST[type_] <= value <= _MAX[type_] else ""

    return check


def _int_or_string(value: Any) -> str | None:
    return None if isinstance(value, str) else _integer("int32")(value)


def _quantity(value: Any) -> str | None:
    if isinstance(value, bool | list | dict):
        return QUANTITIES
    text = str(value)
    try:
        parse(text)
    except ValueError:
        return "unable to parse quantity's suffix" if _QUANTITY.fullmatch(text) else QUANTITIES
    return None


def _time(value: Any) -> str | None:
    if not isinstance(value, str):
        return ""
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return f'parsing time "{value}" as "{_TIME}": cannot parse "{value}" as "2006"'
    return None


_SCALARS: dict[str, Callable[[Any], str | None]] = {
    "bool": _of_kind(bool),
    "string": _of_kind(str),
    "int32": _integer("int32"),
    "int64": _integer("int64"),
    "intOrString": _int_or_string,
    "quantity": _quantity,
    "time": _time,
}
