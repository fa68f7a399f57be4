"""Creates, replaces and deletes the pods of DaemonSets in a store."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import DaemonSet
from moorage.kube.workloads.daemon_pods import node_of, should_continue, should_run
from moorage.kube.workloads.daemon_rollout import DaemonRollout, is_rolled_out
from moorage.kube.workloads.missing_pods import create_daemons, create_missing, daemon_spec, written_revision
from moorage.kube.workloads.ownership import is_active, is_healthy
from moorage.kube.workloads.revisions import is_updated, mark_of
from moorage.store import Indexer

from .availability import Availability
from .rollout import Rollout, rollout_of
from .store_control import StoreControl


class DaemonSetController:
    """Creates, replaces and deletes the pods of DaemonSets.

    Parameters
    ----------
    nodes : Indexer
        The informer's copy of the nodes.
    """

    def __init__(self, control: StoreControl, nodes: Indexer[Node], availability: Availability) -> None:
        self._control = control
        self._nodes = nodes
        self._availability = availability
        # By key of the DaemonSet, those that wait. They are derived from nodes, pods and `availability`: a
        # fork starts without them, and a rollback forgets them.
        self._rollouts: dict[str, DaemonRollout] = {}

    # ---- what informers report -----------------------------------------------------------------------------

    def note_pod(self, pod: Pod) -> None:
        """Look at the node of a new, changed or deleted pod in the next round of a rollout.

        Parameters
        ----------
        pod : Pod
            Before or after the change.
        """
        for owner in pod.metadata.owner_references if self._rollouts else ():
            rollout = self._rollouts.get(f"{pod.namespace}/{owner.name}")
            if rollout is not None and owner.kind == "DaemonSet":
                rollout.changed[node_of(pod.spec)] = None

    def note_node(self, name: str) -> None:
        """Look at a changed node in the next round of all rollouts."""
        for rollout in self._rollouts.values():
            rollout.changed[name] = None

    def forget_rollouts(self) -> None:
        """Look at all nodes in the next round of all rollouts: after a rollback, or a node came or went."""
        self._rollouts.clear()

    # ---- rounds --------------------------------------------------------------------------------------------

    def reconcile(self, obj: DaemonSet) -> None:
        """Bring the pods to what a DaemonSet asks for on all nodes, and take the next step of a rollout.

        In a rollout, nodes are left out where nothing has changed since the last step.

        Raises
        ------
        RefusedError
            The API server refuses a pod.
        """
        if obj.metadata.deletion_timestamp is not None:
            return
        rollout = self._rollouts.pop(obj.key, None)  # an exception leaves none
        if rollout is not None and rollout.obj is not obj:
            rollout = None
        nodes, before = self._nodes_to_look_at(rollout), self._control.client.changes
        spec = daemon_spec(obj)
        for node in nodes:
            if not should_continue(spec, node):
                self.leave(obj, node.name)
        self._availability.wait(obj, False, self._availability.now())  # pods made here are known next round
        create_missing(self._control, obj, nodes)
        if self._control.client.changes == before:
            rollout = self._roll(obj, rollout)
        if rollout is not None:
            self._rollouts[obj.key] = rollout

    def _nodes_to_look_at(self, rollout: DaemonRollout | None) -> Sequence[Node]:
        """Return the nodes that have changed since the last step of a rollout; all nodes without one."""
        if rollout is None:
            return self._nodes.values()
        return list(filter(None, map(self._nodes.get, rollout.in_order(rollout.changed))))

    def _roll(self, obj: DaemonSet, rollout: DaemonRollout | None) -> DaemonRollout | None:
        """Take the next step of a rollout, and return the rollout; None if it is complete."""
        mark = mark_of(obj, written_revision(self._control, obj))
        if rollout is None or rollout.mark != mark:
            pods = self._control.owned(obj)
            if is_rolled_out(obj, mark, pods):
                self._availability.wait(obj, True, inf)
                return None
            rollout = DaemonRollout(obj, mark, self._nodes.values(), pods)
        for name in list(rollout.changed):
            rollout.look(name, self._nodes.get(name), self._control.owned_daemons(obj, name))
        available = self._availability.of(obj.spec.min_ready_seconds)
        step = rollout.next_step(available.since, available.now)
        self._availability.wait(obj, step.is_complete, step.due)
        create_daemons(self._control, obj, step.nodes)
        for pod in step.deleted:
            self._control.delete(pod)
        return None if step.is_complete else rollout

    # ---- single nodes --------------------------------------------------------------------------------------

    def reconcile_node(self, obj: DaemonSet, node: Node) -> None:
        """Bring the pods to what a DaemonSet asks for on a node.

        Raises
        ------
        RefusedError
            The API server refuses a pod.
        """
        if should_continue(daemon_spec(obj), node):
            create_missing(self._control, obj, [node])
        else:
            self.leave(obj, node.name)

    def leave(self, obj: DaemonSet, node: str) -> None:
        """Delete the pods that a DaemonSet has on a node."""
        for pod in self._control.daemons(obj, node):
            self._control.delete(pod)

    def rollout(self, obj: DaemonSet) -> Rollout | None:
        """Return the rollout of a DaemonSet; None if it is complete."""
        pods = list(filter(is_active, self._control.owned(obj)))
        mark, spec = mark_of(obj, written_revision(self._control, obj)), daemon_spec(obj)
        wanted = sum(should_run(spec, node) for node in self._nodes.values())
        available = list(filter(is_healthy, pods))
        updated = [pod for pod in pods if is_updated(pod, mark)]
        is_done = len(updated) == len(pods) or obj.spec.update_strategy.type == "OnDelete"
        return (
            None if is_done and len(available) >= wanted else rollout_of(obj, wanted, updated, len(available))
        )
