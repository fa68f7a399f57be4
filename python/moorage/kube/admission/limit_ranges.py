"""The admission plugin LimitRanger (kubernetes v1.36, plugin/pkg/admission/limitranger)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests

from ..model.admission_policies import LimitRange, LimitRangeItem
from ..model.meta import Resources
from ..model.pod import Container, Pod, PodSpec
from .pod_resources import Quantities, pod_limits, quantities, without_overhead

_MAX_MILLI = (2**63 - 1) // 1000
_ZERO = Quantity("0")


_ANNOTATION = "kubernetes.io/limit-ranger"
_SET = re.compile(r"(?P<resources>[^;:]+) (?P<what>request|limit) for (?:init )?container (?P<name>[^;]+)")


class Defaulted(NamedTuple):
    """The resources of a container that a limit range has set."""

    requests: frozenset[str] = frozenset()
    limits: frozenset[str] = frozenset()


def defaulted_by_limit_range(pod: Pod) -> dict[str, Defaulted]:
    """Return by container what a limit range has set in a new pod, as the annotation of the pod tells."""
    found: dict[str, Defaulted] = {}
    for match in _SET.finditer(pod.metadata.annotations.get(_ANNOTATION, "").partition(":")[2]):
        names, container = frozenset(match["resources"].strip().split(", ")), match["name"]
        own = found.get(container, Defaulted())
        is_request = match["what"] == "request"
        found[container] = own._replace(**{"requests" if is_request else "limits": names})
    return found


def container_defaults(limit_range: LimitRange) -> tuple[Resources, Resources]:
    """Return the default limits and requests of containers.

    A default limit is that of the item, else its maximum; a default request is that of the item, else the
    default limit, else the minimum (SetDefaults_LimitRangeItem).
    """
    limits: Resources = {}
    requests: Resources = {}
    for item in limit_range.spec.limits:
        if item.type == "Container":
            own = item.max | item.default
            limits |= own
            requests |= item.min | own | item.default_request
    return limits, requests


def with_defaults(spec: PodSpec, limit_ranges: Iterable[LimitRange]) -> PodSpec:
    """Set the requests and limits that the containers of a pod lack.

    The annotation ``kubernetes.io/limit-ranger`` is not written.

    Parameters
    ----------
    limit_ranges : iterable of LimitRange
        Those of the pod's namespace; the first one that has a default counts.
    """
    for limit_range in limit_ranges:
        limits, requests = container_defaults(limit_range)
        if limits or requests:
            spec = replace(
                spec,
                containers=tuple([_filled(one, limits, requests) for one in spec.containers]),
                init_containers=tuple([_filled(one, limits, requests) for one in spec.init_containers]),
            )
    return spec


def _filled(container: Container, limits: Resources, requests: Resources) -> Container:
    own = container.resources
    filled = replace(own, limits=limits | own.limits, requests=requests | own.requests)
    return replace(container, resources=filled)


def violations(pod: Pod, limit_range: LimitRange) -> Iterator[str]:
    """Yield what a limit range forbids of a pod, in upstream's words and in the order of resource names.

    Parameters
    ----------
    limit_range : LimitRange
        Of the pod's namespace.
    """
    for item in limit_range.spec.limits:
        if item.type == "Container":
            for container in (*pod.spec.containers, *pod.spec.init_containers):
                own = container.resources
                yield from _of_item(item, quantities(own.requests), quantities(own.limits))
        elif item.type == "Pod":
            bare = without_overhead(pod)
            yield from _of_item(item, pod_requests(bare, resizes=False), pod_limits(bare))


def bounds_of_requests(item: LimitRangeItem, requests: Quantities) -> Iterator[str]:
    """Yield which bounds of an item the requests of an object without limits exceed, such as a claim."""
    for check, bounds in ((_minimum, item.min), (_most_requested, item.max)):
        for name in sorted(bounds):
            message = check(f"{name} ", item.type, Quantity(bounds[name]), requests.get(name), None)
            if message:
                yield message


def _of_item(item: LimitRangeItem, requests: Quantities, limits: Quantities) -> Iterator[str]:
    for check, bounds in (
        (_minimum, item.min),
        (_maximum, item.max),
        (_ratio, item.max_limit_request_ratio),
    ):
        for name in sorted(bounds):
            message = check(
                f"{name} ", item.type, Quantity(bounds[name]), requests.get(name), limits.get(name)
            )
            if message:
                yield message


def _minimum(name: str, kind: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    head = f"minimum {name}usage per {kind} is {bound}"
    requested, limited, least = _values(request, limit, bound)
    if request is None:
        return f"{head}.  No request is specified"
    if requested < least:
        return f"{head}, but request is {request}"
    return f"{head}, but limit is {limit}" if limit is not None and limited < least else ""


def _maximum(name: str, kind: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    head = f"maximum {name}usage per {kind} is {bound}"
    requested, limited, most = _values(request, limit, bound)
    if limit is None:
        return f"{head}.  No limit is specified"
    if limited > most:
        return f"{head}, but limit is {limit}"
    return f"{head}, but request is {request}" if request is not None and requested > most else ""


def _most_requested(
    name: str, kind: str, bound: Quantity, request: Quantity | None, limit: Quantity | None
) -> str:
    head = f"maximum {name}usage per {kind} is {bound}"
    requested, _, most = _values(request, limit, bound)
    if request is None:
        return f"{head}.  No request is specified"
    return f"{head}, but request is {request}" if requested > most else ""


def _ratio(name: str, kind: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> str:
    head = f"{name}max limit to request ratio per {kind} is {bound}, but"
    requested, limited, _ = _values(request, limit, bound)
    if not requested:
        return f"{head} no request is specified or request is 0"
    if not limited:
        return f"{head} no limit is specified or limit is 0"
    ratio = limited / requested
    is_exact = bound.value() <= _MAX_MILLI
    exceeds = ratio * 1000 > bound.milli_value() if is_exact else ratio > bound.value()
    return f"{head} provided ratio is {ratio:.6f}" if exceeds else ""


def _values(request: Quantity | None, limit: Quantity | None, bound: Quantity) -> tuple[int, int, int]:
    """Request, limit and bound in one unit: thousandths, unless one is too large for them."""
    request, limit = request if request is not None else _ZERO, limit if limit is not None else _ZERO
    whole = request.value(), limit.value(), bound.value()
    if max(whole) > _MAX_MILLI:
        return whole
    return request.milli_value(), limit.milli_value(), bound.milli_value()
