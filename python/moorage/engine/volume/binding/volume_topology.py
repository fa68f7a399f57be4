"""The nodes from which each volume is accessible, for all rows of the node table at once."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage._core.base.selectors import field_requirement_error, requirement_error
from moorage._core.state.cluster_state import ClusterState
from moorage.kube import CSINode, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume
from moorage.store.informers.indexer import Indexer

from ..migration import in_tree_plugin, migrated_plugins, required_affinity
from .claims import matches_labels

if TYPE_CHECKING:
    from moorage.engine.framework.plugin.handle import FrameworkHandle

LIMIT = 1 << 12  # maximum number of cached node affinities
Mask = npt.NDArray[np.bool_]


class VolumeTopology:
    """The rows of the node table whose nodes reach a volume, cached by node affinity.

    Parameters
    ----------
    csi_nodes : Indexer of CSINode
        Which in-tree plugins CSI drivers have replaced on each node.
    """

    def __init__(self, cluster: ClusterState, csi_nodes: Indexer[CSINode]) -> None:
        self._cluster = cluster
        self._csi_nodes = csi_nodes
        self._log = csi_nodes.follow()
        self._masks: dict[NodeSelector, Mask] = {}
        self._migrated: dict[str, Mask] = {}  # by plugin
        self._versions = -1, -1

    @classmethod
    def of(cls, handle: FrameworkHandle) -> VolumeTopology:
        """Make the masks for the nodes of a handle's cache."""
        return cls(handle.cache.state, handle.informers.informer(CSINode).indexer)

    def mask(self, volume: PersistentVolume) -> Mask | None:
        """Return the rows whose node satisfies a volume's required node affinity.

        Returns
        -------
        (rows,) bool array, or None
            One entry for each row of the node table, undefined for rows without a node; None if the volume
            has no required node affinity.

        Raises
        ------
        VolumeError
            The volume cannot be translated for the CSI driver of some node.
        """
        required, plugin = required_affinity(volume), in_tree_plugin(volume)
        mask = None if required is None else self.mask_of(required)
        migrated = None if plugin is None else self.migrated(plugin.name)
        if plugin is None or migrated is None:
            return mask
        translated = required_affinity(volume, (plugin.name,))
        if translated == required:
            return mask
        there = True if translated is None else self.mask_of(translated)
        return np.where(migrated, there, True if mask is None else mask)

    def migrated(self, plugin: str) -> Mask | None:
        """Return the rows on whose nodes a CSI driver has replaced an in-tree plugin.

        Parameters
        ----------
        plugin : str
            Its name.

        Returns
        -------
        (rows,) bool array, or None
            As `mask` returns it; None if there are none.
        """
        self._follow()
        if plugin not in self._migrated:
            table = self._cluster.table
            names = [node.name for node in self._csi_nodes.values() if plugin in migrated_plugins(node)]
            rows = [row for name in names if (row := table.find_row(name)) is not None]
            self._migrated[plugin] = mask = np.zeros(table.used, dtype=bool)
            mask[rows] = True
        mask = self._migrated[plugin]
        return mask if mask.any() else None

    def mask_of(self, selector: NodeSelector) -> Mask:
        """Return the rows whose node satisfies a required node affinity.

        Parameters
        ----------
        selector : NodeSelector
            The node affinity.

        Returns
        -------
        (rows,) bool array
            As `mask` returns it.
        """
        self._follow()
        if selector not in self._masks:
            none = np.zeros(self._cluster.table.used, dtype=bool)
            masks = [self._term(term) for term in selector.node_selector_terms if is_readable(term)]
            self._masks[selector] = reduce(np.logical_or, masks, none)
        return self._masks[selector]

    def _follow(self) -> None:
        """Drop what changes of nodes and CSINodes have made void."""
        view = self._cluster.view
        view.refresh()
        versions = view.static_version, self._log.head
        if versions != self._versions or len(self._masks) >= LIMIT:
            self._masks.clear()
            self._migrated.clear()
            self._versions = versions

    def _term(self, term: NodeSelectorTerm) -> Mask:
        all_rows = np.ones(self._cluster.table.used, dtype=bool)
        return reduce(np.logical_and, map(self._requirement, term.match_expressions), all_rows)

    def _requirement(self, requirement: NodeSelectorRequirement) -> Mask:
        column, symbols = self._cluster.table.label_column(requirement.key), self._cluster.symbols
        if requirement.operator == "In":
            mask = np.zeros(len(column), dtype=bool)
            for symbol in filter(None, map(symbols.find, requirement.values)):
                mask |= column == symbol
            return mask
        counts, names = np.bincount(column), symbols.names
        answers = np.zeros(len(counts), dtype=bool)
        for value in np.flatnonzero(counts).tolist():
            answers[value] = _satisfies(requirement, names[value] if value else None)
        return answers[column]


def is_readable(term: NodeSelectorTerm) -> bool:
    """Whether a term can match: it is not empty, and all its requirements are well-formed."""
    if any(requirement_error(r.key, r.operator, r.values, node=True) for r in term.match_expressions):
        return False
    if any(field_requirement_error(r.key, r.operator, r.values) for r in term.match_fields):
        return False
    return bool(term.match_expressions or term.match_fields)


def _satisfies(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    """Whether a node with a value of the requirement's label (None: without the label) satisfies it."""
    labels = {} if value is None else {requirement.key: value}
    term = NodeSelectorTerm(match_expressions=(requirement,))
    return matches_labels(NodeSelector(node_selector_terms=(term,)), labels)
