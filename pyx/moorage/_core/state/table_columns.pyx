"""Reading the node table from Python: columns by resource name, and single rows.

Nothing here changes the table, and each function takes an address of its memory only after the last call that
may let another thread go on: so they may be called beside a thread that writes the table. What one call
answers is then of one moment, but for rows that a run is placing pods on just now.
"""

from collections.abc import Mapping

import numpy as np
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from moorage._core.base.buffers cimport Buffer
from moorage._core.csrc cimport MR_FIELDS, mr_ledger, mr_row_value
from moorage._core.state.node_table cimport NodeTable

KINDS = ("allocatable", "requested", "nonzero")


class TableColumns(Mapping):
    """One kind of quantity of a node table: resource name to a new read-only int64 array by row."""

    def __init__(self, table, kind):
        self.table = table
        self.kind = kind

    def __getitem__(self, resource):
        if resource not in list(self):
            raise KeyError(resource)
        return column(self.table, self.kind, resource)

    def __iter__(self):
        yield from ("cpu", "memory")
        if self.kind != "nonzero":
            yield "pods"
            yield from self.table.resources

    def __len__(self):
        return sum(1 for _ in self)


def column(NodeTable table not None, str kind not None, str resource not None, int32_t ledger=0):
    """A resource of all rows as a new int64 array: kind "allocatable", "requested" or "nonzero"."""
    cdef mr_ledger view
    cdef int64_t[::1] out
    cdef int32_t row, rows, other
    cdef int which, field
    if kind not in KINDS:
        raise ValueError(f"{kind} is none of {', '.join(KINDS)}")
    table.check_ledger(ledger)
    which = KINDS.index(kind)
    field = 2 * which + (resource == "memory")
    other = table.resource_names.find(resource) - 1
    array = np.zeros(table.used, dtype=np.int64)
    out = array
    rows = min(table.used, <int32_t>out.shape[0])
    table.fill_ledger(ledger, &view)
    if resource in ("cpu", "memory"):
        for row in range(rows):
            out[row] = mr_row_value(&view, row, field)
    elif resource == "pods":
        for row in range(rows):
            out[row] = view.rows[row].pods if which else view.rows[row].pods_max
    elif which < 2 and 0 <= other < table.other_columns():
        for row in range(rows):
            out[row] = view.others[other][2 * row + which]
    array.flags.writeable = False
    return array


def label_column(NodeTable table not None, str key not None):
    """The symbols of a label's values as a new int32 array by row; 0 where a row does not have it.

    The table keeps a column for the key from its next change on; until then the nodes are asked.
    """
    cdef int32_t[::1] out
    cdef Py_ssize_t rows
    cdef int32_t at = table.label_keys.intern(key) - 1
    array = np.zeros(table.used, dtype=np.int32)
    out = array
    if at < len(table.labels):
        rows = min(table.used, out.shape[0])
        if rows:
            memcpy(&out[0], (<Buffer>table.labels[at]).data, rows * sizeof(int32_t))
        return array
    for row, node in zip(range(out.shape[0]), list(table.objects), strict=False):
        if node is not None and key in node.metadata.labels:
            out[row] = table.symbols.intern(node.metadata.labels[key])
    return array


def row_amounts(NodeTable table not None, int32_t row, int32_t ledger=0):
    """(allocatable, requested, non-zero requested) of a row: cpu (millicores) and memory (bytes) each, then
    pods and allowed pods."""
    cdef mr_ledger view
    cdef int64_t[MR_FIELDS + 2] values
    cdef int field
    table.check_row(row)
    table.check_ledger(ledger)
    table.fill_ledger(ledger, &view)
    for field in range(MR_FIELDS):
        values[field] = mr_row_value(&view, row, field)
    values[MR_FIELDS] = view.rows[row].pods
    values[MR_FIELDS + 1] = view.rows[row].pods_max
    return tuple([values[field] for field in range(MR_FIELDS + 2)])


def row_others(NodeTable table not None, int32_t row, int32_t ledger=0):
    """Resource name to (allocatable, requested), for the other resources that a row has anything of."""
    cdef int64_t* pair
    cdef int32_t at
    out = {}
    table.check_row(row)
    table.check_ledger(ledger)
    for at in range(table.other_columns()):
        pair = <int64_t*>(<Buffer>table.others[ledger][at]).data + 2 * row
        if pair[0] or pair[1]:
            out[table.resource_names.names[at + 1]] = pair[0], pair[1]
    return out


def row_ports(NodeTable table not None, int32_t row):
    """Host ports in use on a row: a frozenset of (ip, protocol, port)."""
    table.check_row(row)
    ports = table.port_sets.sets[(<int32_t*>table.port_set.data)[row]]
    names = table.symbols.names
    return frozenset([(names[ip], names[protocol], port) for ip, protocol, port in ports])


def row_generation(NodeTable table not None, int32_t row):
    """Sequence number of the last change of a row."""
    table.check_row(row)
    return (<int64_t*>table.generation.data)[row]
