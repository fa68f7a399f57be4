"""What refuses each pod without a node, by place: each node, or each NodePool and node group, with the one
constraint that it names first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
from moorage.autoscalers.judge import Judge
from moorage.autoscalers.karpenter.short_refusals import short_refusal
from moorage.document import Count, Document
from moorage.errors import number_of
from moorage.kube.workloads.ownership import Workload

from ..scheduler import Scheduler
from ..text_tables import PrintedTable
from .targets import ExplainedTarget, Target

TAKES = {"node": "fits", "pool": "a node comes for it alone"}
"""What stands for a place that refuses nothing."""


class PlaceRefusal(Document, frozen=True):
    """Why a place takes no pod of some that are alike."""

    namespace: str
    workload: str
    pods: Count
    place: str
    """A node; or a NodePool or node group, with its kind."""
    reason: str
    """The first constraint that refuses the pod; empty where it is taken."""


class RefusalsDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage explain --by``."""

    api_version: Literal["explain.moorage.dev/v1"] = "explain.moorage.dev/v1"
    kind: Literal["Refusals"] = "Refusals"
    by: Literal["node", "pool"]
    refusals: list[PlaceRefusal]
    others: Count
    """Places that are not listed."""

    def lines(self) -> Iterator[str]:
        """Yield what the table is about, in words."""
        pods = {(row.namespace, row.workload, row.pods) for row in self.refusals}
        number = sum(count for *_, count in pods)
        yield f"{number_of(number, 'pod', 'pods')}, by {self.by}: what refuses each first"
        if self.others:
            yield f"{self.others} more nodes: --nodes all lists them"

    def table(self) -> PrintedTable:
        """Return a row for each pod and place."""
        rows = [
            (
                row.namespace,
                f"{row.workload} ({row.pods})",
                row.place,
                short_refusal(row.reason) or TAKES[self.by],
            )
            for row in self.refusals
        ]
        return PrintedTable(("NAMESPACE", "PODS", self.by.upper(), "REFUSED BY"), rows)


def refused_by_nodes(explained: Iterable[ExplainedTarget], limit: int | None) -> RefusalsDocument:
    """Return what refuses pods on each node, the nodes with the fewest rejections first.

    Parameters
    ----------
    limit : int or None
        Number of nodes for each pod; None for all.
    """
    rows, others = list[PlaceRefusal](), 0
    for entry in explained:
        explanation = entry.explanation
        names = [*explanation.feasible, *(node for group in explanation.groups for node in group.nodes)]
        shown = names[:limit]
        others += len(names) - len(shown)
        rows += [_row(entry.target, name, explanation.first_reason(name)) for name in shown]
    return RefusalsDocument(by="node", refusals=rows, others=others)


def refused_by_pools(
    scheduler: Scheduler, autoscaling: AutoscalerSettings, targets: Sequence[Target]
) -> RefusalsDocument:
    """Return why no pool and no node group makes a node for pods that have none after the run."""
    judge = Judge(scheduler, autoscaling)
    rows = [
        _row(target, place, reason)
        for target in targets
        for place, reason in judge.reasons(target.key).items()
    ]
    return RefusalsDocument(by="pool", refusals=rows, others=0)


def _row(target: Target, place: str, reason: str) -> PlaceRefusal:
    workload: Workload = target.workload
    return PlaceRefusal(workload.namespace, workload.text, len(target.pods), place, reason)
