"""Pods that are placed and taken back, so that every round of a benchmark finds the same cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.core.make import pod_of

from moorage import Scheduler
from moorage._core.decide import batch_rows
from moorage._core.decide.batch_rows import LedgerSink
from moorage._core.decide.placer import Placer
from moorage._core.decide.pod_batch import PodBatch
from moorage.kube import Pod

NONE = np.zeros(0, dtype=np.int32)


def room(state: Any, n: int) -> tuple[Any, npt.NDArray[np.int32]]:
    """What a placer writes the rows of `n` pods to, and these; an array before there were `Placements`."""
    if hasattr(batch_rows, "Placements"):
        out = batch_rows.Placements(state, n)
        return out, out.rows
    rows = np.full(n, -1, dtype=np.int32)
    return rows, rows


def place_run(placer: Placer, pod_class: int, n: int) -> npt.NDArray[np.int32]:
    """Rows of pods of one class, up to the first that fits nowhere; they are not entered in the ledger."""
    state = placer.search.state
    out, rows = room(state, n)
    placer.place(PodBatch(state, [pod_of(state, pod_class)] * n), out)
    return rows if (rows >= 0).all() else rows[: np.argmin(rows >= 0)]


class Batch:
    """Pods, and where a placer puts them.

    Attributes
    ----------
    rows : (pods,) int32 array
        Where the last round put each of the pods, -1 for those that fit nowhere; empty when taken back.
    """

    def __init__(self, scheduler: Scheduler, placer: Placer, pods: Sequence[Pod]) -> None:
        self.state, self.placer, self.pods = scheduler.cache.state, placer, pods
        self.batch = PodBatch(self.state, pods)
        self.targets = [self.batch.target(at) for at in range(len(pods))]
        self.rows: npt.NDArray[np.int32] = NONE

    def place(self) -> None:
        """All of them in one call."""
        out, self.rows = room(self.state, len(self.pods))
        answered = self.placer.place(self.batch, out)
        assert answered == len(self.pods)

    # ---- and back

    def enter(self) -> list[Pod]:
        """Enter the placed pods in the ledger, so that later pods find them; answers them."""
        placed = np.flatnonzero(self.rows >= 0).tolist()
        for at in placed:
            out, rows = room(self.state, 1)
            rows[0] = self.rows[at]
            LedgerSink().enter(PodBatch(self.state, [self.pods[at]]), out, 0, 1)
        return [self.pods[at] for at in placed]

    def again(self) -> None:
        """Take back what the last round placed, and begin at the start of the list."""
        for pod in self.enter():
            self.state.forget_pod(self.state.get_pod(pod))
        self.rows = NONE
        self.placer.decider.start = 0
