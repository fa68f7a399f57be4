"""Pods that are placed and taken back, so that every round of a benchmark finds the same cluster."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from moorage import Scheduler
from moorage._core.decide.placer import Placer
from moorage.objects.model.pod import Pod

NONE = np.zeros(0, dtype=np.int32)


class Batch:
    """Pods, and where a cycle puts them.

    Attributes
    ----------
    rows : (pods,) int32 array
        Where the last round put each of the pods, -1 for those that fit nowhere; empty when taken back.
    """

    def __init__(self, scheduler: Scheduler, placer: Placer, pods: Sequence[Pod]) -> None:
        self.state, self.placer, self.pods = scheduler.cache.state, placer, pods
        self.targets = [scheduler.context.target_of(pod) for pod in pods]
        self.classes = np.array([pod_class for pod_class, *_ in self.targets], dtype=np.int32)
        self.pinned = np.array([pinned for *_, pinned in self.targets], dtype=np.int32)
        self.rows: npt.NDArray[np.int32] = NONE

    # ---- three ways to place them

    def place_run(self) -> None:
        """Pods of one class, in one call."""
        self.rows = place_run(self.placer, self.targets[0][0], len(self.pods))

    def place_each(self) -> None:
        """One call per pod."""
        place, rows = self.placer.place_run, []
        for pod_class, node_name, pinned in self.targets:
            found = place(pod_class, 1, node_name, pinned)
            rows.append(found[0] if len(found) else -1)
        self.rows = np.array(rows, dtype=np.int32)

    def place_many(self) -> None:
        """Pods of any classes, in one call."""
        self.rows = np.empty(len(self.pods), dtype=np.int32)
        answered = place_many(self.placer, self.classes, self.pinned, self.rows)
        assert answered == len(self.pods)

    # ---- and back

    def enter(self) -> list[Pod]:
        """Enter the placed pods in the ledger, so that later pods find them; answers them."""
        placed = np.flatnonzero(self.rows >= 0).tolist()
        for at in placed:
            self.state.assume_rows(self.targets[at][0], [self.pods[at]], self.rows[at : at + 1])
        return [self.pods[at] for at in placed]

    def again(self) -> None:
        """Take back what the last round placed, and begin at the start of the list."""
        for pod in self.enter():
            self.state.forget_pod(self.state.get_pod(pod))
        self.rows = NONE
        self.placer.decider.start = 0
