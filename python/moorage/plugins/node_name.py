"""NodeName: a pod with spec.nodeName fits only that node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage import framework as fwk
from moorage.framework.plugin.events import NODE, ActionType, on
from moorage.framework.plugin.evidence import Evidence, EvidencePlugin, FindEvidence, Inquiry, Rows
from moorage.framework.profiles.in_core import InTreePlugin
from moorage.objects import Pod


@dataclass(frozen=True)
class NodeNameEvidence(Evidence):
    """The node that the pod names, or that a DaemonSet's controller has made it for.

    Attributes
    ----------
    node : str
    controller : str or None
        The DaemonSet, as ``daemonset/name``; None where spec.nodeName has the node.
    """

    kind = "node-name"
    is_need = True
    node: str
    controller: str | None = None

    @property
    def name(self) -> str:
        return self.node

    @property
    def text(self) -> str:
        if self.controller is None:
            return f"node name {self.node}"
        return f"{self.controller} made this pod for node {self.node}"


class NodeName(InTreePlugin, EvidencePlugin, fwk.FilterPlugin):
    """Filter of kube-scheduler v1.36, node_name.go."""

    name = "NodeName"
    reason_texts = ("node(s) didn't match the requested node name",)

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return {"nodeName": pod.spec.node_name}

    def evidence(self, inquiry: Inquiry) -> FindEvidence:
        def find(rows: Rows, status: fwk.Status) -> Iterator[Evidence]:
            yield NodeNameEvidence(inquiry.pod.spec.node_name, nodes=len(rows))

        return find

    def events_to_register(self) -> Sequence[fwk.ClusterEventWithHint]:
        return [on(NODE, ActionType.ADD)]


class NodeNamePreFilter(NodeName, fwk.PreFilterPlugin):
    """NodeName since v1.37, which narrows the search to the named node."""

    def pre_filter(
        self, state: fwk.CycleState, pod: Pod, nodes: fwk.NodesView
    ) -> fwk.PreFilterResult | fwk.Status | None:
        return fwk.PreFilterResult(frozenset({pod.spec.node_name})) if pod.spec.node_name else None
