"""Candidates: every node's total for pods of one class, in list order, kept up to date by the change log.

A change of a row changes one total. Which nodes a search would look at, and which of them it would choose, is
then read off bits and maxima of blocks (csrc/candidates.h).
"""

from libc.stdint cimport int16_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from moorage._core.base.buffers cimport Journal
from moorage._core.csrc cimport (
    MR_COUNTED,
    MR_KEY,
    MR_LANES,
    MR_MORE_BUCKETS,
    MR_UNMADE,
    mr_candidates_build,
    mr_candidates_point,
)

cdef enum:
    SOME_BUCKETS = 8


cdef class Candidates:
    """Memory of `mr_candidates`."""

    def __cinit__(self):
        cdef Journal journal = Journal()
        self.totals = Buffer(journal, sizeof(int16_t), 1)
        self.bucket = Buffer(journal, sizeof(int16_t), 1)
        self.blocks = Buffer(journal, sizeof(int16_t), 1)
        self.supers = Buffer(journal, sizeof(int16_t), 1)
        self.fits = Buffer(journal, sizeof(uint64_t), 1)
        self.counts = Buffer(journal, sizeof(uint16_t), 1)
        self.keys = Buffer(journal, sizeof(int32_t), 1)
        self.hashes = Buffer(journal, sizeof(uint32_t), 1)
        self.feasible = Buffer(journal, sizeof(int32_t), 1)
        self.member = Buffer(journal, sizeof(int32_t), 1)

    def _buffers(self):
        return (self.totals, self.bucket, self.blocks, self.supers, self.fits, self.counts, self.keys,
                self.hashes, self.feasible, self.member)

    cdef Py_ssize_t nbytes(self) noexcept:
        """Memory that is held."""
        cdef Buffer buffer
        cdef Py_ssize_t sum = 0
        for buffer in self._buffers():
            sum += buffer.capacity * buffer.itemsize
        return sum

    cdef int point(self, const mr_search* search, object terms) except -1:
        """Have the addresses of a prepared search right; what rests on other terms or keys is unmade."""
        mr_candidates_point(&self.c, search)
        if terms is not self.terms:
            self.c.state = MR_UNMADE
        self.terms = terms

    cdef int build(self, const mr_changes* changes, int32_t* lanes, uint8_t* seen) except -1:
        """Look at every node. Answers 1 where several threads took part."""
        cdef int parallel = 0
        cdef int32_t stride = 1 if self.c.key.size == 0 else max(self.c.stride, SOME_BUCKETS)
        if self.c.state == MR_MORE_BUCKETS:
            stride *= 2
        self.c.state = MR_MORE_BUCKETS
        while self.c.state == MR_MORE_BUCKETS:
            self._reserve(stride)
            with nogil:
                parallel = mr_candidates_build(&self.c, changes, lanes, seen)
            stride *= 2
        return parallel

    cdef int _reserve(self, int32_t stride) except -1:
        cdef Py_ssize_t supers = self.c.search.n // (MR_LANES * MR_LANES) + 1, blocks = supers * MR_LANES
        cdef Buffer buffer
        self.totals.reserve(blocks * MR_LANES)
        self.bucket.reserve(blocks * MR_LANES)
        self.blocks.reserve(blocks * stride)
        self.supers.reserve(supers * stride)
        self.fits.reserve(blocks * stride)
        self.counts.reserve(blocks // MR_COUNTED * stride)
        self.keys.reserve(stride * MR_KEY)
        self.hashes.reserve(stride)
        self.feasible.reserve(stride)
        self.member.reserve(stride)
        for buffer in self._buffers():
            memset(buffer.data, 0, buffer.capacity * buffer.itemsize)
        self.c.totals = <int16_t*>self.totals.data
        self.c.bucket = <int16_t*>self.bucket.data
        self.c.blocks = <int16_t*>self.blocks.data
        self.c.supers = <int16_t*>self.supers.data
        self.c.fits = <uint64_t*>self.fits.data
        self.c.counts = <uint16_t*>self.counts.data
        self.c.keys = <int32_t*>self.keys.data
        self.c.hashes = <uint32_t*>self.hashes.data
        self.c.feasible = <int32_t*>self.feasible.data
        self.c.member = <int32_t*>self.member.data
        self.c.stride = stride
