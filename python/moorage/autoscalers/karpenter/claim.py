"""A node that is about to be made: its pods, what it must have, and the instance types and reservations
that it can still be of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from moorage._core.base.quantity import Quantity
from moorage._core.provision.domain_counts import ConstraintGroups, Host
from moorage._core.provision.label_requirements import RequirementSet
from moorage._core.provision.thresholds import summed
from moorage.kube import Pod
from moorage.kube.model.meta import total
from moorage.kube.model.node import HOSTNAME
from moorage.lazy import NamedTuple

from ..providers.instance_type import RESERVED
from .claim_template import ClaimTemplate
from .pod_shape import HostPort, PodShape, resources, with_values
from .pod_validation import Volumes, joined
from .topology import Topology
from .type_columns import KnownOffering, KnownType, TypeColumns, lacking_text, lacking_values

# ---- which instance types are left for a claim with one more pod; if none, which criteria nothing met ------
# Rules: Karpenter v1.15.0, nodeclaim.go (filterInstanceTypesByRequirements, InstanceTypeFilterError).

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


class FilterError(Struct, eq=False):
    """No instance type is left; the text says which criteria no type met.

    Attributes
    ----------
    met, fit, offered : int
        Types that meet the requirements, fit the requests, have an offering.
    """

    requests: Mapping[str, Quantity]
    requirements: RequirementSet
    met: int
    fit: int
    offered: int
    daemons: list[Mapping[str, Quantity]]
    lacking: Mapping[str, int]

    def _resources(self) -> str:
        if not self.daemons:
            return resources(self.requests)
        least, most = self.daemons[0], self.daemons[0]
        for daemon in self.daemons[1:]:
            least, most = smallest(least, daemon), _largest(most, daemon)
        texts = [resources(total((each, self.requests))) for each in (least, most)]
        return texts[0] if texts[0] == texts[1] else f"min={texts[0]}, max={texts[1]}"

    def __str__(self) -> str:
        about = f"requirements={self.requirements}, resources={self._resources()}"
        if self.lacking:
            return f"{lacking_text(self.lacking)}, {about}"
        why = self._criteria()
        cpu = self.requests.get("cpu")
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


def smallest(own: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """The smaller amount of each resource that both name."""
    return {name: min(other[name], amount) for name, amount in own.items() if name in other}


def _largest(own: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {**other, **{name: max(amount, other.get(name, amount)) for name, amount in own.items()}}


# ---- instances that were paid for before: how many of each reservation are left, and who holds them --------
# Rules: Karpenter v1.15.0, reservationmanager.go and nodeclaim.go (offeringsToReserve).

UNAVAILABLE = (
    "one or more instance types with compatible reserved offerings are available, but could not be reserved"
)
FALLS_THROUGH = "the only compatible reserved offering is full; falling through to other NodePools"
FULL = "all compatible reserved offerings are full and no on-demand or spot fallback is available"
WOULD_LOSE = "satisfying updated nodeclaim constraints would remove all compatible reserved offering options"


class ReservationError(str):
    """Why a pod has to wait for a reservation; it gives up no preference, and no lower pool is asked."""

    __slots__ = ()


def reserved_instances(types: Iterable[KnownType]) -> dict[str, int]:
    """By reservation, the fewest instances that any of its offerings states."""
    left: dict[str, int] = {}
    for kind in types:
        for known in kind.offerings:
            offering = known.offering
            if offering.capacity_type == RESERVED:
                before = left.get(offering.reservation_id, offering.reservation_capacity)
                left[offering.reservation_id] = min(before, offering.reservation_capacity)
    return left


class Reservations:
    """What is left of each reservation, and which claims hold one.

    Parameters
    ----------
    instances : mapping of str to int
        By reservation, how many there are when a pass begins.
    strict : bool
        Whether pods wait for reservations that others hold; else they get nodes without one.
    freed : str
        A reservation of which one more instance will be free.
    """

    def __init__(self, instances: Mapping[str, int], strict: bool = True, freed: str = "") -> None:
        self._strict, self._freed = strict, freed
        self._left = dict(instances)
        self._held: dict[str, set[str]] = {}
        if freed in self._left:
            self._left[freed] += 1

    def choose(
        self, host: str, types: Iterable[KnownType], requirements: RequirementSet, holds: bool
    ) -> list[KnownOffering] | str:
        """The offerings that a claim would reserve; all that are compatible and have an instance left.

        Parameters
        ----------
        holds : bool
            Whether the claim holds a reservation now.
        """
        left, full, others = False, False, False
        offerings: list[KnownOffering] = []
        for kind in types:
            for known in kind.offerings:
                offering = known.offering
                if not offering.available or requirements.refusal(known.requirements, undefined=True):
                    continue
                if offering.capacity_type != RESERVED:
                    others = True
                elif offering.reservation_capacity == 0 and offering.reservation_id != self._freed:
                    full = True
                else:
                    left = True
                    if (
                        offering.reservation_id in self._held.get(host, ())
                        or self._left[offering.reservation_id] != 0
                    ):
                        offerings.append(known)
        if not self._strict:
            return FALLS_THROUGH if full and not left and not others else offerings
        if left and not offerings:
            return ReservationError(UNAVAILABLE)
        if full and not left and not others:
            return ReservationError(FULL)
        return ReservationError(WOULD_LOSE) if holds and not offerings else offerings

    def take(self, host: str, before: Iterable[KnownOffering], offerings: Iterable[KnownOffering]) -> None:
        """Reserve offerings for a claim in place of those that it held."""
        held = self._held.setdefault(host, set())
        wanted = {known.offering.reservation_id for known in offerings}
        for reservation in wanted - held:
            self._left[reservation] -= 1
        for reservation in {known.offering.reservation_id for known in before} & held - wanted:
            self._left[reservation] += 1
            held.discard(reservation)
        held |= wanted


# ---- claim -------------------------------------------------------------------------------------------------
# A node that is about to be made: its pods, what it must have, and the instance types that it can still be.
# Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/nodeclaim.go.

Refusal = object
"""Why a pod cannot be on a claim; its text is Karpenter's."""


