"""GangScheduling: binds at least minCount pods of a pod group, or none."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.engine import framework as fwk
from moorage.kube import AnyGroup, Pod, PodGroup, UnitKey, group_of
from moorage.kube.model.pod_group import COMPOSITE

from ..framework.plugin.events import COMPOSITE_POD_GROUP, POD, POD_GROUP, ActionType, on, queue_if
from ..framework.plugin.group_index import PodGroups
from ..framework.profiles.in_core import UnitPlugin, gates_by_group

WAITS = "waiting for minCount pods from a gang to be scheduled"
TIMEOUT = 5 * 60.0
"""Seconds that a pod of a group waits at Permit."""


class GangScheduling(UnitPlugin, fwk.PreEnqueuePlugin, fwk.PermitPlugin, fwk.EnqueueExtensions):
    """PreEnqueue and Permit of kube-scheduler v1.37, gangscheduling/.

    Pods of a group that are scheduled together do not run Permit one by one:
    `scheduler/groups/place_group.py` counts them once. Permit is for a pod that is scheduled alone.
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
        return self.required_handle().shared(PodGroups)

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

    def after_group_updated(self, pod: Pod, old: PodGroup, new: PodGroup) -> fwk.QueueingHint:
        """Queue if the pod's group, or one of the same tree of groups, needs fewer pods than before."""
        return queue_if(0 < new.min_count < old.min_count and self._is_of(pod, new.unit))
