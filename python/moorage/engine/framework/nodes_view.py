"""NodesView: nodes as columns, for vectorised plugins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from moorage._core.state.cluster_state import ClusterState
from moorage._core.state.node_table import check_resource
from moorage.short_repr import ShortRepr

from ..cache import NodeInfo as LiveNodeInfo
from ..cache import NodeInfoClone, Resource

Rows = npt.NDArray[np.int32]
Kind = Literal["allocatable", "requested", "nonzero"]
Column = npt.NDArray[np.int64]
Texts = npt.NDArray[np.object_]
Read = Callable[[str], Column]
NO_SYMBOLS = np.zeros(0, dtype=np.int32)
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


class LabelColumn:
    """The values of a label on nodes, and their symbols on the rows of the node table."""

    def __init__(self, texts: Sequence[str | None], symbols: Rows = NO_SYMBOLS) -> None:
        self.texts: Texts = np.empty(len(texts), dtype=object)
        self.texts[:] = texts
        self.symbols = symbols

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
                names = self.state.symbols.names
                known = LabelColumn([names[symbol] for symbol in symbols.tolist()], symbols)
                self._labels[key] = known
            self._looked_at[key] = head
        return known

    def resources(self) -> Sequence[str]:
        """Return the names of the columns."""
        return ["cpu", "memory", "pods", *self.state.table.resources]

    def names_of(self, rows: Rows) -> list[str]:
        """Return the names of the nodes of rows."""
        return self.state.view.names_of(rows)

    def node_info(self, row: int) -> NodeInfo:
        """Return the NodeInfo of the node of a row."""
        return LiveNodeInfo(self.state, self.state.table.row_name(row), self.state.view.images_of)


class InfoColumns:
    """Columns of NodeInfos or clones of them, whose rows are their places in the list."""

    def __init__(self, infos: Sequence[NodeInfo]) -> None:
        self.infos = infos

    def column(self, kind: Kind, resource: str) -> Column:
        """See `CycleColumns.column`."""
        check_resource(resource, self.resources)
        return np.array([_amount(info, kind, resource) for info in self.infos], dtype=np.int64)

    def labels(self, key: str) -> LabelColumn:
        """See `CycleColumns.labels`."""
        nodes = [info.node for info in self.infos]
        return LabelColumn([None if node is None else node.metadata.labels.get(key) for node in nodes])

    def resources(self) -> Sequence[str]:
        """See `CycleColumns.resources`."""
        others = {name for info in self.infos for name in info.allocatable.scalar_resources}
        return ["cpu", "memory", "pods", "ephemeral-storage", *sorted(others)]

    def names_of(self, rows: Rows) -> list[str]:
        """See `CycleColumns.names_of`."""
        return [self.infos[row].name for row in rows.tolist()]

    def node_info(self, row: int) -> NodeInfo:
        """See `CycleColumns.node_info`."""
        return self.infos[row]


class NodesView(ShortRepr):
    """Several nodes, in list order; rows of the node table are valid until the next change.

    Attributes
    ----------
    names : list of str
    rows : (n,) int32 array
        Rows of the node table, which are stable over cycles; -1 for a NodeInfoClone.
    allocatable, requested, nonzero : mapping of str to (n,) int64 array
        Column by resource: ``nodes.allocatable["cpu"]`` is in millicores, ``["memory"]`` in bytes. `nonzero`
        are the requests with upstream's defaults for containers without any, for cpu and memory only.
    """

    shows = "{1} nodes"

    def __init__(self, columns: CycleColumns | InfoColumns, rows: Rows | Callable[[], Rows]) -> None:
        self._columns, self._given = columns, rows

    @classmethod
    def of(cls, infos: Sequence[NodeInfo]) -> Self:
        """Return NodeInfos or clones of them as columns."""
        return cls(InfoColumns(infos), np.arange(len(infos), dtype=np.int32))

    @property
    def _rows(self) -> Rows:
        if callable(self._given):
            self._given = self._given()
        return self._given

    @property
    def rows(self) -> Rows:
        rows = self._rows
        return rows if isinstance(self._columns, CycleColumns) else np.full(len(rows), -1, dtype=np.int32)

    @property
    def allocatable(self) -> Columns:
        return Columns(partial(self._column, "allocatable"), self._columns.resources)

    @property
    def requested(self) -> Columns:
        return Columns(partial(self._column, "requested"), self._columns.resources)

    @property
    def nonzero(self) -> Columns:
        return Columns(partial(self._column, "nonzero"), lambda: ("cpu", "memory"))

    @property
    def names(self) -> list[str]:
        return self._columns.names_of(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[NodeInfo]:
        return map(self._columns.node_info, self._rows.tolist())

    def labels(self, key: str) -> Texts:
        """Return the values of a label as (n,) object array, None for a node without the label:
        ``nodes.labels("pool") == "gpu"`` is an (n,) bool array."""
        return self._columns.labels(key).texts.take(self._rows)

    def label_numbers(self, key: str, missing: int) -> Column:
        """Return the values of a label that are decimal integers of 64 bits as (n,) int64 array.

        Parameters
        ----------
        missing : int
            The value for a node without the label, or with another text.
        """
        numbers, are_numbers = self._columns.labels(key).numbers
        return np.where(are_numbers.take(self._rows), numbers.take(self._rows), np.int64(missing))

    def node_info(self, at: int) -> NodeInfo:
        """Return the NodeInfo of a node.

        Parameters
        ----------
        at : int
            Index of the node in this view.

        Raises
        ------
        IndexError
            There is no such node.
        """
        if not 0 <= at < len(self):
            raise IndexError(f"there is no node {at} among {len(self)}")
        return self._columns.node_info(int(self._rows[at]))

    def _column(self, kind: Kind, resource: str) -> Column:
        return self._columns.column(kind, resource).take(self._rows)


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
