"""What the queues of Kueue have, use, borrow and lend, and who waits in them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import Literal

from moorage.controllers.queues.queue_controller import QueueController
from moorage.document import Count, Document
from moorage.kube.model.kueue import Cohort
from moorage.notes import RoutineNote
from moorage.queues import Kueue
from moorage.queues.quota import Node
from moorage.queues.snapshot import Queue
from moorage.queues.whole_amounts import text


class QueueUse(Document, frozen=True):
    """A resource of a flavor in a ClusterQueue, or of a cohort's own quota; amounts are quantities."""

    queue: str
    """Empty for a cohort."""
    cohort: str
    """Empty without one."""
    flavor: str
    resource: str
    nominal: str
    used: str
    borrowed: str
    """What it uses beyond its quota."""
    lent: str
    """What of its quota others use, so that it is not free for it."""
    free: str
    """What it can use now."""
    admitted: Count
    """Workloads that hold quota of the queue, of any flavor."""
    waiting: Count
    """Workloads that wait in the queue."""
    share: float
    """The weighted share of fair sharing, of a thousand; -1 for a queue without weight that borrows."""
    inactive: str
    """Why the queue admits nothing; empty if it can."""


class QueuesDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage nodes --by queue``."""

    api_version: Literal["nodes.moorage.dev/v1"] = "nodes.moorage.dev/v1"
    kind: Literal["Queues"] = "Queues"
    items: Sequence[QueueUse]


def queue_use(queues: QueueController) -> list[QueueUse]:
    """Return a row for each resource of each flavor, by queue; then for quotas of cohorts."""
    kueue = queues.kueue
    rows = [
        _use(kueue, queue, flavor, resource)
        for _, queue in sorted(kueue.snapshot.queues.items())
        for group in queue.groups
        for flavor in group.flavors
        for resource in sorted(group.resources)
    ]
    cohorts = sorted(kueue.listed(Cohort), key=lambda each: each.name)
    return rows + [
        _use(kueue, kueue.snapshot.cohorts[each.name], flavor.name, quota.name)
        for each in cohorts
        for group in each.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    ]


def queue_notes(queues: QueueController | None) -> list[RoutineNote]:
    """Return which Kueue decides, for an answer about queues; nothing in a cluster without."""
    return [] if queues is None else [RoutineNote(f"{queues.basis} decides which jobs run.", queues.basis)]


def _use(kueue: Kueue, node: Node, flavor: str, resource: str) -> QueueUse:
    cell, share = node.cell((flavor, resource)), node.share().weighted()
    free, unused = max(0, cell.available()), max(0, cell.subtree - cell.usage)
    queue = node if isinstance(node, Queue) else None
    above = node if queue is None else node.parent
    return QueueUse(
        queue="" if queue is None else queue.name,
        cohort="" if above is None else above.name,
        flavor=flavor,
        resource=resource,
        nominal=text(resource, cell.nominal),
        used=text(resource, cell.usage),
        borrowed=text(resource, 0 if node.parent is None else max(0, cell.usage - cell.subtree)),
        lent=text(resource, max(0, unused - free)),
        free=text(resource, free),
        admitted=0 if queue is None else len(queue.workloads),
        waiting=0 if queue is None else sum(map(len, kueue.waiting(queue.name))),
        share=-1.0 if isinf(share) else round(share, 1),
        inactive="" if queue is None else queue.inactive,
    )
