"""Summary of a run: pods by outcome, and utilization of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta
from msgspec.structs import replace

from moorage.cluster.amounts import in_shown_order, unit
from moorage.document import Count, Document
from moorage.engine.scheduler import ScheduleResult
from moorage.grouped import by_count
from moorage.kube import Node, Pod
from moorage.kube.model.node import ZONE

from ..scheduler import Scheduler

NO_ZONE = "(no zone)"


class Use(Document, frozen=True):
    """Requested and allocatable quantity of a resource: cpu in millicores, others in their own units."""

    resource: str
    unit: Annotated[str, Meta(extra_json_schema={"enum": ["millicores", "bytes", "count"]})]
    requested: Count
    allocatable: Count
    percent: float
    """Requested part of the allocatable quantity, to two digits."""

    @classmethod
    def of(cls, resource: str, requested: int, allocatable: int) -> Use:
        """Return the use of a resource."""
        use = cls(resource, unit(resource), requested, allocatable, 0.0)
        return replace(use, percent=round(use.share, 2))

    @property
    def share(self) -> float:
        """Requested part of the allocatable quantity in percent."""
        return 100.0 * self.requested / self.allocatable if self.allocatable else 0.0


class Zone(Document, frozen=True):
    """A zone, its number of nodes, and the use of its resources."""

    name: str
    nodes: Count
    use: tuple[Use, ...]


class Summary(Document, frozen=True):
    """The result of a run in numbers."""

    nodes: Count
    running: Count
    """Pods that had a node before the run."""
    placed: Count
    """Pods that this run placed."""
    unschedulable: Count
    """Pods that fit no node."""
    evicted: Count
    reasons: dict[str, Count]
    """By reason, the number of unschedulable pods that some node rejected for it."""
    skipped: dict[str, Count]
    """By reason, the number of pods that were not scheduled; a finished pod has succeeded or failed."""
    use: tuple[Use, ...]
    """Of each resource in the whole cluster."""
    zones: tuple[Zone, ...]
    """By value of the label ``topology.kubernetes.io/zone``, sorted by name."""


def zone_of(node: Node | None) -> str:
    """Return the zone of a node; "" without one."""
    return node.metadata.labels.get(ZONE, "") if node is not None else ""


def summarize(
    finished: Sequence[Pod], scheduler: Scheduler, result: ScheduleResult, before: Iterable[Pod]
) -> Summary:
    """Summarize the result of ``scheduler.run()``.

    Parameters
    ----------
    finished : sequence of Pod
        The pods that have succeeded or failed.
    scheduler : Scheduler
        The scheduler after the run.
    result : ScheduleResult
        Result of the run.
    before : iterable of Pod
        The other pods before the run.
    """
    skipped = Counter(result.skipped.values())
    skipped["finished"] += len(finished)
    reasons = Counter(reason for failure in result.unschedulable.values() for reason in failure.reasons)
    rows = np.asarray(scheduler.context.view_rows())
    nodes = [scheduler.table.objects[row] for row in rows]
    zone_names = np.array([zone_of(node) or NO_ZONE for node in nodes], dtype=object)
    return Summary(
        nodes=len(rows),
        running=sum(bool(pod.spec.node_name) for pod in before),
        placed=len(result.placements),
        unschedulable=len(result.unschedulable),
        evicted=len(result.evicted),
        reasons=by_count(reasons),
        skipped=by_count(+skipped),
        use=_use(scheduler, rows),
        zones=tuple(
            Zone(name, int(here.sum()), _use(scheduler, rows[here]))
            for name in sorted(set(zone_names))
            for here in [zone_names == name]
        ),
    )


def _use(scheduler: Scheduler, rows: npt.NDArray[np.int32]) -> tuple[Use, ...]:
    table = scheduler.table
    uses = (
        Use.of(name, int(table.requested[name][rows].sum()), int(table.allocatable[name][rows].sum()))
        for name in in_shown_order(table.allocatable)
    )
    return tuple(use for use in uses if use.requested or use.allocatable)
