"""NodesView: nodes as columns, for vectorised plugins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from moorage._core.state.cluster_state import ClusterState

from ..cache import NodeInfo as LiveNodeInfo
from ..cache import NodeInfoClone, Resource

Rows = npt.NDArray[np.int32]
Kind = Literal["allocatable", "requested", "nonzero"]
Column = npt.NDArray[np.int64]
Texts = npt.NDArray[np.object_]
Read = Callable[[str], Column]
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class Columns(Mapping[str, Column]):
    """(n,) int64 array over n nodes by resource name, computed at each access.

    cpu is in millicores, other resources in bytes or in their own units. A resource that no node has is 0.
    """

    def __init__(self, read: Read, names: Callable[[], Sequence[str]]) -> None:
        self._read = read
        self._names = names

    def __getitem__(self, resource: str) -> Column:
        return self._read(resource)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


class NodesView:
    """Several nodes, in list order.

    Attributes
    ----------
    names : list of str
    rows : (n,) int32 array
        Rows of the node table, which are stable over cycles; -1 for a NodeInfoClone.
    allocatable, requested, nonzero : mapping of str to (n,) int64 array
        Column by resource: ``nodes.allocatable["cpu"]`` is in millicores, ``["memory"]`` in bytes. `nonzero`
        are the requests with upstream's defaults for containers without any, for cpu and memory only.
    """

    rows: Rows

    @property
    def allocatable(self) -> Columns:
        return Columns(partial(self._column, "allocatable"), self._resources)

    @property
    def requested(self) -> Columns:
        return Columns(partial(self._column, "requested"), self._resources)

    @property
    def nonzero(self) -> Columns:
        return Columns(partial(self._column, "nonzero"), lambda: ("cpu", "memory"))

    @property
    def names(self) -> list[str]:
        return [info.name for info in self]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[NodeInfo]:
        return (self.node_info(at) for at in range(len(self)))

    def labels(self, key: str) -> Texts:
        """Return the values of a label as (n,) object array, None for a node without the label:
        ``nodes.labels("pool") == "gpu"`` is an (n,) bool array."""
        raise NotImplementedError

    def label_numbers(self, key: str, missing: int) -> Column:
        """Return the values of a label that are decimal integers of 64 bits as (n,) int64 array.

        Parameters
        ----------
        missing : int
            The value for a node without the label, or with another text.
        """
        raise NotImplementedError

    def node_info(self, at: int) -> NodeInfo:
        """Return the NodeInfo of a node.

        Parameters
        ----------
        at : int
            Index of the node in this view.
        """
        raise NotImplementedError

    def _column(self, kind: Kind, resource: str) -> Column:
        raise NotImplementedError

    def _resources(self) -> Sequence[str]:
        raise NotImplementedError


class LabelColumn:
    """The values of a label on all rows of the node table, and their symbols."""

    def __init__(self, symbols: npt.NDArray[np.int32], names: Sequence[str | None]) -> None:
        self.symbols = symbols
        self.texts = _texts([names[symbol] for symbol in symbols.tolist()])

    @cached_property
    def numbers(self) -> tuple[Column, npt.NDArray[np.bool_]]:
        """The values as integers, and whether they are some."""
        return _numbers(self.texts)


class CycleColumns:
    """Columns of the node table, cached until the next change, since a search reads them in blocks. Columns
    of labels are cached until a label changes, which few changes do."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._columns: dict[tuple[Kind, str], Column] = {}
        self._labels: dict[str, LabelColumn] = {}
        self._looked_at: dict[str, int] = {}  # the head at which a column of labels was compared last
        self._head = -1

    def column(self, kind: Kind, resource: str) -> Column:
        """Return a column.

        Returns
        -------
        (rows,) int64 array
            One entry for each row of the node table.
        """
        if self._head != self.state.log.head:
            self._columns.clear()
            self._head = self.state.log.head
        key = kind, resource
        if key not in self._columns:
            self._columns[key] = self.state.table.column(kind, resource)
        return self._columns[key]

    def labels(self, key: str) -> LabelColumn:
        """Return the values of a label on all rows."""
        known, head = self._labels.get(key), self.state.log.head
        if known is None or self._looked_at[key] != head:
            symbols = self.state.table.label_column(key)
            if known is None or not np.array_equal(symbols, known.symbols):
                known = self._labels[key] = LabelColumn(symbols, self.state.symbols.names)
            self._looked_at[key] = head
        return known


