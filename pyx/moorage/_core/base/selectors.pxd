cdef class LabelSelectorMatcher:
    cdef tuple _requirements

    cpdef bint matches(self, dict labels) except -1


cdef class NodeSelectorMatcher:
    cdef list _terms

    cpdef bint matches(self, object node) except -1
