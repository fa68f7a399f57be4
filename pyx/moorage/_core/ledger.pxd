from libc.stdint cimport int8_t, int32_t

from moorage._core.buffers cimport Buffer, Journal

cdef enum PodState:
    FREE = 0
    ASSUMED = 1
    ADDED = 2


cdef class Ledger:
    cdef Journal journal
    cdef dict index
    cdef list objects, uids, free, deadlines, rows
    cdef Buffer pod_class, row, slot, state, deadline, shared, terminating

    cdef Ledger clone(self, Journal journal)
    cdef int32_t find(self, str uid) except -2
    cdef int make_room(self, Py_ssize_t pods) except -1
    cdef int _touch(self, int32_t number) except -1
    cdef int32_t insert(self, str uid, object pod, int32_t pod_class, int32_t row, PodState state) except -1
    cdef int remove(self, int32_t number) except -1
    cdef int set_state(self, int32_t number, PodState state) except -1
    cdef int set_deadline(self, int32_t number, double deadline) except -1
    cdef int reserve_rows(self, Py_ssize_t rows) except -1
    cdef list _writable(self, int32_t row)
    cdef list binding(self)
    cdef list share(self, int32_t row)
    cdef int count(self, const unsigned char[::1] matching, bint all_pods, int32_t* pods) except -1

    cdef inline object object_of(self, int32_t number):
        return self.objects[number]

    cdef inline Py_ssize_t pods_on(self, int32_t row) noexcept:
        """Number of pods on a row."""
        if row >= len(self.rows) or self.rows[row] is None:
            return 0
        return len(<list>self.rows[row])

    cdef inline PodState state_of(self, int32_t number) noexcept:
        return <PodState>(<int8_t*>self.state.data)[number]

    cdef inline int32_t row_of(self, int32_t number) noexcept:
        return (<int32_t*>self.row.data)[number]

    cdef inline int32_t class_of(self, int32_t number) noexcept:
        return (<int32_t*>self.pod_class.data)[number]

    cdef inline bint is_terminating(self, int32_t number) noexcept:
        return (<int8_t*>self.terminating.data)[number]
