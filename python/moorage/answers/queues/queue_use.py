"""What the queues of Kueue have, use, borrow and lend, and who waits in them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf
from typing import Literal

from moorage.controllers.queues.queue_controller import QueueController
from moorage.document import Count, Document
from moorage.queues import Kueue
from moorage.queues.snapshot import Queue
from moorage.queues.whole_amounts import text


class QueueUse(Document, frozen=True):
    """A resource of a flavor in a ClusterQueue; amounts are quantities."""

    queue: str
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
    """Return a row for each resource of each flavor, by queue."""
    return [
        _use(kueue, queue, flavor, resource)
        for kueue in [queues.kueue]
        for _, queue in sorted(kueue.snapshot.queues.items())
        for group in queue.groups
        for flavor in group.flavors
        for resource in sorted(group.resources)
    ]


def _use(kueue: Kueue, queue: Queue, flavor: str, resource: str) -> QueueUse:
    cell, free = queue.cell((flavor, resource)), queue.available((flavor, resource))
    share, unused = queue.share().weighted(), max(0, cell.nominal - cell.usage)
    return QueueUse(
        queue=queue.name,
        cohort=queue.parent.name if queue.parent is not None else "",
        flavor=flavor,
        resource=resource,
        nominal=text(resource, cell.nominal),
        used=text(resource, cell.usage),
        borrowed=text(resource, max(0, cell.usage - cell.nominal)),
        lent=text(resource, max(0, unused - free)),
        free=text(resource, free),
        admitted=len(queue.workloads),
        waiting=sum(map(len, kueue.waiting(queue.name))),
        share=-1.0 if isinf(share) else round(share, 1),
        inactive=queue.inactive,
    )
