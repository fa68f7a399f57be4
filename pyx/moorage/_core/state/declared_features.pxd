from libc.stdint cimport uint32_t


cpdef tuple required_features(spec)
cdef uint32_t feature_flags(object names) except? 1
cdef uint32_t node_flags(object node) except? 1
