"""Admission that changes what new pods ask for: LimitRanger, RuntimeClass, vertical autoscaling."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import pod_requests
from moorage.kube.model.meta import whole
from moorage.lazy import NamedTuple

from ..apiserver.struct_tables import limits_of_item, with_dependent
from ..field_errors import Json, part, parts
from ..model.autoscaling import ContainerResourcePolicy, VerticalPodAutoscaler
from ..model.meta import QuantityLike, Resources
from ..model.pod import Container, Pod, PodSpec, ResourceRequirements, Toleration
from ..model.policy import LimitRange, LimitRangeItem, RuntimeClass
from ..plain import plain
from ..read.object_defaults import pod_level_requests
from .request import NotAdmittedError
from .validate_object import CONTAINERS, HUGE_PAGES

# ---- pod resources -----------------------------------------------------------------------------------------
#
# Requests and limits of pods as admission counts them.

Quantities = dict[str, Quantity]
_ZERO = Quantity("0")
_OF_CLASS = ("cpu", "memory")
"""The resources that decide the class of a pod."""


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
    return (
        replace(container, resources=_limits_as_requests(container.resources)) for container in containers
    )


def _limits_as_requests(resources: ResourceRequirements) -> ResourceRequirements:
    return ResourceRequirements(requests=resources.limits)


def with_pod_level_defaults(before: PodSpec, spec: PodSpec) -> PodSpec:
    """Return a spec with the pod-level resources that a new pod gets after all plugins and webhooks have set
    those of its containers (kubernetes v1.37, DefaultPodLevelResources).

    Parameters
    ----------
    before : PodSpec
        Before the plugins, with the requests that it had by default until v1.36: those do not count.
    """
    own = spec.resources
    if own is None or not (own.requests or own.limits):
        return spec
    given, limits = own.requests, dict(own.limits)
    if limits:
        parts = before.containers, before.init_containers
        until = pod_level_requests(ResourceRequirements(limits=own.limits), *parts).requests
        same = {name for name in given if name in until and Quantity(given[name]) == Quantity(until[name])}
        given = {name: amount for name, amount in given.items() if name not in same}
    inner = Pod(spec=PodSpec(containers=spec.containers, init_containers=spec.init_containers))
    of_containers = pod_limits(inner)
    for name in of_containers.keys() - given.keys():
        if name.startswith(HUGE_PAGES):
            limits.setdefault(name, str(of_containers[name]))
    resources = ResourceRequirements(requests=given, limits=limits)
    requests = pod_level_requests(resources, spec.containers, spec.init_containers).requests
    for name in requests.keys() - limits.keys():
        if all(name in each.resources.limits for each in (*spec.containers, *spec.init_containers)):
            limits[name] = str(max(Quantity(requests[name]), of_containers[name]))
    return replace(spec, resources=replace(own, requests=requests, limits=limits))


def without_overhead(pod: Pod) -> Pod:
    """Return a pod without its overhead."""
    return replace(pod, spec=replace(pod.spec, overhead={})) if pod.spec.overhead else pod


def is_best_effort(pod: Pod) -> bool:
    """Whether a pod is of the class BestEffort, by its status or its resources (v1.36, qos.GetPodQOS)."""
    return (pod.status.qos_class or quality_of_service(plain(pod.spec))) == "BestEffort"


def quality_of_service(spec: Json) -> str:
    """Return the class of a pod: Guaranteed, Burstable or BestEffort (v1.36, qos.ComputePodQOS)."""
    whole = part(spec, "resources")
    holders = [part(container, "resources") for kind in CONTAINERS for container in parts(spec, kind)]
    if not {*part(whole, "requests"), *part(whole, "limits")}.isdisjoint(_OF_CLASS):
        holders = [whole]
    requests, limits = Quantities(), Quantities()
    is_guaranteed = True
    for resources in holders:
        _add_positive(requests, part(resources, "requests"))
        is_guaranteed &= _add_positive(limits, part(resources, "limits")) == {*_OF_CLASS}
    if not (requests or limits):
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _add_positive(sums: Quantities, amounts: Json) -> set[str]:
    """Add what is positive of cpu and memory, and return the names of that."""
    own = {name: Quantity(amounts[name]) for name in _OF_CLASS if name in amounts}
    positive = {name for name, amount in own.items() if amount.sign() > 0}
    for name in positive:
        sums[name] = sums.get(name, _ZERO) + own[name]
    return positive


# ---- limit ranges ------------------------------------------------------------------------------------------
#
# The admission plugin LimitRanger (kubernetes v1.36, plugin/pkg/admission/limitranger).

_MAX_MILLI = (2**63 - 1) // 1000
_NANOS = 10**9


_ANNOTATION = "kubernetes.io/limit-ranger"
_SET = r"(?P<resources>[^;:]+) (?P<what>request|limit) for (?:init )?container (?P<name>[^;]+)"


class Defaulted(NamedTuple):
    """The resources of a container that a limit range has set."""

    requests: frozenset[str] = frozenset()
    limits: frozenset[str] = frozenset()


def defaulted_by_limit_range(
    pod: Pod, created: Pod | None = None, limit_ranges: Sequence[LimitRange] = ()
) -> dict[str, Defaulted]:
    """Return by container what a limit range has set in a new pod, as the annotation of the pod tells. Of
    several the annotation tells what the last one has set; the others have set what they default and the pod
    lacked.

    Parameters
    ----------
    created : Pod, optional
        The pod as its controller sent it.
    limit_ranges : sequence of LimitRange, optional
        Those of its namespace.
    """
    defaulted: dict[str, Defaulted] = {}
    annotation = pod.metadata.annotations.get(_ANNOTATION, "")
    if annotation and created is not None and len(limit_ranges) > 1:
        listed = map(container_defaults, limit_ranges)
        limits, requests = (frozenset(chain(*each)) for each in zip(*listed, strict=True))
        for item in (*created.spec.containers, *created.spec.init_containers):
            lacks = requests - item.resources.requests.keys(), limits - item.resources.limits.keys()
            defaulted[item.name] = Defaulted(*lacks)
    for match in re.finditer(_SET, annotation.partition(":")[2]):
        names, container = frozenset(match["resources"].strip().split(", ")), match["name"]
        own, field = defaulted.get(container, Defaulted()), f"{match['what']}s"
        defaulted[container] = own._replace(**{field: getattr(own, field) | names})
    return defaulted


def container_defaults(limit_range: LimitRange) -> tuple[Resources, Resources]:
    """Return the default limits and requests of containers.

    Those of an item depend on its other fields (`limits_of_item`).
    """
    limits: Resources = {}
    requests: Resources = {}
    for item in limit_range.spec.limits:
        if item.type == "Container":
            filled = with_dependent(item, limits_of_item)
            limits |= filled.default
            requests |= filled.default_request
    return limits, requests


def with_defaults(pod: Pod, limit_ranges: Iterable[LimitRange]) -> Pod:
    """Set the requests and limits that the containers of a pod lack, and say in an annotation which.

    Parameters
    ----------
    limit_ranges : iterable of LimitRange
        Those of the pod's namespace; the first one that has a default counts, the last one that has set
        something is told.
    """
    for limit_range in limit_ranges:
        limits, requests = container_defaults(limit_range)
        texts: list[str] = []
        filled = {
            field: tuple([_filled(container, limits, requests, kind, texts) for container in containers])
            for field, kind, containers in (
                ("containers", "container", pod.spec.containers),
                ("init_containers", "init container", pod.spec.init_containers),
            )
        }
        if texts:
            note = {_ANNOTATION: f"LimitRanger plugin set: {'; '.join(texts)}"}
            metadata = replace(pod.metadata, annotations=pod.metadata.annotations | note)
            pod = replace(pod, metadata=metadata, spec=replace(pod.spec, **filled))
    return pod


def _filled(
    container: Container, limits: Resources, requests: Resources, kind: str, texts: list[str]
) -> Container:
    own = container.resources
    for what, names in (("request", requests.keys() - own.requests), ("limit", limits.keys() - own.limits)):
        if names:
            texts.append(f"{', '.join(sorted(names))} {what} for {kind} {container.name}")
    filled = replace(own, limits=limits | own.limits, requests=requests | own.requests)
    return replace(container, resources=filled)


def violations(pod: Pod, limit_range: LimitRange, is_exact: bool) -> Iterator[str]:
    """Yield what a limit range forbids of a pod, in upstream's words and in the order of resource names.

    Parameters
    ----------
    is_exact : bool
        Whether amounts and ratios are compared exactly (`Release.limits_are_exact`).
    """
    for item in limit_range.spec.limits:
        if item.type == "Container":
            for container in (*pod.spec.containers, *pod.spec.init_containers):
                own = container.resources
                yield from _of_item(item, quantities(own.requests), quantities(own.limits), is_exact)
        elif item.type == "Pod":
            bare = without_overhead(pod)
            yield from _of_item(item, pod_requests(bare, resizes=False), pod_limits(bare), is_exact)


def bounds_of_requests(
    item: LimitRangeItem, requests: Quantities, kept: Quantities, is_exact: bool
) -> Iterator[str]:
    """Yield which bounds of an item the requests of an object without limits exceed, such as a claim.

    Parameters
    ----------
    kept : dict of str to Quantity
        Requests that are not looked at if they are these.
    """
    same = {name for name, amount in requests.items() if name in kept and kept[name] == amount}
    bounds = [
        (check, {name: bound for name, bound in listed.items() if name not in same})
        for check, listed in ((_minimum, item.min), (_most_requested, item.max))
    ]
    yield from _exceeded(item, bounds, (requests, {}), is_exact)


def _of_item(item: LimitRangeItem, requests: Quantities, limits: Quantities, is_exact: bool) -> Iterator[str]:
    checks = (_minimum, item.min), (_maximum, item.max), (_ratio, item.max_limit_request_ratio)
    yield from _exceeded(item, checks, (requests, limits), is_exact)


def _exceeded(
    item: LimitRangeItem,
    checks: Iterable[tuple[Callable[..., str], Resources]],
    given: tuple[Quantities, Quantities],
    is_exact: bool,
) -> Iterator[str]:
    """Yield which bounds requests and limits exceed."""
    for check, bounds in checks:
        for name in sorted(bounds):
            amounts = Quantity(bounds[name]), *[listed.get(name) for listed in given]
            if message := check(f"{name} ", item.type, *amounts, is_exact):
                yield message


def _minimum(
    name: str, kind: str, bound: Quantity, request: Quantity | None, limit: Quantity | None, is_exact: bool
) -> str:
    head = f"minimum {name}usage per {kind} is {bound}"
    requested, limited, least = _values(request, limit, bound, is_exact)
    if request is None:
        return f"{head}.  No request is specified"
    if requested < least:
        return f"{head}, but request is {request}"
    return f"{head}, but limit is {limit}" if limit is not None and limited < least else ""


def _maximum(
    name: str, kind: str, bound: Quantity, request: Quantity | None, limit: Quantity | None, is_exact: bool
) -> str:
    head = f"maximum {name}usage per {kind} is {bound}"
    requested, limited, most = _values(request, limit, bound, is_exact)
    if limit is None:
        return f"{head}.  No limit is specified"
    if limited > most:
        return f"{head}, but limit is {limit}"
    return f"{head}, but request is {request}" if request is not None and requested > most else ""


def _most_requested(
    name: str, kind: str, bound: Quantity, request: Quantity | None, limit: Quantity | None, is_exact: bool
) -> str:
    head = f"maximum {name}usage per {kind} is {bound}"
    requested, _, most = _values(request, limit, bound, is_exact)
    if request is None:
        return f"{head}.  No request is specified"
    return f"{head}, but request is {request}" if requested > most else ""


def _ratio(
    name: str, kind: str, bound: Quantity, request: Quantity | None, limit: Quantity | None, is_exact: bool
) -> str:
    head = f"{name}max limit to request ratio per {kind} is {bound}, but"
    requested, limited, _ = _values(request, limit, bound, is_exact)
    if not requested:
        return f"{head} no request is specified or request is 0"
    if not limited:
        return f"{head} no limit is specified or limit is 0"
    ratio = limited / requested
    if is_exact:
        exceeds = limited * _NANOS > bound.nanos() * requested
    else:
        is_small = bound.value() <= _MAX_MILLI
        exceeds = ratio * 1000 > bound.milli_value() if is_small else ratio > bound.value()
    return f"{head} provided ratio is {ratio:.6f}" if exceeds else ""


def _values(
    request: Quantity | None, limit: Quantity | None, bound: Quantity, is_exact: bool
) -> tuple[int, int, int]:
    """Request, limit and bound in one unit: the least, or thousandths, unless one is too large for them."""
    request, limit = request if request is not None else _ZERO, limit if limit is not None else _ZERO
    if is_exact:
        return request.nanos(), limit.nanos(), bound.nanos()
    whole = request.value(), limit.value(), bound.value()
    if max(whole) > _MAX_MILLI:
        return whole
    return request.milli_value(), limit.milli_value(), bound.milli_value()


# ---- runtime classes ---------------------------------------------------------------------------------------
#
# The admission plugin RuntimeClass (kubernetes v1.36, plugin/pkg/admission/runtimeclass).

_REJECTED = "pod rejected:"


def with_runtime_class(spec: PodSpec, classes: Mapping[str, RuntimeClass], empty_is_none: bool) -> PodSpec:
    """Add overhead, node selector and tolerations of its runtime class to a pod.

    Parameters
    ----------
    empty_is_none : bool
        Whether a pod with an empty name has no class (`Release.empty_runtime_classes_are_none`).

    Raises
    ------
    NotAdmittedError
        There is no such class, or the pod contradicts it.
    """
    name = spec.runtime_class_name
    if name is None or (not name and empty_is_none):
        return _checked_overhead(spec, None)
    if name not in classes:
        raise NotAdmittedError(f'{_REJECTED} RuntimeClass "{name}" not found')
    spec = _checked_overhead(spec, classes[name])
    scheduling = classes[name].scheduling
    if scheduling is None:
        return spec
    selector = dict(spec.node_selector or {})
    for key, value in sorted(scheduling.node_selector.items()):
        own = selector.setdefault(key, value)
        if own != value:
            raise NotAdmittedError(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own}"
            )
    tolerations = merge_tolerations((*spec.tolerations, *scheduling.tolerations))
    return replace(spec, node_selector=selector or spec.node_selector, tolerations=tolerations)


def _checked_overhead(spec: PodSpec, runtime_class: RuntimeClass | None) -> PodSpec:
    if runtime_class is None or runtime_class.overhead is None:
        if spec.overhead:
            raise NotAdmittedError(
                f"{_REJECTED} Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return spec
    fixed = runtime_class.overhead.pod_fixed
    if spec.overhead and quantities(spec.overhead) != quantities(fixed):
        raise NotAdmittedError(f"{_REJECTED} Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    return replace(spec, overhead=fixed)


def merge_tolerations(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Leave out tolerations that another one includes (kubernetes v1.36, pkg/util/tolerations)."""
    merged: list[Toleration] = []
    for at, toleration in enumerate(tolerations):
        later = [other for other in tolerations[at + 1 :] if other != toleration]
        if not any(includes(other, toleration) for other in (*merged, *later)):
            merged.append(toleration)
    return tuple(merged)


