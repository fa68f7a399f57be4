"""One object from a value of Python, with the validation and the defaults that a file's objects get."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, overload

from moorage.errors import InputError

from ..model.meta import Object
from ..model.workload import PriorityClass
from ..validate.validate_object import validate
from ..workloads.naming import Names
from .decode import versions_gone
from .load import read_objects
from .object_defaults import default_object, priority_classes
from .parts_reader import PartsReader
from .python_values import Source

T = TypeVar("T", bound=Object)

_PARTS = PartsReader()
"""Pods that are read one by one and have the same template share what was decoded and checked of it."""


@overload
def read_object(source: Source, kind: type[T], *, classes: Iterable[PriorityClass] = ()) -> T: ...


@overload
def read_object(source: Source, *, classes: Iterable[PriorityClass] = ()) -> Object: ...


def read_object(
    source: Source, kind: type[Object] = Object, *, classes: Iterable[PriorityClass] = ()
) -> Object:
    """Read one object: check it as `load` does, and set the API server's defaults.

    Use it where a plugin's test or a program needs a Pod or a Node, and has a dict, a text or an object of a
    Kubernetes client.

    Parameters
    ----------
    source : dict, object, str, bytes, Path or file object
        See `load`. One of moorage's own objects is returned as it is.
    kind : type, optional
        What it has to be, such as `Pod`.
    classes : iterable of PriorityClass
        The priority classes that a pod may name, besides the two built-in ones.

    Returns
    -------
    Object
        If it has no name or no UID, it gets one that follows from its other names.

    Raises
    ------
    InputError
        The object is invalid, or there is not exactly one, or it has another kind.
    TypeError
        The source is something else.

    Examples
    --------
    >>> from moorage.kube import Pod
    >>> containers = [{"name": "main", "image": "web:1"}]
    >>> value = {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers}}
    >>> read_object(value, Pod).key
    'default/web'
    """
    obj = read_one(source)
    if not isinstance(obj, kind):
        raise InputError(f"must be a {kind.__name__}", obj=f"{obj.kind} {obj.key}".strip())
    return obj if obj is source else with_defaults(obj, classes)


def read_one(source: Source) -> Object:
    """Read one object as it is written: its fields are checked, and nothing is added.

    Parameters
    ----------
    source : dict, object, str, bytes, Path or file object
        See `load`.

    Returns
    -------
    Object
        One of moorage's own objects as it is.

    Raises
    ------
    InputError
        It cannot be read, or there is not exactly one.
    """
    if isinstance(source, Object):
        return source
    read = read_objects(source, parts=_PARTS)
    if read.skipped:
        kind = next(iter(read.skipped))
        raise InputError(versions_gone().get(kind) or f"scheduling does not read this kind: {kind}")
    if len(read.objects) != 1:
        raise InputError(f"must be one object, not {len(read.objects)}")
    return read.objects[0]


def with_defaults(obj: Object, classes: Iterable[PriorityClass] = ()) -> Object:
    """Validate an object, and set the API server's defaults.

    Parameters
    ----------
    classes : iterable of PriorityClass
        See `read_object`.

    Raises
    ------
    InputError
        The object is invalid.
    """
    validate(obj)
    return default_object(obj, priority_classes(classes), Names())
