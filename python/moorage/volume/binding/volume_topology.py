"""Which nodes the volumes of a cluster reach, for all rows of the node table at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.table_columns import label_column
from moorage.objects.model.meta import ObjectMeta
from moorage.objects.model.node import Node
from moorage.objects.model.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.objects.model.selectors import NodeSelectorMatcher, field_requirement_error, requirement_error
from moorage.objects.model.storage import PersistentVolume

if TYPE_CHECKING:
    from moorage.framework.plugin.handle import FrameworkHandle

LIMIT = 1 << 12  # node affinities remembered
Mask = npt.NDArray[np.bool_]


class Reach:
    """`reaches_node` as a mask over the rows of the node table, remembered by node affinity."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._masks: dict[NodeSelector, Mask] = {}
        self._said = -1

    @classmethod
    def of(cls, handle: FrameworkHandle) -> Reach:
        """Over the nodes of a handle's cache."""
        return cls(handle.cache.state)

    def mask(self, volume: PersistentVolume) -> Mask | None:
        """Per row of the node table, whether the volume can be used there; None for everywhere. Rows without
        a node in the view mean nothing."""
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return None
        selector, view = affinity.required, self._cluster.view
        view.refresh()
        if view.said != self._said or len(self._masks) >= LIMIT:
            self._masks.clear()
            self._said = view.said
        if selector not in self._masks:
            nobody = np.zeros(self._cluster.table.used, dtype=bool)
            found = [self._term(term) for term in selector.node_selector_terms if is_readable(term)]
            self._masks[selector] = reduce(np.logical_or, found, nobody)
        return self._masks[selector]

    def _term(self, term: NodeSelectorTerm) -> Mask:
        everybody = np.ones(self._cluster.table.used, dtype=bool)
        return reduce(np.logical_and, map(self._requirement, term.match_expressions), everybody)

    def _requirement(self, requirement: NodeSelectorRequirement) -> Mask:
        column = label_column(self._cluster.table, requirement.key)
        match requirement.operator:
            case "In":
                return np.isin(column, self._symbols(requirement.values))
            case "NotIn":
                return ~np.isin(column, self._symbols(requirement.values))
            case "Exists":
                return np.not_equal(column, 0)
            case "DoesNotExist":
                return np.equal(column, 0)
        return self._by_value(column, _alone(requirement))

    def _symbols(self, values: tuple[str, ...]) -> list[int]:
        return [symbol for value in values if (symbol := self._cluster.symbols.find(value))]

    def _by_value(self, column: npt.NDArray[np.int32], matches: Callable[[str], bool]) -> Mask:
        """Asked once for each value that nodes have."""
        symbols, which = np.unique(column, return_inverse=True)
        names = self._cluster.symbols.names
        answers = [symbol != 0 and matches(names[symbol] or "") for symbol in symbols.tolist()]
        return np.array(answers, dtype=bool)[which]


def is_readable(term: NodeSelectorTerm) -> bool:
    """False for a term that matches nothing: an empty one, or one with a malformed requirement."""
    if any(requirement_error(r.key, r.operator, r.values, node=True) for r in term.match_expressions):
        return False
    if any(field_requirement_error(r.key, r.operator, r.values) for r in term.match_fields):
        return False
    return bool(term.match_expressions or term.match_fields)


def _alone(requirement: NodeSelectorRequirement) -> Callable[[str], bool]:
    """Whether a value of the label satisfies a requirement."""
    term = NodeSelectorTerm(match_expressions=(requirement,))
    matcher = NodeSelectorMatcher(NodeSelector(node_selector_terms=(term,)))
    return lambda value: matcher.matches(Node(metadata=ObjectMeta(labels={requirement.key: value})))
