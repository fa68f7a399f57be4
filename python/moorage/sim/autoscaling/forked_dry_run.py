"""DryRun: what an autoscaler asks the engine that schedules, in a fork that the replay does not see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from moorage.autoscaling.cluster_autoscaler.estimator import amounts, capacity, requests
from moorage.facade import Scheduler
from moorage.objects import Node, ObjectMeta, Pod
from moorage.planning.pending import pending_pods, without_evictions
from moorage.planning.pod_moves import Blocker, Mover, pods_to_move, stays
from moorage.planning.stored_pods import store_with_claims
from moorage.sim.timeline.autoscaler_spec import NodeGroup

from .autoscaler_state import Upcoming

GROUP_LABEL = "moorage.dev/node-group"
HOSTNAME = "kubernetes.io/hostname"


def new_node(group: NodeGroup, name: str) -> Node:
    """Return a node of a group."""
    template: Node = group.template
    meta = template.metadata
    labels = meta.labels | {HOSTNAME: name, GROUP_LABEL: group.name}
    return replace(template, metadata=ObjectMeta(name=name, labels=labels, annotations=meta.annotations))


class DryRun:
    """A fork of the scheduler of a replay, with the nodes that were requested.

    Parameters
    ----------
    scheduler : Scheduler
        Of the replay; no events are left to process.
    cutoff : int
        Pods of less priority do not count.

    Attributes
    ----------
    unschedulable : list of Pod
        The pending pods that fit nowhere, without those of DaemonSets; the others have been placed.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        now: float,
        upcoming: Iterable[tuple[NodeGroup, Upcoming]],
        cutoff: int,
    ) -> None:
        self.scheduler = scheduler.fork(lambda: now)
        for group, one in upcoming:
            self._join(group, one.name)
        self.unschedulable = self._place_pending(cutoff)

    def _join(self, group: NodeGroup, name: str) -> None:
        """Add a node, and place the pods that DaemonSets make for it."""
        scheduler = self.scheduler
        scheduler.client.create(new_node(group, name))
        scheduler.sync()
        has_pod = scheduler.cache.state.has_pod
        arrived = [pod for pod in scheduler.pods.pending.values() if stays(pod) and not has_pod(pod)]
        scheduler.schedule_pods([pod for pod in without_evictions(arrived) if not scheduler.not_ours(pod)])

    def _place_pending(self, cutoff: int) -> list[Pod]:
        """Place the pending pods; return those that fit nowhere."""
        scheduler = self.scheduler
        found = [
            pod for pod in pending_pods(scheduler)[0] if (pod.spec.priority or 0) >= cutoff and not stays(pod)
        ]
        pods = without_evictions(store_with_claims(scheduler, found))
        failures = scheduler.schedule_pods(pods).failures
        return [pods[at] for at in sorted(failures)]

    def empty(self, nodes: Sequence[str], new: Sequence[NodeGroup] = ()) -> list[Pod]:
        """Move the pods of nodes elsewhere; return those, made again, that have no place.

        Parameters
        ----------
        new : sequence of NodeGroup, optional
            Of which one node may be added for those: once they are too large for each, no more are moved.
        """
        rooms = [amounts(capacity(one.template)) for one in new]
        scheduler = self.scheduler
        mover, left = Mover(scheduler, force=True), list[Pod]()
        mover.cordon(nodes)
        for node in nodes:
            for pod in pods_to_move(scheduler, node):
                if isinstance(mover.move(pod, node), Blocker):
                    left.append(pod)
                    cpu, memory = requests(left)
                    if not any(cpu <= room[0] and memory <= room[1] for room in rooms):
                        return left
        return left

    def fits_on_one_new(self, group: NodeGroup, pods: Sequence[Pod]) -> bool:
        """Whether pods that have no place fit on one new node of a group.

        Parameters
        ----------
        pods : sequence of Pod
            That `empty` has returned.
        """
        scheduler = self.scheduler
        with scheduler.transaction():
            self._join(group, f"{group.name}-replacement")
            made = {pod.key: pod for pod in pending_pods(scheduler)[0]}
            if any(pod.key not in made for pod in pods):
                return False
            again = without_evictions([made[pod.key] for pod in pods])
            return not scheduler.schedule_pods(again).failures
