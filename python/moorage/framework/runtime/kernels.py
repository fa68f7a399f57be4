"""A native plugin's verdict and score on one node, through the kernels of the search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from moorage._core.decide.decider import Decider, TieBreak
from moorage._core.decide.plan import REASONS, UNRESOLVABLE, VERDICT_SHIFT, Plan
from moorage._core.decide.search import Search
from moorage._core.preempt.dry_runs import DryRuns
from moorage._core.state.pod_spec import bound
from moorage.cache import NodeInfo, SchedulerCache
from moorage.errors import MoorageError
from moorage.framework.plugin.status import Code, Status
from moorage.objects.model.pod import Pod

if TYPE_CHECKING:
    from moorage.framework.plugin.cycle_state import CycleState
    from moorage.framework.plugin.nodes_view import AnyNodeInfo
    from moorage.framework.profiles.in_core import NativePlugin


class Kernels:
    """Asks kernels about single nodes.

    Attributes
    ----------
    dry_runs : DryRuns
        Of preemption.
    searching : bool
        The search is running: a clone of a NodeInfo cannot be judged, since that takes changing its node.
    """

    def __init__(self, cache: SchedulerCache, plan: Plan) -> None:
        self.cache = cache
        self.search = Search(cache.state, plan)  # that of the cycle may be at work
        self.dry_runs = DryRuns(Decider(self.search, TieBreak.FIRST))
        self.searching = False

    def filter(self, plugin: NativePlugin, state: CycleState, info: AnyNodeInfo) -> Status | None:
        """What a Filter kernel says of one node."""
        verdict = self.verdict(1 << self.search.plan.filters.index(plugin.name), state, info)
        return rejection(plugin, state, verdict) if verdict else None

    def verdict(self, asked: int, state: CycleState, info: AnyNodeInfo) -> int:
        """What some filters of the plan say of one node: bits by their place in it; see `Search.verdicts`."""
        row = self._row(info)
        if isinstance(info, NodeInfo):
            return self.search.verdict_after(row, [], [], asked, None, *state.target)
        gone, come = self._changes(row, info)
        classes = self.cache.state.classes
        has_ports = any(classes.shape_of(classes.intern(pod)).ports for pod in (*gone, *come))
        ports = info.used_ports if has_ports else None
        away = self._by_row(state.away.values())
        return self.search.verdict_after(row, gone, come, asked, ports, *state.target, away)

    def score(self, plugin: NativePlugin, state: CycleState, info: AnyNodeInfo) -> int:
        """The raw score of one node, as if it were the only feasible one."""
        with self._as_told(info, state.target[0]) as row:
            raw, _ = self.search.scores(plugin.name, np.array([row], dtype=np.int32), *state.target)
        return int(raw[0])

    def _row(self, info: AnyNodeInfo) -> int:
        row = self.cache.state.table.find_row(info.name)
        if row is None or not self.cache.state.table.is_present(row):
            raise MoorageError(f"node {info.name} is not in the cache")
        if self.searching and not isinstance(info, NodeInfo):
            raise MoorageError("a clone of a NodeInfo cannot be judged by native plugins during a search")
        return row

    def _changes(self, row: int, info: AnyNodeInfo) -> tuple[list[Pod], list[Pod]]:
        """The pods that are on a row and not in `info`, and those that are only there."""
        there = {pod.metadata.uid: pod for pod in self.cache.state.pods_of(row)}
        gone, come = there.copy(), []
        for pod in info.pods:
            if gone.pop(pod.metadata.uid, None) is None:
                come.append(pod)
        return list(gone.values()), come

    def _by_row(self, pods: Iterable[Pod]) -> Iterator[tuple[int, list[Pod]]]:
        """Pods of the cache by the row they are on; looked at when somebody asks."""
        found: dict[str, list[Pod]] = {}
        for pod in pods:
            found.setdefault(pod.spec.node_name, []).append(pod)
        for name, there in found.items():
            row = self.cache.state.table.find_row(name)
            if row is not None:
                yield row, there

    @contextmanager
    def _as_told(self, info: AnyNodeInfo, pod_class: int) -> Iterator[int]:
        """The row of a node while it holds the pods that `info` says, for questions about a pod of a class;
        nothing of this stays."""
        row = self._row(info)
        if isinstance(info, NodeInfo):
            yield row
            return
        gone, come = self._changes(row, info)
        state = self.cache.state
        with self.cache.transaction():
            for pod in gone:
                state.discard_pod(pod)
            for pod in come:
                state.assume_pod(bound(pod, info.name))
            self.search.notify_pod_change(pod_class, gone, row, False)
            self.search.notify_pod_change(pod_class, come, row, True)
            try:
                yield row
            finally:
                self.search.notify_pod_change(pod_class, come, row, False)
                self.search.notify_pod_change(pod_class, gone, row, True)


def rejection(plugin: NativePlugin, state: CycleState, verdict: int) -> Status:
    """The status of a verdict that rejects."""
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if verdict & UNRESOLVABLE else Code.UNSCHEDULABLE
    return Status(code, plugin.reasons(verdict & REASONS, state.shape), plugin.name)


def place_of(verdict: int) -> int:
    """The place in the plan of the filter that rejects; -1 where none does."""
    return (verdict >> VERDICT_SHIFT) - 1
