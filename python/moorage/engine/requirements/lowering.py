"""The requests of a pod. The request for one resource is lowered in one place of the spec if that suffices,
otherwise in all places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, PodGates
from moorage.kube.model.pod import Pod, ResourceRequirements

from ..framework.plugin.amounts import asked_by, quantity_text
from .constraint import Constraint

OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
"""The resources of which a container may have a limit above its request (core/v1 validation)."""
LISTS = {"containers": "containers", "init_containers": "initContainers"}
"""Fields of the spec that are lists of containers, and their JSON names."""


class Request(Constraint):
    """The request of a pod for a resource."""


def request_constraints(resources: Iterable[str]) -> Iterator[Request]:
    """Yield the requests of a pod for resources."""
    for resource in resources:
        yield Request("request", resource, partial(drop_request, resource=resource))


@dataclass(frozen=True, slots=True)
class Edit:
    """A changed request. A limit that must equal the request changes with it.

    Attributes
    ----------
    path : str
        Path of the request in the pod.
    container : str
        Name of the container; "" for the pod-level request.
    before, after : str
        Quantities.
    """

    path: str
    container: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _Place:
    """A place of the spec that requests the resource: a container in a list, or (index -1) the pod itself."""

    field: str
    index: int
    container: str
    amount: Quantity

    def path(self, resource: str) -> str:
        """Return the path of the request in the pod, such as
        ``spec.containers[0].resources.requests[cpu]``."""
        at = f"{LISTS[self.field]}[{self.index}]." if self.index >= 0 else ""
        return f"spec.{at}resources.requests[{resource}]"


def effective_request(pod: Pod, resource: str, gates: PodGates) -> int:
    """Return the effective request of a pod for a resource.

    Parameters
    ----------
    gates : PodGates
        On which requests depend.

    Returns
    -------
    int
        Millicores, bytes, or the resource's own unit.
    """
    return whole(resource, asked_by(pod, gates).get(resource, ZERO))


def lower(pod: Pod, resource: str, target: int, gates: PodGates) -> tuple[Pod, list[Edit]] | None:
    """Lower the effective request of a pod to at most `target`.

    If one place of the spec is enough, the one with the largest request is edited. Otherwise all are, in
    proportion. Something has to be left: a pod that asks for nothing is no advice.

    Parameters
    ----------
    target : int
        Millicores, bytes, or the resource's own unit.
    gates : PodGates
        On which requests depend.

    Returns
    -------
    (Pod, list of Edit) or None
        The changed pod and the edits; None if the request cannot be lowered that far.
    """
    of_pod = gates.pod_level_resources
    listed = [place for place in _places(pod, resource) if of_pod or place.field]
    places = sorted(listed, key=lambda place: place.amount, reverse=True)
    excess = asked_by(pod, gates).get(resource, ZERO) - _quantity(resource, target)
    for place in places:
        rest = place.amount - excess
        if rest.sign() > 0:
            lowered = _set(pod, resource, [(place, rest)])
            if _is_enough(lowered, resource, target, gates):
                return lowered, _edits(resource, [(place, rest)])
    values = _in_proportion(pod, resource, places, target, gates)
    if not any(value.sign() for _, value in values):
        return None
    lowered = _set(pod, resource, values)
    return (lowered, _edits(resource, values)) if _is_enough(lowered, resource, target, gates) else None


def drop_request(pod: Pod, resource: str) -> Pod:
    """Set the pod's requests of a resource to 0; its overhead stays."""
    return _set(pod, resource, [(place, ZERO) for place in _places(pod, resource)])


def asked_by_container(pod: Pod, resource: str) -> dict[str, Quantity]:
    """Return what a pod requests of a resource, by container; "" has the pod-level request."""
    return {place.container: place.amount for place in _places(pod, resource)}


