"""One loop of cluster-autoscaler 1.36: pods that wait get nodes, then nodes that are not needed leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from moorage.cluster import PodScheduler
from moorage.grouped import grouped
from moorage.kube import Node, Pod, PodDisruptionBudget
from moorage.kube.model.meta import Object
from moorage.kube.model.resource_slices import ResourceSlice
from moorage.kube.model.workload import DaemonSet, Job, ReplicaSet, ReplicationController, StatefulSet

from .drain_rules import Budgets, DrainContext
from .flags import Flags, Memory, ScaledGroup
from .group_states import ClusterStates, TemplateMaker
from .node_snapshot import NodeSnapshot
from .pods_to_help import are_all_new, is_expendable, old_enough, pods_without_place, waiting_pods
from .scale_down_pass import ScaleDownPass, ScaleDownResult
from .scale_up_pass import Draw, Remaining, ScaleUpPass, ScaleUpResult, first

UNTOLD = Object()
"""A controller that the input leaves out."""
CONTROLLERS = (ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job)


class LoopDecision(Struct):
    """What one loop decides."""

    up: ScaleUpResult = msgspec.field(default_factory=ScaleUpResult)
    down: ScaleDownResult = msgspec.field(default_factory=ScaleDownResult)


class ClusterAutoscaler:
    """Decides as cluster-autoscaler does, loop by loop.

    Parameters
    ----------
    is_whole : bool, optional
        Whether the cluster has all its objects. Otherwise a controller is taken to be there where the
        cluster has no object of its kind.
    """

    def __init__(
        self,
        groups: Sequence[ScaledGroup],
        flags: Flags,
        memory: Memory | None = None,
        is_whole: bool = True,
    ) -> None:
        self.groups, self.flags, self._is_whole = {group.name: group for group in groups}, flags, is_whole
        self.memory = Memory() if memory is None else memory

    def run_once(
        self,
        scheduler: PodScheduler,
        group_of: Mapping[str, str],
        now: float,
        waiting: Sequence[Pod] | None = None,
        draw: Draw = first,
    ) -> LoopDecision:
        """Decide for the cluster of a scheduler, which stays as it is.

        Parameters
        ----------
        group_of : mapping of str to str
            Group by node, of the nodes that belong to one.
        now : float
            Seconds since 1970, as the timestamps of objects.
        waiting : sequence of Pod, optional
            Those that fit nowhere, however young they are; by default those whose condition says so.
        draw : callable
            Draws the index of one of several equally good groups.
        """
        scheduler.sync()
        with scheduler.cache.transaction():  # which undoes what is tried
            return self._decide(scheduler, group_of, now, waiting, draw)

    def _decide(
        self,
        scheduler: PodScheduler,
        group_of: Mapping[str, str],
        now: float,
        waiting: Sequence[Pod] | None,
        draw: Draw,
    ) -> LoopDecision:
        memory, client = self.memory, scheduler.client
        memory.facts.begin_loop(self.flags)
        # Where cluster-autoscaler leaves the order open, objects are in the order in which they came.
        nodes: list[Node] = scheduler.informers.informer(Node).indexer.values()
        pods: list[Pod] = scheduler.informers.informer(Pod).indexer.values()
        listed: list[ResourceSlice] = client.list(ResourceSlice)[0]
        slices = grouped((name, each) for each in listed if (name := each.spec.node_name))
        states = ClusterStates(self.flags, memory, self.groups, nodes, slices, group_of, now)
        snapshot = self._snapshot(scheduler, nodes, pods)
        templates = TemplateMaker(states, list(client.list(DaemonSet)[0]), snapshot.pods_of).all()
        loop, are_given = LoopDecision(), waiting is not None
        if states.is_cluster_healthy():
            loop.up.templates = templates
            hidden = self._add_upcoming(snapshot, states, loop.up)
            known = waiting_pods(pods, self.flags) if waiting is None else waiting
            left = pods_without_place(snapshot, known, self.flags, memory.hints)
            memory.hints.end_loop()
            loop.up.to_help = helped = old_enough(left, self.flags, now, are_given)
            loop.up.result = self._result_without_search(helped, states, are_given)
            if loop.up.result == "LimitedByMaxNodesTotal":
                loop.up.remaining = [Remaining([pod]) for pod in helped]
            if not loop.up.result:
                ScaleUpPass(states, snapshot, templates, loop.up, draw).run(helped)
            if self.flags.scale_down_enabled:
                budgets = Budgets(client.list(PodDisruptionBudget)[0])
                context = DrainContext(self.flags, now, budgets, _finder(scheduler, self._is_whole))
                down = ScaleDownPass(states, snapshot, context, loop.down)
                down.run(hidden, loop.up.result != "InCooldown")
        else:
            memory.unneeded.clear()
        memory.last_hit, memory.latest = snapshot.last_hit, now
        return loop

    def _snapshot(self, scheduler: PodScheduler, nodes: Sequence[Node], pods: Sequence[Pod]) -> NodeSnapshot:
        """The cluster without expendable pods, and with nominated ones on their nodes."""
        snapshot = NodeSnapshot(scheduler, nodes, self.memory.last_hit)
        snapshot.list_anew(pods, lambda pod: is_expendable(pod, self.flags))
        for pod in pods:
            node, is_going = pod.status.nominated_node_name, pod.metadata.deletion_timestamp is not None
            if pod.spec.node_name or is_going or node not in snapshot.nodes or is_expendable(pod, self.flags):
                continue
            scheduler.context.enlist()
            scheduler.context.nominator.delete_nominated_pod_if_exists(pod)
            snapshot.place(pod, node)
        return snapshot

    def _add_upcoming(
        self, snapshot: NodeSnapshot, states: ClusterStates, result: ScaleUpResult
    ) -> list[str]:
        """Have the expected nodes there, in place of those that have not started, which it returns."""
        hidden = []
        for name, count in states.upcoming().items():
            if name in result.templates:
                snapshot.add(*[result.templates[name].copy(f"upcoming-{number}") for number in range(count)])
                result.upcoming += [name] * count
                hidden += states.not_started[name]
        for node in hidden:
            snapshot.remove(node)
        return hidden

    def _result_without_search(self, helped: Sequence[Pod], states: ClusterStates, are_given: bool) -> str:
        """Why no nodes are looked for; "" where they are."""
        most = self.flags.max_nodes_total
        if not helped:
            return "NotNeeded"
        if most and states.usable() >= most:
            return "LimitedByMaxNodesTotal"
        is_early = not (are_given or self.flags.bypassed_schedulers) and are_all_new(helped, states.now)
        return "InCooldown" if is_early else ""


def _finder(scheduler: PodScheduler, is_whole: bool) -> Callable[[str, str, str], Object | None]:
    """What finds controllers by kind, namespace and name."""
    known: dict[str, dict[str, Object]] = {}
    kinds = {each.__name__: each for each in CONTROLLERS}

    def find(kind: str, namespace: str, name: str) -> Object | None:
        if kind not in known:
            known[kind] = {each.key: each for each in scheduler.client.list(kinds[kind])[0]}
        owner = known[kind].get(f"{namespace}/{name}")
        return UNTOLD if owner is None and not (known[kind] or is_whole) else owner

    return find
