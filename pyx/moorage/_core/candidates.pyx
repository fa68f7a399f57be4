"""Candidates: every node's total for one pod class, in list order, kept while a run of its pods is placed.

Each placement changes one total. Which nodes a search would look at, and which of them it would choose, is
then read off bits and maxima of blocks.
"""

from libc.stdint cimport int16_t, uint16_t, uint64_t
from libc.string cimport memset

from moorage._core.buffers cimport Buffer, Journal
from moorage._core.csrc cimport MR_COUNTED, MR_LANES, mr_candidates_build, mr_search


cdef class Candidates:
    """Memory of `mr_candidates`."""

    def __cinit__(self):
        cdef Journal journal = Journal()
        self.totals = Buffer(journal, sizeof(int16_t))
        self.blocks = Buffer(journal, sizeof(int16_t))
        self.supers = Buffer(journal, sizeof(int16_t))
        self.fits = Buffer(journal, sizeof(uint64_t))
        self.counts = Buffer(journal, sizeof(uint16_t))

    cdef int build(self, const mr_search* search) except -1:
        """Score every node; `search` must suit (`mr_candidates_suit`)."""
        cdef Py_ssize_t supers = search.n // (MR_LANES * MR_LANES) + 1, blocks = supers * MR_LANES
        cdef Buffer buffer
        self.totals.reserve(blocks * MR_LANES)
        self.blocks.reserve(blocks)
        self.supers.reserve(supers)
        self.fits.reserve(blocks)
        self.counts.reserve(blocks // MR_COUNTED)
        for buffer in (self.totals, self.blocks, self.supers, self.fits, self.counts):
            memset(buffer.data, 0, buffer.capacity * buffer.itemsize)
        self.c.totals = <int16_t*>self.totals.data
        self.c.blocks = <int16_t*>self.blocks.data
        self.c.supers = <int16_t*>self.supers.data
        self.c.fits = <uint64_t*>self.fits.data
        self.c.counts = <uint16_t*>self.counts.data
        with nogil:
            mr_candidates_build(&self.c, search)
        return 0
