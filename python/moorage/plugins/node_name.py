"""NodeName: a pod with spec.nodeName fits that node only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage._core.state.pod_class import Shape
from moorage.framework.plugin.events import (
    NODE,
    ActionType,
    ClusterEventWithHint,
    on,
)
from moorage.framework.plugin.interface import EnqueueExtensions, FilterPlugin, SignPlugin
from moorage.framework.profiles.in_core import NativePlugin
from moorage.objects.model.pod import Pod


class NodeName(NativePlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """kube-scheduler v1.36, node_name.go."""

    name = "NodeName"

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        return ("node(s) didn't match the requested node name",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return {"nodeName": pod.spec.node_name}

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [on(NODE, ActionType.ADD)]
