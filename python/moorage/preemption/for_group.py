"""What pod groups change for DefaultPreemption: when no single pod of one evicts others."""

from __future__ import annotations

from moorage.framework.plugin.handle import FrameworkHandle
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup, group_of

from .eviction_units import groups_of

IN_PLACEMENTS = "not eligible due to placement-based pod group scheduling limitation"
AS_A_WHOLE = "not eligible due to workload aware preemption enabled"
NO_GROUP = "pod group for pod not found"


def reason_against(handle: FrameworkHandle, group: PodGroup | None) -> str:
    """Why no pod of a group evicts others by itself; "" where it may (kube-scheduler v1.36, PostFilter of
    defaultpreemption/)."""
    if handle.places_groups and group is not None and group.spec.scheduling_constraints is not None:
        return IN_PLACEMENTS
    return AS_A_WHOLE if handle.preempts_for_groups else ""


def reason_against_pod(handle: FrameworkHandle, pod: Pod) -> str:
    """Why a pod evicts nobody by itself, as its group does not."""
    groups, key = groups_of(handle), group_of(pod)
    if groups is None or key is None:
        return ""
    group = groups.get(key)
    return NO_GROUP if handle.places_groups and group is None else reason_against(handle, group)
