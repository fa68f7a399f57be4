"""Autoscalers and kube-scheduler in turns: nodes come, and the scheduler decides which pods run there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import msgspec
from msgspec import Struct, structs

from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.engine.scheduler import ScheduleResult
from moorage.grouped import grouped
from moorage.kube import Node, NodePool, Object, Pod
from moorage.kube.model.autoscaling import CapacityBuffer

from .autoscaler_protocol import AutoscalerSettings, RoundDecision, Scaler
from .group_scaler import GroupScaler
from .group_settings import GroupSettings, checked_groups
from .karpenter.karpenter_options import KarpenterOptions
from .karpenter.provisioning import check_type
from .launched_nodes import assume_claims
from .node_maker import create
from .pool_scaler import PoolScaler
from .scale_up_answer import (
    CLUSTER_AUTOSCALER,
    KARPENTER,
    MOST_ROUNDS,
    SCHEDULER,
    LatePod,
    NewNode,
    ScaleUp,
    UnplacedPod,
)


def autoscalers(scheduler: PodScheduler, autoscaling: AutoscalerSettings) -> list[Scaler]:
    """Return the autoscalers of a cluster, which give no name twice: Karpenter where it has NodePools, or
    nothing else could decide, and cluster-autoscaler where node groups are known."""
    names, there = set[str](), list[Scaler]()
    if autoscaling.groups is None or scheduler.client.list(NodePool)[0]:
        there.append(PoolScaler(scheduler, autoscaling, names))
    if autoscaling.groups is not None:
        there.append(GroupScaler(scheduler, autoscaling, names))
    return there


def scale_up(scheduler: PodScheduler, autoscaling: AutoscalerSettings, keep: bool = False) -> ScaleUp:
    """Place pods and make nodes in turn; see `Questions.scale_up`."""
    check_type("options", autoscaling.options, KarpenterOptions)
    check_type("groups", autoscaling.groups, GroupSettings)
    if autoscaling.groups is not None:
        nodes: list[Node] = scheduler.client.list(Node)[0]
        groups = checked_groups(autoscaling.groups, {node.name: node for node in nodes})
        autoscaling = replace(autoscaling, groups=groups)
    with scheduler.transaction() as transaction:
        answer = grow(scheduler, autoscaling, scheduler.run(), scheduler.run)
        if keep:
            transaction.commit()
    return answer


def grow(
    scheduler: PodScheduler,
    autoscaling: AutoscalerSettings,
    result: ScheduleResult,
    run: Callable[[], ScheduleResult],
    among: Sequence[Scaler] | None = None,
) -> ScaleUp:
    """Make nodes for pods that a run has not placed, and run again, until nothing changes.

    Parameters
    ----------
    run : callable
        Places pods, and returns the result of all runs or of this one.
    among : sequence of Scaler, optional
        Who makes nodes; by default the autoscalers of the cluster, as they begin.
    """
    left = left_pods(scheduler, result)
    among = autoscalers(scheduler, autoscaling) if among is None else among
    rounds = _Rounds(autoscaling.seed, left, tuple([autoscaler.name for autoscaler in among]))
    keeps_room = bool(scheduler.client.list(CapacityBuffer)[0])
    if keeps_room:
        assume_claims(scheduler)  # room is kept on nodes that Karpenter knows
    while left or keeps_room:
        # They all see the same cluster: none of them waits for the nodes of another.
        rounds.decisions = [autoscaler.decide([*left]) for autoscaler in among]
        makers = [decision.make for decision in rounds.decisions if decision.make is not None]
        rounds.complete = not makers
        if not makers or rounds.is_in_vain() or rounds.rounds == MOST_ROUNDS:
            break
        rounds.rounds += 1
        for make in makers:
            new_nodes, objects = make(rounds.rounds)
            rounds.new_nodes |= new_nodes
            rounds.objects += objects
        left = left_pods(scheduler, run())
        rounds.take(left)
    return rounds.scale_up(scheduler)


def left_pods(scheduler: PodScheduler, result: ScheduleResult) -> dict[str, str]:
    """The pods that the scheduler has tried and not placed, with its reasons."""
    pending = scheduler.pods.pending
    return {key: failure.search_message for key, failure in result.unschedulable.items() if key in pending}


class _Rounds(Struct):
    """What the rounds have come to so far."""

    seed: int
    left: dict[str, str]
    autoscalers: tuple[str, ...]
    rounds: int = 0
    decisions: list[RoundDecision] = msgspec.field(default_factory=list)
    new_nodes: dict[str, NewNode] = msgspec.field(default_factory=dict)
    tried: dict[str, None] = msgspec.field(default_factory=dict)
    late: list[LatePod] = msgspec.field(default_factory=list)
    objects: list[Object] = msgspec.field(default_factory=list)
    promised: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    doubled: dict[str, None] = msgspec.field(default_factory=dict)
    plans: set[Hashable] = msgspec.field(default_factory=set)
    complete: bool = True

    def take(self, left: dict[str, str]) -> None:
        """Note which pods are left after a round, of which autoscalers had planned some on new nodes."""
        self.tried |= dict.fromkeys(self.left)
        late = {key: why for key, why in self.promised.items() if key not in left}
        self.late += [LatePod(key, self.rounds, *why) for key, why in late.items()]
        planned = {key: decision.by for decision in reversed(self.decisions) for key in decision.planned}
        counts = Counter(key for decision in self.decisions for key in decision.planned)
        self.doubled |= {key: None for key in self.tried if counts[key] > 1}
        self.promised = {
            key: self.promised.get(key, (why, planned[key])) for key, why in left.items() if key in planned
        }
        if left.keys() != self.left.keys():
            self.plans.clear()
        self.left, self.complete = left, True

    def is_in_vain(self) -> bool:
        """Whether the autoscalers would make the nodes again that have not taken a pod. New nodes may change
        what they make next, such as by the pods of DaemonSets that run there; they cannot do so for ever, as
        each round makes other nodes for the same pods."""
        plan = tuple([decision.plan for decision in self.decisions])
        is_known = plan in self.plans
        self.plans.add(plan)
        return is_known

    def scale_up(self, scheduler: PodScheduler) -> ScaleUp:
        stored: list[Pod] = scheduler.client.list(Pod)[0]
        placed = {
            pod.key: pod.spec.node_name for pod in stored if pod.key in self.tried and pod.spec.node_name
        }
        on = grouped((node, key) for key, node in placed.items())
        return ScaleUp(
            self.rounds,
            tuple(
                [structs.replace(node, pods=tuple(on.get(node.name, ()))) for node in self.new_nodes.values()]
            ),
            placed,
            tuple([self._unplaced(key, why) for key, why in self.left.items()]),
            tuple(self.late),
            self.complete,
            {pool: why for decision in self.decisions for pool, why in decision.pools.items()},
            self.seed,
            self.autoscalers,
            tuple(self.objects),
            tuple(self.doubled),
        )

    def _unplaced(self, pod: str, why: str) -> UnplacedPod:
        texts = {decision.by: decision.refused[pod] for decision in self.decisions if pod in decision.refused}
        who = " and ".join(texts) or SCHEDULER
        return UnplacedPod(pod, who, texts.get(KARPENTER, ""), texts.get(CLUSTER_AUTOSCALER, ""), why)


def make_ahead(
    scheduler: ChangingScheduler,
    autoscaling: AutoscalerSettings,
    change: Callable[[ChangingScheduler], object],
) -> ScaleUp:
    """Make the nodes that would come after a change, which itself is taken back."""
    with scheduler.transaction():
        change(scheduler)
        scheduler.sync()
        up = grow(scheduler, autoscaling, scheduler.run(), scheduler.run)
    create(scheduler, up.objects)
    return up
