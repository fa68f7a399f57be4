"""Creates, replaces and deletes the pods of DaemonSets in a store."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.objects.model.node import Node
from moorage.objects.model.workload import DaemonSet
from moorage.objects.workloads.daemon_pods import should_continue, should_run
from moorage.objects.workloads.daemon_rollout import next_step
from moorage.objects.workloads.missing_pods import (
    create_daemons,
    create_missing,
    daemon_spec,
    written_revision,
)
from moorage.objects.workloads.ownership import is_active
from moorage.objects.workloads.revisions import is_updated, mark_of
from moorage.store import Indexer

from .availability import Availability
from .rollout import Rollout, rollout_of
from .store_control import StoreControl


class DaemonSetController:
    """Creates, replaces and deletes the pods of DaemonSets.

    Parameters
    ----------
    control : StoreControl
    nodes : Indexer
        The informer's copy of the nodes.
    availability : Availability
    """

    def __init__(self, control: StoreControl, nodes: Indexer[Node], availability: Availability) -> None:
        self._control = control
        self._nodes = nodes
        self._availability = availability

    def reconcile(self, obj: DaemonSet) -> None:
        """Bring the pods to what a DaemonSet asks for on all nodes, and take the next step of a rollout.

        Parameters
        ----------
        obj : DaemonSet

        Raises
        ------
        RefusedError
            The API server refuses a pod.
        """
        if obj.metadata.deletion_timestamp is not None:
            return
        nodes, before = self._nodes.values(), self._control.client.changes
        spec = daemon_spec(obj)
        for node in nodes:
            if not should_continue(spec, node):
                self.leave(obj, node.name)
        self._availability.wait(obj, False, self._availability.now())  # pods made here are known next round
        create_missing(self._control, obj, nodes)
        if self._control.client.changes == before:
            self._roll(obj, nodes)

    def _roll(self, obj: DaemonSet, nodes: Sequence[Node]) -> None:
        """Take the next step of a rollout."""
        mark = mark_of(obj, written_revision(self._control, obj))
        is_available = self._availability.of(obj.spec.min_ready_seconds)
        step = next_step(obj, nodes, self._control.owned(obj), mark, is_available)
        self._availability.wait(obj, step.is_complete, is_available.due)
        create_daemons(self._control, obj, step.nodes)
        for pod in step.deleted:
            self._control.delete(pod)

    def reconcile_node(self, obj: DaemonSet, node: Node) -> None:
        """Bring the pods to what a DaemonSet asks for on a node.

        Parameters
        ----------
        obj : DaemonSet
        node : Node

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
        """Delete the pods that a DaemonSet has on a node.

        Parameters
        ----------
        obj : DaemonSet
        node : str
        """
        for pod in self._control.daemons(obj, node):
            self._control.delete(pod)

    def rollout(self, obj: DaemonSet) -> Rollout | None:
        """Return the rollout of a DaemonSet; None if it is complete.

        Parameters
        ----------
        obj : DaemonSet

        Returns
        -------
        Rollout or None
        """
        pods = list(filter(is_active, self._control.owned(obj)))
        mark, spec = mark_of(obj, written_revision(self._control, obj)), daemon_spec(obj)
        wanted = sum(should_run(spec, node) for node in self._nodes.values())
        available = list(filter(self._availability.of(obj.spec.min_ready_seconds), pods))
        updated = [pod for pod in pods if is_updated(pod, mark)]
        is_done = len(updated) == len(pods) or obj.spec.update_strategy.type == "OnDelete"
        return (
            None if is_done and len(available) >= wanted else rollout_of(obj, wanted, updated, len(available))
        )
