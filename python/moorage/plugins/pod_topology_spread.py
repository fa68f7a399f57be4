"""PodTopologySpread: known by name; its decisions are not built yet."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.framework.interface import (
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    UnbuiltPlugin,
)
from moorage.objects.meta import Object
from moorage.objects.pod import Pod
from moorage.objects.workload import ReplicaSet, ReplicationController, Service, StatefulSet


class PodTopologySpread(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """kube-scheduler v1.36, podtopologyspread/."""

    name = "PodTopologySpread"
    default_weight = 2
    default_args = {"defaultingType": "System"}

    def unbuilt_use(self, pod: Pod, workloads: Sequence[Object]) -> str:
        if pod.spec.topology_spread_constraints:
            return "topology spread constraints"
        if any(_spreads(workload, pod) for workload in workloads):
            return "default topology spread constraints"
        return ""


def _spreads(workload: Object, pod: Pod) -> bool:
    """True where the system default constraints spread the pod: it is selected by this Service, or owned by
    this controller, with a selector that is not empty (helper.DefaultSelector)."""
    if workload.namespace != pod.namespace:
        return False
    if isinstance(workload, Service):
        return _selects(workload.spec.selector, pod)
    owner = pod.metadata.controller()
    if owner is None or owner.kind != workload.kind or owner.name != workload.name:
        return False
    if isinstance(workload, ReplicationController):
        return bool(workload.spec.selector)
    if isinstance(workload, (ReplicaSet, StatefulSet)):
        selector = workload.spec.selector
        return selector is not None and bool(selector.match_labels or selector.match_expressions)
    return False


def _selects(selector: dict[str, str] | None, pod: Pod) -> bool:
    labels = pod.metadata.labels
    return bool(selector) and all(labels.get(key) == value for key, value in (selector or {}).items())
