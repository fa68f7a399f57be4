"""Tables of what holds of the fields of Kubernetes' structs: defaults, and rules; and the defaults of structs
of Python."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, get_args

from msgspec import convert
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


@cache
def default_lines() -> Table:
    """Return the defaults of Kubernetes' versions, as JSON texts or one of `QUANTITY_FORMS`."""
    return read_table(pathlib.Path(__file__).with_name("version_defaults.txt"))


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
    for field in fields(struct):
        held, inner = _structs(field.type), known.get(field.encode_name, "").rstrip(LISTS + MAPS)
        names_of_held = [_OF_MANY.get(part.__name__) or inner or part.__name__ for part in held]
        infos.append((field, held, names_of_held))
    return infos


def _structs(type_: Any) -> list[type[Struct]]:
    """The struct classes in the type of a field, for example in ``tuple[Container, ...]``."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        return [type_]
    return [struct for argument in get_args(type_) for struct in _structs(argument)]


class _Defaults(NamedTuple):
    """What is set in a struct: values and amounts of attributes, and what is set in those with structs."""

    values: tuple[tuple[str, Any], ...]
    amounts: tuple[str, ...]
    structs: tuple[tuple[str, _Defaults], ...]
    dependent: Dependent | None


@cache
def _defaults(struct: type[Struct], name: str, more: tuple[FieldLine, ...] = ()) -> _Defaults:
    """The defaults of a struct; those of some releases, and of what controllers write, are left to them."""
    values, amounts, structs = [], [], []
    of_field = dict[str, list[FieldLine]]()
    for line in (*default_lines().get(name, ()), *more):
        first, _, rest = line.name.partition(".")
        if line.when is ALWAYS and first != "status":
            of_field.setdefault(first, []).append(line._replace(name=rest))
    for field, held, names in held_structs(struct, name):
        lines = of_field.get(field.encode_name, ())
        own = [line.text for line in lines if not line.name]
        if "milli" in own:
            amounts.append(field.name)
        elif own and own[0] not in (*QUANTITY_FORMS, _NO_FIELDS):
            values.append((field.name, convert(json.loads(own[0]), field.type)))
        elif held:
            inner = _defaults(held[0], names[0], tuple(line for line in lines if line.name))
            if any(inner):
                structs.append((field.name, inner))
    return _Defaults(tuple(values), tuple(amounts), tuple(structs), DEPENDENT.get(name))


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
    return whole if defaults.dependent is None else with_dependent(whole, defaults.dependent)


# ---- defaults that depend on other fields ------------------------------------------------------------------

Dependent = Callable[[Callable[[str], Any]], dict[str, Any]]
"""Returns what is set in a struct, by the names in JSON; gets what returns the value of a field."""
_MOST = 2**31 - 1


def with_dependent(value: S, defaults: Dependent) -> S:
    """Return a struct with what depends on its other fields; `value` itself if it has that."""
    names = _attributes(type(value))
    missing = defaults(lambda name: getattr(value, names[name]))
    return replace(value, **{names[name]: each for name, each in missing.items()}) if missing else value


@cache
def _attributes(struct: type[Struct]) -> dict[str, str]:
    return {field.encode_name: field.name for field in fields(struct)}


def job_defaults(get: Callable[[str], Any]) -> dict[str, Any]:
    """One completion, a parallelism of 1 and six failures (kubernetes v1.36, SetDefaults_Job)."""
    missing: dict[str, Any] = {}
    if get("parallelism") is None:
        missing = {"parallelism": 1} | ({"completions": 1} if get("completions") is None else {})
    if get("backoffLimit") is None:
        missing["backoffLimit"] = 6 if get("backoffLimitPerIndex") is None else _MOST
    if get("podReplacementPolicy") is None:
        has_policy = get("podFailurePolicy") is not None
        missing["podReplacementPolicy"] = "Failed" if has_policy else "TerminatingOrFailed"
    return missing


def requests_of_limits(get: Callable[[str], Any]) -> dict[str, Any]:
    """Resources of a container in a pod that are limited and not requested are requested."""
    limits, requests = get("limits"), get("requests") or {}
    is_complete = not limits or limits.keys() <= requests.keys()
    return {} if is_complete else {"requests": requests | limits | requests}


def host_port(get: Callable[[str], Any]) -> dict[str, Any]:
    """A port of a pod in the network of the host is the host's, too."""
    return {} if get("hostPort") else {"hostPort": get("containerPort")}


def node_defaults(get: Callable[[str], Any]) -> dict[str, Any]:
    """Pods may take all that a node has."""
    capacity = get("capacity")
    return {"allocatable": dict(capacity)} if capacity and not get("allocatable") else {}


def _count(get: Callable[[str], Any]) -> dict[str, Any]:
    """The number of devices of a request."""
    is_exact = (get("allocationMode") or "ExactCount") == "ExactCount"
    return {"count": 1} if is_exact and not get("count") else {}


DEPENDENT: dict[str, Dependent] = {
    "core.v1.NodeStatus": node_defaults,
    "resource.v1.ExactDeviceRequest": _count,
    "resource.v1.DeviceSubRequest": _count,
}
"""By struct, the defaults that depend on other fields; a Job has some, too, but not that of a CronJob."""
