"""A node that is about to be made: its pods, what it must have, and the instance types that it can still be.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/nodeclaim.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec import Struct

from moorage.kube import Pod
from moorage.kube.model.node import HOSTNAME

from ..pods.pod_shape import HostPort, PodShape, uid_of
from ..pods.volume_alternatives import Volumes, joined
from ..requirements.requirement_set import RequirementSet
from ..texts import with_values
from ..topology.topology import Host, Topology
from .claim_template import ClaimTemplate
from .reservations import Reservations
from .type_columns import KnownOffering, TypeColumns
from .type_filter import Wanted, types_left

Refusal = object
"""Why a pod cannot be on a claim; its text is Karpenter's."""


@dataclass(eq=False)
class Candidate:
    """A pod that is being placed.

    Attributes
    ----------
    alternatives : sequence of RequirementSet
        What its volumes leave; empty without such volumes.
    moves : bool
        Whether it would be moved from a node that works, for a lower price.
    """

    pod: Pod
    shape: PodShape
    volumes: Volumes
    alternatives: Sequence[RequirementSet]
    moves: bool = False
    updates: int = 0

    @property
    def uid(self) -> str:
        return uid_of(self.pod)


class Placement(NamedTuple):
    """What a claim becomes with one more pod."""

    requirements: RequirementSet
    types: int
    reserved: list[KnownOffering]


def narrowed(host: Host, candidate: Candidate, topology: Topology) -> Iterator[RequirementSet | Refusal]:
    """What a host would have to have with a pod, for each way to have its volumes; or why that way fails."""
    shape = candidate.shape
    base = host.requirements.meet(shape.requirements).without(HOSTNAME)
    for alternative in candidate.alternatives or (None,):
        requirements = base
        if alternative is not None:
            if refusal := refusal_of(host._replace(requirements=base), alternative):
                yield f"incompatible volume requirements, {refusal}"
                continue
            requirements = base.meet(alternative).without(HOSTNAME)
        yield topology.narrow(candidate.uid, shape, host._replace(requirements=requirements))


def refusal_of(host: Host, other: RequirementSet) -> str:
    """Why a host cannot meet requirements, which may name it; "" if it can."""
    ours = host.whole if HOSTNAME in other.by_key else host.requirements
    return ours.refusal(other, host.undefined)


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
    name: str
    host: RequirementSet
    requirements: RequirementSet
    types: int
    pods: list[Candidate] = msgspec.field(default_factory=list)
    amounts: dict[str, int] = msgspec.field(default_factory=dict)
    volumes: Volumes = msgspec.field(default_factory=dict)
    ports: list[tuple[str, tuple[HostPort, ...]]] = msgspec.field(default_factory=list)
    reserved: list[KnownOffering] = msgspec.field(default_factory=list)

    def as_host(self, requirements: RequirementSet) -> Host:
        return Host(self.name, self.template.taints, requirements, self.host, True)

    def room(self, name: str) -> int:
        """The most of a resource that another pod may request, were it not for daemons."""
        return self.template.columns.largest_allocatable(name, self.types) - self.amounts.get(name, 0)

    def placement(
        self, candidate: Candidate, topology: Topology, reservations: Reservations | None, best_effort: bool
    ) -> Placement | Refusal:
        """What the claim would become with a pod, or why it cannot take it.

        Parameters
        ----------
        reservations : Reservations or None
            None if reserved offerings are nothing special.
        best_effort : bool
            Whether minValues may be lowered.
        """
        shape, types, columns = candidate.shape, self.types, self.template.columns
        if refusal := shape.taint_refusal(self.template.taints):
            return refusal
        if candidate.volumes:
            volumes = joined(self.volumes, candidate.volumes)
            types &= columns.within(volumes)
            if not types:
                return _too_many_volumes(columns, self.types, volumes)
        host = self.as_host(self.requirements)
        if refusal := refusal_of(host, shape.requirements):
            return f"incompatible requirements, {refusal}"
        found: Placement | Refusal = ""
        for requirements in narrowed(host, candidate, topology):
            found = requirements
            if isinstance(requirements, RequirementSet):
                found = self._filtered(candidate, types, requirements, reservations, best_effort)
            if isinstance(found, Placement):
                break
        return found

    def _filtered(
        self,
        candidate: Candidate,
        types: int,
        requirements: RequirementSet,
        reservations: Reservations | None,
        best_effort: bool,
    ) -> Placement | Refusal:
        shape, columns = candidate.shape, self.template.columns
        amounts = dict(self.amounts)
        for name, amount in shape.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        wanted = Wanted(candidate.pod.key, shape.requests, shape.ports, amounts, self.ports, requirements)
        left = types_left(columns, self.template.groups, types, wanted, best_effort)
        if not isinstance(left, tuple):
            return left
        types, requirements = left
        if reservations is None or not columns.reserved & columns.all:
            return Placement(requirements, types, [])
        chosen = reservations.choose(self.name, columns.chosen(types), requirements, bool(self.reserved))
        return chosen if isinstance(chosen, str) else Placement(requirements, types, chosen)

    def add(
        self,
        candidate: Candidate,
        placement: Placement,
        topology: Topology,
        reservations: Reservations | None,
    ) -> None:
        """Take a pod."""
        shape = candidate.shape
        self.pods.append(candidate)
        self.requirements, self.types = placement.requirements, placement.types
        self.volumes = joined(self.volumes, candidate.volumes)
        for name, amount in shape.amounts.items():
            self.amounts[name] = self.amounts.get(name, 0) + amount
        host = self.as_host(self.requirements)
        topology.register_hosts(self.host.by_key[HOSTNAME].mask)
        topology.record(candidate.uid, shape, host)
        if shape.ports:
            self.ports.append((candidate.pod.key, shape.ports))
        if reservations is not None:
            reservations.take(self.name, self.reserved, placement.reserved)
        self.reserved = placement.reserved


def _too_many_volumes(columns: TypeColumns, types: int, volumes: Volumes) -> str:
    text = "would exceed volume limit for all instance type options"
    for driver in sorted(volumes):
        limits = [one.type.volume_limits.get(driver) for one in columns.chosen(types)]
        known = [limit for limit in limits if limit is not None]
        count = len(volumes[driver])
        if len(known) == len(limits) and count > max(known, default=-1):
            values = {"provisioner": driver, "volume-count": count, "volume-limit": max(known, default=-1)}
            return with_values(text, **values)
    return text
