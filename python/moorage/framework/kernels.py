"""A native plugin's verdict and score on one node, through the kernels of the search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from moorage._core.chooser import TieBreak
from moorage._core.cycle import Cycle
from moorage._core.plan import REASONS, UNRESOLVABLE
from moorage._core.pod_spec import bound
from moorage.cache import NodeInfo, SchedulerCache
from moorage.errors import MoorageError
from moorage.objects.pod import Pod

from .status import Code, Status

if TYPE_CHECKING:
    from .cycle_state import CycleState
    from .in_core import NativePlugin
    from .nodes_view import AnyNodeInfo


class Kernels:
    """Asks single kernels about single nodes.

    Attributes
    ----------
    searching : bool
        The search is running: a clone of a NodeInfo cannot be judged, since that takes changing its node.
    """

    def __init__(self, cache: SchedulerCache, cycle: Cycle) -> None:
        self.cache = cache
        self.cycle = Cycle(cache.state, cycle.plan, TieBreak.FIRST)  # the search's own may be at work
        self.searching = False

    def filter(self, plugin: NativePlugin, state: CycleState, info: AnyNodeInfo) -> Status | None:
        """What a Filter kernel says of one node."""
        with self._as_told(info, state.target[0]) as row:
            rows, verdicts = self.cycle.filter_verdicts(plugin.name, *state.target)
            found = verdicts[rows == row]
        if len(found) == 0:
            what = f'plugin "{plugin.name}" cannot judge node {info.name}'
            raise MoorageError(f"{what}: PreFilter leaves it out of the search")
        verdict = int(found[0])
        if verdict == 0:
            return None
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if verdict & UNRESOLVABLE else Code.UNSCHEDULABLE
        return Status(code, plugin.reasons(verdict & REASONS, state.shape), plugin.name)

    def score(self, plugin: NativePlugin, state: CycleState, info: AnyNodeInfo) -> int:
        """The raw score of one node, as if it were the only feasible one."""
        with self._as_told(info, state.target[0]) as row:
            raw, _ = self.cycle.scores(plugin.name, np.array([row], dtype=np.int32), *state.target)
        return int(raw[0])

    @contextmanager
    def _as_told(self, info: AnyNodeInfo, pod_class: int) -> Iterator[int]:
        """The row of a node while it holds the pods that `info` says, for questions about a pod of a class;
        nothing of this stays."""
        row = self.cache.state.table.find_row(info.name)
        if row is None:
            raise MoorageError(f"node {info.name} is not in the cache")
        if isinstance(info, NodeInfo):
            yield row
            return
        if self.searching:
            raise MoorageError("a clone of a NodeInfo cannot be judged by native plugins during a search")
        with self.cache.transaction():
            gone, come = self._change(row, info.name, info.pods)
            self.cycle.tell(pod_class, gone, row, False)
            self.cycle.tell(pod_class, come, row, True)
            try:
                yield row
            finally:
                self.cycle.tell(pod_class, come, row, False)
                self.cycle.tell(pod_class, gone, row, True)

    def _change(self, row: int, name: str, wanted: list[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Have exactly the `wanted` pods on a row; those that went and those that came."""
        state = self.cache.state
        there = {pod.metadata.uid: pod for pod in state.pods_of(row)}
        kept = {pod.metadata.uid for pod in wanted}
        gone = [pod for uid, pod in there.items() if uid not in kept]
        come = [pod for pod in wanted if pod.metadata.uid not in there]
        for pod in gone:
            (state.forget_pod if state.is_assumed_pod(pod) else state.remove_pod)(pod)
        for pod in come:
            state.assume_pod(bound(pod, name))
        return gone, come
