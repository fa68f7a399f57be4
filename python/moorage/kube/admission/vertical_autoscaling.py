"""The admission webhook of VerticalPodAutoscalers (kubernetes/autoscaler, vertical-pod-autoscaler 1.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity

from ..model.admission_policies import LimitRange, LimitRangeItem
from ..model.autoscaling import ContainerResourcePolicy, VerticalPodAutoscaler
from ..model.meta import QuantityLike, Resources
from ..model.pod import Container, PodSpec

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
    acting = [one for one in autoscalers if one.spec.update_policy.update_mode != _OFF]
    return min(acting, key=lambda one: (one.metadata.creation_timestamp or "~", one.name), default=None)


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
    target = next((one.target for one in recommendation.containers if one.container_name == container), {})
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
    items = [item for one in limit_ranges for item in one.spec.limits if item.type == "Container"]
    containers = tuple([_resized(one, autoscaler, items) for one in spec.containers])
    return spec if containers == spec.containers else replace(spec, containers=containers)


def _policy(autoscaler: VerticalPodAutoscaler, container: str) -> ContainerResourcePolicy:
    policies = {one.container_name: one for one in autoscaler.spec.resource_policy.container_policies}
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
    parts = [
        Quantity(one).milli_value() if name == "cpu" else Quantity(one).value()
        for one in (amount, result, base)
    ]
    return f"{parts[0] * parts[1] // parts[2]}{'m' if name == 'cpu' else ''}"