class TriedPod(Struct, eq=False, gc=False):
    """A pod that is being placed.

    Attributes
    ----------
    alternatives : sequence of RequirementSet
        What its volumes leave; empty without such volumes.
    moves : bool
        Whether it would be moved from a node that works, for a lower price.
    groups : ConstraintGroups
        Of the topologies of the pass.
    updates : int
        How often these were looked up.
    """

    pod: Pod
    uid: str
    shape: PodShape
    volumes: Volumes
    alternatives: Sequence[RequirementSet]
    groups: ConstraintGroups
    moves: bool = False
    updates: int = 0


class ClaimWithPod(NamedTuple):
    """What a claim becomes with one more pod."""

    requirements: RequirementSet
    types: int
    amounts: dict[str, int]
    reserved: list[KnownOffering]


class Claim(Struct, eq=False):
    """A claim in the making.

    Attributes
    ----------
    types : int
        Its instance types, as bits of the template's.
    amounts : dict of str to int
        Requests of its pods, in units of 10**-9.
    """

    template: ClaimTemplate
    host: Host
    types: int
    pods: list[TriedPod] = msgspec.field(default_factory=list)
    amounts: dict[str, int] = msgspec.field(default_factory=dict)
    volumes: Volumes = msgspec.field(default_factory=dict)
    ports: list[tuple[str, tuple[HostPort, ...]]] = msgspec.field(default_factory=list)
    reserved: list[KnownOffering] = msgspec.field(default_factory=list)

    @classmethod
    def begun(cls, template: ClaimTemplate, name: str, types: int) -> Claim:
        """A claim of a template without pods."""
        vocabulary = template.requirements.vocabulary
        host = vocabulary.set_of([vocabulary.key(HOSTNAME).one_of(name)])
        return cls(template, Host(name, template.taints, template.requirements, host, True), types)

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def requirements(self) -> RequirementSet:
        return self.host.requirements

    @property
    def largest(self) -> dict[str, int]:
        """The most that its pods may request of each resource, were it not for daemons."""
        return self.template.columns.largest_allocatable(self.types)

    def placement(
        self, candidate: TriedPod, topology: Topology, reservations: Reservations | None, best_effort: bool
    ) -> ClaimWithPod | Refusal:
        """What the claim would become with a pod, or why it cannot take it.

        Parameters
        ----------
        reservations : Reservations or None
            None if reserved offerings are nothing special.
        best_effort : bool
            Whether minValues may be lowered.
        """
        constraints, types, columns = candidate.shape.constraints, self.types, self.template.columns
        taints = self.template.taints
        if taints and (refusal := constraints.taint_refusal(taints)):
            return refusal
        if candidate.volumes:
            volumes = joined(self.volumes, candidate.volumes)
            types &= columns.within(volumes)
            if not types:
                return _too_many_volumes(columns, self.types, volumes)
        if refusal := self.host.refusal(constraints.requirements):
            return f"incompatible requirements, {refusal}"
        result: ClaimWithPod | Refusal = ""
        for requirements in candidate.groups.ways(self.host, candidate.alternatives, topology.ties):
            result = requirements
            if isinstance(requirements, RequirementSet):
                result = self._filtered(candidate, types, requirements, best_effort)
            if isinstance(result, ClaimWithPod) and reservations is not None and columns.reserved:
                chosen = reservations.choose(
                    self.name, columns.chosen(result.types), result.requirements, bool(self.reserved)
                )
                result = chosen if isinstance(chosen, str) else result._replace(reserved=chosen)
            if isinstance(result, ClaimWithPod):
                break
        return result

    def _filtered(
        self, candidate: TriedPod, types: int, requirements: RequirementSet, best_effort: bool
    ) -> ClaimWithPod | FilterError:
        """The types that are left of some, and the requirements: minValues may be lowered."""
        shape, columns = candidate.shape, self.template.columns
        amounts = summed(self.amounts, shape.amounts)
        requested, fit = 0, 0
        daemons: list[Mapping[str, Quantity]] = []
        for group in self.template.groups:
            if shape.ports and conflicts(candidate.pod.key, shape.ports, (*group.ports, *self.ports)):
                continue
            requested |= group.types & types
            if group.requests:
                daemons.append(group.requests)
            fit |= columns.fitting(summed(amounts, group.amounts), requirements) & group.types
        met = columns.compatible(requirements)
        left = requested & met & fit
        lacking = lacking_values(columns, left, requirements) if requirements.has_min_values else {}
        if not left or (lacking and not best_effort):
            offered = columns.offered(requirements)
            return FilterError(
                *(shape.requests, requirements, met & requested, fit & requested, offered & requested),
                *(daemons, lacking),
            )
        for name, have in lacking.items():
            requirements = requirements.having(requirements.by_key[name].with_min_values(have))
        return ClaimWithPod(requirements, left, amounts, [])

    def add(
        self,
        candidate: TriedPod,
        placement: ClaimWithPod,
        topology: Topology,
        reservations: Reservations | None,
    ) -> None:
        """Take a pod."""
        shape = candidate.shape
        self.pods.append(candidate)
        self.host = self.host.having(placement.requirements)
        self.types, self.amounts = placement.types, placement.amounts
        if candidate.volumes:
            self.volumes = joined(self.volumes, candidate.volumes)
        topology.hosts.append(1 << self.host.place)
        candidate.groups.record(self.host)
        if shape.ports:
            self.ports.append((candidate.pod.key, shape.ports))
        if reservations is not None and (self.reserved or placement.reserved):
            reservations.take(self.name, self.reserved, placement.reserved)
        self.reserved = placement.reserved


def _too_many_volumes(columns: TypeColumns, types: int, volumes: Volumes) -> str:
    text = "would exceed volume limit for all instance type options"
    for driver in sorted(volumes):
        limits = [each.type.volume_limits.get(driver) for each in columns.chosen(types)]
        known = [limit for limit in limits if limit is not None]
        count = len(volumes[driver])
        if len(known) == len(limits) and count > max(known, default=-1):
            values = {"provisioner": driver, "volume-count": count, "volume-limit": max(known, default=-1)}
            return with_values(text, **values)
    return text
