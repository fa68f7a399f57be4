"""What autoscalers work with, and what their drivers know of them: what each decides in a round, and when
it acts in a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from moorage.kube import Object
from moorage.lazy import NamedTuple

from .group_settings import GroupSettings
from .karpenter.karpenter_options import KarpenterOptions
from .providers.pool_types import PoolTypes, Types
from .scale_up_answer import NewNode

if TYPE_CHECKING:
    from .karpenter.cluster_view import ClusterView


@dataclass
class LastPass:
    """What Karpenter's last pass has read: its view, and instance types with what they were read of."""

    view: ClusterView | None = None
    sources: list[object] | None = None
    types: PoolTypes | None = None


@dataclass(frozen=True)
class AutoscalerSettings:
    """What autoscalers work with: types as for `Questions.provision`, flags of Karpenter, a seed, the
    checked node groups of cluster-autoscaler, and Karpenter's last pass."""

    types: Types | None = None
    options: KarpenterOptions | None = None
    seed: int = 0
    groups: GroupSettings | None = None
    last: LastPass = field(default_factory=LastPass, compare=False, repr=False)


class Scaler(Protocol):
    """An autoscaler over the cluster of a scheduler, which makes nodes for pods that wait."""

    name: str

    def decide(self, pods: Sequence[str]) -> RoundDecision:
        """Decide which nodes come for pods, given by key."""
        ...


class TimedScaler(Scaler, Protocol):
    """An autoscaler of a replay, which adds and removes nodes as time goes on.

    Attributes
    ----------
    state : AutoscalerState or KarpenterState
        All that it remembers, with which another one can go on.
    """

    state: Any

    def next_time(self) -> float:
        """Return when it acts next, in seconds from the start; infinite if it waits for a change."""
        ...

    def act(self) -> None:
        """Do what is due."""
        ...


Made = tuple[dict[str, NewNode], list[Object]]
"""New nodes by name, and what was created for them."""


class RoundDecision(NamedTuple):
    """What an autoscaler does in a round.

    Attributes
    ----------
    planned : frozenset of str
        The pods that it has a place for on new nodes.
    refused : dict of str to str
        Its text about each pod that it makes no node for.
    make : callable or None
        Makes the nodes, given the number of the round; None where none come.
    pools : dict of str to str
        Pools without an instance type.
    plan : hashable
        Equal for decisions to make equal nodes for equal pods.
    existing : collection of str
        Nodes on which it expects pods that wait.
    """

    by: str
    planned: frozenset[str]
    refused: Mapping[str, str]
    make: Callable[[int], Made] | None
    pools: dict[str, str] = {}
    plan: Hashable = None
    existing: Collection[str] = ()
