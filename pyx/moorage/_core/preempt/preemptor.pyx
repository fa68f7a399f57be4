"""Preemptor: places pods of one class one after the other, and evicts pods from the best node for each.

The outcomes of dry runs are cached for each class. The next pod reuses them: a preemption changes one row,
so that only this row is tried again. Where the pod's terms count pods of other rows, or the nominations have
changed, the outcomes are dropped.

kube-scheduler v1.36, preemption.go: dry runs go round the potential nodes from an offset until enough
candidates are found; the best of them is chosen, of equal ones the first.
"""

import numpy as np

from libc.stdint cimport INT32_MAX, int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from moorage._core.base cimport LOG_ORDER, Buffer, Journal
from moorage._core.decide.class_state cimport ClassState
from moorage._core.decide.decider cimport FAILED, Decider
from moorage._core.csrc cimport *
from moorage._core.preempt.bound_pods cimport pods_with_numbers
from moorage._core.preempt.dry_runs cimport DryRuns
from moorage._core.state cimport ASSUMED, ClusterState, PodRecord, Replicas, Shape
from moorage._core.state.pod_spec import bound
from moorage._core.settings cimport within

cdef enum:
    CLASSES = 16  # the default number of classes whose outcomes are cached, with 41 bytes for each node
    UNEXPLAINED = 1  # the verdict of a failed dry run whose reason has not been determined


cdef class Outcomes:
    """The memory of `mr_outcomes`, and the versions of the inputs that the outcomes were computed from."""

    cdef mr_outcomes c
    cdef Buffer codes, results, bits, winners
    cdef int64_t cursor, budgets, epoch, units
    cdef Py_ssize_t nominated, changed
    cdef object terms
    cdef bint is_made

    def __cinit__(self):
        cdef Journal journal = Journal()
        memset(&self.c, 0, sizeof(mr_outcomes))
        self.codes = Buffer(journal, 1)
        self.results = Buffer(journal, sizeof(mr_eviction))
        self.bits = Buffer(journal, sizeof(uint64_t))
        self.winners = Buffer(journal, 1)

    cdef int make(self, int32_t n) except -1:
        """Make room for the outcomes of some number of positions."""
        cdef Py_ssize_t words = n // 64 + 1
        self.codes.reserve(64 * words)
        self.results.reserve(n)
        self.bits.reserve(4 * words)
        self.winners.reserve(64 * words)
        self.c.n = n
        self.c.codes = self.codes.uint8()
        self.c.results = <mr_eviction*>self.results.data
        self.c.potential = self.bits.uint64()
        self.c.known = self.c.potential + words
        self.c.helps = self.c.known + words
        self.c.clean = self.c.helps + words
        self.c.winners = <int8_t*>self.winners.data
        return 0


cdef class Evictions:
    """The rows where pods were placed one after the other, and their victims.

    Parameters
    ----------
    state : ClusterState
    most : int
        The number of pods to place.

    Attributes
    ----------
    rows : (placed,) int32 array
        The row of each placed pod. No pod is placed after the first unschedulable one.
    """

    cdef ClusterState state
    cdef int32_t[:, ::1] places  # for each pod its row, and the index of its first victim in `pods`
    cdef int32_t placed
    cdef list pods, names  # of the victims and their nodes

    def __cinit__(self, ClusterState state not None, Py_ssize_t most):
        self.state = state
        self.places = np.empty((2, most + 1), dtype=np.int32)
        self.places[1, 0] = 0
        self.pods, self.names = [], []

    cdef int note_victim(self, int32_t number) except -1:
        """Add a victim of the next pod, before the ledger removes it."""
        cdef PodRecord* record = self.state.ledger.record(number)
        self.names.append(self.state.table.row_name(record.row))
        if record.origin:  # a replica, which is made when `victims` returns it
            self.pods.append((self.state.ledger.templates.entry(record.origin - 1), record.ordinal))
        else:
            self.pods.append(self.state.ledger.object_of(number))
        return 0

    cdef int note_row(self, int32_t row) except -1:
        """Add the row of the next pod."""
        self.places[0, self.placed] = row
        self.placed += 1
        self.places[1, self.placed] = <int32_t>len(self.pods)
        return 0

    @property
    def rows(self):
        """The row of each placed pod: a (placed,) int32 array."""
        return np.asarray(self.places[0, :self.placed])

    def victims(self, Py_ssize_t at):
        """Return the pods that a placed pod has evicted.

        Parameters
        ----------
        at : int
            The index of the placed pod.

        Returns
        -------
        list of Pod
            The most important first, each with the name of the node it was on.

        Raises
        ------
        IndexError
            No pod of that index was placed.
        """
        if not 0 <= at < self.placed:
            raise IndexError(at)
        out, its = [], slice(self.places[1, at], self.places[1, at + 1])
        for pod, name in zip(self.pods[its], self.names[its], strict=True):
            if type(pod) is tuple:
                like, ordinal = pod
                pod = (<Replicas>like).make(ordinal)
            out.append(bound(pod, name))
        return out


