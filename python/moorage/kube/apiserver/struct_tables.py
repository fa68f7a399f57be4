"""Tables of what holds of the fields of Kubernetes' structs: defaults, and rules; and the defaults of structs
of Python."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, get_args

from msgspec import convert, to_builtins
from msgspec.structs import FieldInfo, fields, replace

from moorage.lazy import NamedTuple

from ..model.meta import Object, Struct, in_thousandths
from ..releases import ALWAYS, Condition, split_condition
from .unknown_fields import LISTS, MAPS, fields_of, struct_of

S = TypeVar("S", bound=Struct)
T = TypeVar("T", bound=Object)


class FieldLine(NamedTuple):
    """What is said of a field, and when."""

    name: str
    text: str
    when: Condition


Table = dict[str, list[FieldLine]]
QUANTITY_FORMS = ("quantity", "quantities", "milli")
"""In place of a default: the field has quantities, in their canonical form."""


def read_table(path: pathlib.Path) -> Table:
    """Return what a file says of fields, by struct.

    A line that begins at the margin names structs; the indented ones after it have a field each, a colon,
    and what is said of it; at its end, in which releases and with which gates (see `split_condition`).
    """
    table: Table = {}
    structs = list[list[FieldLine]]()
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            structs = [table.setdefault(struct, []) for struct in line.split()]
            continue
        name, _, text = line.strip().partition(": ")
        for lines in structs:
            lines.append(FieldLine(name, *split_condition(text)))
    return table


class Wanted(NamedTuple):
    """What another field is where a default holds: one of some values, or there if there are none; or not."""

    path: tuple[str, ...]
    values: tuple[str | bool | None, ...]
    is_so: bool

    def holds(self, value: Any) -> bool:
        """Whether it is so in a struct, or in its JSON value."""
        other = value_at(value, self.path)
        is_one = (None if other == "" else other) in self.values
        return (is_one if self.values else other not in (None, "", [], ())) == self.is_so


class Default(NamedTuple):
    """What a field is where it is absent.

    Attributes
    ----------
    path : tuple of str
        The field, by the names in JSON.
    text : str
        JSON, or one of `QUANTITY_FORMS`; "" for the value of `source`.
    source : tuple of str
        The field whose value it has.
    takes_zero : bool
        Whether 0, or what is empty, is as if the field were absent.
    """

    path: tuple[str, ...]
    text: str
    source: tuple[str, ...]
    takes_zero: bool
    wanted: tuple[Wanted, ...]
    when: Condition

    @property
    def is_plain(self) -> bool:
        """Whether it is a value for a field of the struct itself, whatever the others are."""
        return len(self.path) == 1 and not (self.source or self.wanted) and self.text not in QUANTITY_FORMS

    def is_due(self, value: Any) -> bool:
        """Whether a struct, or a map, lacks the field, has its source, and its other fields are as wanted."""
        given = value_at(value, self.path)
        if not (given is None or given == "" or (self.takes_zero and not given)):
            return False
        if self.source and not value_at(value, self.source):
            return False
        return all(wanted.holds(value) for wanted in self.wanted)


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return a field of a struct of Python, or of a map, by the names in JSON; None where there is none."""
    for name in path:
        if isinstance(value, Struct):
            value = getattr(value, fields_by_name(type(value))[name].name)
        else:
            value = None if value is None else value.get(name)
    return value


_WANTED = re.compile(r"; (if|unless) ([\w.]+)((?: \w+)*)$")
_WORDS = {"true": True, "false": False, "absent": None}


def split_wanted(text: str) -> tuple[str, tuple[Wanted, ...]]:
    """Return a line without what it wants of other fields, and that."""
    wanted = list[Wanted]()
    while (match := _WANTED.search(text)) is not None:
        text = text[: match.start()]
        values = tuple(_WORDS.get(word, word) for word in match[3].split())
        wanted.append(Wanted(tuple(match[2].split(".")), values, match[1] == "if"))
    return text, tuple(wanted)


@cache
def default_lines() -> dict[str, list[Default]]:
    """Return the defaults of Kubernetes' versions by struct."""
    table = read_table(pathlib.Path(__file__).with_name("version_defaults.txt"))
    return {struct: [_default(*line) for line in lines] for struct, lines in table.items()}


def _default(name: str, text: str, when: Condition) -> Default:
    text, wanted = split_wanted(text)
    bare = text.removesuffix("; zero")
    source = tuple(bare[2:].split(".")) if bare.startswith("= ") else ()
    return Default(tuple(name.split(".")), "" if source else bare, source, bare != text, wanted, when)


