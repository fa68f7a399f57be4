"""The loop of a pass: each pod goes to a node that is there, a claim in the making, or a new claim.

Rules: Karpenter v1.15.0, pkg/controllers/provisioning/scheduling/scheduler.go (Solve) and queue.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.go_sort import sort_order
from moorage._core.provision.host_table import HostTable
from moorage.kube.model.cluster import seconds

from .claim import Claim, ClaimWithPod, Refusal, ReservationError, Reservations, TriedPod
from .claim_template import ClaimTemplate, PoolLimits
from .existing_nodes import ExistingNode
from .pod_shape import relaxed, with_values
from .topology import Topology

# ---- solve -------------------------------------------------------------------------------------------------

HAS_CLAIMS = "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
MOST_DRAWS = 1000
"""In how many ways a pod is tried at most, where domains of several keys are equal."""
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
    redraws : bool
        Whether pods that are left are tried in the other domains among which Karpenter draws.
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
    redraws: bool = False
    errors: dict[str, Refusal] = field(default_factory=dict)
    relaxations: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._claims: HostTable[Claim] = HostTable()
        self._order = np.zeros(16, np.int32)
        self._counts = np.zeros(16)
        self._grown = 0  # where the claim stands whose pods are more since the last sort
        self._rows = np.arange(len(self.nodes.hosts), dtype=np.int32)
        self._open = np.delete(self._rows, self.closed) if self.closed else self._rows

    @property
    def claims(self) -> list[Claim]:
        """The claims, in the order in which the last sort left them."""
        return [self._claims.hosts[row] for row in self._order[: len(self._claims.hosts)]]

    def solve(self, candidates: Sequence[TriedPod]) -> None:
        """Place pods, until nothing has moved for a whole round."""
        queue = deque(sorted(candidates, key=_turn))
        self._place(queue)
        while self.redraws and self._redraw(queue):
            self._place(queue)

    def _redraw(self, queue: deque[TriedPod]) -> bool:
        """Place one of the pods that are left by another draw; whether there is one."""
        ties = self.topology.ties
        for candidate in {_alike(each): each for each in reversed(queue)}.values():
            ties.turn = ties.ways = 1
            while (refusal := self._try(candidate)) is not None and ties.turn < min(ties.ways, MOST_DRAWS):
                ties.turn += 1
            ties.turn = 0
            if refusal is None:
                del self.errors[candidate.pod.key]
                queue.remove(candidate)
                return True
        return False

    def _place(self, queue: deque[TriedPod]) -> None:
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
        for at in self.nodes.possible(candidate, rows):
            row = int(rows[at])
            requirements = self.nodes.hosts[row].placement(candidate, self.topology)
            if requirements is not None:
                node = self.nodes.hosts[row]
                if not node.pods:
                    node = self.nodes.hosts[row] = node.copied()
                node.add(candidate, requirements)
                self.nodes.update(row, node.as_host(requirements), node.free)
                return True
        return False

    def _add_to_claim(self, candidate: TriedPod) -> bool:
        """Place a pod on a claim in the making: those with the fewest pods come first."""
        claims = self._claims.hosts
        if not claims:
            return False
        order = self._order[: len(claims)]
        sort_order(self._counts[: len(claims)], order, self._grown)
        for at in self._claims.possible(candidate, order):
            row = order[at]
            claim = claims[row]
            placement = claim.placement(candidate, self.topology, self.reservations, False)
            if isinstance(placement, ClaimWithPod):
                claim.add(candidate, placement, self.topology, self.reservations)
                self._counts[row] += 1
                self._grown = at
                self._claims.update(row, claim.host, claim.largest, claim.amounts)
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
            row = self._claims.add(claim, claim.host, claim.largest, claim.amounts)
            if row == len(self._order):
                self._order = np.concatenate([self._order, np.zeros_like(self._order)])
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
            self._order[row], self._counts[row] = row, 1
            self._grown = row
            limits.use({name: columns.capacity.largest(name, claim.types) for name in limits.left})
            return None
        return JoinedRefusals(refusals)


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


def _alike(candidate: TriedPod) -> Hashable:
    """Equal for pods of which one has no place where another has none."""
    shape, moves = candidate.shape, candidate.moves
    own = candidate.uid if candidate.volumes or candidate.alternatives else ""
    return shape.constraints, frozenset(shape.amounts.items()), shape.ports, moves, own


def _turn(candidate: TriedPod) -> tuple[int, int, float, str]:
    """Pods with the largest requests come first, then the oldest."""
    amounts, created = candidate.shape.amounts, candidate.pod.metadata.creation_timestamp
    age = seconds(created) if created else float("-inf")
    return -amounts.get("cpu", 0), -amounts.get("memory", 0), age, candidate.uid
