"""The node table: one row per node, with its allocatable resources and their usage.

A row is identified by the symbol of the node name. It keeps its number until the node and its last pod have
been removed; then the number is reused. A row with pods but without a node is called a ghost. Each resource
ledger has an array of `mr_row` records (csrc/state.h), a column of (allocatable, requested) for each resource
other than cpu and memory, and int64 values for rows with amounts beyond 2**53. A column of label values is
filled when a selector first reads the label key.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from moorage._core.base cimport LOG_STATIC, METADATA, MR_DEBUG_BUILD, SPEC, Field, parse
from moorage._core.csrc cimport *
from moorage._core.state.declared_features cimport node_flags
from moorage._core.base.resources import is_counted
from moorage._core.base.sets import Taint

ROW = np.dtype(
    [
        *((kind + name, "f8") for kind in ("alloc_", "req_", "nonzero_") for name in ("cpu", "memory")),
        *((name, "i4") for name in ("balanced", "pods", "pods_max")),
        ("flags", "u4"),
    ]
)

cdef Field LABELS = Field("labels"), TAINTS = Field("taints")
cdef enum:
    INT32_MAX = 0x7FFFFFFF
    MAX_LEDGERS = 8  # each is an array over all rows; the binder uses two


cdef int _reserve_columns(Buffer pointers, list columns, Py_ssize_t rows) except -1:
    """Make room for `rows` rows in each column, and refresh the pointers to the columns."""
    cdef Py_ssize_t at
    cdef Buffer column
    pointers.reserve(len(columns))
    for at, column in enumerate(columns):
        column.reserve(rows)
        (<void**>pointers.data)[at] = column.data


def _shorten(lists, Py_ssize_t length):
    """Cut lists off after so many items, those that are longer."""
    for one in lists:
        del one[length:]


KINDS = ("allocatable", "requested", "nonzero")


def check_resource(str resource not None, names_of):
    """Raise KeyError for a name that no resource of a node can have, with the nearest of the names there are.

    Names of extended resources and of huge pages are in order: nodes may have none of them.

    Parameters
    ----------
    names_of : callable
        Returns the names there are.
    """
    if resource in ("cpu", "memory", "pods") or "/" in resource or resource.startswith("hugepages-"):
        return
    names = list(names_of())
    if resource not in names:
        from difflib import get_close_matches  # only errors need it

        near = get_close_matches(resource, names)
        known = f"nearest: {', '.join(near)}" if near else f"they have {', '.join(names)}"
        raise KeyError(f"nodes have no resource {resource}; {known}")


class TableColumns(Mapping):
    """A mapping from resource name to a read-only int64 array of shape (rows,).

    Cpu is in millicores, memory and ephemeral storage are in bytes, other resources in units. Each access
    creates a new array.

    Parameters
    ----------
    table : NodeTable
    kind : str
        "allocatable", "requested" or "nonzero".
    """

    def __init__(self, table, kind):
        self.table = table
        self.kind = kind

    def __getitem__(self, resource):
        if resource not in list(self):
            check_resource(resource, self.__iter__)
            raise KeyError(resource)
        return self.table.column(self.kind, resource)

    def __iter__(self):
        yield from ("cpu", "memory")
        if self.kind != "nonzero":
            yield "pods"
            yield from self.table.resources

    def __len__(self):
        return sum(1 for _ in self)


cdef class NodeTable:
    """The rows of the nodes.

    Cpu is in millicores, memory and ephemeral storage are in bytes, other resources in units. A method raises
    IndexError for a row or a resource ledger that does not exist.

    Parameters
    ----------
    symbols : Symbols
        The symbols of node names, label values, IPs and protocols.
    journal : Journal
    log : ChangeLog
    ledgers : int, default 1
        Number of resource ledgers, 1 to 8. Each ledger accounts for the pods that are charged to it against
        the allocatable resources of its own.

    Attributes
    ----------
    objects : list of Node or None
        The node of each row; None for a ghost and for a free row.
    used : int
        Number of rows, including free ones.
    label_keys : Symbols
        The label keys that have a column.
    taint_sets, port_sets : TaintSets, PortSets
        The different sets of taints, and of host ports, to which rows refer.

    Raises
    ------
    ValueError
        If the number of ledgers is out of range.
    """

    def __cinit__(self, Symbols symbols not None, Journal journal not None, ChangeLog log not None,
                  int32_t ledgers=1):
        if not 1 <= ledgers <= MAX_LEDGERS:
            raise ValueError(f"{ledgers} ledgers: 1 to {MAX_LEDGERS}")
        self.symbols = symbols
        self.journal = journal
        self.log = log
        self.ledgers = ledgers
        self.taint_sets = TaintSets()
        self.port_sets = PortSets(symbols)
        self.holders = IntLists(journal)
        self.objects = []
        self.free_rows = []
        self.resource_names = Symbols()
        self.resource_names.intern("ephemeral-storage")
        self.label_keys = Symbols()
        self.rows = [Buffer(journal, sizeof(mr_row)) for _ in range(ledgers)]
        self.wide = [Buffer(journal, MR_FIELDS * sizeof(int64_t)) for _ in range(ledgers)]
        self.others = [[] for _ in range(ledgers)]
        self.other_pointers = [Buffer(journal, sizeof(void*)) for _ in range(ledgers)]
        self.name = Buffer(journal, sizeof(int32_t))
        self.taint_set = Buffer(journal, sizeof(int32_t))
        self.port_set = Buffer(journal, sizeof(int32_t))
        self.generation = Buffer(journal, sizeof(int64_t))
        self.row_of = Buffer(journal, sizeof(int32_t), 1024)
        self.labels = []
        self.label_pointers = Buffer(journal, sizeof(void*))
        self.row_buffers = [*self.rows, *self.wide, self.name, self.taint_set, self.port_set, self.generation]
        _reserve(self, 16)
        self.sync_columns()

    def __repr__(self):
        return f"<NodeTable: {sum(node is not None for node in self.objects)} nodes, {self.used} rows>"

    cdef NodeTable clone(self, Journal journal, ChangeLog log):
        """Return an independent copy that shares the append-only tables of symbols and sets."""
        cdef NodeTable out = NodeTable(self.symbols, journal, log, self.ledgers)
        out.quantities_saturate, out.sums_saturate = self.quantities_saturate, self.sums_saturate
        cdef Buffer mine, theirs
        out.taint_sets = self.taint_sets
        out.port_sets = self.port_sets
        out.resource_names = self.resource_names
        out.label_keys = self.label_keys
        out.holders = self.holders.clone(journal)
        out.objects = list(self.objects)
        out.free_rows = list(self.free_rows)
        _reserve(out, (<Buffer>self.name).capacity)
        self.sync_columns()
        out.sync_columns()  # while it has no rows: the columns of labels are copied, not read from the nodes
        out.used = self.used
        for theirs, mine in zip(out._buffers(), self._buffers(), strict=True):
            theirs.copy_from(mine)
        _reserve(out, (<Buffer>self.name).capacity)
        return out

    def _buffers(self):
        """Return all buffers, in a fixed order."""
        out = [*self.row_buffers, self.row_of]
        for columns in self.others:
            out += columns
        return out + self.labels

    # ---- access --------------------------------------------------------------------------------------------

    cdef int fill_ledger(self, int32_t ledger, mr_ledger* out) except -1:
        """Point `out` to the arrays of a resource ledger; valid until the table grows."""
        out.rows = <mr_row*>(<Buffer>self.rows[ledger]).data
        out.wide = (<Buffer>self.wide[ledger]).int64()
        out.others = <int64_t**>(<Buffer>self.other_pointers[ledger]).data
        out.saturates = self.sums_saturate

    cdef int32_t find(self, int32_t name) noexcept nogil:
        """Return the row with the symbol of a node name, or -1."""
        debug_below(name, INT32_MAX, b"symbol of a node's name")
        if name >= self.row_of.capacity:
            return -1
        return self.row_of_column()[name] - 1

    cdef int check_row(self, int32_t row) except -1:
        """Raise IndexError unless there is such a row; -1, which stands for "no node", is not one."""
        if not 0 <= row < self.used:
            raise IndexError(f"there is no row {row} among {self.used}")

    cdef int check_rows(self, const int32_t[::1] rows) except -1:
        """Raise IndexError unless all these rows exist."""
        cdef Py_ssize_t at
        for at in range(rows.shape[0]):
            self.check_row(rows[at])

    cdef int check_ledger(self, int32_t ledger) except -1:
        """Raise IndexError unless there is such a resource ledger."""
        if not 0 <= ledger < self.ledgers:
            raise IndexError(f"there is no ledger {ledger} among {self.ledgers}")

    def find_row(self, str name not None):
        """Return the row of a node name.

        Returns
        -------
        int or None
            None if there is neither a node nor a ghost with this name.
        """
        cdef int32_t row = self.find(self.symbols.find(name))
        return None if row < 0 else row

    def row_name(self, int32_t row):
        """Return the node name of a row.

        Returns
        -------
        str or None
            None for a free row.

        Raises
        ------
        IndexError
            If there is no such row, as for -1, which stands for "no node".
        """
        self.check_row(row)
        return self.symbols.names[self.name_column()[row]]

    def is_present(self, int32_t row):
        """Whether a row has a node; a ghost has only pods."""
        self.check_row(row)
        return bool(self.row(0, row).flags & MR_PRESENT)

    # ---- rows ----------------------------------------------------------------------------------------------

    cdef int32_t row_for(self, int32_t name) except -1:
        """Return the row of a name, added without a node if it is new: pods can arrive before their node."""
        cdef int32_t row = self.find(name)
        if row >= 0:
            return row
        if MR_DEBUG_BUILD:
            debug_below(name, len(self.symbols), b"symbol of a node's name")
        if self.free_rows:
            row = self.free_rows[len(self.free_rows) - 1]
            self.journal.on_undo(partial(self.free_rows.append, row))
            self.free_rows.pop()
        else:
            row = self.used
            if row >= self.name.capacity:
                _reserve(self, row + 1)
            self.journal.on_undo(partial(self._drop_rows, row))
            self.objects.append(None)
            self.used = row + 1
        self.row_of.reserve(name + 1)
        self.row_of.touch(name)
        self.name.touch(row)
        self.row_of_column()[name] = row + 1
        self.name_column()[row] = name
        return row

    def _drop_rows(self, int32_t row):
        """Undo the addition of a row, which can have failed half-way."""
        if not 0 <= row <= self.used:
            raise IndexError(f"there is no row {row} among {self.used}")
        self.used = row
        del self.objects[row:]

    cdef int release(self, int32_t row) except -1:
        """Free a row that has neither node nor pods."""
        cdef int32_t name = self.name_column()[row]
        self.row_of.touch(name)
        self.name.touch(row)
        self.row_of_column()[name] = 0
        self.name_column()[row] = 0
        undo = self.free_rows.pop
        self.free_rows.append(row)
        try:
            self.journal.on_undo(undo)
        except BaseException:
            undo()
            raise

    cdef int changed(self, Kind kind, int32_t row) except -1:
        """Log a change of a row and update its generation."""
        self.generation.touch(row)
        self.generation_column()[row] = self.log.append(kind, row)

    cdef int check_logged(self) except -1:
        """Assert, in the debug build, that every row that changed since the last call has been logged."""
        if not MR_DEBUG_BUILD:
            return 0
        cdef dict now = {}
        cdef Buffer buffer
        logged = self.log.rows_since(self.checked_until)
        for buffer in self.column_buffers():
            now[buffer] = np.array(buffer.array(np.uint8, self.used)).reshape(self.used, buffer.itemsize)
            before = None if logged is None or self.checked is None else self.checked.get(buffer)
            rows = 0 if before is None else min(len(before), self.used)
            differs = (now[buffer][:rows] != before[:rows]).any(axis=1) if rows else ()
            for row in np.flatnonzero(differs).tolist():
                if row not in logged:
                    raise AssertionError(
                        f"moorage debug build: row {row} changed without an entry in the change log after"
                        f" entry {self.checked_until}"
                    )
        self.checked, self.checked_until = now, self.log.head

    # ---- nodes ---------------------------------------------------------------------------------------------

    cdef int set_node(self, int32_t row, object node, dict allocatable) except -1:
        """Write the static data of a node; `allocatable` is the result of `read_allocatable`.

        A node of None clears these data; the pods of the row and their usage remain.
        """
        cdef dict labels = {} if node is None else LABELS.of(METADATA.of(node))
        taints = [] if node is None else [Taint(t.key, t.value, t.effect) for t in TAINTS.of(SPEC.of(node))]
        cdef int32_t taint_set = self.taint_sets.intern(tuple(taints)), column
        self._set_capacity(row, allocatable, 0 if node is None else node_flags(node))
        self.taint_set.touch(row)
        self.taint_set_column()[row] = taint_set
        for column in range(len(self.labels)):
            self._set_label(column, row, labels.get(self.label_keys.names[column + 1]))
        self.journal.put(self.objects, row, node)
        return self.changed(LOG_STATIC, row)

    cpdef dict read_allocatable(self, dict resources):
        """Parse allocatable resources, before anything is changed.

        Parameters
        ----------
        resources : dict of str to str, int or float
            By resource name, each a quantity as the API has it.

        Returns
        -------
        dict
            "cpu" (millicores), "memory" (bytes), "pods", and other resources by their id.

        Raises
        ------
        ValueError
            If a quantity cannot be parsed.
        """
        cdef dict out = {}
        for name, raw in resources.items():
            if name == "cpu":
                out[name] = parse(raw).amount(-3, self.quantities_saturate)
            elif name == "memory" or name == "pods":
                out[name] = parse(raw).amount(0, self.quantities_saturate)
            elif is_counted(name):
                out[self.resource_id(name)] = parse(raw).amount(0, self.quantities_saturate)
        return out

    cdef int _set_capacity(self, int32_t row, dict allocatable, uint32_t flags) except -1:
        """Set allocatable resources and flags of a row in all resource ledgers."""
        for which in range(self.ledgers):
            self.set_allocatable(which, row, allocatable)
            self.row(which, row).flags &= ~(MR_PRESENT | MR_UNSCHEDULABLE | MR_FEATURES)
            self.row(which, row).flags |= flags

    cdef int set_allocatable(self, int32_t which, int32_t row, dict allocatable) except -1:
        """Set the allocatable resources of a row in one resource ledger."""
        cdef mr_ledger ledger
        cdef int64_t[6] values
        cdef int64_t* pair
        cdef int64_t amount
        cdef int32_t field, other
        (<Buffer>self.rows[which]).touch(row)
        (<Buffer>self.wide[which]).touch(row)
        self.fill_ledger(which, &ledger)
        for field in range(MR_FIELDS):
            values[field] = mr_row_value(&ledger, row, field)
        values[0] = allocatable.get("cpu", 0)
        values[1] = allocatable.get("memory", 0)
        ledger.rows[row].pods_max = max(-INT32_MAX, min(INT32_MAX, allocatable.get("pods", 0)))
        mr_row_set(&ledger, row, values)
        for other, column in enumerate(self.others[which]):
            amount = allocatable.get(other, 0)
            pair = (<Buffer>column).int64() + 2 * row
            if pair[0] == amount:
                continue
            if which == 0 and (not pair[0] or not amount):
                self.holders.flip_bit(other, row)
            (<Buffer>column).touch(row)
            pair[0] = amount

    # ---- pods ----------------------------------------------------------------------------------------------

    cdef int add_pod(self, int32_t ledger, int32_t row, const mr_shape* shape, tuple ports,
                     int32_t sign) except -1:
        """Add the usage of a pod to a row (sign 1) or subtract it (sign -1). The caller logs the row."""
        cdef mr_ledger view
        cdef int32_t moved, at
        if shape.n_others:
            self.sync_columns()
        (<Buffer>self.rows[ledger]).touch(row)
        (<Buffer>self.wide[ledger]).touch(row)
        for at in range(shape.n_others):
            (<Buffer>self.others[ledger][shape.others[at].resource]).touch(row)
        self.fill_ledger(ledger, &view)
        mr_row_add_pod(&view, row, shape, sign)
        self.count_pod(ledger, row, sign)
        if ports:
            moved = self.port_sets.moved(self.port_set_column()[row], ports, sign > 0)
            self.put_ports(row, moved)

    cdef bint is_saturated(self, int32_t ledger, int32_t row) except -1:
        """Whether what the pods of a row request has reached the bound of 64 bits."""
        cdef mr_ledger view
        self.fill_ledger(ledger, &view)
        return mr_row_is_saturated(&view, row, self.other_columns())

    cdef int clear_usage(self, int32_t ledger, int32_t row) except -1:
        """Set what the pods of a row request to 0."""
        cdef mr_ledger view
        for buffer in (self.rows[ledger], self.wide[ledger], *self.others[ledger]):
            (<Buffer>buffer).touch(row)
        self.fill_ledger(ledger, &view)
        mr_row_clear(&view, row, self.other_columns())

    cdef int add_usage(self, int32_t ledger, int32_t row, const mr_shape* shape) except -1:
        """Add what a pod requests to a row whose usage has been cleared, and that counts the pod."""
        cdef mr_ledger view
        self.fill_ledger(ledger, &view)
        mr_row_add_pod(&view, row, shape, 1)
        view.rows[row].pods -= 1

    cdef int put_ports(self, int32_t row, int32_t set_id) except -1:
        """Give a row a set of host ports. The caller logs the row."""
        self.port_set.touch(row)
        self.port_set_column()[row] = set_id

    cdef int32_t ports_without(self, int32_t row, set ports) except -1:
        """Return the id of the set of the host ports of a row without some ports."""
        return self.port_sets.without(self.port_set_column()[row], ports)

    cdef bint has_ports(self, int32_t row, tuple ports) except -1:
        """Whether all of some host ports are in use on a row."""
        return self.port_sets.holds(self.port_set_column()[row], ports)

    def set_ports(self, int32_t row, ports):
        """Set the host ports in use on a row. The caller logs the row.

        Parameters
        ----------
        row : int
        ports : iterable of (str, str, int)
            (IP, protocol, port) of each.
        """
        self.check_row(row)
        symbols = frozenset([
            (self.symbols.intern(ip), self.symbols.intern(protocol), port) for ip, protocol, port in ports
        ])
        self.put_ports(row, self.port_sets.intern(symbols))

    # ---- columns -------------------------------------------------------------------------------------------

    cdef int32_t resource_id(self, str resource) except -1:
        """Return the id of a resource other than cpu and memory, adding it and its columns if it is new."""
        cdef int32_t id = self.resource_names.intern(resource) - 1
        self.sync_columns()
        return id

    cdef int sync_columns(self) except -1:
        """Add the columns of resources and label keys that have been interned since.

        Forks share the ids of resources and label keys, so that a shape refers to the same columns in each
        fork; the columns belong to one table.
        """
        cdef Py_ssize_t rows = (<Buffer>self.name).capacity
        while len(<list>self.others[0]) < len(self.resource_names.names) - 1:
            _add_resource_columns(self, rows)
        while len(self.labels) < len(self.label_keys.names) - 1:
            _add_label_column(self, rows)

    cdef int _set_label(self, int32_t at, int32_t row, object value) except -1:
        """Set the value of a row in a label column; None if the node does not have the label."""
        cdef Buffer column = self.labels[at]
        column.touch(row)
        column.int32()[row] = 0 if value is None else self.symbols.intern(value)

    cdef int32_t other_columns(self) noexcept:
        """Return the number of resource columns; forks may have interned more resources."""
        return <int32_t>len(<list>self.others[0])

    cdef list column_buffers(self):
        """Return the buffers that hold one item per row, without labels, in a fixed order."""
        return [*self.row_buffers, *(column for ledger in self.others for column in ledger)]

    cdef int make_room(self, int32_t rows) except -1:
        """Grow to at least `rows` rows; new rows are free."""
        _reserve(self, rows)
        while self.used < rows:
            self.objects.append(None)
            self.used += 1

    # ---- reading from Python -------------------------------------------------------------------------------

    # These methods do not change the table, and they read addresses only after the last call that can release
    # the GIL, so another thread may write the table meanwhile. The result of a call is consistent, except for
    # rows that a batch is placing pods on at this moment.

    @property
    def resources(self):
        """Return the names of the resources other than cpu and memory, by id."""
        return self.resource_names.names[1:]

    @property
    def names(self):
        """Return the node name of each row; None for a free row."""
        cdef int32_t row
        return [self.symbols.names[self.name_column()[row]] for row in range(self.used)]

    @property
    def allocatable(self):
        """Return the allocatable resources: a mapping from resource name to an int64 array by row, which
        `column` copies at each access."""
        return TableColumns(self, "allocatable")

    @property
    def requested(self):
        """Return the requested resources: a mapping from resource name to an int64 array by row, which
        `column` copies at each access."""
        return TableColumns(self, "requested")

    @property
    def nonzero(self):
        """Return NonZeroRequested: cpu and memory to int64 arrays by row, with defaults for no request."""
        return TableColumns(self, "nonzero")

    def raw(self, int32_t ledger=0):
        """Return the memory of a resource ledger, read-only and without a copy.

        The arrays follow the pods and nodes of these rows, until the table grows: then ask for them again.

        Parameters
        ----------
        ledger : int, default 0

        Returns
        -------
        records : (rows,) structured array
            Millicores and bytes as float64: ``alloc_cpu``, ``alloc_memory``, ``req_cpu``, ``req_memory``,
            ``nonzero_cpu`` and ``nonzero_memory``. Numbers as int32: ``pods`` and ``pods_max``. The other
            fields are those of `mr_row` (csrc/state.h).
        others : dict of str to (rows, 2) int64 array
            Allocatable and requested of each other resource; zeros for a resource without a column yet.
        """
        cdef int32_t rows = self.used
        self.check_ledger(ledger)
        others = {resource: np.zeros((rows, 2), dtype=np.int64) for resource in self.resources}
        for resource, column in zip(others, list(self.others[ledger]), strict=False):
            others[resource] = (<Buffer>column).array(np.int64, rows).reshape(rows, 2)
        return (<Buffer>self.rows[ledger]).array(ROW, rows), others

    def column(self, str kind not None, str resource not None, int32_t ledger=0):
        """Return one resource of all rows as a new read-only array.

        Parameters
        ----------
        kind : str
            "allocatable", "requested" or "nonzero".
        resource : str
            The name of the resource.
        ledger : int, default 0

        Returns
        -------
        (rows,) int64 array
            Millicores, bytes or units; zeros for an extended resource that no node has.

        Raises
        ------
        ValueError
            If there is no such kind.
        KeyError
            If no resource of nodes can have the name.
        IndexError
            If there is no such ledger.
        """
        cdef mr_ledger view
        cdef int64_t[::1] out
        cdef int32_t row, rows, other
        cdef int which, field
        if kind not in KINDS:
            raise ValueError(f"{kind} is none of {', '.join(KINDS)}")
        self.check_ledger(ledger)
        check_resource(resource, lambda: ["cpu", "memory", "pods", *self.resources])
        which = KINDS.index(kind)
        field = 2 * which + (resource == "memory")
        other = self.resource_names.find(resource) - 1
        array = np.zeros(self.used, dtype=np.int64)
        out = array
        rows = min(self.used, <int32_t>out.shape[0])
        self.fill_ledger(ledger, &view)
        if resource in ("cpu", "memory"):
            for row in range(rows):
                out[row] = mr_row_value(&view, row, field)
        elif resource == "pods":
            for row in range(rows):
                out[row] = view.rows[row].pods if which else view.rows[row].pods_max
        elif which < 2 and 0 <= other < self.other_columns():
            for row in range(rows):
                out[row] = view.others[other][2 * row + which]
        array.flags.writeable = False
        return array

    def has_allocatable(self, str resource not None):
        """Whether a node has some of a resource other than cpu, memory and pods.

        Parameters
        ----------
        resource : str
            The name of the resource.

        Returns
        -------
        bool
        """
        cdef int32_t other = self.resource_names.find(resource) - 1
        return 0 <= other < self.other_columns() and self.holders.count_bits(other, 0) > 0

    def write_free(self, resources, const double[::1] scales not None, float[:, ::1] out not None):
        """Write what is free on each node: allocatable minus requested.

        Parameters
        ----------
        resources : sequence of str
            The columns.
        scales : (resources,) float64 array
            What to multiply each column with: a ratio of units.
        out : (n, resources) float32 array
            Its first rows are those of the table; it has zeros where there is no node.

        Raises
        ------
        ValueError
            `out` has fewer rows than the table, or other columns than there are resources and factors.
        """
        cdef int32_t row, column, other
        cdef int field
        cdef mr_ledger view
        cdef int64_t free
        if out.shape[0] < self.used or not len(resources) == scales.shape[0] == out.shape[1]:
            raise ValueError(f"{out.shape[0]} rows of {out.shape[1]} columns, where {self.used} of "
                             f"{len(resources)} are wanted")
        out[:, :] = 0
        self.fill_ledger(0, &view)
        for column, resource in enumerate(resources):
            field = 1 if resource == "memory" else 0 if resource == "cpu" else -1
            other = self.resource_names.find(resource) - 1
            if field < 0 and resource != "pods" and not 0 <= other < self.other_columns():
                continue
            for row in range(self.used):
                if not view.rows[row].flags & MR_PRESENT:
                    continue
                if field >= 0:
                    free = mr_row_value(&view, row, field) - mr_row_value(&view, row, field + 2)
                elif resource == "pods":
                    free = view.rows[row].pods_max - view.rows[row].pods
                else:
                    free = view.others[other][2 * row] - view.others[other][2 * row + 1]
                out[row, column] = <float>(<double>free * scales[column])

    def label_column(self, str key not None):
        """Return the symbols of the values of a label.

        The table keeps a column for the key from its next change on; until then the nodes are read.

        Parameters
        ----------
        key : str
            The label key.

        Returns
        -------
        (rows,) int32 array
            0 where the node does not have the label.
        """
        cdef int32_t at = self.label_keys.intern(key) - 1
        if at < len(self.labels):
            return np.array((<Buffer>self.labels[at]).array(np.int32, self.used))
        out = np.zeros(self.used, dtype=np.int32)
        for row, node in zip(range(len(out)), list(self.objects), strict=False):
            if node is not None and key in node.metadata.labels:
                out[row] = self.symbols.intern(node.metadata.labels[key])
        return out

    def row_amounts(self, int32_t row, int32_t ledger=0):
        """Return the amounts of cpu, memory and pods of a row.

        Parameters
        ----------
        row : int
        ledger : int, default 0

        Returns
        -------
        tuple of eight ints
            Cpu (millicores) and memory (bytes) of allocatable, requested and NonZeroRequested; then the
            number of pods and of allowed pods.
        """
        cdef mr_ledger view
        cdef int field
        self.check_row(row)
        self.check_ledger(ledger)
        self.fill_ledger(ledger, &view)
        amounts = [mr_row_value(&view, row, field) for field in range(MR_FIELDS)]
        return (*amounts, view.rows[row].pods, view.rows[row].pods_max)

    def row_others(self, int32_t row, int32_t ledger=0):
        """Return the amounts of the other resources of a row.

        Parameters
        ----------
        row : int
        ledger : int, default 0

        Returns
        -------
        dict of str to (int, int)
            (allocatable, requested) by resource name, without resources for which both are 0.
        """
        cdef int64_t* pair
        cdef int32_t at
        out = {}
        self.check_row(row)
        self.check_ledger(ledger)
        for at in range(self.other_columns()):
            pair = (<Buffer>self.others[ledger][at]).int64() + 2 * row
            if pair[0] or pair[1]:
                out[self.resource_names.names[at + 1]] = pair[0], pair[1]
        return out

    def row_ports(self, int32_t row):
        """Return the host ports in use on a row.

        Parameters
        ----------
        row : int

        Returns
        -------
        frozenset of (str, str, int)
            (IP, protocol, port) of each.
        """
        self.check_row(row)
        ports = self.port_sets.sets[self.port_set_column()[row]]
        names = self.symbols.names
        return frozenset([(names[ip], names[protocol], port) for ip, protocol, port in ports])

    def row_generation(self, int32_t row):
        """Return the sequence number in the change log of the last change of a row."""
        self.check_row(row)
        return self.generation_column()[row]


cdef int _add_resource_columns(NodeTable table, Py_ssize_t rows) except -1:
    """Add the columns of the next resource, one per ledger; a rollback removes them till then."""
    cdef Buffer pointers
    at, new = len(table.others[0]), []
    for pointers in table.other_pointers:
        pointers.reserve(at + 1)
        new.append(Buffer(table.journal, 2 * sizeof(int64_t), rows))
    undo = partial(_shorten, table.others, at)
    table.journal.on_undo(undo)
    table.holders.reserve(at + 1)
    try:
        for pointers, columns, column in zip(table.other_pointers, table.others, new, strict=True):
            columns.append(column)
            _reserve_columns(pointers, columns, rows)
    except BaseException:
        undo()
        raise


cdef int _add_label_column(NodeTable table, Py_ssize_t rows) except -1:
    """Add the next label column, filled from the nodes; a rollback removes it until the next sync."""
    cdef int32_t row, at = <int32_t>len(table.labels)
    cdef Buffer column = Buffer(Journal(), sizeof(int32_t), rows)
    key = table.label_keys.names[at + 1]
    for row in range(table.used):
        node = table.objects[row]
        if node is not None and key in node.metadata.labels:
            column.int32()[row] = table.symbols.intern(node.metadata.labels[key])
    table.label_pointers.reserve(at + 1)
    table.journal.adopt(column)
    table.journal.on_undo(partial(_shorten, (table.labels,), at))
    table.labels.append(column)
    _reserve_columns(table.label_pointers, table.labels, rows)


cdef int _reserve(NodeTable table, Py_ssize_t rows) except -1:
    """Make room for `rows` rows in all buffers, and for as many in each as in `name`."""
    cdef Buffer buffer
    rows = rows if rows <= table.name.capacity else max(rows, 2 * table.name.capacity)
    # Columns added later take their size from the capacity of `name`, so it must grow last.
    _reserve_columns(table.label_pointers, table.labels, rows)
    for pointers, columns in zip(table.other_pointers, table.others, strict=True):
        _reserve_columns(pointers, columns, rows)
    for buffer in table.row_buffers:
        if buffer is not table.name:
            buffer.reserve(rows)
    table.name.reserve(rows)
