"""One loop of cluster-autoscaler 1.36: pods that wait get nodes, then nodes that are not needed leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from moorage.objects import Node, Pod, PodDisruptionBudget
from moorage.objects.model.meta import Object
from moorage.objects.model.resource_slices import ResourceSlice
from moorage.objects.model.workload import (
    DaemonSet,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from moorage.scheduler import PodScheduler

from .drain_rules import Budgets, DrainContext
from .flags import Flags, Memory, NodeGroup
from .group_templates import TemplateMaker
from .node_snapshot import NodeSnapshot
from .node_states import GroupStates, NodeStates, complete_pools
from .pods_to_help import are_all_new, is_expendable, old_enough, pods_without_place, waiting_pods
from .scale_down_pass import ScaleDownPass, ScaleDownResult
from .scale_up_pass import Remaining, ScaleUpPass, ScaleUpResult

CONTROLLERS = (ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job)


@dataclass
class Loop:
    """What one loop decides."""

    up: ScaleUpResult = field(default_factory=ScaleUpResult)
    down: ScaleDownResult = field(default_factory=ScaleDownResult)


class ClusterAutoscaler:
    """Decides as cluster-autoscaler does, loop by loop.

    Parameters
    ----------
    groups : sequence of NodeGroup
    memory : Memory, optional
        Of earlier loops.
    """

    def __init__(self, groups: Sequence[NodeGroup], flags: Flags, memory: Memory | None = None) -> None:
        self.groups, self.flags = tuple(groups), flags
        self.memory = Memory() if memory is None else memory

    def run_once(
        self, scheduler: PodScheduler, group_of: Mapping[str, str], now: float, draw: int = 0
    ) -> Loop:
        """Decide for the cluster of a scheduler, which stays as it is.

        Parameters
        ----------
        group_of : mapping of str to str
            Group by node, of the nodes that belong to one.
        now : float
            Seconds since 1970, as the timestamps of objects.
        draw : int
            Which of equally good groups is taken, modulo their number.
        """
        scheduler.sync()
        memory, client = self.memory, scheduler.client
        # Where cluster-autoscaler leaves the order open, objects are in the order in which they came.
        nodes: list[Node] = scheduler.informers.informer(Node).indexer.values()
        pods: list[Pod] = scheduler.informers.informer(Pod).indexer.values()
        slices = _by_node(client.list(ResourceSlice)[0])
        states = NodeStates(nodes, self.flags, self._lacks_devices(slices, group_of))
        snapshot = self._snapshot(scheduler, nodes, pods)
        maker = TemplateMaker(
            self.flags,
            list(client.list(DaemonSet)[0]),
            states,
            snapshot.pods_of,
            lambda name: slices.get(name, ()),
        )
        templates = maker.all(self.groups, group_of, memory, now)
        groups = GroupStates(self.groups, self.flags, states, group_of, memory, now)
        loop = Loop()
        if groups.is_cluster_healthy():
            loop.up.templates = templates
            hidden = self._add_upcoming(snapshot, groups, loop.up)
            self._scale_up(snapshot, groups, pods, dict(group_of), (states.ready(), now, draw), loop.up)
            if self.flags.scale_down_enabled:
                budgets = Budgets(client.list(PodDisruptionBudget)[0])
                context = DrainContext(self.flags, now, budgets, _finder(scheduler))
                search = ScaleDownPass(
                    self.flags, snapshot, states, groups, group_of, memory, context, loop.down
                )
                search.run(hidden, loop.up.result != "InCooldown")
        else:
            memory.unneeded.clear()
        memory.last_hit, memory.latest = snapshot.last_hit, now
        return loop

    def _lacks_devices(
        self, slices: Mapping[str, Sequence[ResourceSlice]], group_of: Mapping[str, str]
    ) -> Callable[[Node], bool]:
        groups, known = {one.name: one for one in self.groups}, self.memory.templates

        def lacks(node: Node) -> bool:
            group = groups.get(group_of.get(node.name, ""))
            if group is None:
                return False
            declared = known[group.name].slices if group.name in known else group.template_slices
            needs, has = complete_pools(declared), complete_pools(slices.get(node.name, ()))
            return any(has[driver] < count for driver, count in needs.items())

        return lacks

    def _snapshot(self, scheduler: PodScheduler, nodes: Sequence[Node], pods: Sequence[Pod]) -> NodeSnapshot:
        """A fork without expendable pods, and with nominated ones on their nodes."""
        fork = scheduler.fork()
        snapshot = NodeSnapshot(fork, nodes, self.memory.last_hit)
        snapshot.take_off([pod for pod in fork.cache.state.pods() if is_expendable(pod, self.flags)])
        for pod in pods:
            node, is_going = pod.status.nominated_node_name, pod.metadata.deletion_timestamp is not None
            if pod.spec.node_name or is_going or node not in snapshot.nodes or is_expendable(pod, self.flags):
                continue
            fork.context.nominator.delete_nominated_pod_if_exists(pod)
            snapshot.place(pod, node)
        return snapshot

    def _add_upcoming(self, snapshot: NodeSnapshot, groups: GroupStates, result: ScaleUpResult) -> list[str]:
        """Have the expected nodes there, in place of those that have not started, which it returns."""
        hidden = []
        for name, count in groups.upcoming().items():
            if name in result.templates:
                for number in range(count):
                    snapshot.add(result.templates[name].copy(f"upcoming-{number}"))
                result.upcoming += [name] * count
                hidden += groups.not_started[name]
        for node in hidden:
            snapshot.remove(node)
        return hidden

    def _scale_up(
        self,
        snapshot: NodeSnapshot,
        groups: GroupStates,
        pods: Sequence[Pod],
        group_of: dict[str, str],
        moment: tuple[int, float, int],
        result: ScaleUpResult,
    ) -> None:
        flags, memory = self.flags, self.memory
        ready, now, draw = moment
        waiting = pods_without_place(snapshot, waiting_pods(pods, flags), flags, memory.hints)
        memory.hints.end_loop()
        result.to_help = waiting = old_enough(waiting, flags, now)
        if not waiting:
            result.result = "NotNeeded"
        elif flags.max_nodes_total and ready >= flags.max_nodes_total:
            result.result = "LimitedByMaxNodesTotal"
            result.remaining = [Remaining([pod]) for pod in waiting]
        elif not flags.bypassed_schedulers and are_all_new(waiting, now):
            result.result = "InCooldown"
        else:
            search = ScaleUpPass(
                flags, snapshot, groups, memory, result.templates, group_of, groups.total, now, draw
            )
            search.run(waiting, result)


def _finder(scheduler: PodScheduler) -> Callable[[str, str, str], Object | None]:
    """What finds controllers by kind, namespace and name."""
    known: dict[str, dict[str, Object]] = {}
    kinds = {one.__name__: one for one in CONTROLLERS}

    def find(kind: str, namespace: str, name: str) -> Object | None:
        if kind not in known:
            known[kind] = {one.key: one for one in scheduler.client.list(kinds[kind])[0]}
        return known[kind].get(f"{namespace}/{name}")

    return find


def _by_node(slices: Sequence[ResourceSlice]) -> dict[str, list[ResourceSlice]]:
    out: dict[str, list[ResourceSlice]] = {}
    for one in slices:
        if one.spec.node_name:
            out.setdefault(one.spec.node_name, []).append(one)
    return out
