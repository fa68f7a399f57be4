"""Names of resources: what the API server calls the objects of a kind."""

from __future__ import annotations

from functools import cache

from .model.meta import Object


@cache
def plural(struct: type[Object]) -> str:
    """Return the resource of a kind by apimachinery's rule (UnsafeGuessKindToResource).

    The resource of Pod is ``pods``, that of PriorityClass ``priorityclasses``. After a vowel, y stays, as in
    Karpenter's ``nodeoverlays``.
    """
    name = struct.__name__.lower()
    if name.endswith("s"):
        return name + "es"
    return name[:-1] + "ies" if name.endswith("y") and name[-2] not in "aeiou" else name + "s"


@cache
def resource(struct: type[Object]) -> str:
    """Return the resource with its group, as errors name it: ``pods``, ``replicasets.apps``."""
    return plural(struct) + group_suffix(struct)


def group_suffix(struct: type[Object]) -> str:
    """Return the API group of a kind with a leading dot; "" for the core group."""
    group = struct().api_version.rpartition("/")[0]
    return f".{group}" if group else ""