cdef class Preemptor(DryRuns):
    """Preemption for the pods of one profile.

    Parameters
    ----------
    decider : Decider
        The decider of the profile. It places pods that fit without evictions.
    stops_at_violation : bool, optional
        As for `DryRuns`.

    Attributes
    ----------
    classes : int
        The number of classes whose outcomes are cached. The least recently used class is dropped first. No
        decision depends on it.
    dry_runs : int
        The number of dry runs so far.
    """

    cdef Decider decider
    cdef dict cached
    cdef int classes_limit
    cdef readonly int64_t dry_runs
    cdef int64_t moves
    cdef int32_t first
    cdef ClassState class_state
    cdef Outcomes outcomes
    cdef tuple target, budgets_set
    cdef object groups

    def __cinit__(self, Decider decider not None, bint stops_at_violation=False):
        self.decider = decider
        self.cached = {}
        self.classes_limit = CLASSES

    cdef int _read_classes_anew(self) except -1:
        self.cached.clear()
        return DryRuns._read_classes_anew(self)

    @property
    def classes(self):
        """The number of classes whose outcomes are cached, at least 1."""
        return self.classes_limit

    @classes.setter
    def classes(self, value):
        self.classes_limit = <int>within("classes", value, 1, INT32_MAX)

    def place_run(self, tuple target not None, pods, budgets=(), const int64_t[::1] offsets=None,
                  tuple limits not None=(10, 100), groups=None):
        """Choose nodes for pods of one class, one after the other: evict the victims and assume each pod.

        It stops at the first unschedulable pod. Pods with preemptionPolicy Never evict no others. Call it in
        `ClusterState.atomically` if all changes must be undone when memory runs out.

        Parameters
        ----------
        target : (int, int, int)
            The class of the pods, and the symbols of `Search.verdicts`.
        pods : sequence of Pod
            Pods without a node that are not in the cache.
        budgets : iterable of PodDisruptionBudget
            All budgets of the cluster. Evictions do not reduce the allowed disruptions.
        offsets : (pods,) int64 array, optional
            For each pod the index of the potential node to begin with, modulo their number; by default 0.
        limits : (int, int)
            DefaultPreemption's minCandidateNodesPercentage and minCandidateNodesAbsolute.
        groups : PodGroups, optional
            Knows the priorities of groups, and those whose pods are only evicted together.

        Returns
        -------
        Evictions
            The rows of the placed pods, and their victims.

        Raises
        ------
        ValueError
            There are fewer offsets than pods, or a filter is not part of the core.
        """
        cdef int32_t n = <int32_t>len(pods), row, at, pod_class, node_name, pinned, percentage, least
        pod_class, node_name, pinned = target
        percentage, least = limits
        if offsets is not None and offsets.shape[0] < n:
            raise ValueError("an offset for each pod is wanted")
        self._set_target(pod_class, tuple(budgets), node_name, pinned, groups)
        cdef Evictions out = Evictions(self.state, n)
        cdef Shape shape = self.state.classes.shape(pod_class)
        self.decider._save()
        self.state.ledger.make_room(n)
        self.state.ledger.reserve_rows(self.state.table.used)
        self.moves = -1
        for at in range(n):
            self._refresh()
            row = self._fitting_row(n - at - 1)
            if row < 0:
                if shape.may_preempt:
                    row = self._row_to_clear(0 if offsets is None else offsets[at], percentage, least)
                if row < 0:
                    break
                self._clear(row, out)
            out.note_row(row)
            self.state._place(pods[at], pod_class, row, ASSUMED)
            if shape.ports:
                self.moves = -1
        return out

    # ---- one pod -------------------------------------------------------------------------------------------

    def begin(self, int32_t pod_class, budgets=(), int32_t node_name=0, int32_t pinned=0, groups=None):
        """Prepare preemption for an unschedulable pod; `choose` and `rejections` follow for the same pod.

        Parameters
        ----------
        pod_class : int
            The class of the pod.
        budgets : iterable of PodDisruptionBudget
            All budgets of the cluster.
        node_name, pinned : int
            As in `Search.verdicts`.
        groups : PodGroups, optional
            As in `place_run`.

        Returns
        -------
        int
            The number of potential nodes: the searched nodes where evictions might help (kube-scheduler
            v1.36, nodesWherePreemptionMightHelp).

        Raises
        ------
        ValueError
            A filter is not part of the core.
        """
        self._set_target(pod_class, tuple(budgets), node_name, pinned, groups)
        self._prepare()
        return self.outcomes.c.potentials

    cdef int _set_target(self, int32_t pod_class, tuple budgets, int32_t node_name, int32_t pinned,
                         object groups) except -1:
        """Set what the next pods have in common; see `place_run` for the errors."""
        self.state.classes.check(pod_class)
        self.state.symbols.check(node_name)
        self.state.symbols.check(pinned)
        if not self.suits:
            raise ValueError("a filter is none of the core's")
        self.target, self.budgets_set, self.groups = (pod_class, node_name, pinned), budgets, groups
        return 0

    def choose(self, int64_t offset=0, int32_t percentage=10, int32_t least=100):
        """Choose the best node to evict pods from. Nothing is changed.

        Parameters
        ----------
        offset, percentage, least : int
            As in `place_run`.

        Returns
        -------
        (int, int, BoundPods) or None
            The row, the number of victims whose eviction violates a budget, and the victims with their node
            name, the most important first. None if evictions help nowhere.

        Raises
        ------
        ValueError
            `begin` was not called.
        """
        cdef mr_eviction result
        cdef int32_t row
        self._check_prepared()
        row = self._row_to_clear(offset, percentage, least)
        if row < 0:
            return None
        self._run(row, &result)
        return row, result.violations, pods_with_numbers(self.state, self._victims(row, &result))

    def rejections(self):
        """Return why evictions help nowhere, after `choose` has returned None.

        Returns
        -------
        verdicts : dict of int to int
            The number of nodes of each verdict (see `DryRun`).
        fitting : list of int
            The rows where the pod fits without evictions, in the order of the dry runs. They are not counted
            in `verdicts`.

        Raises
        ------
        ValueError
            `begin` was not called.
        """
        cdef mr_outcomes* outcomes
        cdef mr_eviction result
        cdef int32_t at, place
        cdef dict counts = {}
        self._check_prepared()
        outcomes = &self.outcomes.c
        cdef list fitting = []
        self.c.explains = True
        for place in range(outcomes.n if outcomes.potentials else 0):
            at = (self.first + place) % outcomes.n
            if not outcomes.potential[at // 64] >> (at % 64) & 1:
                continue
            if outcomes.results[at].verdict == UNEXPLAINED:
                self._run(self.search.search.order[at], &result)
                outcomes.results[at].verdict = result.verdict
            if outcomes.results[at].verdict:
                counts[outcomes.results[at].verdict] = counts.get(outcomes.results[at].verdict, 0) + 1
            else:
                fitting.append(self.search.search.order[at])
        self.c.explains = False
        return counts, fitting

    # ---- choosing ------------------------------------------------------------------------------------------

    cdef int32_t _fitting_row(self, Py_ssize_t following) except -2:
        """The row for the pod without evictions, or -1. A search without a result examines all nodes."""
        cdef int32_t at, n = self.search.search.n
        if not self.outcomes.c.feasible and self.search.search.columns != NULL:
            if n:
                self.decider.rotation %= n
            return -1
        at = self.decider._choose(&self.class_state.c, following)
        if at == FAILED:
            self.search._raise_failure()
        return -1 if at < 0 else self.search.search.order[at]

    cdef int32_t _row_to_clear(self, int64_t offset, int32_t percentage, int32_t least) except -2:
        """The best row to evict pods from, or -1."""
        cdef mr_outcomes* outcomes = &self.outcomes.c
        cdef mr_walk walk
        cdef uint64_t unknown
        if outcomes.potentials == 0:
            return -1
        mr_walk_begin(&walk, outcomes, offset, percentage, least)
        self.first = walk.first
        unknown = mr_walk_on(&walk, outcomes)
        while unknown:
            if self.search.nominations.rows or (self.c.budgets != NULL and self.budgets.exempts):
                self._try_each(walk.word, unknown)
            else:
                self._try_word(walk.word, unknown)
            unknown = mr_walk_on(&walk, outcomes)
        return -1 if walk.best == MR_NOBODY else self.search.search.order[walk.best]

    cdef int _try_each(self, int32_t word, uint64_t bits) except -1:
        """Dry runs of some positions of a word, one by one: with nominated pods and exempt pods."""
        cdef mr_eviction result
        cdef int32_t at
        while bits:
            at = word * 64 + ctz(bits)
            bits &= bits - 1
            self._run(self.search.search.order[at], &result)
            mr_outcomes_note(&self.outcomes.c, at, &result)
            self.dry_runs += 1
        return 0

    cdef int _try_word(self, int32_t word, uint64_t bits) except -1:
        """Dry runs of some positions of a word, in one call of the kernel."""
        self._make_room_for(self.importance.read_all(self.search.search.order + word * 64, bits))
        mr_outcomes_try(&self.outcomes.c, &self.c, self.importance.spans_of(),
                        <mr_pod_entry*>self.importance.entries.data, word, bits)
        self.dry_runs += popcount(bits)
        return 0

    cdef int _clear(self, int32_t row, Evictions out) except -1:
        """Evict the victims of a row."""
        cdef mr_eviction result
        cdef int32_t number
        self._run(row, &result)
        for number in self._victims(row, &result):
            if self.c.usages[self.state.ledger.class_of(number)].shape.n_ports:
                self.moves = -1  # the memory of sets of ports may move
            out.note_victim(number)
            self.state._take_away(number)
        return 0

    # ---- preparing -----------------------------------------------------------------------------------------

    cdef int _check_prepared(self) except -1:
        """ValueError before `begin`; refresh pointers to memory that has moved since."""
        if self.outcomes is None:
            raise ValueError("begin comes first")
        if self.moves != self.state.journal.moves:
            self._prepare()
        return 0

    cdef int _prepare(self) except -1:
        """Prepare search, dry runs and outcomes for the target."""
        cdef int32_t pod_class, node_name, pinned
        cdef mr_local local
        pod_class, node_name, pinned = self.target
        self.class_state = self.decider._prepare_class(pod_class, node_name, pinned)
        self.search.states.release()
        self.search.states.use(self.class_state)
        self._begin(pod_class, pinned, self.budgets_set, self.groups)
        mr_local_read(&local, &self.search.search)
        self.c.settled, self.c.explains = mr_status_by_columns(&self.search.search, &local), False
        self.outcomes = self._cached_outcomes()
        self.moves = self.state.journal.moves
        return self._follow()

    cdef int _refresh(self) except -1:
        """Update all inputs after the pod before has been placed."""
        if self.moves != self.state.journal.moves or self.search.nominations.rows \
                or self.search.search.columns == NULL:
            return self._prepare()
        self.state.view.refresh()
        if self.search.terms is not None:
            self.state.domains.refresh()
            self.search.terms.fill()
        self._follow_rows(self.c.budgets != NULL)
        return self._follow()

    cdef Outcomes _cached_outcomes(self):
        """The cached outcomes of the target, with room for all positions."""
        cdef int32_t n = self.search.search.n
        cdef Outcomes out = self.cached.pop(self.target, None)
        if out is None:
            # New memory would cost more than the dry runs.
            is_full = len(self.cached) >= self.classes_limit
            out = self.cached.pop(next(iter(self.cached))) if is_full else Outcomes()
            out.is_made = False
        out.is_made = out.is_made and out.c.n == n
        out.make(n)
        self.cached[self.target] = out  # in the order of their last use
        return out

    cdef int _follow(self) except -1:
        """Update the outcomes after the changes since the class was last used."""
        cdef Outcomes outcomes = self.outcomes
        cdef int64_t at, head = self.state.log.head, last = self.state.log.capacity - 1
        cdef int32_t row, before = -1
        if not self._can_follow(head):
            self._read_all()
        else:
            if outcomes.budgets != self.budgets.version:
                mr_outcomes_forget(&outcomes.c)
            for at in range(outcomes.cursor, head):
                row = self.state.log.id[at & last]
                if self.state.log.kind[at & last] < LOG_ORDER and row != before:
                    self._read_row(row)
                before = row
            for row in self.search.nominations.changed[outcomes.nominated:]:
                self._read_row(row)
            for row in self.importance.units.changed[outcomes.changed:]:
                self._read_row(row)
        outcomes.epoch, outcomes.units = self.search.nominations.epoch, self.importance.units.epoch
        outcomes.nominated = len(self.search.nominations.changed)
        outcomes.changed = len(self.importance.units.changed)
        outcomes.cursor, outcomes.budgets, outcomes.terms = head, self.budgets.version, self.search.terms
        outcomes.is_made = True
        return 0

    cdef bint _can_follow(self, int64_t head) except -1:
        """Whether only rows that were logged since have other outcomes. (Terms count pods of other rows.)"""
        cdef Outcomes outcomes = self.outcomes
        cdef const mr_terms* terms = self.search.search.pod.terms
        cdef int64_t at
        if not outcomes.is_made or self.search.search.columns == NULL:
            return False
        if outcomes.terms is not self.search.terms or outcomes.epoch != self.search.nominations.epoch \
                or outcomes.units != self.importance.units.epoch:
            return False
        if outcomes.cursor == head and outcomes.nominated == len(self.search.nominations.changed) \
                and outcomes.changed == len(self.importance.units.changed):
            return True
        if terms != NULL and (terms.n_hard or terms.n_affinity or terms.n_anti or terms.n_existing):
            return False
        if self.state.log.lost(outcomes.cursor) or head - outcomes.cursor > outcomes.c.n // 4 + MR_BLOCK:
            return False
        for at in range(outcomes.cursor, head):
            if self.state.log.kind[at & (self.state.log.capacity - 1)] == LOG_ORDER:
                return False
        return True

    cdef int _read_all(self) except -1:
        """Read the filters' status of every position; the outcomes of dry runs are unknown."""
        cdef mr_search* search = &self.search.search
        cdef uint8_t* codes = self.outcomes.c.codes
        cdef int32_t at = 0
        cdef mr_local local
        self.state.view.scan_columns()
        mr_local_read(&local, search)
        while at < search.n:  # Cython loops in Python over a range with a variable step
            mr_status_block(search, &local, at, min(MR_BLOCK, search.n - at), codes + at)
            at += MR_BLOCK
        for at in range(search.n if search.nominated else 0):
            if search.nominated[search.order[at]]:
                codes[at] = _code(search.nominated[search.order[at]])
        mr_outcomes_begin(&self.outcomes.c)
        return 0

    cdef int _read_row(self, int32_t row) except -1:
        """Read the filters' status of a changed row; its outcome is unknown."""
        cdef mr_search* search = &self.search.search
        cdef uint64_t verdict = 0
        cdef int32_t at
        if row >= self.state.table.used:  # added, and undone since
            return 0
        at = self.state.view.position_column()[row] - 1
        if at >= 0:
            if search.nominated:
                verdict = search.nominated[row]
            if not verdict:
                verdict = mr_verdict(search.plan, search.cluster, search.shape, &search.pod, row)
            mr_outcomes_set_code(&self.outcomes.c, at, _code(verdict))
        return 0


cdef uint8_t _code(uint64_t verdict) noexcept nogil:
    """The code of a status."""
    if not verdict:
        return 0
    return MR_CODE_UNRESOLVABLE if verdict & MR_UNRESOLVABLE else MR_CODE_UNSCHEDULABLE