def _places(pod: Pod, resource: str) -> Iterator[_Place]:
    """Yield the places of the spec that request the resource."""
    spec = pod.spec
    if spec.resources is not None and resource in spec.resources.requests:
        yield _Place("", -1, "", Quantity(spec.resources.requests[resource]))
    for field in LISTS:
        for index, container in enumerate(getattr(spec, field)):
            requests = container.resources.requests
            if resource in requests:
                yield _Place(field, index, container.name, Quantity(requests[resource]))


def _is_enough(pod: Pod, resource: str, target: int, gates: PodGates) -> bool:
    """Whether the request is low enough and the pod-level request covers those of the containers."""
    pod_level = pod.spec.resources if gates.pod_level_resources else None
    if pod_level is not None and resource in pod_level.requests:
        bare = replace(pod, spec=replace(pod.spec, overhead={}))
        needed = asked_by(bare, gates._replace(pod_level_resources=False)).get(resource, ZERO)
        if needed > Quantity(pod_level.requests[resource]):
            return False
    return effective_request(pod, resource, gates) <= target


def _in_proportion(
    pod: Pod, resource: str, places: list[_Place], target: int, gates: PodGates
) -> list[tuple[_Place, Quantity]]:
    """Scale all requests by the same factor, rounded down. The remainder goes to the first places that can
    use it."""
    fixed = whole(resource, Quantity(pod.spec.overhead.get(resource, 0)))
    factor = Fraction(max(target - fixed, 0), max(effective_request(pod, resource, gates) - fixed, 1))
    values = [(place, _quantity(resource, int(_floor(resource, place.amount) * factor))) for place in places]
    for at, (place, value) in enumerate(values):
        spare = target - effective_request(_set(pod, resource, values), resource, gates)
        more = min(whole(resource, value) + max(spare, 0), _floor(resource, place.amount))
        tried = [*values[:at], (place, _quantity(resource, more)), *values[at + 1 :]]
        if _is_enough(_set(pod, resource, tried), resource, target, gates):
            values = tried
    return values


def _edits(resource: str, values: list[tuple[_Place, Quantity]]) -> list[Edit]:
    """Return the edits that give each place its new request."""
    return [
        Edit(place.path(resource), place.container, str(place.amount), _shown(resource, value))
        for place, value in values
        if value != place.amount
    ]


def _set(pod: Pod, resource: str, values: list[tuple[_Place, Quantity]]) -> Pod:
    """Set requests in the pod's spec."""
    spec = pod.spec
    for place, value in values:
        if place.index < 0 and spec.resources is not None:
            spec = replace(spec, resources=_with_request(spec.resources, resource, value))
        else:
            containers = list(getattr(spec, place.field))
            container = containers[place.index]
            resources = _with_request(container.resources, resource, value)
            containers[place.index] = replace(container, resources=resources)
            spec = replace(spec, **{place.field: tuple(containers)})
    return replace(pod, spec=spec)


def _with_request(requirements: ResourceRequirements, resource: str, value: Quantity) -> ResourceRequirements:
    """Return requirements with another request; a limit that must equal the request changes with it."""
    text = _shown(resource, value)
    limits = requirements.limits
    if resource in limits and resource not in OVERCOMMITTED:
        limits = limits | {resource: text}
    return replace(requirements, requests=requirements.requests | {resource: text}, limits=limits)


# ---- numbers -----------------------------------------------------------------------------------------------


def _quantity(resource: str, amount: int) -> Quantity:
    """Return an amount in integer units."""
    return Quantity(f"{amount}m" if resource == "cpu" else amount)


def whole(resource: str, quantity: Quantity) -> int:
    """Return the quantity in integer units, rounded up as the scheduler does with requests."""
    return quantity.milli_value() if resource == "cpu" else quantity.value()


def _floor(resource: str, quantity: Quantity) -> int:
    """Return the quantity in integer units, rounded down."""
    up = whole(resource, quantity)
    return up - (_quantity(resource, up) > quantity)


def _shown(resource: str, quantity: Quantity) -> str:
    """Return the shortest text of a quantity; fractions of the unit are kept."""
    up = whole(resource, quantity)
    return quantity_text(resource, up) if _quantity(resource, up) == quantity else str(quantity)
