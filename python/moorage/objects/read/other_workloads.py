"""Workloads of kinds that scheduling does not know: their replicas, which are not simulated."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from moorage.errors import InputError, shorten
from moorage.objects.model.cluster import UnsimulatedWorkload
from moorage.objects.model.meta import Object

from .decode import Document, decode
from .object_defaults import default_namespace

_EXAMPLES = 5


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Workload(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


def read_workload(document: Document, kind: str) -> UnsimulatedWorkload | None:
    """Read the replicas of an object of an unknown kind.

    Parameters
    ----------
    document : dict or bytes
        The object as a JSON value, or its JSON text.
    kind : str
        Its kind.

    Returns
    -------
    UnsimulatedWorkload or None
        None for an object without replicas.
    """
    try:
        found = decode(document, _Workload)
    except InputError:
        return None
    if found.spec.replicas < 1:
        return None
    namespace = found.metadata.namespace or "default"
    return UnsimulatedWorkload(kind, namespace, found.metadata.name, found.spec.replicas)


def without_owners(
    workloads: Iterable[UnsimulatedWorkload], objects: Iterable[Object]
) -> list[UnsimulatedWorkload]:
    """Leave out the workloads that control an object, which is expanded or is a pod.

    Parameters
    ----------
    workloads : iterable of UnsimulatedWorkload
    objects : iterable of Object
        All objects that were read.

    Returns
    -------
    list of UnsimulatedWorkload
    """
    listed = list(workloads)
    if not listed:
        return []
    owners = {
        (owner.kind, default_namespace(obj), owner.name)
        for obj in objects
        if (owner := obj.metadata.controller()) is not None
    }
    return [one for one in listed if (one.kind, one.namespace, one.name) not in owners]


def warning(workloads: list[UnsimulatedWorkload]) -> str:
    """Return the warning about workloads that are not simulated.

    Parameters
    ----------
    workloads : list of UnsimulatedWorkload
        At least one.

    Returns
    -------
    str
    """
    shown = [
        shorten(f"{one.kind} {one.name}: {one.replicas} replicas not simulated")
        for one in workloads[:_EXAMPLES]
    ]
    return ", ".join(shown + ["…"] * (len(workloads) > _EXAMPLES)) + "."
