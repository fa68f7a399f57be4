"""Requests and limits of pods as admission counts them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests

from ..model.meta import Resources
from ..model.pod import Container, Pod, ResourceRequirements

Quantities = dict[str, Quantity]


def quantities(resources: Resources) -> Quantities:
    """Return the quantities of a resource list."""
    return {name: Quantity(raw) for name, raw in resources.items()}


def pod_limits(pod: Pod) -> Quantities:
    """Return the effective limits of a pod: of containers, sidecars and init containers as for requests.

    The overhead is added to the resources that have a limit (component-helpers v0.36, resource.PodLimits).
    """
    spec = pod.spec
    resources = None if spec.resources is None else _limits_as_requests(spec.resources)
    swapped = replace(
        spec,
        containers=tuple(_swapped(spec.containers)),
        init_containers=tuple(_swapped(spec.init_containers)),
        resources=resources,
        overhead={},
    )
    limits = pod_requests(Pod(spec=swapped), resizes=False)
    for name, quantity in quantities(spec.overhead).items():
        if name in limits:
            limits[name] += quantity
    return limits


def _swapped(containers: Iterable[Container]) -> Iterable[Container]:
    return (replace(one, resources=_limits_as_requests(one.resources)) for one in containers)


def _limits_as_requests(resources: ResourceRequirements) -> ResourceRequirements:
    return ResourceRequirements(requests=resources.limits)


def without_overhead(pod: Pod) -> Pod:
    """Return a pod without its overhead."""
    return replace(pod, spec=replace(pod.spec, overhead={})) if pod.spec.overhead else pod


def is_best_effort(pod: Pod) -> bool:
    """Whether no container of a pod requests or limits cpu or memory (v1.36, qos.GetPodQOS)."""
    if pod.status.qos_class:
        return pod.status.qos_class == "BestEffort"
    parts = [one.resources for one in (*pod.spec.containers, *pod.spec.init_containers)]
    if pod.spec.resources is not None:
        parts.append(pod.spec.resources)
    return not any(
        Quantity(amounts[name]).sign() > 0
        for part in parts
        for amounts in (part.requests, part.limits)
        for name in ("cpu", "memory")
        if name in amounts
    )