_open: set[str] = set()


def planned_parts(struct: str, plan: Callable[[str], tuple[Any, ...]]) -> tuple[tuple[str, str, str], ...]:
    """Return the fields whose structs, or one in these, something is said of.

    Parameters
    ----------
    plan : callable
        Returns what is said of a struct; empty parts where it is nothing. Schemas, which hold themselves,
        are not asked about again.

    Returns
    -------
    tuple of (str, str, str)
        The field, its struct, and `LISTS`, `MAPS` or "".
    """
    parts = []
    for name, target in fields_of(struct).items():
        form = target[-2:] if target.endswith((LISTS, MAPS)) else ""
        held = target.removesuffix(form)
        if not held or held in _open:
            continue
        _open.add(held)
        try:
            if any(plan(held)):
                parts.append((name, held, form))
        finally:
            _open.discard(held)
    return tuple(parts)


# ---- structs of Python -------------------------------------------------------------------------------------

_NO_FIELDS = "{}"
"""A default that structs of Python have by themselves, or do not need."""
_OF_MANY = {
    "LabelSelector": "meta.v1.LabelSelector",
    "ObjectMeta": "meta.v1.ObjectMeta",
    "PodSpec": "core.v1.PodSpec",
    "PodTemplateSpec": "core.v1.PodTemplateSpec",
    "ReplicaSetSpec": "apps.v1.ReplicaSetSpec",
    "RolloutSpec": "apps.v1.ReplicaSetSpec",
    "Taint": "core.v1.Taint",
}
"""Structs that objects of other projects have, too; their own structs have the names of their classes."""


@cache
def fields_by_name(struct: type[Struct]) -> dict[str, FieldInfo]:
    """Return the fields of a struct by their names in JSON."""
    return {field.encode_name: field for field in fields(struct)}


@cache
def name_of(struct: type[Object]) -> str:
    """Return what the tables call the struct of a kind, in the version that is read."""
    name = struct_of(struct.__name__, struct().api_version)
    return struct.__name__ if not name or "/" in name else name


@cache
def held_structs(struct: type[Struct], name: str) -> list[tuple[FieldInfo, list[type[Struct]], list[str]]]:
    """Return the fields of a struct that Kubernetes calls by a name, with the structs in each, and their
    names."""
    known = fields_of(name) if "." in name else {}
    infos = []
    for field in fields_by_name(struct).values():
        held, inner = structs_in(field.type), known.get(field.encode_name, "").rstrip(LISTS + MAPS)
        names_of_held = [_OF_MANY.get(part.__name__) or inner or part.__name__ for part in held]
        infos.append((field, held, names_of_held))
    return infos


