"""Prepared: a search made ready for pods of one class, with what is kept between its decisions."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from moorage._core.base.buffers cimport HEADER, Buffer, Journal
from moorage._core.decide.candidates cimport Candidates
from moorage._core.csrc cimport (
    MR_KEPT,
    MR_UNMADE,
    mr_asks_for_names,
    mr_changes,
    mr_counter,
    mr_matched,
    mr_named_lanes,
    mr_nominated,
    mr_search,
    mr_verdict_histogram_build,
    mr_verdict_histogram_follow,
)
from moorage._core.state.domains cimport Counter, Matched
from moorage._core.state.node_table cimport NodeTable
from moorage._core.state.pod_class cimport Shape

# Nanoseconds, roughly, as bench/ measures them: only their ratios matter, and only for speed.
cdef enum:
    DECISION = 60
    LANE = 1         # to look at a node in a scan
    LANE_OF_TERMS = 30
    ROW = 12         # to take a changed row over
    ROW_OF_TERMS = 60
    BUILD = 2        # to look at a node when candidates are made
    BUILD_OF_TERMS = 40


cdef enum:
    NOT_YET
    KEPT
    NOBODY_ASKS


cdef bint is_worth(Ready* one, int64_t head, int64_t following) noexcept nogil:
    """Whether to decide by candidates and not by a scan; `following` more pods of the class come right after.

    Candidates that have too much to catch up with, or have to be made, must have been missed often enough:
    what scans have cost more than candidates would have is saved up until it pays for them ("ski rental").
    """
    cdef bint in_terms = one.candidates.key.size > 0
    cdef int64_t row = ROW_OF_TERMS if in_terms else ROW, n = one.search.n
    cdef int64_t lanes = n if one.failed >= 0 else min(<int64_t>one.wanted, n)  # in vain, all are looked at
    cdef int64_t scan = DECISION + lanes * (LANE_OF_TERMS if in_terms else LANE)
    cdef int64_t build = n * (BUILD_OF_TERMS if in_terms else BUILD)
    cdef bint kept = one.candidates.state == MR_KEPT
    cdef int64_t behind = min((head - one.candidates.cursor) * row, build) if kept else build
    cdef int64_t gap = (head - one.last) * row
    one.last = head
    if kept and behind <= scan:
        return True
    one.credit = max(<int64_t>0, one.credit + scan - gap)
    if one.credit + following * (scan - row) < behind:
        return False
    one.credit = 0
    return True


cdef class Prepared:
    """The memory behind a `Ready`."""

    def __cinit__(self, Shape shape not None):
        self.shape = shape
        self.c.shape = &shape.c
        self.c.owner = <void*>self
        self.c.failed = -1
        self.candidates = Candidates()
        self.counted = Buffer(Journal(), sizeof(void*))
        self.undo = Buffer(Journal(), sizeof(Undo))
        self.verdicts = Buffer(Journal(), sizeof(uint64_t), 1)
        self.named = Buffer(Journal(), 1, 1)
        self.named_by = -1
        self.order = Buffer(Journal(), sizeof(int32_t), 1)

    cdef dict rejections(self, const mr_changes* changes, object terms):
        """Verdict to number of nodes, of those that reject such pods; None where there are too many."""
        cdef int32_t at
        cdef bint is_other = self.histogram_terms is not terms or self.histogram.n != self.c.search.n
        if is_other or self.histogram.state != MR_KEPT:
            self.verdicts.reserve(self.c.search.n)
            self.histogram.verdicts = <uint64_t*>self.verdicts.data
            self.histogram_terms = terms
            self.histogram.state = MR_UNMADE
        with nogil:
            if self.histogram.state == MR_KEPT:
                mr_verdict_histogram_follow(&self.histogram, &self.c.search, changes)
            else:
                mr_verdict_histogram_build(&self.histogram, &self.c.search, changes)
        if self.histogram.state != MR_KEPT:
            return None
        out = {}
        for at in range(self.histogram.used):
            if self.histogram.values[at] and self.histogram.counts[at]:
                out[self.histogram.values[at]] = self.histogram.counts[at]
        return out

    cdef int count_nominated(self, dict counts, const mr_nominated* nominated, int32_t n) except -1:
        """Count the verdicts of nodes to which pods are nominated in place of those without these pods."""
        cdef int32_t at, same = 0
        cdef uint64_t before, now
        for at in range(n):
            before, now = self.histogram.verdicts[nominated[at].position], nominated[at].verdict
            same += 1
            if at + 1 < n and nominated[at + 1].verdict == now \
                    and self.histogram.verdicts[nominated[at + 1].position] == before:
                continue
            if before:
                counts[before] -= same
                if not counts[before]:
                    del counts[before]
            counts[now] = counts.get(now, 0) + same
            same = 0
        return 0

    cdef int keep_named(self, mr_search* search, int64_t version) except -1:
        """Have the filters that look at names and labels asked once for all rows, if this is not the first
        time since any node has said something else."""
        if self.named_by != version:
            self.named_by, self.named_state = version, NOT_YET
        elif self.named_state == NOT_YET:
            self.named_state = KEPT if mr_asks_for_names(search) else NOBODY_ASKS
            if self.named_state == KEPT:
                self.named.reserve(search.n)
                mr_named_lanes(search, <uint8_t*>self.named.data)
        if self.named_state == KEPT:
            search.named_ok = <const uint8_t*>self.named.data
        return 0

    cdef int keep_order(self, mr_search* search) except -1:
        """Have a list of nodes of one's own in place of the one that is searched."""
        self.order.reserve(search.n)
        memcpy(self.order.data, search.order, search.n * sizeof(int32_t))
        search.order = <int32_t*>self.order.data
        return 0

    cdef int count(self, list matched) except -1:
        """Pods of the class are counted by these."""
        cdef Matched one
        cdef Py_ssize_t at = 0
        self.c.n_undo = 0
        self.counted.reserve(len(matched) + 1)
        for one in matched:
            (<mr_matched**>self.counted.data)[at] = &one.c
            at += 1
        (<mr_matched**>self.counted.data)[at] = NULL
        self.c.counted = <mr_matched**>self.counted.data
        return 0

    cdef Py_ssize_t watch(self, NodeTable table, list matched) except -1:
        """What a placement changes will be saved before. Answers how many bytes that takes, for one."""
        cdef Matched one
        cdef Counter counter
        cdef int32_t at
        self.c.n_undo, self.undo_bytes = 0, 0
        self._watch(table.rows[0])
        self._watch(table.wide[0])
        self._watch(table.generation)
        for at in range(self.shape.c.n_others):
            self._watch(table.others[0][self.shape.c.others[at].resource])
        for one in matched:
            self._watch(one.pods)
            for counter in one.counters:
                self._watch(counter.pods, &counter.c)
        return self.undo_bytes

    cdef int _watch(self, Buffer buffer, const mr_counter* counter=NULL) except -1:
        cdef Undo one
        one.kept, one.counter = buffer.kept(), counter
        self.undo.reserve(self.c.n_undo + 1)
        self.c.undo = <Undo*>self.undo.data
        self.c.undo[self.c.n_undo] = one
        self.c.n_undo += 1
        self.undo_bytes += (1 + (counter != NULL)) * (HEADER + buffer.itemsize)
        return 0
