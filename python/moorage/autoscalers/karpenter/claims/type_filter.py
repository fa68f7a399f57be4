"""Which instance types are left for a claim with one more pod; if none, which criteria nothing met.

Rules: Karpenter v1.15.0, nodeclaim.go (filterInstanceTypesByRequirements, InstanceTypeFilterError).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from moorage._core.base.quantity import Quantity
from moorage.autoscalers.instance_types.instance_type import total

from ..pods.pod_shape import HostPort
from ..requirements.requirement_set import RequirementSet
from ..texts import resources
from .daemon_overhead import OverheadGroup
from .type_columns import TypeColumns, lacking_text, lacking_values

UsedPorts = Sequence[tuple[str, tuple[HostPort, ...]]]
"""Ports by the pods that take them."""
_MILLION_CPUS = 10**15
_TOO_SMALL = "no instance type has enough resources"
_REQUIREMENTS, _RESOURCES, _OFFERING = (
    "met the scheduling requirements",
    "had enough resources",
    "had a required offering",
)


def conflicts(pod: str, ports: tuple[HostPort, ...], used: UsedPorts) -> bool:
    """Whether a port is taken by another pod."""
    return any(port.matches(other) for port in ports for key, taken in used if key != pod for other in taken)


class Wanted(Struct, frozen=True):
    """What a claim with one more pod needs.

    Attributes
    ----------
    requests, ports
        Of the pod, whose key is `pod`.
    amounts : mapping
        Requests of all pods of the claim.
    used : sequence
        Ports of the pods that are there.
    """

    pod: str
    requests: Mapping[str, Quantity]
    ports: tuple[HostPort, ...]
    amounts: Mapping[str, int]
    used: UsedPorts
    requirements: RequirementSet


class FilterError(Struct, eq=False):
    """No instance type is left; the text says which criteria no type met.

    Attributes
    ----------
    met, fit, offered : int
        Types that meet the requirements, fit the requests, have an offering.
    """

    wanted: Wanted
    met: int
    fit: int
    offered: int
    daemons: list[Mapping[str, Quantity]]
    lacking: Mapping[str, int]

    def _resources(self) -> str:
        if not self.daemons:
            return resources(self.wanted.requests)
        least, most = self.daemons[0], self.daemons[0]
        for one in self.daemons[1:]:
            least, most = smallest(least, one), _largest(most, one)
        texts = [resources(total((one, self.wanted.requests))) for one in (least, most)]
        return texts[0] if texts[0] == texts[1] else f"min={texts[0]}, max={texts[1]}"

    def __str__(self) -> str:
        about = f"requirements={self.wanted.requirements}, resources={self._resources()}"
        if self.lacking:
            return f"{lacking_text(self.lacking)}, {about}"
        why = self._criteria()
        cpu = self.wanted.requests.get("cpu")
        typo = why == _TOO_SMALL and cpu is not None and cpu.nanos() >= _MILLION_CPUS
        hint = " (CPU request >= 1 Million, m vs M typo?)" if typo else ""
        return f"{why}, {about}{hint}"

    def _criteria(self) -> str:
        met, fit, offered = self.met, self.fit, self.offered
        failed = [
            text
            for text, types in ((_REQUIREMENTS, met), (_RESOURCES, fit), (_OFFERING, offered))
            if not types
        ]
        if len(failed) > 1:
            return f"no instance type {' or '.join(failed)}"
        if not met:
            return "no instance type met all requirements"
        if not fit:
            return _TOO_SMALL
        if not offered:
            return "no instance type has the required offering"
        if met & fit & ~offered:
            return (
                "no instance type which met the scheduling requirements and had enough resources, "
                "had a required offering"
            )
        if fit & offered & ~met:
            return (
                "no instance type which had enough resources and the required offering met the scheduling "
                "requirements"
            )
        if met & offered & ~fit:
            return (
                "no instance type which met the scheduling requirements and the required offering had the "
                "required resources"
            )
        return "no instance type met the requirements/resources/offering tuple"


def smallest(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """The smaller amount of each resource that both name."""
    return {name: min(other[name], amount) for name, amount in one.items() if name in other}


def _largest(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {**other, **{name: max(amount, other.get(name, amount)) for name, amount in one.items()}}


def types_left(
    columns: TypeColumns, groups: Iterable[OverheadGroup], types: int, wanted: Wanted, best_effort: bool
) -> tuple[int, RequirementSet] | FilterError:
    """The types that are left of some, and the requirements, with lowered minValues if that is allowed."""
    requirements = wanted.requirements
    met, offered = columns.compatible(requirements), columns.offered(requirements)
    asked, fit = 0, 0
    daemons: list[Mapping[str, Quantity]] = []
    for group in groups:
        if wanted.ports and conflicts(wanted.pod, wanted.ports, (*group.ports, *wanted.used)):
            continue
        asked |= group.types & types
        amounts = wanted.amounts
        if group.requests:
            daemons.append(group.requests)
            amounts = {**amounts, **{n: amounts.get(n, 0) + more for n, more in group.amounts.items()}}
        fit |= columns.fitting(amounts, requirements) & group.types
    left = asked & met & fit & offered
    lacking = lacking_values(columns, left, requirements)
    if lacking and best_effort:
        for name, have in lacking.items():
            requirements = requirements.having(requirements.by_key[name].with_min_values(have))
        lacking = {}
    if not left or lacking:
        return FilterError(wanted, met & asked, fit & asked, offered & asked, daemons, lacking)
    return left, requirements
