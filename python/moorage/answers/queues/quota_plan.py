"""Which quota would admit all workloads that wait: found on copies of the queues, and then played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from moorage.controllers.queues.queue_controller import QueueController
from moorage.document import Count, Document
from moorage.errors import number_of
from moorage.kube import ClusterQueue
from moorage.queues import Kueue, QueuedWorkload
from moorage.queues.flavors import flavor_refusal
from moorage.queues.whole_amounts import text
from moorage.table import Table, TabularDocument

from .decided_workloads import name_of, why_waiting
from .queue_changes import with_quotas

if TYPE_CHECKING:
    from moorage.cluster import ChangingScheduler

_DIGITS = 14
"""How exactly quotas are searched: in binary digits."""
_Quota = tuple[str, str, str]
"""A ClusterQueue, a flavor and a resource."""


class MoreQuota(Document, frozen=True):
    """A quota that is raised; amounts are quantities."""

    queue: str
    flavor: str
    resource: str
    nominal: str
    """What it is now."""
    needed: str
    """What it would be."""


class QuotaPlan(TabularDocument, frozen=True, kw_only=True):
    """The quotas that would admit what waits: the answer of ``moorage plan quota``."""

    api_version: Literal["plan.moorage.dev/v1"] = "plan.moorage.dev/v1"
    kind: Literal["QuotaPlan"] = "QuotaPlan"
    waiting: Count
    """Workloads that wait in queues."""
    admitted: Count
    """Those of them that these quotas admit."""
    quotas: tuple[MoreQuota, ...]
    placed: Count
    """Pods that find nodes then."""
    without_node: Count
    """Pods that find none."""
    left: tuple[str, ...]
    """The workloads that no quota admits, and why, in Kueue's words."""

    def headline(self) -> str:
        """Return how many are admitted, and how many of their pods have nodes then."""
        if not self.waiting:
            return "no workload waits in a queue"
        waiting = number_of(self.waiting, "workload waits", "workloads wait")
        if not self.admitted:
            return f"{waiting}; no quota admits {'it' if self.waiting == 1 else 'any of them'}"
        pods = number_of(self.placed, "pod finds a node", "pods find nodes")
        rest = f", and {self.without_node} find none" if self.without_node else ""
        return f"{waiting}; these quotas admit {self.admitted} of them, then {pods}{rest}"

    def remarks(self) -> list[str]:
        """Return which workloads no quota admits."""
        return [f"no quota admits {each}" for each in self.left]

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each quota.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns queue, flavor, resource, nominal, needed.
        """
        names = ("queue", "flavor", "resource", "nominal", "needed")
        return Table({name: [getattr(each, name) for each in self.quotas[:limit]] for name in names})


def quota_plan(scheduler: ChangingScheduler, queues: QueueController) -> QuotaPlan:
    """Return the quotas that would admit all that waits; nothing changes."""
    kueue = queues.kueue
    waiting = [each for each in kueue.workloads.values() if each.active and each.is_queued]
    search = _QuotaSearch(kueue, waiting)
    raised = search.least()
    objects = [*search.changed(raised)]
    with scheduler.transaction():
        scheduler.change.apply(objects)
        result = scheduler.run()
    rows = [
        MoreQuota(*key, text(key[2], search.nominal(key)), text(key[2], search.nominal(key) + more))
        for key, more in sorted(raised.items())
        if more
    ]
    left = [each for each in waiting if each.key not in search.wanted]
    return QuotaPlan(
        waiting=len(waiting),
        admitted=len(search.wanted),
        quotas=tuple(rows),
        placed=len(result.placements),
        without_node=len(result.unschedulable),
        left=tuple([f"{name_of(kueue, each.key)}: {why_waiting(kueue, each)}" for each in left]),
    )


class _QuotaSearch:
    """Tries quotas on copies of queues.

    Attributes
    ----------
    wanted : frozenset of str
        The workloads that quota can admit, by key.
    """

    def __init__(self, kueue: Kueue, waiting: Sequence[QueuedWorkload]) -> None:
        self._kueue = kueue
        self._queues = {queue.name: queue for queue in kueue.listed(ClusterQueue)}
        self._asked: dict[_Quota, int] = {}
        for workload in waiting:
            for key, value in _requests(kueue, workload):
                self._asked[key] = self._asked.get(key, 0) + value
        keys = [each.key for each in waiting]
        self.wanted = frozenset(self._admitted(self._asked).intersection(keys))

    def nominal(self, key: _Quota) -> int:
        """Return a quota as it is."""
        return self._kueue.snapshot.queues[key[0]].cell(key[1:]).nominal

    def changed(self, raised: Mapping[_Quota, int]) -> Iterator[ClusterQueue]:
        """Yield the queues with more quota."""
        for name in sorted({key[0] for key, more in raised.items() if more}):
            fields: dict[tuple[str, str], Mapping[str, Any]] = {
                key[1:]: {"nominal_quota": text(key[2], self.nominal(key) + more)}
                for key, more in raised.items()
                if key[0] == name and more
            }
            yield with_quotas(self._queues[name], fields)

    def least(self) -> dict[_Quota, int]:
        """Return how much more each quota has to be, one after the other."""
        raised = dict(self._asked) if self.wanted else {}
        for key, most in self._asked.items() if self.wanted else ():
            least, step = -1, max(1, most >> _DIGITS)
            while most - least > step:
                raised[key] = max(0, (least + most) // 2)
                if self.wanted <= self._admitted(raised):
                    most = raised[key]
                else:
                    least = raised[key]
            raised[key] = most
        return raised

    def _admitted(self, raised: Mapping[_Quota, int]) -> set[str]:
        """Return which workloads are admitted with more quota; none if others go for it."""
        kueue = self._kueue.copy()
        for queue in self.changed(raised):
            kueue.apply(queue)
        if any(cycle.preempted for cycle in kueue.run()):
            return set()
        return {key for key, workload in kueue.workloads.items() if workload.counts}


def _requests(kueue: Kueue, workload: QueuedWorkload) -> Iterator[tuple[_Quota, int]]:
    """Yield what a workload asks for of the first flavor of its queue that its pods accept."""
    queue = kueue.snapshot.queues.get(kueue.cluster_queue_of(workload))
    for needs, spec in zip(workload.needs(), workload.specs, strict=True):
        for group in () if queue is None else queue.groups:
            known = [kueue.snapshot.flavors[name] for name in group.flavors if name in kueue.snapshot.flavors]
            flavor = next((each.name for each in known if not flavor_refusal(each, spec, group)), None)
            for resource in sorted(group.resources & needs.requests.keys()):
                if flavor is not None and queue is not None:
                    yield (queue.name, flavor, resource), needs.requests[resource]