def structs_in(type_: Any) -> list[type[Struct]]:
    """Return the struct classes in the type of a field, for example in ``tuple[Container, ...]``."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        return [type_]
    return [struct for argument in get_args(type_) for struct in structs_in(argument)]


class _Defaults(NamedTuple):
    """What is set in a struct: values and amounts of attributes, what is set in those with structs, and then
    what stands deeper in it, or depends on other fields."""

    values: tuple[tuple[str, Any], ...]
    amounts: tuple[str, ...]
    structs: tuple[tuple[str, _Defaults], ...]
    lines: tuple[tuple[Default, tuple[FieldInfo, ...], Any], ...]


@cache
def _defaults(struct: type[Struct], name: str) -> _Defaults:
    """The defaults of a struct; those of some releases, and of what controllers write, are left to them."""
    lines = [
        line for line in default_lines().get(name, ()) if line.when is ALWAYS and line.path[0] != "status"
    ]
    plain = [line for line in lines if line.is_plain and not line.takes_zero]
    own = {line.path[0]: line.text for line in plain if line.text != _NO_FIELDS}
    amounts = {line.path[0] for line in lines if line.text == "milli"}
    values, structs = list[tuple[str, Any]](), list[tuple[str, _Defaults]]()
    for field, held, names in held_structs(struct, name):
        if field.encode_name in own:
            values.append((field.name, convert(json.loads(own[field.encode_name]), field.type)))
        elif held and any(inner := _defaults(held[0], names[0])):
            structs.append((field.name, inner))
    return _Defaults(
        tuple(values),
        tuple(field.name for field in fields_by_name(struct).values() if field.encode_name in amounts),
        tuple(structs),
        tuple(filter(None, (_line(struct, line) for line in lines if line not in plain))),
    )


def _line(struct: type[Struct], line: Default) -> tuple[Default, tuple[FieldInfo, ...], Any] | None:
    """A line with the fields of its path and its value; None if the struct does not read all that it says."""
    paths = (line.path, line.source or line.path, *(each.path for each in line.wanted))
    if line.text in QUANTITY_FORMS or not all(_fields_on(struct, path) for path in paths):
        return None
    infos = _fields_on(struct, line.path)
    if line.source:
        return line, infos, None
    given = json.loads(line.text)
    value = convert(given, infos[-1].type)
    return (line, infos, value) if to_builtins(value) == given else None


def _fields_on(struct: type[Struct], path: tuple[str, ...]) -> tuple[FieldInfo, ...]:
    """The fields of a path from a struct on; none if it, or one that it holds, lacks its field."""
    infos = []
    for name in path:
        if (info := fields_by_name(struct).get(name)) is None:
            return ()
        infos.append(info)
        struct = next(iter(structs_in(info.type)), Struct)
    return tuple(infos)


def with_defaults(value: S, name: str) -> S:
    """Return a struct with the defaults of version_defaults.txt; `value` itself if it has them.

    Parameters
    ----------
    name : str
        What the tables call the struct, for example ``core.v1.PodSpec``.
    """
    filled: S = _filled(value, _defaults(type(value), name))
    return filled


def with_kind_defaults(obj: T) -> T:
    """Return an object with the defaults of its kind. Kinds of other projects have those that they list:
    nothing is filled in within the templates of the rest."""
    name = name_of(type(obj))
    return with_defaults(obj, name) if "." in name or name in default_lines() else obj


def _filled(value: Any, defaults: _Defaults) -> Any:
    changes: dict[str, Any] = {
        name: default for name, default in defaults.values if getattr(value, name) in (None, "")
    }
    for name in defaults.amounts:
        if (given := getattr(value, name)) and (rounded := in_thousandths(given)) is not given:
            changes[name] = rounded
    for name, inner in defaults.structs:
        if not (given := getattr(value, name)):
            continue
        filled: Any = None
        if not isinstance(given, tuple):
            filled = _filled(given, inner)
        elif len(given) == 1:  # most pods have one container
            item = _filled(given[0], inner)
            filled = given if item is given[0] else (item,)
        else:
            filled = tuple([_filled(item, inner) for item in given])
            filled = given if filled == given else filled
        if filled is not given:
            changes[name] = filled
    whole = replace(value, **changes) if changes else value
    for line, infos, default in defaults.lines:
        if line.is_due(whole):
            whole = _with_field(whole, infos, value_at(whole, line.source) if line.source else default)
    return whole


def _with_field(value: Any, path: tuple[FieldInfo, ...], new: Any) -> Any:
    """Return a struct with a field, in structs that are made where they are absent."""
    first, *rest = path
    if rest:
        held = getattr(value, first.name)
        new = _with_field(structs_in(first.type)[0]() if held is None else held, tuple(rest), new)
    return replace(value, **{first.name: new})


# ---- defaults that depend on other fields ------------------------------------------------------------------

Dependent = Callable[[Callable[[str], Any]], dict[str, Any]]
"""Returns what is set in a struct, by the names in JSON; gets what returns the value of a field."""


def with_dependent(value: S, defaults: Dependent) -> S:
    """Return a struct with what depends on its other fields; `value` itself if it has that."""
    known = fields_by_name(type(value))
    missing = defaults(lambda name: getattr(value, known[name].name))
    return replace(value, **{known[name].name: each for name, each in missing.items()}) if missing else value


def requests_of_limits(get: Callable[[str], Any]) -> dict[str, Any]:
    """Resources of a container in a pod that are limited and not requested are requested."""
    limits, requests = get("limits"), get("requests") or {}
    is_complete = not limits or limits.keys() <= requests.keys()
    return {} if is_complete else {"requests": requests | limits | requests}


def limits_of_item(get: Callable[[str], Any]) -> dict[str, Any]:
    """A default limit of containers is the maximum, and a default request the default limit, then the minimum
    (SetDefaults_LimitRangeItem)."""
    if get("type") != "Container":
        return {}
    default = (get("max") or {}) | (get("default") or {})
    return {
        "default": default,
        "defaultRequest": (get("min") or {}) | default | (get("defaultRequest") or {}),
    }


def host_port(get: Callable[[str], Any]) -> dict[str, Any]:
    """A port of a pod in the network of the host is the host's, too."""
    return {} if get("hostPort") else {"hostPort": get("containerPort")}
