"""Kinds: their structs, resource names and scopes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from moorage.kube import Object
from moorage.kube.read.decode import CLUSTER_SCOPED
from moorage.kube.resource_names import group_suffix


def _structs(base: type[Object]) -> Iterator[type[Object]]:
    """Yield all structs derived from `base`."""
    for struct in base.__subclasses__():
        yield struct
        yield from _structs(struct)


def structs() -> Iterator[type[Object]]:
    """Yield the structs of all kinds."""
    return _structs(Object)


def struct_named(kind: str) -> type[Any]:
    """Return the struct of a kind.

    Parameters
    ----------
    kind : str
        Such as "Pod".

    Raises
    ------
    ValueError
        No struct has that name.
    """
    for struct in structs():
        if struct.__name__ == kind:
            return struct
    raise ValueError(f'no matches for kind "{kind}"')


@cache
def is_namespaced(struct: type[Object]) -> bool:
    """Whether the objects of a kind have namespaces."""
    return struct.__name__ not in CLUSTER_SCOPED


@cache
def singular(struct: type[Object]) -> str:
    """Return the singular of a resource with its group, as listers name it: ``pod``, ``replicaset.apps``."""
    return struct.__name__.lower() + group_suffix(struct)


@cache
def group_kind(struct: type[Object]) -> str:
    """Return the kind with its group, as in errors about the fields of an object: ``ReplicaSet.apps``."""
    return struct.__name__ + group_suffix(struct)
