from libc.stdint cimport int32_t, int64_t, uint32_t

from moorage._core.base cimport (
    Buffer, ChangeLog, IntLists, Journal, Kind, PortSets, Symbols, TaintSets, debug_below,
)
from moorage._core.csrc cimport mr_ledger, mr_row, mr_shape


cdef class NodeTable:
    cdef Symbols symbols, resource_names
    cdef readonly Symbols label_keys
    cdef ChangeLog log
    cdef readonly TaintSets taint_sets
    cdef readonly PortSets port_sets
    cdef readonly list objects
    cdef Journal journal
    cdef list row_buffers, rows, wide, others, other_pointers, labels, free_rows
    cdef Buffer name, taint_set, port_set, generation, row_of, label_pointers
    cdef int32_t ledgers
    cdef bint quantities_saturate, sums_saturate  # see `PodGates`
    cdef readonly int32_t used
    # [other resource]: a bit for each row whose allocatable amount in the first ledger is not 0
    cdef IntLists holders
    cdef dict checked
    cdef int64_t checked_until

    cdef int fill_ledger(self, int32_t ledger, mr_ledger* out) except -1
    cdef int check_row(self, int32_t row) except -1
    cdef int check_rows(self, const int32_t[::1] rows) except -1
    cdef int check_ledger(self, int32_t ledger) except -1
    cdef int32_t other_columns(self) noexcept
    cdef int32_t find(self, int32_t name) noexcept nogil
    cdef int32_t row_for(self, int32_t name) except -1
    cdef int release(self, int32_t row) except -1
    cdef int set_node(self, int32_t row, object node, dict allocatable) except -1
    cpdef dict read_allocatable(self, dict resources)
    cdef int _set_capacity(self, int32_t row, dict allocatable, uint32_t flags) except -1
    cdef int _set_label(self, int32_t at, int32_t row, object value) except -1
    cdef int set_allocatable(self, int32_t which, int32_t row, dict allocatable) except -1
    cdef int add_pod(self, int32_t ledger, int32_t row, const mr_shape* shape, tuple ports,
                     int32_t sign) except -1
    cdef bint is_saturated(self, int32_t ledger, int32_t row) except -1
    cdef int clear_usage(self, int32_t ledger, int32_t row) except -1
    cdef int add_usage(self, int32_t ledger, int32_t row, const mr_shape* shape) except -1
    cdef bint has_ports(self, int32_t row, tuple ports) except -1
    cdef int32_t ports_without(self, int32_t row, set ports) except -1
    cdef int put_ports(self, int32_t row, int32_t set_id) except -1
    cdef int changed(self, Kind kind, int32_t row) except -1
    cdef int check_logged(self) except -1
    cdef int32_t resource_id(self, str resource) except -1
    cdef int sync_columns(self) except -1
    cdef list column_buffers(self)
    cdef int make_room(self, int32_t rows) except -1
    cdef NodeTable clone(self, Journal journal, ChangeLog log)

    cdef inline int32_t* name_column(self) noexcept nogil:
        """Return [row] the symbol of its name; 0 for a free row."""
        return self.name.int32()

    cdef inline int32_t* taint_set_column(self) noexcept nogil:
        """Return [row] the number of its set of taints."""
        return self.taint_set.int32()

    cdef inline int32_t* port_set_column(self) noexcept nogil:
        """Return [row] the number of its set of ports."""
        return self.port_set.int32()

    cdef inline int64_t* generation_column(self) noexcept nogil:
        """Return [row] where it changed last in the log."""
        return self.generation.int64()

    cdef inline int32_t* row_of_column(self) noexcept nogil:
        """Return [symbol of a name] its row and 1; 0 for none."""
        return self.row_of.int32()
    cdef inline int count_pod(self, int32_t charged, int32_t row, int32_t sign) except -1:
        """Count a pod (sign 1 or -1) in the resource ledgers that it is not charged to."""
        cdef int32_t which
        for which in range(self.ledgers):
            if which != charged:
                (<Buffer>self.rows[which]).touch(row)
                self.row(which, row).pods += sign
        return 0

    cdef inline mr_row* row(self, int32_t ledger, int32_t row) noexcept:
        """Return the record of a row in a resource ledger."""
        debug_below(ledger, self.ledgers, b"ledger of the node table")
        debug_below(row, self.used, b"row of the node table")
        return &(<mr_row*>(<Buffer>self.rows[ledger]).data)[row]