class TableNodes(NodesView):
    """Rows of the node table, valid until the next change."""

    def __init__(self, columns: CycleColumns, rows: Rows | Callable[[], Rows]) -> None:
        self._rows = rows
        self._columns = columns

    @property
    def rows(self) -> Rows:  # type: ignore[override]
        if callable(self._rows):
            self._rows = self._rows()
        return self._rows

    @property
    def names(self) -> list[str]:
        return self._columns.state.view.names_of(self.rows)

    def node_info(self, at: int) -> NodeInfo:
        state = self._columns.state
        return LiveNodeInfo(state, state.table.row_name(int(self.rows[at])), state.view.images_of)

    def labels(self, key: str) -> Texts:
        return self._columns.labels(key).texts.take(self.rows)

    def label_numbers(self, key: str, missing: int) -> Column:
        numbers, are_numbers = self._columns.labels(key).numbers
        return np.where(are_numbers.take(self.rows), numbers.take(self.rows), np.int64(missing))

    def _column(self, kind: Kind, resource: str) -> Column:
        return self._columns.column(kind, resource).take(self.rows)

    def _resources(self) -> Sequence[str]:
        return ["cpu", "memory", "pods", *self._columns.state.table.resources]


class InfoNodes(NodesView):
    """NodeInfos or clones of them."""

    def __init__(self, infos: Sequence[NodeInfo]) -> None:
        self.rows = np.full(len(infos), -1, dtype=np.int32)
        self._infos = infos

    def node_info(self, at: int) -> NodeInfo:
        return self._infos[at]

    def labels(self, key: str) -> Texts:
        nodes = (info.node for info in self)
        return _texts([None if node is None else node.metadata.labels.get(key) for node in nodes])

    def label_numbers(self, key: str, missing: int) -> Column:
        numbers, are_numbers = _numbers(self.labels(key))
        return np.where(are_numbers, numbers, np.int64(missing))

    def _column(self, kind: Kind, resource: str) -> Column:
        return np.array([_amount(info, kind, resource) for info in self._infos], dtype=np.int64)

    def _resources(self) -> Sequence[str]:
        others = {name for info in self._infos for name in info.allocatable.scalar_resources}
        return ["cpu", "memory", "pods", "ephemeral-storage", *sorted(others)]


def _texts(values: list[str | None]) -> Texts:
    texts = np.empty(len(values), dtype=object)
    texts[:] = values
    return texts


def _numbers(texts: Texts) -> tuple[Column, npt.NDArray[np.bool_]]:
    numbers, are_numbers = np.zeros(len(texts), dtype=np.int64), np.zeros(len(texts), dtype=np.bool_)
    for at, text in enumerate(texts):
        if text is not None and _INTEGER.fullmatch(text) and _LEAST <= (number := int(text)) <= _MOST:
            numbers[at], are_numbers[at] = number, True
    return numbers, are_numbers


def _amount(info: NodeInfo, kind: Kind, resource: str) -> int:
    if resource == "pods" and kind == "requested":
        return len(info.pods)
    amounts: Resource = getattr(info, "nonzero_requested" if kind == "nonzero" else kind)
    if resource == "cpu":
        return amounts.milli_cpu
    if resource == "memory":
        return amounts.memory
    if resource == "ephemeral-storage":
        return amounts.ephemeral_storage
    return amounts.allowed_pod_number if resource == "pods" else amounts.scalar_resources.get(resource, 0)


# ---- any node info -----------------------------------------------------------------------------------------
# The type of the node that plugins are asked about.

NodeInfo = LiveNodeInfo | NodeInfoClone
"""A view of a node of the cache, or a copy that a plugin may change."""