def includes(other: Toleration, toleration: Toleration) -> bool:
    """Whether a toleration tolerates all that another one does."""
    if toleration == other:
        return True
    if toleration.key != other.key and (other.key or other.operator != "Exists"):
        return False
    if other.effect not in ("", toleration.effect):
        return False
    if other.effect == "NoExecute" and other.toleration_seconds is not None:
        seconds = toleration.toleration_seconds
        if seconds is None or seconds > other.toleration_seconds:
            return False
    if other.operator in ("Equal", ""):
        return toleration.operator == "Equal" and toleration.value == other.value
    return other.operator == "Exists"


# ---- vertical autoscaling ----------------------------------------------------------------------------------
#
# The admission webhook of VerticalPodAutoscalers (kubernetes/autoscaler, vertical-pod-autoscaler 1.5).

_ALL = "*"
_OFF, _REQUESTS_ONLY = "Off", "RequestsOnly"


def strongest(autoscalers: Iterable[VerticalPodAutoscaler]) -> VerticalPodAutoscaler | None:
    """Return the autoscaler that acts on a workload: of several the oldest, then the first by name.

    All modes but Off act on new pods, Initial too; without a mode it is Recreate.

    Parameters
    ----------
    autoscalers : iterable of VerticalPodAutoscaler
        With the workload as their target.

    Returns
    -------
    VerticalPodAutoscaler or None
        None if none of them acts.
    """
    acting = [autoscaler for autoscaler in autoscalers if autoscaler.spec.update_policy.update_mode != _OFF]
    return min(
        acting,
        key=lambda autoscaler: (autoscaler.metadata.creation_timestamp or "~", autoscaler.name),
        default=None,
    )


