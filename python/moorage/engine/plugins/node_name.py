"""NodeName: a pod with spec.nodeName fits only that node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.engine import framework as fwk
from moorage.kube import Pod

from ..framework.plugin.events import NODE, ActionType, on
from ..framework.profiles.in_core import InTreePlugin


class NodeName(InTreePlugin, fwk.FilterPlugin):
    """Filter of kube-scheduler v1.36, node_name.go."""

    name = "NodeName"
    reason_texts = ("node(s) didn't match the requested node name",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return {"nodeName": pod.spec.node_name}

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(NODE, ActionType.ADD)]


class NodeNamePreFilter(NodeName, fwk.PreFilterPlugin):
    """NodeName since v1.37, which narrows the search to the named node."""

    def pre_filter(
        self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView
    ) -> fwk.PreFilterResult | fwk.Status | None:
        return fwk.PreFilterResult(frozenset({pod.spec.node_name})) if pod.spec.node_name else None
