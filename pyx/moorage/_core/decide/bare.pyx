"""BareRows: rows as they are scored once an extender has sent their nodes back: without pods and images.

kube-scheduler v1.36, extender.go Filter, makes NodeInfos anew of such nodes (kubernetes issue 141781).
"""

from libc.stdint cimport int64_t

from moorage._core.base.buffers cimport Journal
from moorage._core.csrc cimport MR_FIELDS, mr_row


cdef class BareRows:
    """Copies of rows, kept only for the memory."""

    def __cinit__(self):
        cdef Journal journal = Journal()
        self.rows = Buffer(journal, sizeof(mr_row))
        self.wide = Buffer(journal, sizeof(int64_t))
        self.others = Buffer(journal, sizeof(int64_t))
        self.pointers = Buffer(journal, sizeof(void*))
        self.zeros = Buffer(journal, sizeof(int32_t))

    cdef int show(self, const int32_t* rows, int32_t n, int32_t used, int32_t resources, mr_cluster* cluster,
                  mr_terms* terms) except -1:
        """Have `cluster` and `terms` point to copies of these rows, of `used` in the table, until they are
        filled the next time."""
        cdef const mr_row* row
        cdef mr_row* bare
        cdef int64_t* wide
        cdef int64_t* amounts
        cdef int64_t at
        cdef int32_t i, field
        self.rows.reserve(used)
        self.wide.reserve(<int64_t>used * MR_FIELDS)
        self.others.reserve(<int64_t>used * 2 * resources)
        self.pointers.reserve(resources)
        self.zeros.reserve(used)
        for i in range(n):
            at = rows[i]
            row, bare = &cluster.ledger.rows[at], <mr_row*>self.rows.data + at
            bare[0] = row[0]
            bare.req_cpu = bare.req_memory = bare.nonzero_cpu = bare.nonzero_memory = 0.0
            wide = <int64_t*>self.wide.data + at * MR_FIELDS
            for field in range(MR_FIELDS):
                wide[field] = cluster.ledger.wide[at * MR_FIELDS + field] if field < 2 else 0
            for field in range(resources):
                amounts = <int64_t*>self.others.data + 2 * (<int64_t>field * used + at)
                amounts[0] = cluster.ledger.others[field][2 * at]
                amounts[1] = 0
        for field in range(resources):
            (<int64_t**>self.pointers.data)[field] = <int64_t*>self.others.data + 2 * <int64_t>field * used
        cluster.ledger.rows = <mr_row*>self.rows.data
        cluster.ledger.wide = <int64_t*>self.wide.data
        cluster.ledger.others = <int64_t**>self.pointers.data
        cluster.image_count = <int32_t*>self.zeros.data
        for i in range(terms.n_soft if terms else 0):
            if terms.soft[i].row_pods:
                terms.soft[i].row_pods = <int32_t*>self.zeros.data
