"""Which nodes a selector selects: one node, or all of the node table as masks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, partial, reduce
from itertools import chain, starmap
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import to_builtins

from moorage._core.base.selectors import NodeSelectorMatcher
from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.node_terms import requirements_of, term_error
from moorage.kube import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta
from moorage.kube.field_errors import aggregate

if TYPE_CHECKING:
    from .handle import FrameworkHandle

Mask = npt.NDArray[np.bool_]
LIMIT = 1 << 12
"""The number of masks, and of parsed selectors, that are kept."""


@lru_cache(LIMIT)
def matcher_of(selector: NodeSelector) -> NodeSelectorMatcher:
    """Return what matches nodes with a selector."""
    return NodeSelectorMatcher(selector)


@lru_cache(LIMIT)
def parse_error(selector: NodeSelector) -> str:
    """Return upstream's error of a selector with invalid terms (component-helpers v0.36, NewNodeSelector); ""
    for a valid one."""
    terms = selector.node_selector_terms
    if not any(map(term_error, terms)):
        return ""
    from .configuration.validation import term_errors  # nearly all are valid

    where = ((to_builtins(term), f"nodeSelectorTerms[{at}]") for at, term in enumerate(terms))
    return aggregate(f"{field}: {text}" for field, text in chain.from_iterable(starmap(term_errors, where)))


class NodeMasks:
    """Masks of the rows of the node table, kept until names or labels of nodes change.

    A mask has one entry for each row, which is undefined for rows without a node.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._masks: dict[Hashable, Mask] = {}
        self._version = -1

    @classmethod
    def of(cls, handle: FrameworkHandle) -> NodeMasks:
        """Make the masks for the nodes of a handle's cache."""
        return cls(handle.cache.state)

    def find(self, key: Hashable, make: Callable[[], Mask]) -> Mask:
        """Return a mask, which is made where it is not known.

        Parameters
        ----------
        make : callable
            Returns the (rows,) bool array.
        """
        view = self._cluster.view
        view.refresh()
        if view.static_version != self._version or len(self._masks) >= LIMIT:
            self._masks.clear()
            self._version = view.static_version
        if key not in self._masks:
            self._masks[key] = make()
        return self._masks[key]

    def selected(self, selector: NodeSelector, by_name: bool = True) -> Mask:
        """Return the rows whose nodes a selector selects, as `NodeSelectorMatcher` does for each.

        Parameters
        ----------
        by_name : bool, optional
            False: nodes have no names, so that ``matchFields`` are not evaluated. Upstream compares volumes
            with such nodes (component-helpers v0.36, storage/volume/helpers.go, CheckNodeAffinity).
        """
        return self.find((selector, by_name), partial(self._selected, selector, by_name))

    def named(self, names: Iterable[str]) -> Mask:
        """Return the rows of nodes by name; what is made is not kept."""
        table = self._cluster.table
        mask = np.zeros(table.used, dtype=bool)
        mask[[row for name in names if (row := table.find_row(name)) is not None]] = True
        return mask

    def _selected(self, selector: NodeSelector, by_name: bool) -> Mask:
        out = np.zeros(self._cluster.table.used, dtype=bool)
        for term in selector.node_selector_terms:
            if requirements_of(term) and not term_error(term):
                masks = [self._labeled(requirement) for requirement in term.match_expressions]
                for requirement in term.match_fields if by_name else ():
                    named = self.named(requirement.values)
                    masks.append(named if requirement.operator == "In" else ~named)
                out |= reduce(np.logical_and, masks, np.ones_like(out))
        return out

    def _labeled(self, requirement: NodeSelectorRequirement) -> Mask:
        column, symbols = self._cluster.table.label_column(requirement.key), self._cluster.symbols
        if requirement.operator == "In":
            return np.isin(column, [*filter(None, map(symbols.find, requirement.values))])
        term = NodeSelectorTerm(match_expressions=(requirement,))
        matcher = matcher_of(NodeSelector(node_selector_terms=(term,)))
        counts, names = np.bincount(column), symbols.names
        answers = np.zeros(len(counts), dtype=bool)
        for value in np.flatnonzero(counts).tolist():
            labels = {requirement.key: names[value] or ""} if value else {}  # 0: nodes without the label
            answers[value] = matcher.matches(Node(metadata=ObjectMeta(labels=labels)))
        return answers[column]
