"""InterPodAffinity: known by name; its decisions are not built yet."""

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


class InterPodAffinity(UnbuiltPlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """kube-scheduler v1.36, interpodaffinity/."""

    name = "InterPodAffinity"
    default_weight = 2
    default_args = {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False}

    def unbuilt_use(self, pod: Pod, workloads: Sequence[Object]) -> str:
        affinity = pod.spec.affinity
        if affinity is None:
            return ""
        sides = (affinity.pod_affinity, affinity.pod_anti_affinity)
        return "pod (anti-)affinity" if any(s and (s.required or s.preferred) for s in sides) else ""

    def unbuilt_use_of_bound(self, pod: Pod) -> str:
        return self.unbuilt_use(pod, ())
