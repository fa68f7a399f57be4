"""What the store has to know of a kind: its struct, its resource name, whether it has namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from moorage.objects.model.meta import Object
from moorage.objects.read.decode import CLUSTER_SCOPED


def _structs(base: type[Object]) -> Iterator[type[Object]]:
    for struct in base.__subclasses__():
        yield struct
        yield from _structs(struct)


def struct_named(kind: str) -> type[Any]:
    """Return the struct of a kind.

    Raises
    ------
    ValueError
        There is none.
    """
    for struct in _structs(Object):
        if struct.__name__ == kind:
            return struct
    raise ValueError(f'no matches for kind "{kind}"')


@cache
def is_namespaced(struct: type[Object]) -> bool:
    return struct.__name__ not in CLUSTER_SCOPED


@cache
def plural(struct: type[Object]) -> str:
    """The resource of a kind, as apimachinery guesses it: Pod gives pods, PriorityClass priorityclasses."""
    name = struct.__name__.lower()
    if name.endswith("s"):
        return name + "es"
    return name[:-1] + "ies" if name.endswith("y") else name + "s"


@cache
def resource(struct: type[Object]) -> str:
    """The resource with its group, as errors name it: ``pods``, ``replicasets.apps``."""
    return plural(struct) + _group(struct)


@cache
def singular(struct: type[Object]) -> str:
    """The same of one object, as listers name it: ``pod``, ``replicaset.apps``."""
    return struct.__name__.lower() + _group(struct)


@cache
def group_kind(struct: type[Object]) -> str:
    """The kind with its group, as errors about one object's content name it: ``Pod``, ``ReplicaSet.apps``."""
    return struct.__name__ + _group(struct)


def _group(struct: type[Object]) -> str:
    group = struct().api_version.rpartition("/")[0]
    return f".{group}" if group else ""
