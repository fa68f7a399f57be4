"""The subresource ``pods/binding``: the fields that it sets, and why it refuses (kube-apiserver v1.36)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from msgspec.structs import force_setattr, replace

from moorage._core.base.fields import SpecMemo
from moorage.errors import InputError
from moorage.kube import Node, Object, Pod
from moorage.kube.model.meta import Condition, Resources, quantity, with_condition
from moorage.kube.model.pod import PodSpec, PodStatus

from .errors import ApiError, InvalidObjectError, conflict, not_found, other_uid


class PodBinder:
    """Makes bound pods. Pods that share their spec or status, as those of a template do, share the new ones
    as well, where they are on one node and made one after the other.

    Parameters
    ----------
    now : str
        The transition time of the condition PodScheduled.
    """

    __slots__ = ("_now", "_spec", "_status")

    def __init__(self, now: str) -> None:
        self._now = now
        # The last spec with its node, the last status, and what was made of them. Threads replace them whole.
        self._spec: tuple[PodSpec, str, PodSpec] | None = None
        self._status: tuple[PodStatus, PodStatus] | None = None

    def __call__(self, pod: Pod, version: str, node: str) -> Pod:
        """Return a pod as a binding leaves it: with a node, the condition PodScheduled and no nomination.

        Parameters
        ----------
        version : str
            The resource version of the binding.
        """
        spec, status = self._spec, self._status
        if spec is None or spec[0] is not pod.spec or spec[1] != node:
            spec = self._spec = pod.spec, node, replace(pod.spec, node_name=node)
        if status is None or status[0] is not pod.status:
            conditions = with_condition(pod.status.conditions, _pod_scheduled(self._now))
            new_status = replace(pod.status, nominated_node_name="", conditions=conditions)
            status = self._status = pod.status, new_status
        bound = replace(
            pod,
            metadata=replace(pod.metadata, resource_version=version),
            spec=spec[2],
            status=status[1],
        )
        if pod.interned is not None:  # the class does not depend on what a binding sets
            force_setattr(bound, "interned", pod.interned)
        return bound


def refusal(pod: Pod, current: Pod | None, node: str) -> ApiError:
    """Return the error of a binding that `ObjectMap.bind` has refused.

    Parameters
    ----------
    pod : Pod
        The pod of the request; its UID counts, where it has one.
    """
    if not node:
        return InvalidObjectError("target.name: Required value")
    if current is None:
        return not_found(Pod, pod.name)
    meta, spec = current.metadata, current.spec
    if pod.metadata.uid not in ("", meta.uid):
        return other_uid(pod, meta.uid)
    wrong = f"pod {meta.name} has non-empty .spec.schedulingGates"
    if meta.deletion_timestamp is not None:
        wrong = f"pod {meta.name} is being deleted, cannot be assigned to a host"
    elif spec.node_name:
        wrong = f'pod {meta.name} is already assigned to node "{spec.node_name}"'
    return conflict("pods/binding", meta.name, wrong)


@lru_cache
def _pod_scheduled(time: str | None) -> Condition:
    """Return the condition PodScheduled=True with a transition time."""
    return Condition(type="PodScheduled", status="True", last_transition_time=time)


# ---- quantities --------------------------------------------------------------------------------------------
#
# The quantities that schedulers read of pods and nodes.

_check = lru_cache(maxsize=4096, typed=True)(quantity)  # of many objects, few differ
_readable = SpecMemo("persistent_volume_claim")
Path: TypeAlias = tuple[str | int, ...]
"""The names of fields, and positions, that lead to a field."""


def why_unreadable(obj: Object) -> str:
    """Return why a scheduler cannot read an object.

    Returns
    -------
    str
        The field of a pod or node that has no quantity, and what is wrong; "" for none.
    """
    try:
        if isinstance(obj, Pod):
            spec, status = obj.spec, obj.status
            if _readable.get(spec) is None:
                for path, resources in _resources_of(spec):
                    _read(path, resources)
                _readable.put(spec, True)
            if status.container_statuses or status.init_container_statuses:
                for path, resources in _resources_in(status):
                    _read(path, resources)
        elif isinstance(obj, Node):
            _read(("status", "allocatable"), obj.status.allocatable)
    except InputError as error:
        return f"{error.path}: {error.message}"
    return ""


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
        for at, container in enumerate(statuses):
            yield ("status", name, at, "allocatedResources"), container.allocated_resources
            if container.resources is not None:
                yield ("status", name, at, "resources", "requests"), container.resources.requests


def _read(path: Path, resources: Resources) -> None:
    name = ""
    try:
        for name in resources:
            _check(resources[name])
    except InputError as error:  # the field is spelled only now: most quantities can be read
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        raise error.located(path=f"{steps[1:]}[{name}]") from None
