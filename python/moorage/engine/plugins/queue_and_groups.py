"""The plugins around the search for a node: of the queue (SchedulingGates, PrioritySort), of pod groups
(GangScheduling, TopologyPlacementGenerator, PodGroupPodsCount), and of binding (DefaultBinder).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage._core.state.cluster_state import ClusterState
from moorage.engine import framework as fwk
from moorage.errors import MoorageError
from moorage.kube import AnyGroup, Pod, PodSchedulingGate, UnitKey, group_of
from moorage.kube.model.pod_group import COMPOSITE

from ..framework.events import (
    COMPOSITE_POD_GROUP,
    POD,
    POD_GROUP,
    ActionType,
    is_same_pod,
    of_itself,
    on,
    queue_if,
)
from ..framework.in_tree_plugins import UnitPlugin, gates_by_group, gates_only_with
from ..queue.scheduling_queue import by_priority

if TYPE_CHECKING:
    from ..framework.group_index import PodGroups


# ---- gang scheduling ---------------------------------------------------------------------------------------

WAITS = "waiting for minCount pods from a gang to be scheduled"
TIMEOUT = 5 * 60.0
"""Seconds that a pod of a group waits at Permit."""


class GangScheduling(UnitPlugin, fwk.PreEnqueuePlugin, fwk.PermitPlugin, fwk.EnqueueExtensions):
    """PreEnqueue and Permit of kube-scheduler v1.37, gangscheduling/.

    Pods of a group that are scheduled together do not run Permit one by one:
    `scheduler/place_group.py` counts them once. Permit is for a pod that is scheduled alone.
    """

    name = "GangScheduling"
    feature_gate = "GenericWorkload"

    @gates_by_group
    def pre_enqueue(self, pod: Pod) -> fwk.Status | None:
        """Reject the pod until its group exists and has minCount pods."""
        key = group_of(pod)
        if key is None:
            return None
        groups = self._groups
        group, name = groups.known(key), key[1]
        if group is None:
            return self._waits_for(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        if groups.parent(group) is not None:
            return self._waits_for_tree(groups, key)
        if groups.size(key) >= group.min_count:
            return None
        return self._waits_for("waiting for minCount pods from a gang to appear in scheduling queue")

    def _waits_for_tree(self, groups: PodGroups, key: UnitKey) -> fwk.Status | None:
        """Reject a pod of a tree of groups until the tree has a top, and the groups and pods that it needs
        (kube-scheduler v1.37)."""
        root = groups.root(key)
        if root is None:
            name = groups.ancestors(key)[-1][1].removeprefix(f"{COMPOSITE}/")
            return self._waits_for(f'waiting for composite pod group "{name}" spec to appear')
        if groups.is_complete(root):
            return None
        name = root[1].removeprefix(f"{COMPOSITE}/")
        return self._waits_for(f'waiting for composite pod group "{name}" tree to meet quorum')

    def _waits_for(self, text: str) -> fwk.Status:
        return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), self.name)

    def permit(self, state: fwk.CycleState, pod: Pod, node_name: str) -> tuple[fwk.Status | None, float]:
        """Wait until minCount pods of the group have a node or are assumed.

        The last of these pods allows the others that wait.

        Returns
        -------
        Status or None
            None if the pod may be bound; Wait otherwise.
        float
            Seconds to wait.
        """
        key = group_of(pod)
        if key is None or self._groups.ancestors(key):  # a tree has a cycle of its own
            return None, 0.0
        if self._missing(key) <= 0:
            self._allow(key)
            return None, 0.0
        return fwk.Status(fwk.Code.WAIT, (WAITS,)), TIMEOUT

    def _missing(self, key: UnitKey) -> int:
        group = self._groups.get(key)
        return group.min_count - len(self._groups.scheduled(key)[0]) if group is not None else 0

    def _allow(self, key: UnitKey) -> None:
        handle = self.required_handle()
        if len(handle.waiting_pods):
            for member in self._groups.scheduled(key)[0]:
                waiting = handle.get_waiting_pod(member.metadata.uid)
                if waiting is not None:
                    waiting.allow(self.name)

    @property
    def _groups(self) -> PodGroups:
        return self.required_handle().shared(fwk.group_index.PodGroups)

    # ---- hints ---------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [
            on(POD, ActionType.ADD, self.after_pod_added, of_unit=True),
            on(POD_GROUP, ActionType.ADD, self.after_group_added, of_unit=True),
            on(POD_GROUP, ActionType.UPDATE, self.after_group_updated, of_unit=True),
            on(COMPOSITE_POD_GROUP, ActionType.ADD, self.after_group_added, of_unit=True),
        ]

    def after_pod_added(self, pod: Pod, old: None, new: Pod) -> fwk.QueueingHint:
        """Queue if a pod of the same group, or of the same tree of groups, was added."""
        return queue_if(self._is_of(pod, group_of(new)))

    def _is_of(self, pod: Pod, other: UnitKey | None) -> bool:
        """Whether a group is that of a pod, or belongs to the same tree."""
        key = group_of(pod)
        if key is None or other is None:
            return False
        return key == other or self._groups.top(key) == self._groups.top(other)

    def after_group_added(self, pod: Pod, old: None, new: AnyGroup) -> fwk.QueueingHint:
        """Queue if the pod's group, or one of the same tree of groups, was added."""
        return queue_if(self._is_of(pod, new.unit))

    def after_group_updated(self, pod: Pod, old: AnyGroup, new: AnyGroup) -> fwk.QueueingHint:
        """Queue if the pod's group, or one of the same tree of groups, needs fewer pods or groups than
        before."""
        return queue_if(0 < new.min_count < old.min_count and self._is_of(pod, new.unit))


