"""What Karpenter remembers in a replay."""

from __future__ import annotations

import copy
import math

import msgspec
from msgspec.structs import asdict

from moorage.autoscalers.karpenter.disruption_moves import Command
from moorage.kube import Node


class Launching(msgspec.Struct, frozen=True):
    """A node that is on its way: what happens next, when, and the node as it is once it is ready."""

    time: float
    node: Node
    is_registered: bool = False


class Proposal(msgspec.Struct, frozen=True):
    """A command of a method, and when it is validated."""

    time: float
    method: str
    command: Command


class Replacing(msgspec.Struct, frozen=True):
    """Nodes that go once those that replace them are ready: claims with their nodes, and new claims."""

    begun: float
    going: dict[str, str]
    coming: tuple[str, ...]
    reason: str


class Departure(msgspec.Struct, frozen=True):
    """A node that is drained: since when, when its pods were last evicted, and when the next is deleted
    whatever budgets say."""

    node: str
    since: float
    tried: float = -math.inf
    forced: float = math.inf


class KarpenterState(msgspec.Struct):
    """What is remembered; times are seconds from the start of the timeline.

    Attributes
    ----------
    first, last, passed : float
        When the first and the last pod came since the last pass over pods, and when that was.
    waiting : frozenset of str
        Pods that need another node, of which Karpenter knows.
    serials : dict of str to int
        Number of the last node of each pool.
    mark, passed_mark : tuple of int
        State of the cluster when it was last looked at, and after a pass over nodes that found nothing.
    next_pass, due, wakes : float
        The earliest time of the next pass over nodes, when it is, and when it may find something though
        nothing has changed.
    nominated : dict of str to float
        Until when pods are expected on nodes.
    departures : dict of str to Departure
        By the name of the claim.
    again, expires : float
        When nodes are drained again, or a replacement is given up; and when the next claim expires.
    """

    launching: list[Launching] = []
    first: float = math.inf
    last: float = math.inf
    passed: float = -math.inf
    waiting: frozenset[str] = frozenset()
    serials: dict[str, int] = {}
    mark: tuple[int, ...] = ()
    next_pass: float = 0.0
    due: float = math.inf
    passed_mark: tuple[int, ...] = ()
    wakes: float = -math.inf
    nominated: dict[str, float] = {}
    proposal: Proposal | None = None
    replacing: list[Replacing] = []
    departures: dict[str, Departure] = {}
    again: float = math.inf
    expires: float = math.inf

    def copy(self) -> KarpenterState:
        """Return an independent copy; what it holds is never changed."""
        return KarpenterState(**{name: copy.copy(value) for name, value in asdict(self).items()})

    @property
    def leaving(self) -> dict[str, str]:
        """The nodes that are being removed, by the names of their claims."""
        found = {claim: node for one in self.replacing for claim, node in one.going.items()}
        return found | {claim: one.node for claim, one in self.departures.items()}
