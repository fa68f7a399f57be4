"""ScoredNodes: the nodes that one search has scored, the best first, for opportunistic batching."""

import numpy as np
from libc.stdint cimport int32_t, int64_t, uint64_t

from moorage._core.csrc cimport (
    MR_EXTERNAL, MR_PRESENT, mr_is_normalized, mr_normalize, mr_plan, mr_score_rows, mr_scores, mr_verdicts,
)
from moorage._core.decide.batch_rows cimport Placements
from moorage._core.decide.external cimport PythonExternal
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
    created : float
        Time of the search, seconds of the scheduler's clock.
    names : (n,) int32 array
        Symbols of the names of the feasible nodes, in the order found. Not empty.
    totals : (n,) int64 array
        Weighted totals of these nodes.
    by_heap : bool
        Whether nodes are taken in the order of Go's container/heap. Otherwise higher totals come first, equal
        ones in the order found.
    raw : (plugins, n) int64 array, optional
        Raw scores of these nodes, as `Search.raw_scores` returns them. With them, the node of the last pod
        can be scored again; the array is changed then.

    Attributes
    ----------
    signature, created
        The parameters.

    Raises
    ------
    ValueError
        The arrays are empty, or not equally long.
    """

    cdef readonly bytes signature
    cdef readonly double created
    cdef object names, totals, raw  # as given
    cdef bint by_heap, is_ordered
    cdef const int32_t[::1] symbols  # `names`
    # The remaining nodes by their index in `names`: a heap, or in ascending order of rank. The node of the
    # last pod is right after them.
    cdef int32_t[::1] left
    cdef int64_t[::1] scores
    cdef Py_ssize_t n

    def __cinit__(self, bytes signature not None, double created, names, totals, bint by_heap, raw=None):
        if not 0 < len(names) == len(totals):
            raise ValueError(f"{len(names)} nodes with {len(totals)} totals")
        if raw is not None and np.shape(raw)[1:] != (len(names),):
            raise ValueError(f"raw scores of shape {np.shape(raw)} for {len(names)} nodes")
        self.signature, self.created, self.by_heap = signature, created, by_heap
        self.names, self.totals, self.raw, self.n = names, totals, raw, len(names)

    def __len__(self):
        return self.n if self.is_ordered else self.n - 1

    def copy(self):
        """Return a copy from which nodes are taken independently."""
        raw = None if self.raw is None else np.array(self.raw)
        cdef ScoredNodes out = self._of(raw)
        if self.is_ordered:
            out.symbols, out.left, out.scores = self.symbols, self.left.copy(), self.scores.copy()
            out.n, out.is_ordered = self.n, True
        return out

    cdef ScoredNodes _of(self, raw):
        """The list as it was left, with these raw scores."""
        return ScoredNodes(self.signature, self.created, self.names, self.totals, self.by_heap, raw)

    def last_row(self, NodeTable table not None):
        """Return the row of the node of the last pod.

        Parameters
        ----------
        table : NodeTable

        Returns
        -------
        int
            -1 if the node is gone, or no node has been taken since the list was scored again.
        """
        self._order()
        return self._last_row(table)

    cdef int32_t _last_row(self, NodeTable table) noexcept:
        """See `last_row`; the nodes are in order."""
        cdef int32_t row = -1
        if self.n < self.left.shape[0]:
            row = table.find(self.symbols[self.left[self.n]])
        return row if _is_node(table, row) else -1

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
        return self.symbols[self.left[0 if self.by_heap else self.n - 1]]

    def rescored(self, Search search not None, tuple target not None, pre_score=None):
        """Score the node of the last pod again, and the other nodes beside it by the raw scores that they
        have (kube-scheduler v1.37, framework/runtime/batch.go rescoreHintedNode).

        Parameters
        ----------
        search : Search
            Has the same scores in its plan as the search that found the nodes.
        target : (int, int, int)
            Of the next pod: its class, and the symbols of its spec.nodeName and of the node that it is pinned
            to by matchFields; 0: none.
        pre_score : callable, optional
            Called with the rows of all nodes, (n,) int32, before they are scored.

        Returns
        -------
        ScoredNodes or None
            All nodes in their new order; this list is not to be used any more. None if a node is gone, or has
            a score outside 0..100.

        Raises
        ------
        ValueError
            The list has no raw scores, or those of other plugins, or no node has been taken from it.
        Exception
            The error of a plugin outside the core.
        """
        pod_class, node_name, pinned = target
        self._order()
        if self.n == self.left.shape[0]:
            raise ValueError("no node has been taken from the list since it was scored again")
        search._prepare(pod_class, node_name, pinned)
        return self._rescored(search, pre_score)

    cdef ScoredNodes _rescored(self, Search search, pre_score):
        """See `rescored`; the search is prepared for the pod, and the nodes are in order."""
        cdef NodeTable table = search.state.table
        cdef Py_ssize_t n = self.n + 1, at
        cdef int32_t[::1] rows = np.empty(n, dtype=np.int32)
        cdef ScoredNodes out
        if self.raw is None or len(self.raw) != search.current.c.n_scores:
            raise ValueError("the list has no raw scores of the plugins that score now")
        for at in range(n):
            rows[at] = table.find(self.symbols[self.left[at]])
            if not _is_node(table, rows[at]):
                return None
        if pre_score is not None:
            pre_score(np.asarray(rows))
        totals = self._score_again(search, rows)
        if totals is None:
            return None
        out = self._of(self.raw)
        out.symbols, out.left, out.scores = self.symbols, self.left[:n].copy(), totals
        out.n, out.is_ordered = n, True
        out._arrange()
        return out

    cdef object _score_again(self, Search search, const int32_t[::1] rows):
        """The totals of the nodes in `left` and of the one after them, which alone gets new raw scores. None
        if a score is not in 0..100."""
        cdef const mr_plan* plan = &search.current.c
        cdef Py_ssize_t n = rows.shape[0], at
        cdef int64_t[:, ::1] raw = self.raw
        cdef int64_t[::1] column = np.zeros(n, dtype=np.int64), totals = np.zeros(n, dtype=np.int64)
        cdef int32_t k
        cdef bint scores
        for k in range(plan.n_scores):
            for at in range(n - 1):
                column[at] = raw[k, self.left[at]]
            scores = _score_last(search, plan.scores[k], rows, column, &raw[k, self.left[n - 1]])
            for at in range(n if scores else 0):
                if not 0 <= column[at] <= 100:
                    return None
                totals[at] += plan.weights[k] * column[at]
        return totals

    def place(self, Search search not None, PodBatch batch not None, Placements out not None, int32_t first,
              int32_t end):
        """Place equal pods, one after the other: each on the best remaining node, while it fits there, and
        while it does not fit on the node of the pod before it. With raw scores that node is scored again
        where it still fits. Each pod is counted on its row at once; the caller enters them in the ledger.

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
        cdef ScoredNodes nodes
        cdef int32_t at, row
        if not first <= end <= min(<Py_ssize_t>span.end, out.n):
            raise IndexError(f"pods {first} to {end} are not equal pods with a row")
        self._order()
        for at in range(first, end):
            search._prepare(span.pod_class, span.node_name, span.pinned)
            nodes = self._offer(search, &row)
            if nodes is None:
                return at
            self.left, self.scores, self.n = nodes.left, nodes.scores, nodes.n
            count_pods(search.state, span.pod_class, row, 1)
            out.data[at] = row
            _pop(self)
        return end

    cdef ScoredNodes _offer(self, Search search, int32_t* row):
        """The nodes among which the next pod chooses, for which the search is prepared, and the row of the
        best one. None if it needs a cycle of its own."""
        cdef NodeTable table = search.state.table
        cdef ScoredNodes nodes = self
        cdef int32_t[2] rows
        cdef uint64_t[2] verdicts
        rows[0], rows[1] = self._last_row(table), table.find(self._best()) if self.n else -1
        if rows[0] < 0 or not _is_node(table, rows[1]):
            return None
        _filter(search, rows, 2, verdicts)
        if verdicts[0] == 0:
            nodes = None if self.raw is None else self._rescored(search, None)
            if nodes is None:
                return None
            rows[1] = table.find(nodes._best())
            _filter(search, &rows[1], 1, &verdicts[1])
        row[0] = rows[1]
        return None if verdicts[1] else nodes

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
        if self.is_ordered:
            return 0
        self.symbols = np.asarray(self.names, dtype=np.int32)
        self.left, self.scores = np.arange(self.n, dtype=np.int32), np.array(self.totals, dtype=np.int64)
        self._arrange()
        self.is_ordered = True
        _pop(self)
        return 0

    cdef int _arrange(self) except -1:
        """Order `left` and `scores`, as Go's container/heap Init does, or by rank."""
        cdef Py_ssize_t at
        if self.by_heap:
            for at in range(self.n // 2 - 1, -1, -1):
                _sift_down(&self.scores[0], &self.left[0], at, self.n)
            return 0
        left, scores = np.asarray(self.left), np.asarray(self.scores)
        ascending = np.lexsort((-left, scores))  # the last one of the highest is the first that was found
        self.left, self.scores = left[ascending], scores[ascending]
        return 0


cdef int _filter(Search search, const int32_t* rows, int32_t n, uint64_t* verdicts) except -1:
    """Run the filters for rows."""
    if mr_verdicts(&search.search, <uint64_t>ALL, rows, n, verdicts):
        search._raise_failure()
    return 0


cdef bint _score_last(Search search, int32_t kernel, const int32_t[::1] rows, int64_t[::1] scores,
                      int64_t* raw) except -1:
    """Normalize the raw scores of rows, of which the last one is made here. False if PreScore of the plugin
    returns Skip."""
    cdef int32_t n = <int32_t>rows.shape[0]
    cdef int64_t[::1] answer
    raw[0] = 0
    if kernel >= MR_EXTERNAL:
        plugin = search.current.externals[kernel - MR_EXTERNAL]
        if not isinstance(plugin, PythonExternal):
            raise ValueError(f"plugin {plugin.name} signs no pods")
        all_raw, normalized = plugin.examine(np.asarray(rows), np.array(scores[:n - 1]))
        raw[0], answer = all_raw[n - 1], np.array(normalized, dtype=np.int64)
        scores[:] = answer
        return True
    if not mr_scores(kernel, &search.current.c, search.search.shape, &search.search.pod):
        return False
    mr_score_rows(&search.search, kernel, &rows[n - 1], 1, raw, search.found.seen)
    scores[n - 1] = raw[0]
    if mr_is_normalized(kernel):
        mr_normalize(kernel, &search.search.pod, &rows[0], &scores[0], n)
    return True


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


cdef void _sift_down(int64_t* totals, int32_t* nodes, Py_ssize_t at, Py_ssize_t n) noexcept nogil:
    """Move a node down the heap of the first `n`. A child rises only if strictly higher than its parent, the
    right one only if strictly higher than the left."""
    cdef Py_ssize_t child = 2 * at + 1
    while child < n:
        if child + 1 < n and totals[child + 1] > totals[child]:
            child += 1
        if totals[child] <= totals[at]:
            return
        _swap(totals, nodes, at, child)
        at, child = child, 2 * child + 1


cdef inline void _swap(int64_t* totals, int32_t* nodes, Py_ssize_t one, Py_ssize_t other) noexcept nogil:
    """Swap two nodes."""
    totals[one], totals[other] = totals[other], totals[one]
    nodes[one], nodes[other] = nodes[other], nodes[one]