class GangSchedulingFeasible(GangScheduling, without="permit"):
    """GangScheduling since v1.38: Permit is gone, and PlacementFeasible has a name in configurations."""

    extension_points = ("placementFeasible",)

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        needs_fewer = on(COMPOSITE_POD_GROUP, ActionType.UPDATE, self.after_group_updated, of_unit=True)
        return [*super().events_to_register(), needs_fewer]


# ---- pod group pods count ----------------------------------------------------------------------------------


class PodGroupPodsCount(fwk.PlacementScorePlugin):
    """PlacementScore of kube-scheduler v1.37, podgrouppodscount/.

    Pods that have a node already are counted, too. The score is 100 * pods / maximum.
    """

    name = "PodGroupPodsCount"
    default_weight = 1
    feature_gate = "TopologyAwareWorkloadScheduling"
    in_core = True

    def score_placement(self, group: AnyGroup, assignments: fwk.Assignments) -> int:
        return assignments.scheduled + assignments.placed

    def normalize_placement_scores(self, scores: npt.NDArray[np.int64]) -> npt.ArrayLike:
        most = int(scores.max(initial=0))
        if most == 0:
            raise MoorageError("no pods from pod group are assigned to any of the candidate placements")
        return scores * fwk.MAX_NODE_SCORE // most


# ---- topology placement generator --------------------------------------------------------------------------

MOST = 1 << 12
"""Largest number of parents whose placements are remembered."""
NO_DOMAIN = "cannot determine domain for already scheduled pods: {}"


