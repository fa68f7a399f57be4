"""PreemptHandle: the interface of preemption plugins (kube-scheduler v1.19 and v1.20,
framework/interface.go).

A preemption plugin makes one of its own handle, and finds the nominator, the plugins and the extenders of the
scheduler in it. Results have the form of framework/runtime/framework.go of v1.20.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from moorage.engine.cache import NodeInfo, NodeInfoClone
from moorage.engine.framework import Code, CycleState, Framework, FrameworkHandle, Status
from moorage.engine.framework.extension_points import ask_status
from moorage.engine.framework.handle import Extender
from moorage.engine.framework.nodes_view import NodeInfo as AnyNodeInfo
from moorage.engine.framework.nodes_view import NodesView
from moorage.engine.framework.status import error_status
from moorage.engine.preemption.eviction_units import budgets_of
from moorage.errors import MoorageError
from moorage.kube import Node, Pod, PodDisruptionBudget


class NodeScore(Struct, frozen=True):
    """A node and its weighted score from one plugin."""

    name: str
    score: int


PluginToNodeScores = dict[str, list[NodeScore]]
"""Weighted scores by plugin, in the order of the nodes."""


GRAVEST = (Code.ERROR, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE)


class PluginToStatus(dict[str, Status]):
    """Rejections by plugin, in the order in which the plugins ran; empty where the pod fits."""

    def merge(self) -> Status | None:
        """Merge the statuses into one.

        Returns
        -------
        Status or None
            The reasons of all statuses with the most severe code: Error, then UnschedulableAndUnresolvable,
            then Unschedulable, else the last one. None if there are no statuses.
        """
        if not self:
            return None
        statuses = list(self.values())
        codes = [status.code for status in statuses]
        code = next((grave for grave in GRAVEST if grave in codes), codes[-1])
        err = next((status.as_error() for status in statuses if status.code == Code.ERROR), None)
        texts = tuple(text for status in statuses for text in status.texts)
        return Status(code, texts, err=err)


class PluginsRunner:
    """Runs the plugins of the profile.

    The state may be a `CycleState` of the caller's own; it belongs to the pod with which it is first given.

    Parameters
    ----------
    run_all_filters : bool
        Run all Filter plugins, also after a rejection (WithRunAllFilters).
    """

    def __init__(self, handle: FrameworkHandle, run_all_filters: bool = False) -> None:
        self.handle = handle
        self.run_all_filters = run_all_filters

    @property
    def framework(self) -> Framework:
        """The framework of the profile.

        Raises
        ------
        MoorageError
            The plugins of the framework are still being created.
        """
        framework: Framework | None = self.handle.framework
        if framework is None:
            raise MoorageError("the framework of this handle is not complete")
        return framework

    def run_pre_score_plugins(self, state: CycleState, pod: Pod, nodes: Sequence[Node]) -> Status | None:
        """Run the PreScore plugins.

        Parameters
        ----------
        nodes : sequence of Node
            The feasible nodes.

        Returns
        -------
        Status or None
            An Error with the first failure. Skip, which v1.20 does not have, counts as Success.

        Raises
        ------
        MoorageError
            A node is not in the cache.
        """
        return self._for(state, pod).run_pre_score_plugins(state, pod, self._view(nodes))

    def run_score_plugins(
        self, state: CycleState, pod: Pod, nodes: Sequence[Node]
    ) -> tuple[PluginToNodeScores | None, Status | None]:
        """Run the Score plugins and normalize their scores.

        Parameters
        ----------
        nodes : sequence of Node
            The feasible nodes.

        Returns
        -------
        scores : dict of str to list of NodeScore, or None
            Weighted scores by plugin, in the order of the nodes; None with an Error.
        status : Status or None
            The Error of the first plugin that failed.

        Raises
        ------
        MoorageError
            A node is not in the cache.
        """
        framework = self._for(state, pod)
        records, failed = framework.run_score_plugins(state, pod, self._view(nodes))
        if failed is not None:
            return None, failed
        scorers = framework.profile_of(state.target).scorers
        scores: PluginToNodeScores = {plugin.name: [] for plugin, _ in scorers}
        for record in records:
            for plugin, score in record.scores:
                scores[plugin].append(NodeScore(record.name, score))
        return {plugin: its for plugin, its in scores.items() if its}, None

    def run_filter_plugins(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> PluginToStatus:
        """Run the Filter plugins on one node.

        Returns
        -------
        PluginToStatus
            The first rejection, or all of them with `run_all_filters`; empty where the pod fits; the Error
            alone where a plugin fails.
        """
        rejections = PluginToStatus()
        for plugin in self._for(state, pod).profile_of(state.target).filters:
            if plugin.name in state.skip_filter_plugins:
                continue
            status = ask_status(plugin, pod, plugin.filter, state, pod, node_info)
            if status is None or status.is_success:
                continue
            if not status.is_rejected:
                text = f'running "{plugin.name}" filter plugin for pod "{pod.name}"'
                return PluginToStatus({plugin.name: error_status(text, status, plugin.name)})
            rejections[plugin.name] = status.with_plugin(plugin.name)
            if not self.run_all_filters:
                break
        return rejections

    def run_filter_plugins_with_nominated_pods(
        self, state: CycleState, pod: Pod, node_info: NodeInfo | NodeInfoClone
    ) -> Status | None:
        """Run the Filter plugins on one node, with and without the pods nominated to it.

        Returns
        -------
        Status or None
            The result of `Framework.run_filter_plugins_with_nominated_pods`.
        """
        return self._for(state, pod).run_filter_plugins_with_nominated_pods(state, pod, node_info)

    def run_pre_filter_extension_add_pod(
        self, state: CycleState, pod_to_schedule: Pod, pod_to_add: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """Notify the PreFilter extensions that a dry run added a pod to a node.

        Parameters
        ----------
        node_info : AnyNodeInfo
            The node, which contains the pod already.

        Returns
        -------
        Status or None
            An Error where an extension fails.
        """
        framework = self._for(state, pod_to_schedule)
        return framework.run_pre_filter_extension_add_pod(state, pod_to_schedule, pod_to_add, node_info)

    def run_pre_filter_extension_remove_pod(
        self, state: CycleState, pod_to_schedule: Pod, pod_to_remove: Pod, node_info: AnyNodeInfo
    ) -> Status | None:
        """Notify the PreFilter extensions that a dry run removed a pod from a node.

        Parameters
        ----------
        node_info : AnyNodeInfo
            The node, which no longer contains the pod.

        Returns
        -------
        Status or None
            An Error where an extension fails.
        """
        framework = self._for(state, pod_to_schedule)
        return framework.run_pre_filter_extension_remove_pod(state, pod_to_schedule, pod_to_remove, node_info)

    def _for(self, state: CycleState, pod: Pod) -> Framework:
        """The framework, once a state describes a pod."""
        framework = self.framework
        framework.describe(state, pod)
        return framework

    def _view(self, nodes: Sequence[Node]) -> NodesView:
        table = self.handle.cache.state.table
        rows = [table.find_row(node.name) for node in nodes]
        unknown = [node.name for node, row in zip(nodes, rows, strict=True) if row is None]
        if unknown:
            raise MoorageError(f"node {unknown[0]} is not in the cache")
        return self.framework.nodes(np.array(rows, dtype=np.int32))


class PreemptHandle(PluginsRunner):
    """Nominator (PodNominator), plugins of the profile (`PluginsRunner`) and extenders.

    Functions that v1.20 has beside the handle are methods here: filters with nominated pods
    (PodPassesFiltersOnNode), and the lister of PodDisruptionBudgets.
    """

    def extenders(self) -> Sequence[Extender]:
        """The extenders in configured order."""
        return self.handle.extenders

    def pod_disruption_budgets(self) -> Sequence[PodDisruptionBudget]:
        """The PodDisruptionBudgets of the informers."""
        return budgets_of(self.handle)

    # ---- PodNominator --------------------------------------------------------------------------------------

    def add_nominated_pod(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod to a node in place of an earlier nomination.

        It is not checked whether the pod exists or is bound.

        Parameters
        ----------
        pod : Pod
            The pod to nominate.
        node_name : str
            Name of the node; "" stands for the node of the pod's own status, if it has one.
        """
        node = node_name or pod.status.nominated_node_name
        nominator = self.handle.nominator
        with nominator.lock:
            nominator.delete_nominated_pod_if_exists(pod)
            if node:
                nominator.put(pod, node)

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """Delete the nomination of a pod, if there is one.

        Parameters
        ----------
        pod : Pod
            The nominated pod.
        """
        self.handle.nominator.delete_nominated_pod_if_exists(pod)

    def update_nominated_pod(self, old: Pod, new: Pod) -> None:
        """Update the nomination of a pod that has changed.

        The pod moves to the end of its node's list. If neither state has a nominated node in its status, the
        nomination stays; otherwise the new status decides.

        Parameters
        ----------
        old, new : Pod
            The pod before and after the change.
        """
        with self.handle.nominator.lock:
            node = ""
            if not old.status.nominated_node_name and not new.status.nominated_node_name:
                node = self.handle.nominator.nominated_node(old) or ""
            self.delete_nominated_pod_if_exists(old)
            self.add_nominated_pod(new, node)

    def nominated_pods_for_node(self, node_name: str) -> list[Pod]:
        """Return the pods nominated to a node.

        Returns
        -------
        list of Pod
            In the order of their nominations.
        """
        return self.handle.nominator.nominated_pods_for_node(node_name)
