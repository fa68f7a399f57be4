"""A constraint of a pod, and how fields of its spec are changed to drop one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from moorage.kube import Container, Pod

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)


@dataclass(frozen=True)
class Constraint:
    """A constraint that makes nodes infeasible for a pod.

    Attributes
    ----------
    kind : str
        ``request``, ``taint`` (of nodes: the pod does not tolerate it), ``node-name``, ``node-selector``,
        ``node-affinity``, ``host-port``, ``host-network``, ``topology-spread``, ``pod-affinity``,
        ``pod-anti-affinity``, ``claim``, ``runtime-class``.
    name : str
        Which one: a resource, a taint, a selector entry, a requirement, a term.
    drop : callable
        The pod without it. Equal constraints count as one and are dropped together.
    """

    kind: str
    name: str
    drop: Callable[[Pod], Pod] = field(compare=False, repr=False)

    @property
    def text(self) -> str:
        """The constraint in words: kind and name."""
        return f"{self.kind} {self.name}"

    @property
    def named(self) -> dict[str, str]:
        """Kind and name, by these words."""
        return {"kind": self.kind, "name": self.name}


# ---- fields of a spec --------------------------------------------------------------------------------------


def of_field(kind: str, name: str, path: str, change: Callable[[Any], Any]) -> Constraint:
    """Return a constraint that is dropped by a change of one field of the spec."""
    return Constraint(kind, name, edit_of(path, change))


def edit_of(path: str, change: Callable[[Any], Any]) -> Callable[[Pod], Pod]:
    """Return what changes one field of the spec of pods."""
    return lambda pod: replace(pod, spec=changed_field(pod.spec, path, change))


def changed_field(obj: StructT, path: str, change: Callable[[Any], Any]) -> StructT:
    """Return a copy of an object with the value at a path of fields changed; the object itself where that
    value is None."""
    name, _, rest = path.partition(".")
    value = getattr(obj, name)
    if value is None:
        return obj
    return replace(obj, **{name: changed_field(value, rest, change) if rest else change(value)})


def distinct(items: Iterable[T]) -> list[T]:
    """Return the items without duplicates; they need not be hashable."""
    kept: list[T] = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept


def without(items: tuple[T, ...], dropped: T) -> tuple[T, ...]:
    """Return the items without one of them."""
    return tuple(item for item in items if item != dropped)


def with_containers(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    """Return a pod with its containers and init containers changed."""
    spec = pod.spec
    containers, inits = (tuple(map(change, each)) for each in (spec.containers, spec.init_containers))
    return replace(pod, spec=replace(spec, containers=containers, init_containers=inits))
