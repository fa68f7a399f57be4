"""GangScheduling: known by name only; it is off by default, and concerns pods of pod groups alone."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.framework.events import (
    POD,
    POD_GROUP,
    ActionType,
    ClusterEventWithHint,
    QueueingHint,
    on,
    queue_if,
)
from moorage.framework.in_core import UnbuiltPlugin
from moorage.framework.interface import PERMIT, PRE_ENQUEUE, EnqueueExtensions
from moorage.objects.meta import Object
from moorage.objects.pod import Pod


class GangScheduling(UnbuiltPlugin, EnqueueExtensions):
    """kube-scheduler v1.36, gangscheduling/."""

    name = "GangScheduling"
    extension_points = (PRE_ENQUEUE, PERMIT)
    feature_gate = "GangScheduling"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [
            on(POD, ActionType.ADD, self.after_pod_added),
            on(POD_GROUP, ActionType.ADD, self.after_group_added),
        ]

    def after_pod_added(self, pod: Pod, old: None, new: Pod) -> QueueingHint:
        """A pod of the same group came."""
        return queue_if(
            new.namespace == pod.namespace and _group(pod) is not None and _group(new) == _group(pod)
        )

    def after_group_added(self, pod: Pod, old: None, new: Object) -> QueueingHint:
        """The pod's group came."""
        return queue_if(new.namespace == pod.namespace and new.name == _group(pod))


def _group(pod: Pod) -> str | None:
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else None