def controlled(autoscaler: VerticalPodAutoscaler, container: str) -> Resources:
    """Return what an autoscaler recommends for a container, before bounds are applied.

    Returns
    -------
    dict of str to QuantityLike
        Empty for a container that it leaves alone.
    """
    policy = _policy(autoscaler, container)
    recommendation = autoscaler.status.recommendation
    if policy.mode == _OFF or recommendation is None:
        return {}
    targets = (each.target for each in recommendation.containers if each.container_name == container)
    target = next(targets, {})
    chosen = policy.controlled_resources
    return {name: amount for name, amount in target.items() if chosen is None or name in chosen}


def with_recommendation(
    spec: PodSpec, autoscaler: VerticalPodAutoscaler, limit_ranges: Iterable[LimitRange]
) -> PodSpec:
    """Return a spec whose containers request what an autoscaler recommends. Init containers keep theirs.

    A request is brought within the bounds of the namespace for containers, then within those of the
    autoscaler's policy. A limit keeps its ratio to the request; with the policy RequestsOnly it stays, and
    the request is at most the limit.

    Parameters
    ----------
    limit_ranges : iterable of LimitRange
        Of the namespace. Bounds for whole pods do not count.
    """
    items = [
        item for limit_range in limit_ranges for item in limit_range.spec.limits if item.type == "Container"
    ]
    containers = tuple([_resized(container, autoscaler, items) for container in spec.containers])
    return spec if containers == spec.containers else replace(spec, containers=containers)


