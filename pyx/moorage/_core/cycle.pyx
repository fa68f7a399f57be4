"""One scheduling cycle over the core: search, score, choose. Placing pods in a run of equal class stays in C.

kube-scheduler v1.36, schedule_one.go, with one worker: nodes are examined in list order from a rotating
start, and the search ends on the first feasible node after the wanted number of them.
"""

from functools import partial

import numpy as np
from libc.string cimport memcpy

from moorage._core.buffers cimport Buffer, Journal
from moorage._core.candidates cimport Candidates
from moorage._core.change_log cimport LOG_ROW
from moorage._core.csrc cimport (
    mr_candidates_first,
    mr_candidates_heap,
    mr_candidates_refresh,
    mr_candidates_suit,
    mr_candidates_window,
    mr_matched,
    mr_matched_add,
    mr_pick_first,
    mr_pick_heap,
    mr_pick_random,
    mr_row_add_pod,
    mr_search_run,
    mr_terms_prepare,
)
from moorage._core.domains cimport Matched
from moorage._core.plan cimport Plan
from moorage._core.pod_class cimport Shape
from moorage._core.search cimport Search
from moorage._core.state cimport ClusterState

cdef enum:
    FAILED = -2  # a plugin failed


cpdef int32_t num_feasible_nodes_to_find(int32_t percentage, int32_t nodes) noexcept nogil:
    """How many feasible nodes a search over `nodes` nodes collects; `percentage` 0 is adaptive
    (kube-scheduler v1.36, schedule_one.go numFeasibleNodesToFind)."""
    if nodes < 100:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, 5)
    return max(<int32_t>(<int64_t>nodes * percentage // 100), 100)


cdef class Cycle(Search):
    """The search of one profile over one cluster.

    Parameters
    ----------
    percentage : int
        percentageOfNodesToScore, 0 (adaptive) to 100.
    seed : int
        For the tie-break RANDOM.

    Attributes
    ----------
    keeps_candidates : bool
        Whether a run may keep every node's total, where that is faster. No decision depends on it.
    from_candidates : int
        Decisions that were read off kept totals.
    """

    def __cinit__(self, ClusterState state, Plan plan, TieBreak tie_break, int32_t percentage=0,
                  uint64_t seed=0):
        self.tie_break = tie_break
        self.percentage = percentage
        self.random = seed
        self.counted = Buffer(Journal(), sizeof(void*))
        self.keeps_candidates = True
        self.candidates = Candidates()

    # ---- deciding ------------------------------------------------------------------------------------------

    cdef int32_t _decide(self, int32_t wanted) noexcept nogil:
        """Search, score and choose; answers the position in the searched list or -1; moves the rotation."""
        cdef int32_t nodes = self.state.view.size, winner = 0
        self.found.feasible = self.found.evaluated = 0
        if self.search.n == 0:
            return -1
        cdef int failed = mr_search_run(&self.search, self.start % self.search.n, wanted, &self.found)
        self.start = (self.start + self.found.evaluated) % nodes
        if failed:
            return FAILED
        if self.found.feasible == 0:
            return -1
        if self.found.feasible > 1:
            if self.tie_break == GO_HEAP:
                winner = mr_pick_heap(self.found.totals, self.found.feasible)
            elif self.tie_break == RANDOM:
                winner = mr_pick_random(self.found.totals, self.found.feasible, &self.random)
            else:
                winner = mr_pick_first(self.found.totals, self.found.feasible)
        return self.found.positions[winner]

    cdef int32_t _decide_in_run(self, int32_t wanted) noexcept nogil:
        """The same, and where a plugin failed, no trace of that but `failed`."""
        cdef int32_t start = self.start, at = self._decide(wanted)
        if at == FAILED:
            self.failed = True
            self.start = start
        return at

    cdef bint _suits_candidates(self, int32_t wanted, int32_t pods) noexcept:
        """Whether a run of pods is better decided from kept totals: to make them every node is looked at
        once, to search about `wanted` of them for each pod. Random ties are drawn by the search alone."""
        return self.keeps_candidates and self.tie_break != RANDOM and \
            <int64_t>pods * wanted > self.search.n > 0 and mr_candidates_suit(&self.search)

    cdef int32_t _decide_among_candidates(self, int32_t wanted) noexcept nogil:
        """What `_decide` answers and leaves behind, but for the list of what was found."""
        cdef int32_t n = self.search.n, start = self.start % n, looked_at, at = -1
        looked_at = mr_candidates_window(&self.candidates.c, start, wanted)
        self.found.feasible = min(self.candidates.c.feasible, wanted)
        self.found.evaluated = looked_at
        self.start = (start + looked_at) % n
        self.from_candidates += 1
        if self.found.feasible:
            if self.tie_break == GO_HEAP:
                at = mr_candidates_heap(&self.candidates.c, start, looked_at)
            else:
                at = mr_candidates_first(&self.candidates.c, start, looked_at)
        return at

    cdef int32_t _wanted(self) noexcept:
        return num_feasible_nodes_to_find(self.percentage, self.search.n) if self.plan.c.n_scores else 1

    def decide(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0, int32_t tried=-1):
        """Choose a node for one pod without placing it.

        Parameters
        ----------
        tried : int
            The row of a node that has been tried before in vain, and counts as looked at; -1 for none.

        Returns
        -------
        row : int
            The chosen row, or -1.
        start, evaluated : int
            Where the search began and how many nodes it counted (feasible and rejected).
        positions : (feasible,) int32 array
            Positions in the view's list, in the order found.
        totals : (feasible,) int64 array, or None where at most one node is feasible
        """
        cdef int32_t start, at, row
        cdef int64_t[::1] sums
        self._save()
        self._prepare(pod_class, node_name, pinned)
        start = self.start
        at = self._decide(self._wanted())
        if tried >= 0 and not self._looked_at(tried, start):
            self.found.evaluated += 1
            self.start = (self.start + 1) % self.state.view.size
        if at == FAILED:
            self._raise_failure()
        cdef int32_t[::1] places = np.empty(self.found.feasible + 1, dtype=np.int32)
        memcpy(&places[0], self.found.positions, self.found.feasible * sizeof(int32_t))
        positions = np.asarray(places[:self.found.feasible])
        if self.search.columns == NULL:  # the searched list is a part of the view's
            for at_place, place in enumerate(positions.tolist()):
                row = self.search.order[<int32_t>place]
                positions[at_place] = (<int32_t*>self.state.view.position.data)[row] - 1
        totals = None
        if self.found.feasible > 1:
            sums = np.empty(self.found.feasible, dtype=np.int64)
            memcpy(&sums[0], self.found.totals, self.found.feasible * sizeof(int64_t))
            totals = np.asarray(sums)
        row = -1 if at < 0 else self.search.order[at]
        return row, start, self.found.evaluated, positions, totals

    cdef bint _looked_at(self, int32_t row, int32_t start) noexcept:
        """Whether the last search, which began at `start`, looked at a row."""
        cdef int32_t at = self._place_of(row), n = self.search.n
        return at >= 0 and (at - start % n + n) % n < self.found.evaluated

    def place_run(self, int32_t pod_class, int32_t n, int32_t node_name=0, int32_t pinned=0):
        """Choose nodes for up to `n` pods of one class, one after the other, and account for each on its row.

        Stops at the first pod that fits nowhere, or about which a plugin fails (then `failed` is true, and
        nothing is as if that pod had been looked at). Returns the rows chosen, an int32 array; the caller
        enters the pods in the ledger.
        """
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef int32_t[::1] rows = np.empty(n, dtype=np.int32)
        cdef int32_t placed = 0, wanted
        cdef bint kept
        self.failed = False
        self._save()
        self._prepare(pod_class, node_name, pinned)
        self.state.ledger.make_room(n)
        self.state.ledger.reserve_rows(self.state.table.used)
        wanted = self._wanted()
        if shape.ports or self.state.journal.depth or self.nominations or self.plan.needs_python:
            placed = self._place_one_by_one(pod_class, node_name, pinned, rows)
        elif n:
            self._count(pod_class)
            kept = self._suits_candidates(wanted, n)
            if kept:
                self.candidates.build(&self.search)
            with nogil:
                placed = self._run(shape, wanted, kept, &rows[0], n)
        if placed < n and not self.failed:
            self._fail_alike(n - placed - 1)
        return np.asarray(rows[:placed])

    cdef int32_t _place_one_by_one(self, int32_t pod_class, int32_t node_name, int32_t pinned,
                                   int32_t[::1] rows) except -1:
        """A run in which a placement can move memory, or changes more than the row."""
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef int32_t placed = 0, at, row
        while placed < rows.shape[0]:
            at = self._decide_in_run(self._wanted())
            if at < 0:
                break
            row = self.search.order[at]
            self.state.table.add_pod(0, row, &shape.c, shape.ports, 1)
            self.state.domains.pod_moved(pod_class, False, row, 1)
            self.state.table.changed(LOG_ROW, row)
            rows[placed] = row
            placed += 1
            self._prepare(pod_class, node_name, pinned)
        return placed

    cdef int _count(self, int32_t pod_class) except -1:
        """Collect what counts the pods of a class, for a run."""
        cdef Matched matched
        cdef Py_ssize_t at = 0
        cdef list counted = self.state.domains.matched_by(pod_class) if self.state.domains.matched else []
        self.state.domains.refresh()
        self.counted.reserve(len(counted) + 1)
        for matched in counted:
            (<mr_matched**>self.counted.data)[at] = &matched.c
            at += 1
        (<mr_matched**>self.counted.data)[at] = NULL
        return 0

    cdef void _fail_alike(self, int64_t pods) noexcept nogil:
        """Move the rotation as if each of the pods after a failed one were tried in vain too. Over the whole
        list that is full circles; over named nodes it is not."""
        if self.state.view.size:
            self.start = <int32_t>((self.start + pods * self.found.evaluated) % self.state.view.size)

    cdef int32_t _run(self, Shape shape, int32_t wanted, bint kept, int32_t* rows, int32_t n) noexcept nogil:
        cdef int32_t placed = 0, at, row
        cdef int64_t* generation = <int64_t*>self.state.table.generation.data
        cdef mr_matched** counted
        while placed < n:
            at = self._decide_among_candidates(wanted) if kept else self._decide_in_run(wanted)
            if at < 0:
                break
            row = self.search.order[at]
            mr_row_add_pod(&self.cluster.ledger, row, &shape.c, 1)
            generation[row] = self.state.log.append(LOG_ROW, row)
            self.state.view.follow(row)
            if kept:
                mr_candidates_refresh(&self.candidates.c, &self.search, at)
            counted = <mr_matched**>self.counted.data
            while counted[0]:
                mr_matched_add(counted[0], row, 1)
                counted += 1
            if self.search.pod.terms:
                mr_terms_prepare(self.search.pod.terms)
            rows[placed] = row
            placed += 1
        return placed

    def _save(self):
        """An open transaction takes the rotation and the random state back as well."""
        if self.state.journal.depth:
            self.state.journal.on_undo(partial(self._restore, self.start, self.random))

    def _restore(self, int32_t start, uint64_t random):
        self.start = start
        self.random = random

    def clone(self, ClusterState state):
        """The same search over a fork."""
        cdef Cycle out = Cycle(state, self.plan, self.tie_break, self.percentage, self.random)
        out.start = self.start
        return out
