"""TaintToleration: NoSchedule and NoExecute taints reject, PreferNoSchedule taints cost score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage._core.pod_class import Shape
from moorage.framework import signing
from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import SCORE, FilterPlugin, PreScorePlugin, ScorePlugin, SignPlugin
from moorage.objects.pod import Pod


class TaintToleration(NativePlugin, FilterPlugin, PreScorePlugin, ScorePlugin, SignPlugin):
    """kube-scheduler v1.36, taint_toleration.go. The bucket is the number of PreferNoSchedule taints that the
    pod does not tolerate; its constant is 100 - 100 * n / max."""

    name = "TaintToleration"
    unread = {SCORE: 'failed to read "PreScoreTaintToleration"'}
    default_weight = 3

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) had untolerated taint(s)",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.tolerations(pod)
