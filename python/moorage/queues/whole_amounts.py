"""Amounts of resources as Kueue counts them (v0.17, pkg/resources): whole numbers, cpu in thousandths, all
else in units, fractions rounded up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from moorage._core.base.quantity import Quantity, parse
from moorage._core.base.resources import pod_requests
from moorage.kube.model.meta import QuantityLike, whole
from moorage.kube.model.pod import Pod, PodSpec

FlavorResource = tuple[str, str]
"""A flavor and a resource."""

Amounts = dict[str, int]
"""Amounts by resource."""

PODS = "pods"
_MOST = 2**31 - 1


def amount(resource: str, quantity: QuantityLike) -> int:
    """Return a quantity of a resource as a whole number."""
    return whole(resource, parse(quantity))


def amounts(resources: Mapping[str, QuantityLike]) -> Amounts:
    """Return the quantities of a resource list as whole numbers."""
    return {name: amount(name, quantity) for name, quantity in resources.items()}


def amounts_of(spec: PodSpec) -> Amounts:
    """Return what a pod asks for."""
    return {name: whole(name, quantity) for name, quantity in pod_requests(Pod(spec=spec)).items()}


@lru_cache(maxsize=1 << 16)
def text(resource: str, value: int) -> str:
    """Return a whole number of a resource as the quantity that Kueue writes."""
    if resource == "cpu":
        return str(Quantity(f"{value}m"))
    is_binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    if is_binary and value % 1024 == 0 and abs(value) >= 1024:
        return str(Quantity(f"{value // 1024}Ki"))
    return str(Quantity(str(value)))


def plus(first: Mapping[str, int], other: Mapping[str, int], times: int = 1) -> Amounts:
    """Return the sum of two, the second first taken some times; -1 subtracts it."""
    total = dict(first)
    for name, value in other.items():
        total[name] = total.get(name, 0) + value * times
    return total


def count_in(request: Mapping[str, int], capacity: Mapping[str, int]) -> tuple[int, str]:
    """Return how often a request fits into a capacity, and the resource that limits it: of equal ones the
    first by name."""
    counts: list[tuple[int, str]] = []
    for name, value in sorted(request.items()):
        if value and name not in capacity:
            return 0, name
        counts.append((quotient(capacity.get(name, 0), value) if value else _MOST, name))
    return min(counts, default=(0, ""))


def quotient(value: int, by: int) -> int:
    """Return a quotient rounded towards zero, as Go does."""
    return value // by if (value < 0) == (by < 0) else -(-value // by)


def greater(first: Mapping[str, int], other: Mapping[str, int]) -> list[str]:
    """Return the resources of which both have something and the first has more, by name."""
    return sorted(name for name, value in first.items() if name in other and value > other[name])


def per_pod(total: Mapping[str, int], pods: int) -> Amounts:
    """Return what one of some equal pods has of a total."""
    return {name: value // pods if pods else value for name, value in total.items()}
