"""Asking the engine what would be if the pod, or the cluster, were different."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage.objects.node import Node
from moorage.objects.pod import Pod

from .points import run_pre_filters

if TYPE_CHECKING:
    from .scheduler import Scheduler

NO_ROWS = np.zeros(0, dtype=np.int32)


class Probe:
    """The nodes that a changed pod would fit, or the pod in a changed cluster. The cache's lock is held.

    Attributes
    ----------
    pod : Pod
        The pod that fits nowhere.
    """

    def __init__(self, scheduler: Scheduler, pod: Pod) -> None:
        self.scheduler = scheduler
        self.cache = scheduler.cache
        self.pod = pod

    def feasible(self, pod: Pod) -> npt.NDArray[np.int32]:
        """Rows of the nodes that the pod fits, in list order; every filter of the profile is asked."""
        target = self.scheduler.classify(pod)
        shape = self.cache.state.classes.shape_of(target[0])
        terms = self.scheduler.cycle.terms_of(target[0], target[2])
        if run_pre_filters(self.scheduler.profile, pod, shape, terms).rejection is not None:
            return NO_ROWS
        rows, verdicts = self.scheduler.cycle.verdicts(*target)
        fits: npt.NDArray[np.int32] = rows[verdicts == 0]
        return fits

    def opens(self, pod: Pod) -> int:
        """How many nodes the pod fits."""
        return len(self.feasible(pod))

    def opens_with(self, node: Node) -> int:
        """How many nodes the pod would fit if `node` were there, or were like this."""
        with self.cache.transaction():
            self.cache.state.set_node(node)
            return self.opens(self.pod)

    def nodes(self, rows: npt.NDArray[np.int32]) -> list[Node]:
        """The node objects of rows."""
        objects = (self.scheduler.table.objects[row] for row in rows)
        return [node for node in objects if node is not None]
