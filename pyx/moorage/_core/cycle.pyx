"""One scheduling cycle over the core: search, score, choose. Placing pods in a run of equal class stays in C.

kube-scheduler v1.36, schedule_one.go, with one worker: nodes are examined in list order from a rotating
start, and the search ends on the first feasible node after the wanted number of them.
"""

from functools import partial

import numpy as np

from moorage._core.buffers cimport Buffer, Journal
from moorage._core.change_log cimport LOG_ROW
from moorage._core.csrc cimport (
    MR_SHAPE_TOLERATES_UNSCHEDULABLE,
    mr_constant,
    mr_is_normalized,
    mr_pick_first,
    mr_pick_heap,
    mr_pick_random,
    mr_row_add_pod,
    mr_score,
    mr_search_run,
    mr_verdict,
)
from moorage._core.plan import KERNELS
from moorage._core.plan cimport Plan
from moorage._core.pod_class cimport Shape
from moorage._core.sets cimport PortSets
from moorage._core.state cimport ClusterState
from moorage._core.symbols cimport Symbols


cpdef int32_t num_feasible_nodes_to_find(int32_t percentage, int32_t nodes) noexcept nogil:
    """How many feasible nodes a search over `nodes` nodes collects; `percentage` 0 is adaptive
    (kube-scheduler v1.36, schedule_one.go numFeasibleNodesToFind)."""
    if nodes < 100:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, 5)
    return max(<int32_t>(<int64_t>nodes * percentage // 100), 100)


cdef class Cycle:
    """The search of one profile over one cluster.

    Parameters
    ----------
    percentage : int
        percentageOfNodesToScore, 0 (adaptive) to 100.
    seed : int
        For the tie-break RANDOM.
    """

    def __cinit__(self, ClusterState state, Plan plan, TieBreak tie_break, int32_t percentage=0,
                  uint64_t seed=0):
        cdef Journal journal = Journal()
        self.state = state
        self.plan = plan
        self.tie_break = tie_break
        self.percentage = percentage
        self.random = seed
        self.positions = Buffer(journal, sizeof(int32_t))
        self.totals = Buffer(journal, sizeof(int64_t))
        self.fixed_ok = Buffer(journal, 1)
        self.restricted = Buffer(journal, sizeof(int32_t))

    # ---- preparing -----------------------------------------------------------------------------------------

    cdef int _prepare(self, Shape shape, int32_t node_name, int32_t pinned) except -1:
        """Bring the view up to date and point the search at it."""
        self.state.view.refresh()
        self.state.view.fill_cluster(&self.cluster, 0)
        self._hold(shape)
        self.positions.reserve(self.state.view.size + 1)
        self.totals.reserve(self.state.view.size + 1)
        self.found.positions = <int32_t*>self.positions.data
        self.found.totals = <int64_t*>self.totals.data
        self.search.plan = &self.plan.c
        self.search.cluster = &self.cluster
        self.search.shape = &shape.c
        self.search.columns = &self.state.view.columns
        self.search.order = <int32_t*>self.state.view.order.data
        self.search.n = self.state.view.size
        self.search.has_images = self._has_images(shape)
        self.search.pod.node_name = node_name
        self.search.pod.pinned_name = pinned
        self._set_fixed_ok(shape)
        if shape.is_pinned:
            self._restrict(None, pinned)
        elif shape.node_names is not None:
            self._restrict(shape.node_names, 0)
        return 0

    cdef int _hold(self, Shape shape) except -1:
        """Keep the memory of what is shared with forks: another thread may make it grow meanwhile."""
        cdef Buffer taints = self.state.table.taint_sets.verdicts_of(shape.tolerations)
        cdef Symbols symbols = self.state.symbols
        cdef PortSets ports = self.state.table.port_sets
        self.search.pod.taints = <const int16_t*>taints.data
        self.held = (
            taints.memory, symbols.numbers.memory, symbols.are_numbers.memory,
            ports.ports.memory, ports.first.memory, ports.count.memory,
        )
        return 0

    cdef bint _has_images(self, Shape shape) noexcept:
        cdef int32_t at
        for at in range(shape.c.n_images):
            if self.state.images.nodes(shape.c.images[at]):
                return True
        return False

    cdef int _set_fixed_ok(self, Shape shape) except -1:
        """Per (taint set, unschedulable): whether NodeUnschedulable and TaintToleration pass the shape."""
        cdef Py_ssize_t at, sets = len(self.state.table.taint_sets.sets)
        cdef bint tolerates = (shape.c.flags & MR_SHAPE_TOLERATES_UNSCHEDULABLE) != 0
        self.search.fixed_ok = NULL
        if self.state.view.columns.n_fixed == 0:
            return 0
        self.fixed_ok.reserve(2 * sets)
        for at in range(sets):
            self.fixed_ok.data[2 * at] = self.search.pod.taints[at] >= 0
            self.fixed_ok.data[2 * at + 1] = self.search.pod.taints[at] >= 0 and tolerates
        self.search.fixed_ok = <const signed char*>self.fixed_ok.data
        return 0

    cdef int _restrict(self, object names, int32_t pinned) except -1:
        """Search only the named nodes that exist, in list order (PreFilterResult)."""
        cdef int32_t* order = <int32_t*>self.state.view.order.data
        cdef int32_t* position = <int32_t*>self.state.view.position.data
        cdef int32_t row, at
        if names is None:
            symbols = [pinned]
        else:
            symbols = [self.state.symbols.find(name) for name in names]
        places = []
        for symbol in symbols:
            row = self.state.table.find(symbol)
            if row >= 0 and row < self.state.view.position.capacity and position[row]:
                places.append(position[row] - 1)
        self.restricted.reserve(len(places) + 1)
        for at, place in enumerate(sorted(places)):
            (<int32_t*>self.restricted.data)[at] = order[<int32_t>place]
        self.search.columns = NULL
        self.search.order = <int32_t*>self.restricted.data
        self.search.n = <int32_t>len(places)
        return 0

    # ---- deciding ------------------------------------------------------------------------------------------

    cdef int32_t _decide(self, int32_t wanted) noexcept nogil:
        """Search, score and choose; answers the position in the searched list or -1; moves the rotation."""
        cdef int32_t nodes = self.state.view.size, winner = 0
        self.found.feasible = self.found.evaluated = 0
        if self.search.n == 0:
            return -1
        mr_search_run(&self.search, self.start % self.search.n, wanted, &self.found)
        self.start = (self.start + self.found.evaluated) % nodes
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

    cdef int32_t _wanted(self) noexcept:
        return num_feasible_nodes_to_find(self.percentage, self.search.n) if self.plan.c.n_scores else 1

    def decide(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """Choose a node for one pod without placing it.

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
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef int32_t start, at, row
        self._save()
        self._prepare(shape, node_name, pinned)
        start = self.start
        at = self._decide(self._wanted())
        positions = np.array(self.positions.array(np.int32, self.found.feasible))
        if self.search.columns == NULL:  # the searched list is a part of the view's
            for at_place, place in enumerate(positions.tolist()):
                row = self.search.order[<int32_t>place]
                positions[at_place] = (<int32_t*>self.state.view.position.data)[row] - 1
        totals = None
        if self.found.feasible > 1:
            totals = np.array(self.totals.array(np.int64, self.found.feasible))
        row = -1 if at < 0 else self.search.order[at]
        return row, start, self.found.evaluated, positions, totals

    def place_run(self, int32_t pod_class, int32_t n, int32_t node_name=0, int32_t pinned=0):
        """Choose nodes for up to `n` pods of one class, one after the other, and account for each on its row.

        Stops at the first pod that fits nowhere. Returns the rows chosen, an int32 array; the caller enters
        the pods in the ledger.
        """
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef int32_t[::1] rows = np.empty(n, dtype=np.int32)
        cdef int32_t placed = 0, at, row, wanted
        self._save()
        self._prepare(shape, node_name, pinned)
        self.state.ledger.make_room(n)
        self.state.ledger.reserve_rows(self.state.table.used)
        wanted = self._wanted()
        if shape.ports or self.state.journal.depth:
            while placed < n:
                at = self._decide(wanted)
                if at < 0:
                    break
                row = self.search.order[at]
                self.state.table.add_pod(0, row, &shape.c, shape.ports, 1)
                self.state.table.changed(LOG_ROW, row)
                rows[placed] = row
                placed += 1
                self._prepare(shape, node_name, pinned)
        elif n:
            with nogil:
                placed = self._run(shape, wanted, &rows[0], n)
        if placed < n:
            self._fail_alike(n - placed - 1)
        return np.asarray(rows[:placed])

    cdef void _fail_alike(self, int64_t pods) noexcept nogil:
        """Move the rotation as if each of the pods after a failed one were tried in vain too. Over the whole
        list that is full circles; over named nodes it is not."""
        if self.state.view.size:
            self.start = <int32_t>((self.start + pods * self.found.evaluated) % self.state.view.size)

    cdef int32_t _run(self, Shape shape, int32_t wanted, int32_t* rows, int32_t n) noexcept nogil:
        cdef int32_t placed = 0, at, row
        cdef int64_t* generation = <int64_t*>self.state.table.generation.data
        while placed < n:
            at = self._decide(wanted)
            if at < 0:
                break
            row = self.search.order[at]
            mr_row_add_pod(&self.cluster.ledger, row, &shape.c, 1)
            generation[row] = self.state.log.append(LOG_ROW, row)
            self.state.view.follow(row)
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

    # ---- looking -------------------------------------------------------------------------------------------

    def verdicts(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """The verdict of every searched node: (rows, verdicts), int32 and uint64 arrays in list order.

        A verdict is 0 where the pod fits, else (index of the rejecting filter + 1) << 56, bit 55 where it is
        unresolvable, and the plugin's reasons as bits (csrc/state.h).
        """
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef int32_t at
        self._prepare(shape, node_name, pinned)
        cdef uint64_t[::1] out = np.empty(self.search.n, dtype=np.uint64)
        cdef int32_t[::1] rows = np.empty(self.search.n, dtype=np.int32)
        for at in range(self.search.n):
            rows[at] = self.search.order[at]
            out[at] = mr_verdict(&self.plan.c, &self.cluster, &shape.c, &self.search.pod, rows[at])
        return np.asarray(rows), np.asarray(out)

    def scores(self, str plugin, const int32_t[::1] rows, int32_t pod_class, int32_t node_name=0,
               int32_t pinned=0):
        """Raw and normalized scores of one plugin over feasible rows: two int64 arrays."""
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef int32_t kernel = KERNELS[plugin], at
        cdef int64_t[::1] raw = np.empty(rows.shape[0], dtype=np.int64)
        cdef int64_t[::1] normalized
        self._prepare(shape, node_name, pinned)
        for at in range(rows.shape[0]):
            raw[at] = mr_score(kernel, &self.plan.c, &self.cluster, &shape.c, &self.search.pod, rows[at])
        normalized = np.array(raw)
        if mr_is_normalized(kernel):
            highest = max(raw, default=0)
            for at in range(rows.shape[0]):
                normalized[at] = mr_constant(kernel, raw[at], highest)
        return np.asarray(raw), np.asarray(normalized)
