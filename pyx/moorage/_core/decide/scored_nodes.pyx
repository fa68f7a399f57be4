"""ScoredNodes: the nodes that one search has scored, the best first, for opportunistic batching."""

import numpy as np
from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.csrc cimport MR_PRESENT, mr_verdicts
from moorage._core.decide.batch_rows cimport Placements
from moorage._core.decide.pod_batch cimport PodBatch, PodSpan, count_pods
from moorage._core.decide.search cimport Search
from moorage._core.state cimport NodeTable

cdef enum:
    ALL = -1  # filters


cdef class ScoredNodes:
    """The scored nodes that a cycle leaves to the next one.

    Parameters
    ----------
    signature : bytes
        Signature of the pod for which the nodes were scored.
    chosen : str
        The node on which the last pod was placed.
    created : float
        Time of the search, seconds of the scheduler's clock.
    names : (n,) int32 array
        Symbols of the names of the feasible nodes, in the order found. Not empty.
    totals : (n,) int64 array
        Weighted totals of these nodes.
    by_heap : bool
        Whether nodes are taken in the order of Go's container/heap. Otherwise higher totals come first, equal
        ones in the order found.

    Attributes
    ----------
    signature, chosen, created
        The parameters; `chosen` may be set.

    Raises
    ------
    ValueError
        The arrays are empty, or not equally long.
    """

    cdef readonly bytes signature
    cdef public str chosen
    cdef readonly double created
    cdef object names, totals  # as given, until `left` is made
    cdef bint by_heap, is_ordered
    # The remaining nodes: a heap, or in ascending order of rank.
    cdef int32_t[::1] left
    cdef int64_t[::1] scores
    cdef Py_ssize_t n

    def __cinit__(self, bytes signature not None, str chosen not None, double created, names, totals,
                  bint by_heap):
        if not 0 < len(names) == len(totals):
            raise ValueError(f"{len(names)} nodes with {len(totals)} totals")
        self.signature, self.chosen, self.created = signature, chosen, created
        self.names, self.totals, self.by_heap, self.n = names, totals, by_heap, len(names)

    def __len__(self):
        return self.n if self.is_ordered else self.n - 1

    def copy(self):
        """Return a copy from which nodes are taken independently."""
        cdef ScoredNodes out = ScoredNodes(
            self.signature, self.chosen, self.created, self.names, self.totals, self.by_heap
        )
        if self.is_ordered:
            out.left, out.scores = self.left.copy(), self.scores.copy()
            out.n, out.is_ordered = self.n, True
        return out

    def best(self):
        """Return the symbol of the name of the best remaining node.

        Raises
        ------
        IndexError
            No node remains.
        """
        self._order()
        if not self.n:
            raise IndexError("no node remains")
        return self._best()

    cdef int32_t _best(self) noexcept:
        """The symbol of the name of the best remaining node; there is one, and the nodes are in order."""
        return self.left[0 if self.by_heap else self.n - 1]

    def place(self, Search search not None, PodBatch batch not None, Placements out not None, int32_t first,
              int32_t end):
        """Place equal pods, one after the other: each on the best remaining node, while it fits there, and
        while it does not fit on the node of the pod before it. Each is counted on its row at once; the
        caller enters them in the ledger.

        Parameters
        ----------
        search : Search
            All its plugins are in the core, and it counts no nominated pods.
        batch : PodBatch
        out : Placements
            Receives the row of each pod.
        first, end : int
            The index of the first pod, and the index after the last; all belong to one run of the batch.

        Returns
        -------
        int
            The index of the first pod that is not placed, or `end`.

        Raises
        ------
        IndexError
            There are no such equal pods.
        StatusError
            A plugin failed for the first pod that is not placed.
        """
        cdef const PodSpan* span = batch._span(first)
        cdef NodeTable table = search.state.table
        cdef int32_t at, last = table.find(table.symbols.find(self.chosen))
        cdef int32_t rows[2]
        cdef uint64_t verdicts[2]
        if not first <= end <= min(<Py_ssize_t>span.end, out.n):
            raise IndexError(f"pods {first} to {end} are not equal pods with a row")
        self._order()
        try:
            for at in range(first, end):
                rows[0], rows[1] = last, table.find(self._best()) if self.n else -1
                if not (_is_node(table, rows[0]) and _is_node(table, rows[1])):
                    return at
                search._prepare(span.pod_class, span.node_name, span.pinned)
                if mr_verdicts(&search.search, <uint64_t>ALL, rows, 2, verdicts):
                    search._raise_failure()
                if verdicts[0] == 0 or verdicts[1]:
                    return at
                count_pods(search.state, span.pod_class, rows[1], 1)
                out.data[at] = last = rows[1]
                _pop(self)
            return end
        finally:
            if first < end and out.data[first] >= 0:
                self.chosen = table.row_name(last)

    def pop(self):
        """Remove the best remaining node.

        Returns
        -------
        int
            Symbol of its name.

        Raises
        ------
        IndexError
            No node remains.
        """
        name = self.best()
        _pop(self)
        return name

    cdef int _order(self) except -1:
        """Order the nodes at the first use, as most lists are never used. The first one is the chosen one."""
        cdef Py_ssize_t at
        if self.is_ordered:
            return 0
        if self.by_heap:
            names, totals = self.names, self.totals
        else:  # the last one of the highest is the first that was found
            ascending = np.argsort(-np.asarray(self.totals, dtype=np.int64), kind="stable")[::-1]
            names, totals = np.asarray(self.names)[ascending], np.asarray(self.totals)[ascending]
        self.left, self.scores = np.array(names, dtype=np.int32), np.array(totals, dtype=np.int64)
        if self.by_heap:
            for at in range(self.n // 2 - 1, -1, -1):
                _sift_down(&self.scores[0], &self.left[0], at, self.n)
        self.is_ordered = True
        _pop(self)
        return 0


cdef bint _is_node(NodeTable table, int32_t row) noexcept:
    """Whether a row, or -1, has a node; a ghost has only pods."""
    return row >= 0 and table.row(0, row).flags & MR_PRESENT != 0


cdef void _pop(ScoredNodes nodes) noexcept:
    """Remove the best node, of which there is one, as Go's container/heap Pop does."""
    cdef Py_ssize_t last = nodes.n - 1
    if nodes.by_heap:
        _swap(&nodes.scores[0], &nodes.left[0], 0, last)
        _sift_down(&nodes.scores[0], &nodes.left[0], 0, last)
    nodes.n = last


cdef void _sift_down(int64_t* totals, int32_t* names, Py_ssize_t at, Py_ssize_t n) noexcept nogil:
    """Move a node down the heap of the first `n`. A child rises only if strictly higher than its parent, the
    right one only if strictly higher than the left."""
    cdef Py_ssize_t child = 2 * at + 1
    while child < n:
        if child + 1 < n and totals[child + 1] > totals[child]:
            child += 1
        if totals[child] <= totals[at]:
            return
        _swap(totals, names, at, child)
        at, child = child, 2 * child + 1


cdef inline void _swap(int64_t* totals, int32_t* names, Py_ssize_t one, Py_ssize_t other) noexcept nogil:
    """Swap two nodes."""
    totals[one], totals[other] = totals[other], totals[one]
    names[one], names[other] = names[other], names[one]
