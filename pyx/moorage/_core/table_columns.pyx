"""Reading the node table from Python: columns by resource name, and single rows."""

from collections.abc import Mapping

import numpy as np
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from moorage._core.buffers cimport Buffer
from moorage._core.csrc cimport MR_FIELDS, mr_ledger, mr_row_value
from moorage._core.node_table cimport NodeTable

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


def column(NodeTable table, str kind, str resource, int32_t ledger=0):
    """A resource of all rows as a new int64 array: kind "allocatable", "requested" or "nonzero"."""
    cdef mr_ledger view
    cdef int32_t row, other
    cdef int64_t[::1] out = np.zeros(table.used, dtype=np.int64)
    cdef int which = KINDS.index(kind), field = 2 * which + (resource == "memory")
    table.sync_columns()
    table.fill_ledger(ledger, &view)
    if resource in ("cpu", "memory"):
        for row in range(table.used):
            out[row] = mr_row_value(&view, row, field)
    elif resource == "pods":
        for row in range(table.used):
            out[row] = view.rows[row].pods if which else view.rows[row].pods_max
    elif which < 2:
        other = table.resource_names.find(resource) - 1
        for row in range(table.used if other >= 0 else 0):
            out[row] = view.others[other][2 * row + which]
    array = np.asarray(out)
    array.flags.writeable = False
    return array


def label_column(NodeTable table, str key):
    """The symbols of a label's values as a new int32 array by row; 0 where a row does not have it. Not to be
    called while a search runs, since the table makes a column for the key if it has none."""
    cdef int32_t[::1] out = np.zeros(table.used, dtype=np.int32)
    cdef int32_t at = table.label_keys.intern(key) - 1
    cdef Buffer column
    table.sync_columns()
    column = table.labels[at]
    if table.used:
        memcpy(&out[0], column.data, table.used * sizeof(int32_t))
    return np.asarray(out)


def row_amounts(NodeTable table, int32_t row, int32_t ledger=0):
    """(allocatable, requested, non-zero requested) of a row: cpu (millicores) and memory (bytes) each, then
    pods and allowed pods."""
    cdef mr_ledger view
    cdef int field
    table.fill_ledger(ledger, &view)
    values = tuple([mr_row_value(&view, row, field) for field in range(MR_FIELDS)])
    return *values, view.rows[row].pods, view.rows[row].pods_max


def row_others(NodeTable table, int32_t row, int32_t ledger=0):
    """Resource name to (allocatable, requested), for the other resources that a row has anything of."""
    cdef mr_ledger view
    cdef int32_t at
    out = {}
    table.sync_columns()
    table.fill_ledger(ledger, &view)
    for at, name in enumerate(table.resources):
        pair = view.others[at][2 * row], view.others[at][2 * row + 1]
        if pair != (0, 0):
            out[name] = pair
    return out


def row_ports(NodeTable table, int32_t row):
    """Host ports in use on a row: a frozenset of (ip, protocol, port)."""
    ports = table.port_sets.sets[(<int32_t*>table.port_set.data)[row]]
    names = table.symbols.names
    return frozenset([(names[ip], names[protocol], port) for ip, protocol, port in ports])


def row_generation(NodeTable table, int32_t row):
    """Sequence number of the last change of a row."""
    return (<int64_t*>table.generation.data)[row]
