"""Evidence: the facts by which filters reject nodes, with the amounts that they compared, in words.

A plugin that extends `EvidencePlugin` is asked once per explanation for a function, and the function once for
nodes that it rejects alike. Evidence is made of what the filter read: counters, columns and caches of the
engine. Texts, JSON and pages are made from evidence alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from moorage._core.decide.search import Search
from moorage.kube import Node, Pod

from .status import CycleState, Status

Rows = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Evidence:
    """A fact by which a filter rejects nodes. Equal facts about several nodes count as one.

    Attributes
    ----------
    kind : str
        What it is about; a constant of the class.
    is_need : bool
        Whether it is about the node itself, which lacks something that the pod asks for; else it is about
        other objects. A constant of the class.
    nodes : int
        Number of nodes.
    plugin : str
        The filters that it is a fact of, parted by spaces; "" until it is asked for.
    """

    kind: ClassVar[str]
    is_need: ClassVar[bool] = False
    nodes: int = field(default=1, compare=False, kw_only=True)
    plugin: str = field(default="", compare=False, kw_only=True)

    @property
    def name(self) -> str:
        """The object that it is about: a pod, a claim, a domain, a taint, a resource."""
        raise NotImplementedError

    @property
    def detail(self) -> str:
        """How the object keeps the pod off, in words."""
        return ""

    @property
    def text(self) -> str:
        """The whole fact in words."""
        detail = self.detail
        return f"{self.kind.replace('-', ' ')} {self.name}" + (f" ({detail})" if detail else "")

    @property
    def key(self) -> object:
        """What evidence has in common that counts as one, see `merged`."""
        return self

    def merged(self, other: Self) -> Self:
        """Return one fact of this one and one with the same key, about other nodes."""
        return replace(self, nodes=self.nodes + other.nodes)

    def facts(self) -> dict[str, Any]:
        """Return what was compared, by its name, in values of JSON."""
        return {}


@dataclass(frozen=True)
class Fact(Evidence):
    """A fact in words. Facts of one kind with the same words are equal.

    Attributes
    ----------
    about, how : str
        Its `name` and `detail`.
    words : str
        The whole fact, where that is not what `Evidence.text` makes of kind, object and `how`.
    values : mapping of str to object
        What was compared, in values of JSON.
    """

    kind: str  # type: ignore[misc]
    about: str
    how: str = ""
    words: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """The object that it is about."""
        return self.about

    @property
    def detail(self) -> str:
        """How the object keeps the pod off."""
        return self.how

    @property
    def text(self) -> str:
        """The whole fact in words."""
        return self.words or super().text

    def facts(self) -> dict[str, Any]:
        return dict(self.values)


class Need(Fact):
    """A fact about the node itself, which lacks something that the pod asks for."""

    is_need = True


FindEvidence = Callable[[Rows, Status], Iterable[Evidence]]
"""Returns the evidence of nodes, by their rows, that a filter rejects with a status."""


@dataclass(frozen=True)
class RejectedPod:
    """What plugins are asked with: a pod after PreFilter, and the search of its cycle.

    Attributes
    ----------
    pod : Pod
    state : CycleState
    search : Search
    says : callable
        Returns what the filters other than the named one have against the node of a row, in words.
    """

    pod: Pod
    state: CycleState
    search: Search
    says: Callable[[int, str], list[str]]

    def node(self, row: int) -> Node:
        """Return the node of a row."""
        table = self.search.state.table
        node = table.objects[row] if table.is_present(row) else None
        assert node is not None  # every searched row has a node object
        return node

    def alike(self, rows: Rows, keys: Iterable[str]) -> Iterator[tuple[int, int]]:
        """Group nodes by their values of labels.

        Parameters
        ----------
        rows : (n,) int32 array
        keys : iterable of str
            Of the labels.

        Yields
        ------
        row, nodes : int
            The first node of each group, in the order of the rows, and its number of nodes.
        """
        groups = np.zeros(len(rows), dtype=np.int64)
        for key in keys:
            values = self.search.state.table.label_column(key)[rows].astype(np.int64)
            _, groups = np.unique(groups * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
        _, first, counts = np.unique(groups, return_index=True, return_counts=True)
        for at in np.argsort(first).tolist():
            yield int(rows[first[at]]), int(counts[at])

    def pods_on(self, row: int) -> list[Pod]:
        """Return the pods on the node of a row."""
        return self.search.state.pods_of(row)

    def nominated_on(self, row: int) -> list[Pod]:
        """Return the nominated pods for which the filters keep room on the node of a row."""
        return self.search.nominated_on(row, self.state.shape.priority)
