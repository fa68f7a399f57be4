"""Copies of objects with some fields changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields, replace

from moorage.errors import InputError, shorten

from .model.meta import Object, Struct
from .validate.validate_object import validate

S = TypeVar("S", bound=Struct)

_STEP = re.compile(r"""\.?([A-Za-z_]\w*)|\[(\d+)\]|\[(["'])(.+?)\3\]|\[([^\]]+)\]""")
_KEY_OF_MAP = re.compile(
    r"\b((?:labels|annotations|matchLabels|nodeSelector|requests|limits|capacity|allocatable|overhead))"
    r"\.([^\[\]]*[./][^\[\]]*)$"
)


def edit(obj: S, changes: Mapping[str, Any] | None = None, /, **paths: Any) -> S:
    """Return a copy of an object with some fields changed; the object itself stays as it is.

    A path names fields as manifests do (or as attributes), items of lists by their index and entries of maps
    by their key: ``spec.nodeName``, ``spec.containers[0].resources.requests.cpu``,
    ``metadata.labels[topology.kubernetes.io/zone]``. Structs on the way that are not set are made; an index
    one beyond a list appends to it. A value is a struct, or JSON values as in a manifest.

    Parameters
    ----------
    changes : mapping of str to object, optional
        Path to the new value.
    **paths : object
        The same, for paths that are names: ``edit(node, spec={"unschedulable": True})``.

    Returns
    -------
    Object
        An edited object is validated.

    Raises
    ------
    InputError
        A path names no field, a value has the wrong type, or the result is not valid; the error names the
        field.

    Examples
    --------
    >>> edit(pod, {"spec.priority": 10, "metadata.labels.tier": "web"})  # doctest: +SKIP
    """
    edited: Any = obj
    for path, value in {**(changes or {}), **paths}.items():
        try:
            edited = _set(edited, type(edited), _steps(path), value)
        except InputError as error:
            told = InputError(error.message + _in_brackets(path), obj=error.obj, path=error.path)
            raise told.located(obj=_label(obj), path=shorten(path, 120)) from None
    if isinstance(edited, Object):
        validate(edited)
    result: S = edited
    return result


def _label(obj: Struct) -> str:
    return f"{obj.kind} {obj.key}" if isinstance(obj, Object) else type(obj).__name__


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str | int, ...]:
    """Return the names, keys and indexes of a path."""
    steps: list[str | int] = []
    at = 0
    while at < len(path) or not steps:
        match = _STEP.match(path, at)
        if match is None:
            raise InputError(f"is not a path: there is no name at character {at + 1}")
        name, index, _, quoted, key = match.groups()
        steps.append(int(index) if index else name or quoted or key)
        at = match.end()
    return tuple(steps)


def _in_brackets(path: str) -> str:
    """How an error goes on about a path that has a key of a map with dots or slashes outside brackets."""
    match = _KEY_OF_MAP.search(path)
    return f"; write {match[1]}[{match[2]}]" if match else ""


def _set(value: Any, type_: Any, steps: tuple[str | int, ...], new: Any) -> Any:
    """Return a value with what the steps name replaced."""
    if not steps:
        return _converted(new, type_)
    step, rest = steps[0], steps[1:]
    kinds = _alternatives(type_)
    struct = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct)), None)
    if struct is not None:
        if step not in (known := _fields(struct)):
            raise InputError(f'unknown field "{step}" of {struct.__name__}')
        name, type_ = known[step]
        value = struct() if value is None else value
        return replace(value, **{name: _set(getattr(value, name), type_, rest, new)})
    for kind in kinds:
        items = get_args(kind)
        if get_origin(kind) is dict:
            entries = dict(value or {})
            entries[str(step)] = _set(entries.get(str(step)), items[1], rest, new)
            return entries
        if get_origin(kind) is tuple:
            return _set_item(tuple(value or ()), items[0], step, rest, new)
    raise InputError(f'has no field "{step}"')


def _set_item(
    value: tuple[Any, ...], type_: Any, step: str | int, rest: tuple[str | int, ...], new: Any
) -> Any:
    """Return a list with an item replaced or appended."""
    if not isinstance(step, int) or step > len(value):
        raise InputError(f"has {len(value)} items: [{step}] is not one of them")
    old = value[step] if step < len(value) else None
    return (*value[:step], _set(old, type_, rest, new), *value[step + 1 :])


@cache
def _fields(struct: type[Struct]) -> dict[str | int, tuple[str, Any]]:
    """Attributes of a struct and their types, by their names in manifests and in Python; msgspec evaluates
    the annotations whenever it is asked."""
    listed = fields(struct)
    return {key: (field.name, field.type) for field in listed for key in (field.name, field.encode_name)}


@cache
def _alternatives(type_: Any) -> tuple[Any, ...]:
    """Return the types of a union, without annotations and None."""
    if get_origin(type_) is Annotated:
        return _alternatives(get_args(type_)[0])
    if get_origin(type_) in (Union, UnionType):
        return tuple([kind for option in get_args(type_) for kind in _alternatives(option)])
    return () if type_ is NoneType else (type_,)


def _converted(value: Any, type_: Any) -> Any:
    """Return a value as a field of a type holds it."""
    if isinstance(value, Struct) and type(value) in _alternatives(type_):
        return value
    try:
        return msgspec.convert(msgspec.to_builtins(value), type_)
    except (msgspec.ValidationError, TypeError) as error:
        raise InputError(str(error)) from None
