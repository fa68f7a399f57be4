"""The loop of a pass: each pod goes to a node that is there, a claim in the making, or a new claim.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/scheduler.go (Solve) and queue.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.go_sort import sort_order
from moorage._core.base.host_rows import next_possible
from moorage.kube import Toleration
from moorage.kube.model.cluster import seconds
from moorage.kube.model.node import HOSTNAME

from .claim import Claim, ClaimWithPod, Refusal, ReservationError, Reservations, TriedPod
from .claim_template import ClaimTemplate, PoolLimits
from .existing_nodes import ExistingNode
from .label_requirements import Requirement, RequirementSet
from .pod_shape import RESOURCES, PodConstraints, relaxed, room_of, with_values
from .topology import Host, Topology
from .topology_group import TopologyGroup

# ---- nodes and claims as columns: which of them could take a pod, without asking one by one ----------------
# What the columns refuse would refuse the pod for certain; what they leave is asked. They compare the most
# that a host has left of each resource, the requirements that many hosts share, and the pods that
# topologies count on each. For speed alone (`tests/house/special_paths.toml`).

T = TypeVar("T")
Rows = npt.NDArray[np.int32]


class HostTable(Generic[T]):
    """Hosts by row, in the order in which they were added; what several have in common (taints and
    requirements) is a kind."""

    def __init__(self) -> None:
        self.hosts: list[T] = []
        self._room = np.zeros((len(RESOURCES), 16))
        self._kind = np.zeros(16, np.int32)
        self._place = np.zeros(16, np.int32)
        self._most_places = 0
        self._kinds: list[Host] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._agreed: dict[tuple[RequirementSet, tuple[Toleration, ...]], bytearray] = {}
        self._values: dict[str, tuple[dict[Requirement, int], list[int]]] = {}

    def add(self, host: T, seen: Host, room: Sequence[float]) -> int:
        """Add a host; its row."""
        row = len(self.hosts)
        if row == len(self._kind):
            self._room = np.concatenate([self._room, np.zeros_like(self._room)], axis=1)
            self._kind = np.concatenate([self._kind, np.zeros_like(self._kind)])
            self._place = np.concatenate([self._place, np.zeros_like(self._place)])
        self.hosts.append(host)
        place = self._place[row] = seen.host.by_key[HOSTNAME].mask.bit_length() - 1
        self._most_places = max(self._most_places, int(place) + 1)
        self.update(row, seen, room)
        return row

    def fork(self, rows: Sequence[int]) -> HostTable[T]:
        """The table for another pass, in which the hosts of some rows take no pod."""
        table = copy(self)
        table.hosts = [*self.hosts]
        table._room, table._kind = self._room.copy(), self._kind.copy()
        for row in rows:
            table._room[:, row] = -1.0
        return table

    def update(self, row: int, seen: Host, room: Sequence[float]) -> None:
        """Say what has become of a host."""
        self._kind[row] = self._kind_of(seen)
        self._room[:, row] = room

    def _kind_of(self, seen: Host) -> int:
        key = (seen.requirements, seen.taints)
        flags = self._known.get(key)
        if flags is None:
            flags = self._known[key] = len(self._kinds)
            self._kinds.append(seen)
        return flags

    def possible(self, candidate: TriedPod, order: Rows) -> Iterator[int]:
        """The rows of an order whose hosts could take a pod; nothing is placed while it is read."""
        shape, size = candidate.shape, (self._most_places + 7) // 8
        constraints = shape.constraints
        agreed, mask = self._agreeing(constraints), -1
        for group, selects in candidate.groups.deciding:
            if not group.on_hosts:
                agreed = self._in_domains(agreed, constraints, group, selects)
            elif HOSTNAME not in constraints.strict_requirements.by_key:
                mask &= group.allowed_hosts(selects)
        allowed = None if mask == -1 else (mask & (1 << size * 8) - 1).to_bytes(size, "little")
        columns, at = (self._room, self._kind, self._place), -1
        while (at := next_possible(order, at + 1, columns, shape.wanted, agreed, allowed)) >= 0:
            yield int(order[at])

    def _agreeing(self, constraints: PodConstraints) -> bytearray:
        """By kind, whether taints and requirements let pods in."""
        agreed = self._agreed.setdefault((constraints.requirements, constraints.tolerations), bytearray())
        for kind in self._kinds[len(agreed) :]:
            agreed.append(self._agrees(constraints, kind))
        return agreed

    def _in_domains(
        self, agreed: bytearray, constraints: PodConstraints, group: TopologyGroup, selects: bool
    ) -> bytearray:
        """By kind, whether it has a domain, too, in which a group lets pods in."""
        key = group.topology_key
        mask = group.open_domains(
            constraints.strict_requirements.by_key.get(key) or group.key.exists, selects
        )
        if mask == -1:
            return agreed
        own = constraints.requirements.by_key.get(key)
        values, value_of_kind = self._values_of(group)
        answers = [(nodes if own is None else nodes.meet(own)).select(mask) != 0 for nodes in values]
        return bytearray([flag and answers[at] for flag, at in zip(agreed, value_of_kind, strict=True)])

    def _values_of(self, group: TopologyGroup) -> tuple[dict[Requirement, int], list[int]]:
        """What kinds have of the label of a group, each value once, and the number of it by kind."""
        values, value_of_kind = self._values.setdefault(group.topology_key, ({}, []))
        for kind in self._kinds[len(value_of_kind) :]:
            own = kind.requirements.by_key.get(group.topology_key) or group.key.exists
            value_of_kind.append(values.setdefault(own, len(values)))
        return values, value_of_kind

    @staticmethod
    def _agrees(constraints: PodConstraints, host: Host) -> bool:
        if constraints.taint_refusal(host.taints):
            return False
        return constraints.names_host or not host.requirements.refusal(
            constraints.requirements, host.undefined
        )


# ---- solve -------------------------------------------------------------------------------------------------

HAS_CLAIMS = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
NO_TEMPLATE = "nodepool requirements filtered out all available instance types"


@dataclass(eq=False)
class Solver:
    """A pass in progress.

    Attributes
    ----------
    closed : sequence of int
        Rows of the nodes that take no pod which runs elsewhere.
    tolerating : bool
        Whether some pool has a taint of effect PreferNoSchedule.
    best_effort : bool
        Whether new claims may have fewer values than minValues asks for.
    refuses_claims : bool
        Whether pods with resource claims get no place.
    most_claims : int or None
        The pass ends early once there are more.
    hosts : int
        New nodes have numbers above it.
    relaxations : dict of str to list of str
        By the key of a pod, what it gave up over all attempts.
    """

    nodes: HostTable[ExistingNode]
    closed: Sequence[int]
    templates: Sequence[ClaimTemplate]
    limits: dict[str, PoolLimits]
    topology: Topology
    reservations: Reservations | None
    tolerating: bool
    best_effort: bool
    refuses_claims: bool
    most_claims: int | None = None
    hosts: int = 0
    errors: dict[str, Refusal] = field(default_factory=dict)
    relaxations: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._claims: HostTable[Claim] = HostTable()
        self._order = np.zeros(16, np.int32)
        self._counts = np.zeros(16)
        self._rows = np.arange(len(self.nodes.hosts), dtype=np.int32)
        self._open = np.delete(self._rows, self.closed) if self.closed else self._rows

    @property
    def claims(self) -> list[Claim]:
        """The claims, in the order in which the last sort left them."""
        return [self._claims.hosts[row] for row in self._order[: len(self._claims.hosts)]]

    def solve(self, candidates: Sequence[TriedPod]) -> None:
        """Place pods, until nothing has moved for a whole round."""
        queue = deque(sorted(candidates, key=_turn))
        length_at_return: dict[str, int] = {}
        while queue:
            candidate = queue[0]
            if length_at_return.get(candidate.uid) == len(queue):
                break
            queue.popleft()
            refusal = self._try(candidate)
            if refusal is None:
                if self.errors:
                    self.errors.pop(candidate.pod.key, None)
                if self.most_claims is not None and len(self._claims.hosts) > self.most_claims:
                    return
                continue
            self.errors[candidate.pod.key] = refusal
            self._update(candidate)
            queue.append(candidate)
            length_at_return[candidate.uid] = len(queue)

    def _update(self, candidate: TriedPod) -> None:
        candidate.groups = self.topology.groups(candidate.shape.constraints)
        candidate.updates += 1

    def _try(self, original: TriedPod) -> Refusal | None:
        """Place a pod, giving up its preferences one by one; the last reason why not."""
        if self.refuses_claims and original.shape.has_claims:
            return HAS_CLAIMS
        candidate = original
        while True:
            refusal = self._add(candidate)
            if refusal is None or waits_for_reservation(refusal):
                return refusal
            step = relaxed(candidate.shape.constraints, self.tolerating, candidate.updates)
            if step is None:
                return refusal
            self.relaxations.setdefault(candidate.pod.key, []).append(step.text)
            candidate = replace(candidate, shape=replace(candidate.shape, constraints=step.constraints))
            self._update(candidate)

    def _add(self, candidate: TriedPod) -> Refusal | None:
        self.topology.ties.attempt += 1
        if self._add_to_node(candidate) or self._add_to_claim(candidate):
            return None
        if not self.templates:
            return NO_TEMPLATE
        return self._add_claim(candidate)

    def _add_to_node(self, candidate: TriedPod) -> bool:
        """Place a pod on the first node that takes it."""
        if not self.nodes.hosts:
            return False
        rows = self._open if candidate.moves else self._rows
        for row in self.nodes.possible(candidate, rows):
            requirements = self.nodes.hosts[row].placement(candidate, self.topology)
            if requirements is not None:
                node = self.nodes.hosts[row]
                if not node.pods:
                    node = self.nodes.hosts[row] = node.copied()
                node.add(candidate, requirements, self.topology)
                self.nodes.update(row, node.as_host(requirements), room_of(node.free))
                return True
        return False

    def _add_to_claim(self, candidate: TriedPod) -> bool:
        """Place a pod on a claim in the making: those with the fewest pods come first."""
        claims = self._claims.hosts
        if not claims:
            return False
        order = self._order[: len(claims)]
        sort_order(self._counts[: len(claims)], order)
        for row in self._claims.possible(candidate, order):
            claim = claims[row]
            placement = claim.placement(candidate, self.topology, self.reservations, False)
            if isinstance(placement, ClaimWithPod):
                claim.add(candidate, placement, self.topology, self.reservations)
                self._counts[row] += 1
                self._claims.update(row, claim.host, claim.room)
                return True
        return False

    def _add_claim(self, candidate: TriedPod) -> Refusal | None:
        """Make a claim of the first pool that accepts a pod; else why none does, in order of the pools."""
        refusals: list[Refusal] = []
        for template in self.templates:
            limits, columns = self.limits[template.name], template.columns
            about = {"NodePool": template.name}
            if limits.has_no_node:
                refusals.append(with_values("node limits have been exhausted for nodepool", **about))
                continue
            types = limits.allowed(columns)
            if not types:
                text = "all available instance types exceed limits for nodepool"
                refusals.append(with_values(text, **about))
                continue
            self.hosts += 1
            claim = Claim.begun(template, f"hostname-placeholder-{self.hosts:04d}", types)
            placement = claim.placement(candidate, self.topology, self.reservations, self.best_effort)
            if not isinstance(placement, ClaimWithPod):
                refusals.append(placement)
                if isinstance(placement, ReservationError):
                    break
                continue
            template.min_values_relaxed = _is_lowered(claim, placement)
            claim.add(candidate, placement, self.topology, self.reservations)
            self._keep(claim)
            limits.use({name: columns.capacity.largest(name, claim.types) for name in limits.left})
            return None
        return JoinedRefusals(refusals)

    def _keep(self, claim: Claim) -> None:
        """Take a new claim, with its first pod, among those in the making."""
        row = self._claims.add(claim, claim.host, claim.room)
        if row == len(self._order):
            self._order = np.concatenate([self._order, np.zeros_like(self._order)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._order[row], self._counts[row] = row, 1


class JoinedRefusals(Struct, eq=False):
    """Several refusals; each text is made when it is asked for."""

    refusals: Sequence[Refusal]

    def __str__(self) -> str:
        return "; ".join(map(str, self.refusals))


def waits_for_reservation(refusal: Refusal) -> bool:
    """Whether a pod only waits until a reservation is free."""
    last = refusal.refusals[-1] if isinstance(refusal, JoinedRefusals) else refusal
    return isinstance(last, ReservationError)


def _is_lowered(claim: Claim, placement: ClaimWithPod) -> bool:
    """Whether minValues of some label is lower than the pool asks for."""
    if not claim.requirements.has_min_values:
        return False
    for name, before in claim.requirements.by_key.items():
        now = placement.requirements.get(name).min_values
        if before.min_values is not None and now is not None and now < before.min_values:
            return True
    return False


def _turn(candidate: TriedPod) -> tuple[int, int, float, str]:
    """Pods with the largest requests come first, then the oldest."""
    amounts, created = candidate.shape.amounts, candidate.pod.metadata.creation_timestamp
    age = seconds(created) if created else float("-inf")
    return -amounts.get("cpu", 0), -amounts.get("memory", 0), age, candidate.uid
