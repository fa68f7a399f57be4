"""Verdicts and scores of native plugins on single nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from moorage._core.decide.decider import Decider, TieBreak
from moorage._core.decide.plan import Plan
from moorage._core.decide.search import Search
from moorage._core.preempt.dry_runs import DryRuns
from moorage._core.state.pod_spec import bound
from moorage.errors import MoorageError
from moorage.grouped import grouped
from moorage.kube import Pod

from ..cache import NodeInfo, SchedulerCache

if TYPE_CHECKING:
    from .nodes_view import NodeInfo as AnyNodeInfo
    from .status import CycleState


PodChange = tuple[int, list[Pod], list[Pod], AbstractSet[tuple[str, str, int]] | None]


class Kernels:
    """Runs the kernels of native plugins on single nodes.

    Parameters
    ----------
    cache : SchedulerCache
        The scheduler's cache of nodes and pods.
    plan : Plan
        The compiled plan of the profile.
    stops_at_violation : bool
        As for `DryRuns`.

    Attributes
    ----------
    search : Search
        A search separate from that of the scheduling cycle, which may be running.
    dry_runs : DryRuns
        The dry runs of preemption.
    searching : bool
        Whether the search of the cycle is running. A NodeInfoClone is refused then, because its verdict needs
        a change of the node's row.
    """

    def __init__(self, cache: SchedulerCache, plan: Plan, stops_at_violation: bool) -> None:
        self.cache = cache
        self.search = Search(cache.state, plan)
        self.dry_runs = DryRuns(Decider(self.search, TieBreak.FIRST), stops_at_violation)
        self.searching = False

    def verdict(self, filters: int, state: CycleState, info: AnyNodeInfo) -> int:
        """Run some Filter kernels on one node.

        Parameters
        ----------
        filters : int
            Bit mask of the filters to run, by index in the plan.
        info : NodeInfo or NodeInfoClone
            The node; the verdict of a clone counts the pods of the clone.

        Returns
        -------
        int
            The verdict of the first filter that rejects, encoded as in `Search.verdicts`; 0 where the pod
            fits.

        Raises
        ------
        MoorageError
            The node is not in the cache; or it is a clone, and a search is running.
        """
        row = self._row(info)
        if isinstance(info, NodeInfo):
            return self.search.verdict_after([(row, [], [], None)], filters, state.target)
        removed, added = self._changes(row, info)
        # A clone may have other ports with the same pods: a pod that returns brings those that another freed.
        changes: list[PodChange] = [(row, removed, added, info.used_ports)]
        changes += [(other, pods, [], None) for other, pods in self._by_row(state.removed_pods.values())]
        return self.search.verdict_after(changes, filters, state.target)

    def score(self, plugin: str, state: CycleState, info: AnyNodeInfo) -> int:
        """Return the raw score of one node, as if it were the only feasible one.

        Parameters
        ----------
        plugin : str
            The plugin whose kernel runs.

        Returns
        -------
        int
            Raw score, before normalization.

        Raises
        ------
        MoorageError
            The node is not in the cache; or it is a clone and a search is running.
        """
        with self._with_pods_of(info, state.target[0]) as row:
            raw, _ = self.search.scores(plugin, np.array([row], dtype=np.int32), *state.target)
        return int(raw[0])

    def _row(self, info: AnyNodeInfo) -> int:
        row = self.cache.state.table.find_row(info.name)
        if row is None or not self.cache.state.table.is_present(row):
            raise MoorageError(f"node {info.name} is not in the cache")
        if self.searching and not isinstance(info, NodeInfo):
            raise MoorageError("a clone of a NodeInfo cannot be judged by native plugins during a search")
        return row

    def _changes(self, row: int, info: AnyNodeInfo) -> tuple[list[Pod], list[Pod]]:
        """The pods that are on a row and not in `info`, and those only in `info`."""
        there = {pod.metadata.uid: pod for pod in self.cache.state.pods_of(row)}
        removed, added = there.copy(), []
        for pod in info.pods:
            if removed.pop(pod.metadata.uid, None) is None:
                added.append(pod)
        return list(removed.values()), added

    def _by_row(self, pods: Iterable[Pod]) -> Iterator[tuple[int, list[Pod]]]:
        """The rows of pods in the cache, each with its pods; evaluated lazily."""
        for name, there in grouped((pod.spec.node_name, pod) for pod in pods).items():
            row = self.cache.state.table.find_row(name)
            if row is not None:
                yield row, there

    @contextmanager
    def _with_pods_of(self, info: AnyNodeInfo, pod_class: int) -> Iterator[int]:
        """Give the row of a node the pods of `info` inside the context, and roll back at its end."""
        row = self._row(info)
        if isinstance(info, NodeInfo):
            yield row
            return
        removed, added = self._changes(row, info)
        state = self.cache.state
        with self.cache.transaction():
            for pod in removed:
                state.discard_pod(pod)
            for pod in added:
                state.assume_pod(bound(pod, info.name))
            self.search.notify_pod_change(pod_class, removed, row, False)
            self.search.notify_pod_change(pod_class, added, row, True)
            try:
                yield row
            finally:
                self.search.notify_pod_change(pod_class, added, row, False)
                self.search.notify_pod_change(pod_class, removed, row, True)
