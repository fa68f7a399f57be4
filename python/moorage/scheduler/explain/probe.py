"""Asking the engine what would be if the pod, or the cluster, were different."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moorage._core.state.node_table import NodeTable
from moorage.framework.plugin.cycle_state import CycleState
from moorage.framework.runtime.call import StatusError
from moorage.framework.runtime.filtering import PreFilterRun
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.scheduler.cycle.engine import NO_ROWS, Engine
from moorage.scheduler.cycle.examine import examine


class Probe:
    """The nodes that a changed pod would fit, or the pod in a changed cluster.

    Attributes
    ----------
    engine : Engine
        Over a cluster of its own.
    pod : Pod
        The pod that fits nowhere.
    """

    def __init__(self, engine: Engine, pod: Pod) -> None:
        self.engine = engine
        self.pod = pod

    @property
    def table(self) -> NodeTable:
        return self.engine.cache.state.table

    def begin(self, pod: Pod) -> tuple[CycleState, PreFilterRun]:
        """Begin a cycle: what follows is about this pod."""
        self.engine.begin_cycle()
        state = self.engine.framework.new_state(pod)
        ran = self.engine.framework.run_pre_filter_plugins(state, pod)
        self.engine.begin_search(state, pod, ran)
        return state, ran

    def feasible(self, pod: Pod) -> npt.NDArray[np.int32]:
        """Rows of the nodes that the pod fits, in list order; every filter of the profile is asked."""
        state, ran = self.begin(pod)
        if ran.rejection is not None:
            return NO_ROWS
        try:
            rows, verdicts = self.engine.cycle.verdicts(*state.target)
        except StatusError:
            return NO_ROWS
        fits: npt.NDArray[np.int32] = rows[verdicts == 0]
        return fits

    def opens(self, pod: Pod) -> int:
        """How many nodes the pod fits."""
        return len(self.feasible(pod))

    def opens_with(self, node: Node) -> int:
        """How many nodes the pod would fit if `node` were there, or were like this."""
        with self.engine.cache.transaction():
            self.engine.cache.state.set_node(node)
            return self.opens(self.pod)

    def fit_error(self, pod: Pod) -> str:
        """The FitError text of a pod, or the error of its cycle."""
        seen = examine(self.engine, pod, self.engine.cache.state.view.node_names())
        return seen.error or seen.fit_error

    def rows(self) -> npt.NDArray[np.int32]:
        """Rows of all nodes, in list order."""
        self.engine.cache.state.view.refresh()
        return self.engine.cache.state.view.rows()

    def nodes(self, rows: npt.NDArray[np.int32]) -> list[Node]:
        """The node objects of rows."""
        objects = (self.table.objects[row] for row in rows)
        return [node for node in objects if node is not None]
