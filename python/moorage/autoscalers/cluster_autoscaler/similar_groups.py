"""Groups whose nodes are about the same, among which new nodes are spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moorage._core.base.resources import pod_requests
from moorage.kube import Quantity

from ..providers.group_labels import AGENT_POOLS, ignored_labels, provider_of
from .estimator import capacity
from .flags import Flags
from .group_templates import Template

MEMORY_TOLERANCE, TOLERANCE = 0.015, 0.05
_COUNTED = ("cpu", "memory", "pods", "ephemeral-storage")


def are_similar(one: Template, other: Template, flags: Flags) -> bool:
    """Whether new nodes of two groups are alike, but for their zone, as the provider compares them. Without
    the flag, the nodes show which provider that is."""
    mine, its = one.node.metadata.labels, other.node.metadata.labels
    if flags.balancing_labels:
        return all(key in mine and mine[key] == its.get(key) for key in flags.balancing_labels)
    provider = flags.cloud_provider or provider_of(one.node) or provider_of(other.node)
    if provider == "azure" and any(key in mine and mine[key] == its.get(key) for key in AGENT_POOLS):
        return True
    ignored = ignored_labels(provider).union(flags.balancing_ignore_labels)
    return (
        _is_same_capacity(_nanos(capacity(one.node)), _nanos(capacity(other.node)))
        and _are_close(_nanos(one.node.status.allocatable), _nanos(other.node.status.allocatable), TOLERANCE)
        and _are_close(_free(one), _free(other), TOLERANCE)
        and {key: value for key, value in mine.items() if key not in ignored}
        == {key: value for key, value in its.items() if key not in ignored}
    )


def _nanos(amounts: Mapping[str, object]) -> dict[str, int]:
    return {name: Quantity(str(amount)).nanos() for name, amount in amounts.items()}


def _is_same_capacity(one: dict[str, int], other: dict[str, int]) -> bool:
    rest = one | other
    rest.pop("memory", None)
    same = one.keys() == other.keys() and all(one[name] == other[name] for name in rest)
    mine, its = one.get("memory", 0), other.get("memory", 0)
    return same and _are_close({"memory": mine}, {"memory": its}, MEMORY_TOLERANCE)


def _are_close(one: dict[str, int], other: dict[str, int], tolerance: float) -> bool:
    if one.keys() != other.keys():
        return False
    for name, amount in one.items():
        low, high = sorted((amount, other[name]))
        if high - low > high * tolerance:
            return False
    return True


def _free(template: Template) -> dict[str, int]:
    """What the pods of a new node leave of each resource that is counted."""
    used: dict[str, int] = dict.fromkeys(_COUNTED, 0)
    for pod in template.pods:
        for name, amount in pod_requests(pod).items():
            used[name] = used.get(name, 0) + amount.nanos()
    has = _nanos(template.node.status.allocatable)
    return {name: has.get(name, 0) - amount for name, amount in used.items()}


@dataclass
class Growth:
    """The size that a group has and that it gets."""

    group: str
    size: int
    most: int
    new_size: int


def spread(groups: Iterable[tuple[str, int, int]], nodes: int) -> list[Growth]:
    """Spread new nodes over groups (name, size, greatest size): each goes to the smallest that is not full.

    Returns
    -------
    list of Growth
        Of the groups that grow.
    """
    growths = [Growth(name, size, most, size) for name, size, most in groups if size != most]
    growths.sort(key=lambda one: one.size)
    for _ in range(nodes):
        open_ones = [one for one in growths if one.new_size < one.most]
        if not open_ones:
            break
        min(open_ones, key=lambda one: one.new_size).new_size += 1
    return [one for one in growths if one.new_size != one.size]