class TopologyPlacementGenerator(fwk.PlacementGeneratePlugin):
    """PlacementGenerate of kube-scheduler v1.37, topologyaware/: one placement for each value of a label.

    Placements are in the order of their first nodes; upstream, in that of a Go map. If pods of the group have
    a node already, their placement is the only one. The placements of a group that belongs to a composite
    group are parts of the one that this group is tried in (v1.37).
    """

    name = "TopologyPlacementGenerator"
    feature_gate = "TopologyAwareWorkloadScheduling"
    in_core = True
    _version, _skips_empty = -1, False
    # By label and parent, with the parent, whose identity counts.
    _placements_of: dict[tuple[str, int], tuple[fwk.Placement, list[fwk.Placement]]]

    def generate_placements(
        self, group: AnyGroup, scheduled: Sequence[Pod], parent: fwk.Placement
    ) -> Sequence[fwk.Placement]:
        keys = group.topology_keys
        if not keys:
            return [parent]
        state, key = self.required_handle().cache.state, keys[0]
        if self._version != state.view.static_version:
            self._version, self._placements_of = state.view.static_version, {}
        known = self._placements_of.get((key, id(parent)))
        self._skips_empty = self.required_handle().release.empty_domains_are_none
        if known is None:
            if len(self._placements_of) >= MOST:
                self._placements_of.clear()
            placements = _placements(state, key, parent, self._skips_empty)
            known = self._placements_of[key, id(parent)] = parent, placements
        if not scheduled:
            return known[1]
        domain = self._domain(state, key, scheduled)
        return [placement for placement in known[1] if placement.name == domain]

    def _domain(self, state: ClusterState, key: str, scheduled: Sequence[Pod]) -> str:
        """The label's value on the nodes of some pods; MoorageError for none or several."""
        first: str | None = None
        for pod in scheduled:
            name = state.get_pod(pod).spec.node_name
            row = state.table.find_row(name)
            node = None if row is None else state.table.objects[row]
            if node is None:
                text = f'getting node for pod {pod.key}: nodeinfo not found for node name "{name}"'
                raise MoorageError(NO_DOMAIN.format(text))
            domain = node.metadata.labels.get(key)
            if domain is None:
                raise MoorageError(NO_DOMAIN.format(f"no topology domain found for pod {pod.key}"))
            if not domain and self._skips_empty:
                raise MoorageError(NO_DOMAIN.format(f"empty topology domain found for pod {pod.key}"))
            if first not in (None, domain):
                text = f"more than 1 domain found for pod group: {first}, {domain}"
                raise MoorageError(NO_DOMAIN.format(text))
            first = domain
        return first or ""


def _placements(
    state: ClusterState, key: str, parent: fwk.Placement, skips_empty: bool
) -> list[fwk.Placement]:
    values = state.table.label_column(key)[parent.rows]
    rows, values = parent.rows[values != 0], values[values != 0]
    names = state.symbols.names
    return [
        fwk.Placement(names[symbol] or "", rows[values == symbol])
        for symbol in dict.fromkeys(values.tolist())  # as they come
        if names[symbol] or not skips_empty
    ]


# ---- scheduling gates --------------------------------------------------------------------------------------


@lru_cache(256)  # thousands of pods may wait for one queueing system
def rejection(gates: tuple[PodSchedulingGate, ...]) -> fwk.Status:
    """Return the status of pods with some gates."""
    text = f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]"
    return fwk.Status(fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), SchedulingGates.name)


class SchedulingGates(fwk.PreEnqueuePlugin, fwk.EnqueueExtensions):
    """PreEnqueue of kube-scheduler v1.36, scheduling_gates.go."""

    name = "SchedulingGates"
    in_core = True

    @gates_only_with("scheduling_gates")
    def pre_enqueue(self, pod: Pod) -> fwk.Status | None:
        """Reject a pod with scheduling gates; the reason names them."""
        return rejection(pod.spec.scheduling_gates) if pod.spec.scheduling_gates else None

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self.after_pod_change)]

    @of_itself
    def after_pod_change(self, pod: Pod, old: Pod, new: Pod) -> fwk.QueueingHint:
        """Queue if the gates of the pod were removed."""
        return queue_if(is_same_pod(pod, new))


# ---- priority sort -----------------------------------------------------------------------------------------


class PrioritySort(fwk.QueueSortPlugin):
    """QueueSort of kube-scheduler v1.36, priority_sort.go. Pods with equal times keep the order of entry."""

    name = "PrioritySort"

    less = by_priority


# ---- default binder ----------------------------------------------------------------------------------------


class DefaultBinder(fwk.BindPlugin):
    """Bind: creates the binding through the client (kube-scheduler v1.36, defaultbinder/).

    The scheduler binds many pods with one call if no other plugin takes part after Filter and Score.
    """

    name = "DefaultBinder"
    in_core = True

    def bind(self, state: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status | None:
        try:
            self.required_handle().client.bind(pod, node_name)
        except MoorageError as error:
            return fwk.as_status(error)
        return None
