from moorage._core.csrc cimport mr_plan
from moorage._core.node_table cimport NodeTable


cdef class Plan:
    cdef mr_plan c
    cdef readonly list filters
    cdef readonly list scores
    cdef readonly dict weights
