"""Autoscalers and kube-scheduler in turns: nodes come, and the scheduler decides which pods run there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace

import msgspec
from msgspec import Struct

from moorage.cluster import PodScheduler
from moorage.engine.scheduler import ScheduleResult
from moorage.kube import Node, Object, Pod

from .group_settings import GroupSettings, checked_groups
from .karpenter.karpenter_options import KarpenterOptions
from .pending_provisioning import check_type
from .scale_up_answer import MOST_ROUNDS, LatePod, NewNode, ScaleUp, WaitingPod
from .scalers import Decision, Growth, autoscalers, create


def scale_up(scheduler: PodScheduler, growth: Growth, keep: bool = False) -> ScaleUp:
    """Place pods and make nodes in turn; see `Scheduler.scale_up`."""
    check_type("options", growth.options, KarpenterOptions)
    check_type("groups", growth.groups, GroupSettings)
    if growth.groups is not None:
        nodes: list[Node] = scheduler.client.list(Node)[0]
        groups = checked_groups(growth.groups, {node.name: node for node in nodes})
        growth = replace(growth, groups=groups)
    with scheduler.transaction() as transaction:
        answer = grow(scheduler, growth, scheduler.run(), scheduler.run)
        if keep:
            transaction.commit()
    return answer


def grow(
    scheduler: PodScheduler, growth: Growth, result: ScheduleResult, run: Callable[[], ScheduleResult]
) -> ScaleUp:
    """Make nodes for pods that a run has not placed, and run again, until nothing changes.

    Parameters
    ----------
    run : callable
        Places pods, and returns the result of all runs or of this one.
    """
    left = left_pods(scheduler, result)
    deciders = autoscalers(scheduler, growth)
    found = _Found(growth, left, tuple(deciders))
    while left:
        # They all see the same cluster: none of them waits for the nodes of another.
        found.decisions = [decide([*left]) for decide in deciders.values()]
        makers = [one.make for one in found.decisions if one.make is not None]
        found.complete = not makers
        if not makers or found.is_in_vain() or found.rounds == MOST_ROUNDS:
            break
        found.rounds += 1
        for make in makers:
            made, objects = make(found.rounds)
            found.made |= made
            found.objects += objects
        left = left_pods(scheduler, run())
        found.take(left)
    return found.scale_up(scheduler)


def left_pods(scheduler: PodScheduler, result: ScheduleResult) -> dict[str, str]:
    """The pods that the scheduler has tried and not placed, with its reasons."""
    pending = scheduler.pods.pending
    return {key: failure.search_message for key, failure in result.unschedulable.items() if key in pending}


class _Found(Struct):
    """What the rounds have come to so far."""

    growth: Growth
    left: dict[str, str]
    autoscalers: tuple[str, ...]
    rounds: int = 0
    decisions: list[Decision] = msgspec.field(default_factory=list)
    made: dict[str, NewNode] = msgspec.field(default_factory=dict)
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
        planned = {key: one.by for one in reversed(self.decisions) for key in one.planned}
        counts = Counter(key for one in self.decisions for key in one.planned)
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
        plan = tuple([one.plan for one in self.decisions])
        is_known = plan in self.plans
        self.plans.add(plan)
        return is_known

    def scale_up(self, scheduler: PodScheduler) -> ScaleUp:
        stored: list[Pod] = scheduler.client.list(Pod)[0]
        placed = {
            pod.key: pod.spec.node_name for pod in stored if pod.key in self.tried and pod.spec.node_name
        }
        on: dict[str, list[str]] = {}
        for key, node in placed.items():
            on.setdefault(node, []).append(key)
        return ScaleUp(
            self.rounds,
            tuple([node._replace(pods=tuple(on.get(node.name, ()))) for node in self.made.values()]),
            placed,
            tuple([WaitingPod(key, self._refusals(key), why) for key, why in self.left.items()]),
            tuple(self.late),
            self.complete,
            {pool: why for one in self.decisions for pool, why in one.pools.items()},
            self.growth.seed,
            self.autoscalers,
            tuple(self.objects),
            tuple(self.doubled),
        )

    def _refusals(self, pod: str) -> dict[str, str]:
        return {one.by: one.refused[pod] for one in self.decisions if pod in one.refused}


def make_ahead(scheduler: PodScheduler, growth: Growth, change: Callable[[PodScheduler], object]) -> ScaleUp:
    """Make the nodes that would come after a change, which itself is taken back."""
    with scheduler.transaction():
        change(scheduler)
        scheduler.sync()
        up = grow(scheduler, growth, scheduler.run(), scheduler.run)
    create(scheduler, up.objects)
    return up
