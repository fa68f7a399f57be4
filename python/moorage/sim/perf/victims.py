"""Whether a pod that fits nowhere would have to evict others, which the loop does not let happen yet."""

from __future__ import annotations

from moorage.framework.interface import Code
from moorage.objects.pod import Pod
from moorage.scheduler import Scheduler
from moorage.scheduler.template_pods import pod_of


def would_evict(scheduler: Scheduler, template: Pod) -> bool:
    """Whether DefaultPreemption would look for victims: on some node that rejected the pod, but not for good,
    is a pod of lower priority. Whether it would find enough of them is not asked.

    Source: kube-scheduler v1.36, defaultpreemption/ and framework/preemption (nodes that it considers).
    """
    if template.spec.preemption_policy == "Never":
        return False
    found = scheduler.examine(pod_of(template, 0))
    if found.pre_filter is not None and found.pre_filter.code not in (Code.SUCCESS, Code.UNSCHEDULABLE):
        return False
    everywhere = found.pre_filter is not None and found.pre_filter.code == Code.UNSCHEDULABLE
    nodes = (
        found.order
        if everywhere
        else [name for name, status in found.rejected.items() if status.code == Code.UNSCHEDULABLE]
    )
    return any(_has_lower(scheduler, name, template.spec.priority or 0) for name in nodes)


def _has_lower(scheduler: Scheduler, node: str, priority: int) -> bool:
    info = scheduler.cache.node_info(node)
    return info is not None and any((pod.spec.priority or 0) < priority for pod in info.pods)
