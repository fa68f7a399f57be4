"""NodeUnschedulable: rejects nodes with spec.unschedulable, unless the pod tolerates that taint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage._core.pod_class import Shape
from moorage.framework import signing
from moorage.framework.in_core import NativePlugin
from moorage.framework.interface import FilterPlugin, SignPlugin
from moorage.objects.pod import Pod


class NodeUnschedulable(NativePlugin, FilterPlugin, SignPlugin):
    """kube-scheduler v1.36, node_unschedulable.go."""

    name = "NodeUnschedulable"

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) were unschedulable",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return signing.tolerations(pod)
