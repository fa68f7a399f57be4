"""The quantities that schedulers read of pods and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from moorage._core.base.fields import SpecMemo
from moorage.errors import InputError
from moorage.kube import Node, Object, Pod
from moorage.kube.model.field_rules import each, quantity
from moorage.kube.model.meta import Resources
from moorage.kube.model.pod import PodSpec, PodStatus

_each_quantity = each(lru_cache(maxsize=4096, typed=True)(quantity))  # of many objects, few differ
_readable = SpecMemo("persistent_volume_claim")
Path: TypeAlias = tuple[str | int, ...]
"""The names of fields, and positions, that lead to a field."""


def why_unreadable(obj: Object) -> str:
    """Return why a scheduler cannot read an object.

    Parameters
    ----------
    obj : Object
        Of any kind.

    Returns
    -------
    str
        The field of a pod or node that has no quantity, and what is wrong; "" for none.
    """
    try:
        if isinstance(obj, Pod):
            _read_pod(obj)
        elif isinstance(obj, Node):
            _read(("status", "allocatable"), obj.status.allocatable)
    except InputError as error:
        return f"{error.path}: {error.message}"
    return ""


def _read_pod(pod: Pod) -> None:
    spec, status = pod.spec, pod.status
    if _readable.get(spec) is None:
        for path, resources in _resources_of(spec):
            _read(path, resources)
        _readable.put(spec, True)
    if status.container_statuses or status.init_container_statuses:
        for path, resources in _resources_in(status):
            _read(path, resources)


def _resources_of(spec: PodSpec) -> Iterator[tuple[Path, Resources]]:
    """The quantities of a pod, each map with its field."""
    for name, containers in ("containers", spec.containers), ("initContainers", spec.init_containers):
        for at, container in enumerate(containers):
            yield ("spec", name, at, "resources", "requests"), container.resources.requests
            yield ("spec", name, at, "resources", "limits"), container.resources.limits
    if spec.resources is not None:
        yield ("spec", "resources", "requests"), spec.resources.requests
        yield ("spec", "resources", "limits"), spec.resources.limits
    yield ("spec", "overhead"), spec.overhead


def _resources_in(status: PodStatus) -> Iterator[tuple[Path, Resources]]:
    """The quantities of a resize, each map with its field."""
    regular, init = status.container_statuses, status.init_container_statuses
    for name, statuses in ("containerStatuses", regular), ("initContainerStatuses", init):
        for at, one in enumerate(statuses):
            yield ("status", name, at, "allocatedResources"), one.allocated_resources
            if one.resources is not None:
                yield ("status", name, at, "resources", "requests"), one.resources.requests


def _read(path: Path, resources: Resources) -> None:
    try:
        if resources:
            _each_quantity(resources)
    except InputError as error:  # the field is spelled only now: most quantities can be read
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        raise error.located(path=steps[1:]) from None
