from libc.stdint cimport int32_t, int64_t

from moorage._core.base cimport Buffer, IntLists, Journal, Kind
from moorage._core.csrc cimport mr_cluster, mr_columns, mr_ledger
from moorage._core.state.images cimport ImageStates
from moorage._core.state.node_table cimport NodeTable
from moorage._core.state.zone_tree cimport NodeTree


cdef class View:
    cdef NodeTable table
    cdef NodeTree tree
    cdef ImageStates images
    cdef readonly int64_t cursor, scanned, static_version
    cdef readonly int32_t size
    cdef Journal journal
    cdef Buffer order, names, position, shown, seen_epoch
    cdef list columns_memory
    cdef bint is_scanned
    cdef bint was_undone  # a refresh was undone by the rollback that is going on
    cdef public bint freezes_counts
    cdef public object claim_counts
    cdef mr_columns columns
    cdef mr_ledger ledger
    cdef const int32_t* taint_set
    cdef IntLists seen
    # Rows with changes that have been read without freezing their image counts, which was not necessary at
    # `settled_epoch`.
    cdef Buffer settled
    cdef Py_ssize_t n_settled
    cdef int64_t settled_epoch

    cpdef int refresh(self) except -1
    cdef int settle(self) except -1
    cdef int follow_rollback(self, int64_t mark) except -1
    cdef int show_only(self, const int32_t[::1] rows) except -1
    cpdef int follow_usage(self) except -1
    cdef int scan_columns(self) noexcept nogil
    cdef Py_ssize_t begin_run(self, Py_ssize_t pods) except -1
    cdef void follow(self, int32_t row) noexcept nogil
    cdef int fill_cluster(self, mr_cluster* out) except -1
    cdef View clone(self, Journal journal, NodeTable table, NodeTree tree, ImageStates images)

    cdef inline int32_t* position_column(self) noexcept nogil:
        """Return [row] its position in the list and 1; 0 for a row that is not in it."""
        return self.position.int32()

    cdef inline int32_t* order_column(self) noexcept nogil:
        """Return [position] the row there."""
        return self.order.int32()

    cdef inline int32_t* names_column(self) noexcept nogil:
        """Return [position] the symbol of the node's name there."""
        return self.names.int32()

    cdef inline int64_t* shown_column(self) noexcept nogil:
        """Return [row] the generation of the table up to which the view shows it."""
        return self.shown.int64()
