"""The verdicts of the filters on every node, and the evidence by which they reject nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from moorage.engine.framework import CycleState, FilterPlugin, Plugin, Status
from moorage.engine.framework.plugin.evidence import (
    Evidence,
    EvidencePlugin,
    FindEvidence,
    Inquiry,
    Rows,
    merge_evidence,
)
from moorage.engine.framework.profiles.in_core import NativePlugin
from moorage.engine.plugins.node_affinity import NodeAffinity
from moorage.engine.plugins.node_declared_features import NodeDeclaredFeatures
from moorage.engine.plugins.node_name import NodeName
from moorage.engine.plugins.node_ports import NodePorts
from moorage.engine.plugins.node_resources_fit import NodeResourcesFit
from moorage.engine.plugins.node_unschedulable import NodeUnschedulable
from moorage.engine.plugins.taint_toleration import TaintToleration
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.kube import Pod

from .constraints.node_evidence import (
    feature_evidence,
    name_evidence,
    port_evidence,
    selection_evidence,
    taint_evidence,
)
from .constraints.room_evidence import room_evidence

NATIVE: dict[str, Callable[[Mapping[str, Plugin], Inquiry], FindEvidence]] = {
    NodeUnschedulable.name: taint_evidence,
    TaintToleration.name: taint_evidence,
    NodeName.name: name_evidence,
    NodeAffinity.name: selection_evidence,
    NodePorts.name: port_evidence,
    NodeResourcesFit.name: room_evidence,
    NodeDeclaredFeatures.name: feature_evidence,
}
"""What finds the evidence of filters that compare a node alone, in the core. Filters with the same function
are asked together."""


@dataclass(frozen=True, slots=True)
class FilterVerdicts:
    """The verdict of one filter on every node, independent of the other filters.

    Attributes
    ----------
    plugin : str
        Name of the filter.
    codes : (nodes,) int array
        In list order: 0 where the node passes, otherwise an index into `statuses`.
    statuses : list of Status or None
        The first is None, for nodes that pass.
    """

    plugin: str
    codes: npt.NDArray[np.intp]
    statuses: list[Status | None]


class EvidenceSearch:
    """Finds the evidence of nodes; each plugin is asked once about the pod.

    Parameters
    ----------
    engine : Engine
        Over the state of the cluster in which the pod is explained.
    state : CycleState
        Of the pod, after PreFilter.
    rows : (nodes,) int32 array
        Rows of the nodes, in list order.
    """

    def __init__(
        self, engine: Engine, pod: Pod, state: CycleState, filters: Sequence[FilterVerdicts], rows: Rows
    ) -> None:
        self._plugins: dict[str, Plugin] = {plugin.name: plugin for plugin in engine.profile.at(FilterPlugin)}
        self._inquiry = Inquiry(pod, state, engine.search, self._says)
        self._filters, self._rows = filters, rows
        self._positions = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.intp)
        self._positions[rows] = np.arange(len(rows))
        self._finders: dict[object, FindEvidence] = {}

    def add(self, plugin: str, find: FindEvidence) -> None:
        """Find the evidence of another plugin, too.

        Parameters
        ----------
        plugin : str
            Its name.
        """
        self._finders[plugin] = find

    def _finder(self, name: str) -> FindEvidence | None:
        plugin = self._plugins.get(name)
        make = NATIVE.get(name) if isinstance(plugin, NativePlugin) else None
        source = make or name
        if source not in self._finders and make is not None:
            self._finders[source] = make(self._plugins, self._inquiry)
        elif source not in self._finders and isinstance(plugin, EvidencePlugin):
            self._finders[source] = plugin.evidence(self._inquiry)
        return self._finders.get(source)

    def find(self, positions: Sequence[int], verdicts: Iterable[Status]) -> list[Evidence]:
        """Find the evidence of nodes with equal verdicts.

        Parameters
        ----------
        positions : sequence of int
            Indexes of the nodes in list order.
        verdicts : iterable of Status
            The rejections of these nodes, in the order of the filters.

        Returns
        -------
        list of Evidence
            That of the most nodes first.
        """
        rows = self._rows[np.asarray(positions, dtype=np.intp)]
        return merge_evidence(self._of(rows, verdicts))

    def _of(self, rows: Rows, verdicts: Iterable[Status]) -> Iterator[Evidence]:
        asked: set[FindEvidence] = set()
        for status in verdicts:
            for name in status.plugin.split():
                find = self._finder(name)
                if find is not None and find not in asked:
                    asked.add(find)
                    yield from find(rows, status)

    def rejections(self, position: int) -> list[Status]:
        """Return what the filters say of a node.

        Parameters
        ----------
        position : int
            Its index in list order.
        """
        statuses = (each.statuses[each.codes[position]] for each in self._filters)
        return [status for status in statuses if status is not None]

    def _says(self, row: int, but: str) -> list[str]:
        statuses = self.rejections(int(self._positions[row]))
        others = [status for status in statuses if but not in status.plugin.split()]
        rows = np.array([row], dtype=np.int32)
        texts = [fact.text for fact in self._of(rows, others)]
        return texts or [reason for status in others for reason in status.reasons]
