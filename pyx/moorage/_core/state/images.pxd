from libc.stdint cimport int32_t, int64_t

from moorage._core.base cimport Buffer, IntLists, Journal, Symbols


cdef class ImageStates:
    cdef readonly Symbols names
    cdef Buffer counts, sizes
    # By row: pairs of an image id and the number of nodes that had the image when the row was set.
    cdef IntLists held
    cdef Journal journal
    cdef int64_t epoch  # grows with every change of a count, including an undo

    cdef inline int32_t nodes(self, int32_t image) noexcept:
        """Return the number of nodes that have an image."""
        return self.counts.int32()[image]

    cdef ImageStates clone(self, Journal journal)
    cdef int sync(self) except -1
    cpdef int32_t image(self, str name) except -1
    cdef int set_row(self, int32_t row, object reported) except -1
    cdef dict read(self, IntLists lists, int32_t row, const int64_t* sizes)
