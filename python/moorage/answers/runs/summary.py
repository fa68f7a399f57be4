"""Summary of a run: pods by outcome, and utilization of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage.engine.framework.evidence import in_shown_order
from moorage.engine.scheduler import ScheduleResult
from moorage.kube import Node, Pod
from moorage.kube.model.node import ZONE

from ..scheduler import Scheduler

NO_ZONE = "(no zone)"


class Use(Struct, frozen=True):
    """Requested and allocatable quantity of a resource: cpu in millicores, others in their own units."""

    resource: str
    requested: int
    allocatable: int

    @property
    def percent(self) -> float:
        """Requested part of the allocatable quantity in percent."""
        return 100.0 * self.requested / self.allocatable if self.allocatable else 0.0


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone, its number of nodes, and the use of its resources."""

    name: str
    nodes: int
    use: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a run in numbers.

    Attributes
    ----------
    nodes, running, placed, unschedulable, evicted : int
        Number of nodes, of pods that had a node before, of pods that this run placed, of pods that fit no
        node, and of evicted pods.
    reasons : dict of str to int
        By reason, the number of unschedulable pods that some node rejected for it.
    skipped : dict of str to int
        By reason, the number of pods that were not scheduled; a finished pod has succeeded or failed.
    use : tuple of Use
        Use of each resource in the whole cluster.
    zones : tuple of Zone
        Use by value of the label ``topology.kubernetes.io/zone``, sorted by name.
    """

    nodes: int
    running: int
    placed: int
    unschedulable: int
    evicted: int
    reasons: dict[str, int]
    skipped: dict[str, int]
    use: tuple[Use, ...]
    zones: tuple[Zone, ...]


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


def by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Sort by descending count, equal counts by name.

    Parameters
    ----------
    counts : mapping of str to int
        Counts by name.

    Returns
    -------
    dict of str to int
        The sorted counts.
    """
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _use(scheduler: Scheduler, rows: npt.NDArray[np.int32]) -> tuple[Use, ...]:
    table = scheduler.table
    uses = (
        Use(name, int(table.requested[name][rows].sum()), int(table.allocatable[name][rows].sum()))
        for name in in_shown_order(table.allocatable)
    )
    return tuple(use for use in uses if use.requested or use.allocatable)