def _policy(autoscaler: VerticalPodAutoscaler, container: str) -> ContainerResourcePolicy:
    policies = {
        policy.container_name: policy for policy in autoscaler.spec.resource_policy.container_policies
    }
    return policies.get(container) or policies.get(_ALL) or ContainerResourcePolicy()


def _resized(
    container: Container, autoscaler: VerticalPodAutoscaler, items: Sequence[LimitRangeItem]
) -> Container:
    """Return a container with the requests, and limits, that an autoscaler sets."""
    policy, own = _policy(autoscaler, container.name), container.resources
    requests, limits = dict(own.requests), dict(own.limits)
    for name, amount in controlled(autoscaler, container.name).items():
        request, limit = own.requests.get(name), own.limits.get(name)
        follows = policy.controlled_values != _REQUESTS_ONLY
        amount = amount if follows else _bounded(amount, limit, False)
        for item in items:
            limit = item.default.get(name) if limit is None else limit
            for bound, is_least in ((item.min.get(name), True), (item.max.get(name), False)):
                amount = _bounded(amount, _scaled(name, request, limit, bound), is_least)
            amount = _bounded(amount, item.min.get(name), True)
        amount = _bounded(
            _bounded(amount, policy.min_allowed.get(name), True), policy.max_allowed.get(name), False
        )
        requests[name] = amount
        if follows and limit is not None:
            limits[name] = amount if request is None else _scaled(name, limit, request, amount) or amount
    return replace(container, resources=replace(own, requests=requests, limits=limits))


def _bounded(amount: QuantityLike, bound: QuantityLike | None, is_least: bool) -> QuantityLike:
    """Return an amount, or its bound if it is beyond; a bound of zero is none."""
    if bound is None or not Quantity(bound).sign():
        return amount
    exceeds = Quantity(amount) < Quantity(bound) if is_least else Quantity(amount) > Quantity(bound)
    return bound if exceeds else amount


def _scaled(
    name: str, amount: QuantityLike | None, base: QuantityLike | None, result: QuantityLike | None
) -> QuantityLike | None:
    """Return what has the ratio to an amount that a result has to a base; in thousandths of a cpu, or in
    whole bytes. Without a base there is no result, without an amount it is unchanged."""
    if base is None or result is None or not Quantity(base).sign():
        return None
    if amount is None:
        return result
    parts = [whole(name, Quantity(quantity)) for quantity in (amount, result, base)]
    return f"{parts[0] * parts[1] // parts[2]}{'m' if name == 'cpu' else ''}"
