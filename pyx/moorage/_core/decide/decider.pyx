"""Decider: chooses a node for a pod, by a search or by cached candidates, whichever is faster.

kube-scheduler v1.36, schedule_one.go, with one worker: nodes are examined in list order from a rotating
start. The search ends at the first feasible node beyond the wanted number of feasible nodes.
"""

from functools import partial

import numpy as np

from libc.stdint cimport INT32_MAX
from libc.string cimport memcpy

from moorage._core.base cimport Journal
from moorage._core.csrc cimport *
from moorage._core.state cimport ClusterState, Shape
from moorage._core.decide.class_state cimport candidates_pay_off
from moorage._core.decide.nominations cimport MANY
from moorage._core.settings cimport within

cpdef int32_t num_feasible_nodes_to_find(int32_t percentage, int32_t nodes) noexcept nogil:
    """Return the number of feasible nodes that a search collects.

    kube-scheduler v1.36, schedule_one.go, numFeasibleNodesToFind.

    Parameters
    ----------
    percentage : int
        percentageOfNodesToScore, 0 to 100; 0: 50 - nodes / 125, but at least 5.
    nodes : int
        The number of nodes to search.

    Returns
    -------
    int
        At least 100, or all nodes where there are fewer.
    """
    if nodes < 100:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, 5)
    return max(<int32_t>(<int64_t>nodes * percentage // 100), 100)


def count_verdicts(verdicts):
    """Count the rejected nodes of each verdict.

    Parameters
    ----------
    verdicts : (n,) uint64 array
        As `Search.verdicts` returns them.

    Returns
    -------
    dict of int to int
        The number of nodes of each verdict other than 0.
    """
    values, counts = np.unique(verdicts[verdicts != 0], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def group_by_verdict(const uint64_t[::1] verdicts not None, list items not None):
    """Group the items of nodes by verdict.

    Parameters
    ----------
    verdicts : (n,) uint64 array
    items : list of str
        One for each verdict.

    Returns
    -------
    dict of int to list
        By verdict, in the order of the first item; each with the order of the items.
    """
    cdef Py_ssize_t at
    cdef uint64_t last = 0
    cdef list group = None
    cdef dict groups = {}
    if verdicts.shape[0] != len(items):
        raise ValueError(f"{verdicts.shape[0]} verdicts for {len(items)} items")
    for at in range(verdicts.shape[0]):
        if group is None or verdicts[at] != last:
            last = verdicts[at]
            group = groups.setdefault(last, [])
        group.append(items[at])
    return groups


def most_allocated(ClusterState state not None, const int32_t[::1] rows not None, list resources not None):
    """Score the allocation of some nodes together (kube-scheduler v1.36, scorePlacement).

    As upstream, sums and products wrap at 64 bits, and a resource that no node has does not count. Neither
    does one besides cpu, memory and ephemeral storage that no pod requests.

    Parameters
    ----------
    state : ClusterState
    rows : (n,) int32 array
        The rows of the nodes.
    resources : list of (str, int, int)
        Name of each resource, its weight, and what pods without a node request: millicores, bytes or units.

    Returns
    -------
    int
        The weighted mean of the shares in percent, rounded toward zero; 0 if no resource counts.

    Raises
    ------
    IndexError
        A row is not in the node table.
    """
    cdef mr_ledger ledger
    cdef int64_t capacity, used, there, requested, weight, points = 0, weights = 0
    cdef int32_t at, other
    cdef bint is_memory
    state.table.check_rows(rows)
    state.table.fill_ledger(0, &ledger)
    for name, weight, requested in resources:
        capacity, used, is_memory = 0, requested, name == "memory"
        other = state.table.resource_names.find(name) - 1
        if is_memory or name == "cpu":
            for at in range(rows.shape[0]):
                there = mr_row_value(&ledger, rows[at], is_memory)
                capacity += there
                used += mr_row_value(&ledger, rows[at], 4 + is_memory) if there else 0
        elif 0 <= other < state.table.other_columns() and (requested or name == "ephemeral-storage"):
            for at in range(rows.shape[0]):
                there = ledger.others[other][2 * rows[at]]
                capacity += there
                used += ledger.others[other][2 * rows[at] + 1] if there else 0
        if capacity:
            points += quotient((used if used < capacity else capacity) * 100, capacity) * weight
            weights += weight
    return quotient(points, weights) if weights else 0


cdef inline int64_t quotient(int64_t dividend, int64_t divisor) noexcept nogil:
    """Divide, rounding toward zero; by -1 the result wraps."""
    return -dividend if divisor == -1 else dividend / divisor


cdef class BareRows:
    """Copies of rows without pods and images, by which nodes are scored that an extender has returned.

    kube-scheduler v1.36, extender.go, Filter, makes new NodeInfos from the Node objects that an extender
    returns; these have no pods and no images (kubernetes issue 141781).
    """

    def __cinit__(self):
        cdef Journal journal = Journal()
        self.rows = Buffer(journal, sizeof(mr_row))
        self.wide = Buffer(journal, sizeof(int64_t))
        self.others = Buffer(journal, sizeof(int64_t))
        self.pointers = Buffer(journal, sizeof(void*))
        self.zeros = Buffer(journal, sizeof(int32_t))

    cdef int apply(self, const int32_t* rows, int32_t n, int32_t used, int32_t resources, mr_cluster* cluster,
                   mr_terms* terms) except -1:
        """Point `cluster` and `terms` to copies of `n` of the `used` rows, until they are refreshed."""
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
            wide = self.wide.int64() + at * MR_FIELDS
            for field in range(MR_FIELDS):
                wide[field] = cluster.ledger.wide[at * MR_FIELDS + field] if field < 2 else 0
            for field in range(resources):
                amounts = self.others.int64() + 2 * (<int64_t>field * used + at)
                amounts[0] = cluster.ledger.others[field][2 * at]
                amounts[1] = 0
        for field in range(resources):
            (<int64_t**>self.pointers.data)[field] = self.others.int64() + 2 * <int64_t>field * used
        cluster.ledger.rows = <mr_row*>self.rows.data
        cluster.ledger.wide = self.wide.int64()
        cluster.ledger.others = <int64_t**>self.pointers.data
        cluster.image_count = self.zeros.int32()
        for i in range(terms.n_soft if terms else 0):
            if terms.soft[i].row_pods:
                terms.soft[i].row_pods = self.zeros.int32()


cdef class Decider:
    """Chooses nodes for the pods of one profile over one cluster.

    Parameters
    ----------
    search : Search
        The search of the profile.
    tie_break : TieBreak
        How one of the nodes with the largest total is chosen.
    percentage : int
        percentageOfNodesToScore, 0 (adaptive) to 100.
    seed : int
        The seed of the tie-break RANDOM.

    Attributes
    ----------
    keeps_candidates : bool
        Whether to cache candidates where that is faster. No decision depends on it
        (`tests/house/special_paths.toml`).
    start : int
        The index of the node where the next search begins, modulo the number of nodes.
    has_extenders : bool
        Whether extenders filter or score too. If not, a profile without scores needs one feasible node only.
    from_candidates, from_scans : int
        The number of decisions by candidates, and by searches.
    failed : bool
        Whether a plugin failed in the last call of `Placer.place`.
    """

    def __cinit__(self, Search search not None, TieBreak tie_break, int32_t percentage=0, uint64_t seed=0):
        self.search, self.state, self.states = search, search.state, search.states
        self.tie_break = tie_break
        self.percentage = percentage
        self.random = seed
        self.keeps_candidates = True
        self.bare = BareRows()
        self.scan = Candidates(Journal())

    # ---- one pod -------------------------------------------------------------------------------------------

    def decide(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0, int32_t tried=-1):
        """Choose a node for one pod without placing it.

        Parameters
        ----------
        pod_class, node_name, pinned : int
            As in `Search.verdicts`.
        tried : int
            The row of the nominated node, which was tried before and rejected; it counts as evaluated. -1:
            there is none.

        Returns
        -------
        row : int
            The chosen row, or -1 if no node is feasible.
        start : int
            The index of the node where the search began.
        evaluated : int
            The number of nodes, feasible and rejected, that the search examined.
        positions : (feasible,) int32 array
            The positions of the feasible nodes in the view's list, in the order they were found.
        totals : (feasible,) int64 array or None
            The weighted sums of their scores. None if at most one node is feasible.

        Raises
        ------
        Exception
            The error of a plugin outside the core.
        """
        cdef int32_t start, at
        cdef int64_t[::1] sums
        self._save()
        self.search._prepare(pod_class, node_name, pinned)
        start = self.rotation
        at = _decide(self, &self.search.search, _wanted(self))
        if tried >= 0 and not _was_examined(self, tried, start):
            self.search.found.evaluated += 1
            self.rotation = (self.rotation + 1) % self.search.listing.size
        if at == FAILED:
            self.search._raise_failure()
        totals = None
        if self.search.found.feasible > 1:
            sums = totals = np.empty(self.search.found.feasible, dtype=np.int64)
            memcpy(&sums[0], self.search.found.totals, self.search.found.feasible * sizeof(int64_t))
        row = -1 if at < 0 else self.search.search.order[at]
        return row, start, self.search.found.evaluated, self._feasible_positions(), totals

    def find(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0, int32_t wanted=0):
        """Find the feasible nodes for one pod. With `score` and `pick` it does what `decide` does at once.

        Extenders may filter between `find` and `score`, and may score between `score` and `pick`.

        Parameters
        ----------
        pod_class, node_name, pinned : int
            As in `Search.verdicts`.
        wanted : int
            How many feasible nodes are enough; 0: as many as kube-scheduler looks for.

        Returns
        -------
        start : int
            The index of the node where the search began.
        rows : (evaluated,) int32 array
            The rows that the search examined, feasible and rejected ones.
        positions : (feasible,) int32 array
            As in `decide`.

        Raises
        ------
        Exception
            The error of a plugin outside the core.
        """
        cdef int32_t start, at
        self._save()
        self.search._prepare(pod_class, node_name, pinned)
        start = self.rotation
        if _run_search(self, &self.search.search, wanted if wanted > 0 else _wanted(self), False):
            self.search._raise_failure()
        cdef int32_t[::1] rows = np.empty(self.search.found.evaluated + 1, dtype=np.int32)
        for at in range(self.search.found.evaluated):
            rows[at] = self.search.search.order[(start % self.search.search.n + at) % self.search.search.n]
        return start, np.asarray(rows[:self.search.found.evaluated]), self._feasible_positions()

    cdef object _feasible_positions(self):
        """The positions of the feasible nodes in the view's list."""
        room = np.empty(self.search.found.feasible + 1, dtype=np.int32)
        cdef int32_t[::1] places = room
        cdef int32_t row
        memcpy(&places[0], self.search.found.positions, self.search.found.feasible * sizeof(int32_t))
        positions = room[:self.search.found.feasible]
        # Positions count within the searched list, which may be a part of the view's.
        if self.search.search.columns == NULL or self.search.in_placement:
            for at, place in enumerate(positions.tolist()):
                row = self.search.search.order[<int32_t>place]
                positions[at] = self.state.view.position_column()[row] - 1
        return positions

    # ---- deciding ------------------------------------------------------------------------------------------

    cdef int32_t _choose(self, ClassSearch* class_search, int64_t following) noexcept nogil:
        """Choose a node for a pod of a prepared class; `following` more pods of the class come right after.

        Returns its position in the searched list, -1 if no node is feasible, or FAILED.
        """
        cdef mr_changes changes
        cdef int32_t at, start = self.rotation
        if class_search.search.pod.terms:
            mr_terms_prepare(class_search.search.pod.terms)
        if class_search.candidates and candidates_pay_off(class_search, self.state.log.head, following):
            _fill_changes(self, &changes)
            if class_search.candidates.state == MR_VALID:
                mr_candidates_follow(class_search.candidates, &changes)
                if class_search.flips:
                    _follow_flips(self, class_search)
            if class_search.candidates.state != MR_VALID:
                with gil:
                    _make_candidates(self, <ClassState>class_search.owner, &changes)
            if class_search.candidates and class_search.candidates.state == MR_VALID:
                return _decide_among_candidates(self, class_search)
            class_search.candidates, class_search.is_ready = NULL, False
        if class_search.by_totals:
            at = _decide_by_totals(self, class_search)
            if at != FAILED:
                return at
        at = _decide(self, &class_search.search, class_search.wanted)
        if at == FAILED:  # the cycle of its own that the pod gets next fails again, and moves the rotation
            self.failed = True
            self.rotation = start
        return at

    def score(self, const int32_t[::1] rows not None, int32_t pod_class, int32_t node_name=0,
              int32_t pinned=0, bint bare=False):
        """Score feasible nodes for one pod; see `find`.

        Parameters
        ----------
        rows : (n,) int32 array
            The rows of the nodes.
        pod_class, node_name, pinned : int
            As in `Search.verdicts`.
        bare : bool
            Whether the kernels see the nodes without their pods and images (see `BareRows`).

        Returns
        -------
        (n,) int64 array
            The weighted sum of the scores of each node.

        Raises
        ------
        IndexError
            A row is not in the node table.
        Exception
            The error of a plugin outside the core.
        """
        cdef int32_t n = <int32_t>rows.shape[0], at
        cdef int64_t[::1] totals = np.empty(n + 1, dtype=np.int64)
        self.state.table.check_rows(rows)
        self.search._prepare(pod_class, node_name, pinned)
        self.search.reserve_found(n)  # an extender may return a node twice
        for at in range(n):
            self.search.found.rows[at] = rows[at]
        self.search.found.feasible = n
        if bare and n:
            self.bare.apply(&rows[0], n, self.state.table.used, <int32_t>len(self.state.table.others[0]),
                            &self.search.cluster, self.search.search.pod.terms)
        try:
            if mr_search_score(&self.search.search, &self.search.found):
                self.search._raise_failure()
        finally:
            if bare:
                self.search._repoint()
        memcpy(&totals[0], self.search.found.totals, n * sizeof(int64_t))
        return np.asarray(totals[:n])

    def pick(self, totals, drawn=None):
        """Choose among totals by the tie-break; see `find`.

        Parameters
        ----------
        totals : (n,) int64 array
            The totals of the feasible nodes.
        drawn : (n,) bool array, optional
            The nodes that an extender scored. With the tie-break GO_HEAP, one of them is drawn at random if
            they have the largest total (kube-scheduler v1.36, prioritizeNodes).

        Returns
        -------
        int
            The index of the chosen total.

        Raises
        ------
        ValueError
            There are no totals.
        """
        cdef const int64_t[::1] sums = totals
        cdef const int64_t[::1] alike
        if not sums.shape[0]:
            raise ValueError("there is nothing to choose from")
        self._save()
        if drawn is not None and self.tie_break == GO_HEAP:
            best = np.flatnonzero(drawn & (totals == totals.max()))
            if len(best):
                alike = np.zeros(len(best), dtype=np.int64)
                return int(best[mr_pick_random(&alike[0], <int32_t>alike.shape[0], &self.random)])
        return _pick(self, &sums[0], <int32_t>sums.shape[0])

    def rejections(self, int32_t pod_class, int32_t node_name=0, int32_t pinned=0):
        """Count the searched nodes that reject a pod by their verdicts.

        The counts of a class are cached: the next call costs in proportion to the rows changed since.

        Parameters
        ----------
        pod_class, node_name, pinned : int
            As in `Search.verdicts`.

        Returns
        -------
        dict of int to int
            The number of nodes of each verdict other than 0 (see `Search.verdicts`).

        Raises
        ------
        Exception
            The error of a plugin outside the core.
        """
        self.state.classes.check(pod_class)
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef Plan plan = self.search.plan_of(pod_class)
        cdef bint is_narrow = plan.narrows_for(shape) or self.search.in_placement \
            or (node_name and plan.narrows_to_named) \
            or self.search.node_names is not None
        cdef mr_changes changes
        cdef const mr_search* search = &self.search.search
        out = None
        if not is_narrow and not mr_has_external_filters(&plan.c):
            class_state = self._prepare_class(pod_class, node_name, pinned)
            _fill_changes(self, &changes)
            out = (<ClassState>class_state).rejections(&changes, self.search.terms)
            if out is not None and search.nominated:
                (<ClassState>class_state).count_nominated(out, self.state.view.position_column())
        if out is None:
            out = count_verdicts(self.search.verdicts(pod_class, node_name, pinned)[1])
        return out

    # ---- preparing -----------------------------------------------------------------------------------------

    cdef ClassState _prepare_class(self, int32_t pod_class, int32_t node_name, int32_t pinned):
        """The state of a class, with its search prepared. Cached results of earlier searches are kept."""
        cdef ClassState class_state
        cdef bint is_fixed
        self.search._prepare(pod_class, node_name, pinned)
        if self.search.search.columns:  # these searches are over the same list
            self.scan.make_room(&self.search.search)
        class_state = self.states.get(pod_class, node_name, pinned)
        class_state.held = self.search.held
        class_state.c.by_node = False
        demand = self.states.demand_of(pod_class)
        # Other arrays, possibly at the same address; or other resources that device classes provide.
        if class_state.volumes is not demand \
                or class_state.source.pod.delegated != self.search.search.pod.delegated:
            class_state.volumes = demand
            class_state.candidates.c.state, class_state.c.is_ready = MR_UNMADE, False
            class_state.histogram.state = MR_UNMADE
        if class_state.c.is_ready and class_state.keeps_candidates == self.keeps_candidates \
                and self.search.terms is None \
                and class_state.is_made_of(&self.search.search, self.state.view.static_version):
            return class_state
        class_state.source, class_state.keeps_candidates = self.search.search, self.keeps_candidates
        class_state.c.is_ready = self.search.terms is None and not self.search.in_placement
        class_state.c.search = self.search.search
        if self.search.search.columns == NULL or self.search.in_placement:
            class_state.copy_order(&class_state.c.search)
        else:
            class_state.cache_named(&class_state.c.search, self.state.view)
        class_state.c.wanted = _wanted(self)
        is_fixed = self.tie_break != RANDOM and class_state.c.search.n
        class_state.c.by_totals = is_fixed and mr_scan_suits(&self.search.search)
        if class_state.c.by_totals:
            mr_local_read(&class_state.c.local, &class_state.c.search)
        class_state.c.candidates = NULL
        if is_fixed and self.keeps_candidates and not self.search.in_placement \
                and mr_candidates_suit(&self.search.search):
            class_state.candidates.point(&self.search.search, self.search.terms)
            class_state.c.candidates = &class_state.candidates.c
        return class_state

    cdef int _collect_counters(self, ClassState class_state, int32_t pod_class) except -1:
        """Collect the counters that count pods of a class, and what a transaction must save of them."""
        cdef list matched = self.state.domains.matched_by(pod_class) if self.state.domains.matched else []
        class_state.count(matched)
        if self.state.journal.depth:
            self.undo_bytes = max(self.undo_bytes, class_state.watch(self.state.table, matched))

    cdef int _begin_run(self, Py_ssize_t pods) except -1:
        """Reserve journal memory to undo placements of the classes prepared since the cycle began."""
        if self.state.journal.depth:
            self.state.journal.reserve(self.state.view.begin_run(pods) + pods * self.undo_bytes)

    @property
    def parallel_scans(self):
        """The number of scans that ran in several threads."""
        return self.search.found.parallel

    @property
    def start(self):
        """The index of the node where the next search begins (upstream's nextStartNodeIndex)."""
        return self.rotation

    @start.setter
    def start(self, value):
        self.rotation = <int32_t>within("start", value, 0, INT32_MAX)

    def copy_from(self, Decider other not None):
        """Take the position of the next search and the random state of another decider.

        Parameters
        ----------
        other : Decider
        """
        self.rotation, self.random = other.rotation, other.random

    cdef int _save(self) except -1:
        """Have an open transaction restore the rotation and the random state on rollback."""
        self.undo_bytes = 0
        if self.state.journal.depth:
            self.state.journal.on_undo(partial(self._restore, self.rotation, self.random))

    def _restore(self, int32_t start, uint64_t random):
        """Restore the rotation and the random state."""
        self.rotation = start
        self.random = random


# ---- one pod


cdef int32_t _wanted(Decider decider) noexcept:
    """The number of feasible nodes to find for the prepared pod."""
    if not decider.search.current.c.n_scores and not decider.has_extenders:
        return 1
    return num_feasible_nodes_to_find(decider.percentage, decider.search.search.n)


cdef bint _was_examined(Decider decider, int32_t row, int32_t start) noexcept:
    """Whether the last search, which began at `start`, examined a row."""
    cdef int32_t at, n = decider.search.search.n
    for at in range(n):
        if decider.search.search.order[at] == row:
            return (at - start % n + n) % n < decider.search.found.evaluated
    return False


# ---- deciding


cdef int _run_search(Decider decider, const mr_search* search, int32_t wanted, bint scoring) noexcept nogil:
    """Find feasible nodes, score them if `scoring`, and advance the rotation. Returns 1 if a plugin fails."""
    cdef int32_t nodes = decider.search.listing.size
    cdef int failed
    decider.search.found.feasible = decider.search.found.evaluated = 0
    if search.n == 0:
        if nodes:
            decider.rotation %= nodes
        return 0
    decider.search.listing.scan_columns()
    decider.from_scans += 1
    if scoring:
        failed = mr_search_run(search, decider.rotation % search.n, wanted, &decider.search.found)
    else:
        failed = mr_search_find(search, decider.rotation % search.n, wanted, &decider.search.found)
    decider.rotation = (decider.rotation % nodes + decider.search.found.evaluated) % nodes
    return failed


cdef int32_t _pick(Decider decider, const int64_t* totals, int32_t n) noexcept nogil:
    """The index of the chosen total. A single node needs no total."""
    if n < 2:
        return 0
    if decider.tie_break == GO_HEAP:
        return mr_pick_heap(totals, n)
    if decider.tie_break == RANDOM:
        return mr_pick_random(totals, n, &decider.random)
    return mr_pick_first(totals, n)


cdef int32_t _decide(Decider decider, const mr_search* search, int32_t wanted) noexcept nogil:
    """Search, score and choose. Returns a position in the searched list, -1 or FAILED."""
    cdef const mr_found* found = &decider.search.found
    if _run_search(decider, search, wanted, True):
        return FAILED
    return -1 if found.feasible == 0 else found.positions[_pick(decider, found.totals, found.feasible)]


cdef int32_t _decide_by_totals(Decider decider, ClassSearch* class_search) noexcept nogil:
    """Choose in one scan, where the total of a row depends on that row alone (`mr_scan_suits`).

    Returns FAILED, and does not move the rotation, where the scan cannot decide.
    """
    cdef mr_decision decision
    decider.search.listing.scan_columns()
    decider.search.found.parallel += mr_scan_decide(
        &decider.scan.c, &class_search.local, decider.rotation % class_search.search.n, class_search.wanted,
        decider.tie_break == GO_HEAP, &decision)
    decider.from_scans += 1
    return FAILED if decision.position == MR_UNDECIDED else _note(decider, &decision, class_search.search.n)


cdef int32_t _note(Decider decider, const mr_decision* decision, int32_t n) noexcept nogil:
    """Record a kernel's decision: the numbers of nodes, and the rotation. Returns its position."""
    decider.search.found.feasible = decision.feasible
    decider.search.found.evaluated = decision.looked_at
    decider.rotation = (decider.rotation % n + decision.looked_at) % n
    return decision.position


cdef int32_t _decide_among_candidates(Decider decider, ClassSearch* class_search) noexcept nogil:
    """Choose by the candidates of the class. Returns a position in the searched list or -1."""
    cdef mr_decision decision
    mr_candidates_decide(
        class_search.candidates, decider.rotation % class_search.search.n, class_search.wanted,
        decider.tie_break == GO_HEAP, decider.search.found.seen, &decision)
    decider.from_candidates += 1
    return _note(decider, &decision, class_search.search.n)


cdef void _follow_flips(Decider decider, ClassSearch* class_search) noexcept nogil:
    """Update the candidates at the rows that fit the class with nominated pods and did not, or conversely."""
    cdef const int32_t* positions = decider.state.view.position_column()
    cdef int32_t at, row
    if class_search.flips.n == MANY:
        class_search.candidates.state = MR_UNMADE
    for at in range(class_search.flips.n):
        row = class_search.flips.rows[at]
        if positions[row] and class_search.candidates.state == MR_VALID:
            mr_candidates_refresh(class_search.candidates, positions[row] - 1)
    class_search.flips.n = 0


cdef void _fill_changes(Decider decider, mr_changes* out) noexcept nogil:
    """Describe the change log to the kernels."""
    out.kind = decider.state.log.kind
    out.id = decider.state.log.id
    out.mask = decider.state.log.capacity - 1
    out.head = decider.state.log.head
    out.position = decider.state.view.position_column()
    out.rows = decider.state.table.used


cdef int _make_candidates(Decider decider, ClassState class_state, const mr_changes* changes) noexcept:
    """Build the candidates of a class; drop them where memory runs out."""
    cdef mr_found* found = &decider.search.found
    decider.state.view.scan_columns()
    try:
        found.parallel += class_state.candidates.build(changes, found.lanes, found.seen)
        if class_state.c.flips:
            class_state.c.flips.n = 0
    except MemoryError:
        class_state.c.candidates, class_state.c.is_ready = NULL, False
    decider.states.charge(class_state)
    return 0
