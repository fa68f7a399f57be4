"""Preemptor: pods of one class placed at once, each evicting whom it must from the best node for that.

What dry runs came to is kept per class and taken over by the next pod: a preemption changes one row, so only that
one is tried again. Where the pod's terms count pods of other rows, or others are nominated, nothing is kept.

kube-scheduler v1.36, preemption.go: dry runs go round the nodes that eviction might help, from a given one on,
until enough of them were found; the best of these is taken, of equal ones the first.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from moorage._core.buffers cimport Buffer, Journal
from moorage._core.change_log cimport LOG_ORDER
from moorage._core.chooser cimport FAILED
from moorage._core.csrc cimport (
    MR_BLOCK,
    MR_HELPABLE,
    MR_HOPELESS,
    MR_NOBODY,
    MR_UNRESOLVABLE,
    mr_eviction,
    mr_local,
    mr_local_read,
    mr_outcomes,
    mr_outcomes_begin,
    mr_outcomes_forget,
    mr_outcomes_note,
    mr_outcomes_set_code,
    mr_search,
    mr_status_block,
    mr_status_by_columns,
    mr_terms,
    mr_verdict,
    mr_walk,
    mr_walk_begin,
    mr_walk_on,
)
from moorage._core.cycle cimport Cycle
from moorage._core.dry_runs cimport DryRuns
from moorage._core.ledger cimport ASSUMED, PodRecord
from moorage._core.pod_class cimport Shape
from moorage._core.pod_spec import bound
from moorage._core.prepared cimport Prepared
from moorage._core.templates cimport Replicas

cdef extern from *:
    int ctz "__builtin_ctzll"(unsigned long long word) noexcept nogil

cdef enum:
    KEPT_LIMIT = 64 << 20  # bytes of outcomes; beyond it those that were used least recently go


cdef class Outcomes:
    """Memory of `mr_outcomes`, and what they were found by."""

    def __cinit__(self):
        cdef Journal journal = Journal()
        memset(&self.c, 0, sizeof(mr_outcomes))
        self.buffers = (
            Buffer(journal, 1), Buffer(journal, sizeof(mr_eviction)), Buffer(journal, sizeof(uint64_t)),
            Buffer(journal, sizeof(uint64_t)), Buffer(journal, sizeof(uint64_t)),
            Buffer(journal, sizeof(uint64_t)), Buffer(journal, sizeof(int32_t)),
        )

    cdef int make(self, int32_t n) except -1:
        """Room for so many positions."""
        cdef Py_ssize_t words = n // 64 + 1
        cdef Buffer codes, results, potential, known, helps, clean, best
        codes, results, potential, known, helps, clean, best = self.buffers
        codes.reserve(n)
        results.reserve(n)
        for buffer in (potential, known, helps, clean, best):
            (<Buffer>buffer).reserve(words)
        self.c.n = n
        self.c.codes = <uint8_t*>codes.data
        self.c.results = <mr_eviction*>results.data
        self.c.potential = <uint64_t*>potential.data
        self.c.known = <uint64_t*>known.data
        self.c.helps = <uint64_t*>helps.data
        self.c.clean = <uint64_t*>clean.data
        self.c.best = <int32_t*>best.data
        return 0

    cdef Py_ssize_t nbytes(self) except -1:
        return sum([(<Buffer>buffer).capacity * (<Buffer>buffer).itemsize for buffer in self.buffers])


cdef class Evictions:
    """Where pods were placed one after the other, and who had to go.

    Attributes
    ----------
    rows : (placed,) int32 array
        The row of each pod that was placed; it ended before the first that fits nowhere.
    """

    def __cinit__(self):
        self.pods, self.ordinals, self.nodes, self.firsts = [], [], [], [0]

    cdef int add(self, Preemptor preemptor, int32_t row, list numbers) except -1:
        """The next pod takes a row from these pods, which are still there."""
        cdef PodRecord* record
        cdef int32_t number
        for number in numbers:
            record = preemptor.state.ledger.record(number)
            if record.origin:  # made when somebody asks for it
                self.pods.append(preemptor.state.ledger.templates.entry(record.origin - 1))
                self.ordinals.append(record.ordinal)
            else:
                self.pods.append(preemptor.state.ledger.objects[number])
                self.ordinals.append(-1)
        self.nodes.append(preemptor.state._node_of(numbers[0]) if numbers else None)
        self.firsts.append(len(self.pods))
        return 0

    def __len__(self):
        return len(self.nodes)

    def victims(self, Py_ssize_t at):
        """Whom the pod at this place evicted, most important first, with the node they were on."""
        return [
            bound((<Replicas>pod).make(ordinal) if ordinal >= 0 else pod, self.nodes[at])
            for pod, ordinal in zip(
                self.pods[self.firsts[at]:self.firsts[at + 1]],
                self.ordinals[self.firsts[at]:self.firsts[at + 1]], strict=True,
            )
        ]


cdef class Preemptor(DryRuns):
    """Preemption for the pods of one profile.

    Parameters
    ----------
    cycle : Cycle
        Of the profile; pods that fit without eviction go where it puts them.

    Attributes
    ----------
    keeps_outcomes : bool
        Whether what dry runs came to is kept. No decision depends on it.
    limit : int
        Bytes of that at most.
    dry_runs : int
        Dry runs so far.
    """

    def __cinit__(self, Cycle cycle):
        self.cycle = cycle
        self.kept = {}
        self.limit = KEPT_LIMIT
        self.keeps_outcomes = True

    def place_run(self, int32_t pod_class, pods, budgets=(), int32_t node_name=0, int32_t pinned=0,
                  const int64_t[::1] offsets=None, int32_t percentage=10, int32_t least=100):
        """Place pods of one class, one after the other, and take their victims away.

        Parameters
        ----------
        pods : sequence of Pod
            Not in the cache; entered as assumed.
        budgets : iterable of PodDisruptionBudget
            As they are for all of the pods: nobody takes evictions off them.
        offsets : (pods,) int64 array, optional
            Of each pod, the index of the node to begin with among those that eviction might help, modulo
            their number; 0 by default.
        percentage, least : int
            DefaultPreemption's minCandidateNodesPercentage and minCandidateNodesAbsolute.

        Returns
        -------
        Evictions

        Raises MemoryError half-way; run it inside `ClusterState.safely` where that must not be.
        """
        cdef Evictions out = Evictions()
        cdef Shape shape = self.state.classes.shape(pod_class)
        cdef list rows = [], numbers
        cdef int32_t row, at
        if offsets is not None and offsets.shape[0] < len(pods):
            raise ValueError("an offset for each pod is wanted")
        if not self.suits:
            raise ValueError("a filter is none of the core's")
        self.cycle._save()
        self.cycle._make_room(<int32_t>len(pods))
        self.target, self.given = (pod_class, node_name, pinned), tuple(budgets)
        self._make_ready()
        for at, pod in enumerate(pods):
            if at:
                self._bring_up_to_date()
            numbers = []
            row = self._fitting_row(len(pods) - at - 1)
            if row < 0:
                row = self._row_to_clear(0 if offsets is None else offsets[at], percentage, least)
                if row < 0:
                    break
                numbers = self._victims_on(row)
            out.add(self, row, numbers)
            for number in numbers:
                self.state._take_away(number)
            self.state._place(pod, pod_class, row, ASSUMED)
            if shape.ports:
                self.moves = -1
            rows.append(row)
        out.rows = np.array(rows, dtype=np.int32)
        return out

    cdef int32_t _fitting_row(self, Py_ssize_t following) except -2:
        """Where the pod goes without eviction, or -1. A search in vain among all nodes moves no rotation."""
        cdef int32_t at
        if not self.outcomes.c.feasible and self.search.search.columns != NULL:
            return -1
        at = self.cycle._choose(&self.one.c, following)
        if at == FAILED:
            self.cycle._raise_failure()
        return -1 if at < 0 else self.search.search.order[at]

    cdef int32_t _row_to_clear(self, int64_t offset, int32_t percentage, int32_t least) except -2:
        """The best row to evict pods from, or -1."""
        cdef mr_outcomes* outcomes = &self.outcomes.c
        cdef mr_eviction result
        cdef mr_walk walk
        cdef uint64_t unknown
        cdef int32_t at
        if outcomes.potentials == 0:
            return -1
        mr_walk_begin(&walk, outcomes, offset, percentage, least)
        unknown = mr_walk_on(&walk, outcomes)
        while unknown:
            while unknown:
                at = walk.word * 64 + ctz(unknown)
                unknown &= unknown - 1
                self._run(self.search.search.order[at], &result)
                mr_outcomes_note(outcomes, at, &result)
                self.dry_runs += 1
            unknown = mr_walk_on(&walk, outcomes)
        return -1 if walk.best == MR_NOBODY else self.search.search.order[walk.best]

    cdef list _victims_on(self, int32_t row):
        """Numbers of those who have to go from a row."""
        cdef mr_eviction result
        cdef int32_t number
        self._run(row, &result)
        numbers = self._victims(row, &result)
        for number in numbers:
            if self.c.loads[self.state.ledger.class_of(number)].shape.n_ports:
                self.moves = -1  # the memory of sets of ports may move
        return numbers

    # ---- ready ---------------------------------------------------------------------------------------------

    cdef int _make_ready(self) except -1:
        """Point at everything anew."""
        cdef int32_t pod_class, node_name, pinned
        cdef mr_local local
        pod_class, node_name, pinned = self.target
        self.one = self.cycle._ready(pod_class, node_name, pinned)
        self.cycle.batch = {self.one}
        self._begin(pod_class, pinned, self.given)
        mr_local_read(&local, &self.search.search)
        self.c.settled = mr_status_by_columns(&self.search.search, &local)
        self.outcomes = self._kept_outcomes()
        self.moves = self.state.journal.moves
        return self._follow()

    cdef int _bring_up_to_date(self) except -1:
        """The pod before has been placed."""
        if self.moves != self.state.journal.moves or self.search.nominations \
                or self.search.search.columns == NULL:
            return self._make_ready()
        self.state.view.refresh()
        if self.search.terms is not None:
            self.state.domains.refresh()
            self.search.terms.fill()
        self.importance.follow()
        return self._follow()

    cdef Outcomes _kept_outcomes(self):
        """What is kept of pods like these, with room for all positions."""
        cdef Outcomes out = self.kept.pop(self.target, None)
        if out is None:
            out = Outcomes()
        else:
            self.kept_bytes -= out.nbytes()
        out.is_made = out.is_made and out.c.n == self.search.search.n
        out.make(self.search.search.n)
        self.kept[self.target] = out  # the last one is the one used last
        self.kept_bytes += out.nbytes()
        while self.kept_bytes > self.limit and len(self.kept) > 1:
            self.kept_bytes -= (<Outcomes>self.kept.pop(next(iter(self.kept)))).nbytes()
        return out

    cdef int _follow(self) except -1:
        """Take over what has changed since the class was last looked at."""
        cdef Outcomes outcomes = self.outcomes
        cdef int64_t at, head = self.state.log.head, last = self.state.log.capacity - 1
        cdef int32_t row, before = -1
        if not self._can_follow(head):
            self._look_at_all()
        else:
            if outcomes.budgets != self.budgets.version:
                mr_outcomes_forget(&outcomes.c)
            for at in range(outcomes.cursor, head):
                row = self.state.log.id[at & last]
                if self.state.log.kind[at & last] < LOG_ORDER and row != before:
                    self._look_at_row(row)
                before = row
        outcomes.cursor, outcomes.budgets, outcomes.terms = head, self.budgets.version, self.search.terms
        outcomes.is_made = self.keeps_outcomes
        return 0

    cdef bint _can_follow(self, int64_t head) except -1:
        """Whether only rows that were named since have other outcomes. Terms count pods of other rows."""
        cdef Outcomes outcomes = self.outcomes
        cdef const mr_terms* terms = self.search.search.pod.terms
        cdef int64_t at
        if not outcomes.is_made or self.search.search.columns == NULL or self.search.nominations:
            return False
        if outcomes.terms is not self.search.terms:
            return False
        if outcomes.cursor == head:
            return True
        if terms != NULL and (terms.n_hard or terms.n_affinity or terms.n_anti or terms.n_existing):
            return False
        if self.state.log.lost(outcomes.cursor) or head - outcomes.cursor > outcomes.c.n // 4 + MR_BLOCK:
            return False
        for at in range(outcomes.cursor, head):
            if self.state.log.kind[at & (self.state.log.capacity - 1)] == LOG_ORDER:
                return False
        return True

    cdef int _look_at_all(self) except -1:
        """What the filters say of every position; nothing is known of evictions."""
        cdef mr_search* search = &self.search.search
        cdef uint8_t* codes = self.outcomes.c.codes
        cdef int32_t at
        cdef mr_local local
        self.state.view.scan_columns()
        mr_local_read(&local, search)
        for at in range(0, search.n, MR_BLOCK):
            mr_status_block(search, &local, at, min(MR_BLOCK, search.n - at), codes + at)
        for at in range(search.n_nominated):
            if search.nominated[at].verdict:
                codes[search.nominated[at].position] = _code(search.nominated[at].verdict)
        mr_outcomes_begin(&self.outcomes.c)
        return 0

    cdef int _look_at_row(self, int32_t row) except -1:
        """A row has changed: nothing is known of it but what the filters say."""
        cdef mr_search* search = &self.search.search
        cdef int32_t at
        if row >= self.state.table.used:  # made and undone since
            return 0
        at = (<int32_t*>self.state.view.position.data)[row] - 1
        if at >= 0:
            mr_outcomes_set_code(&self.outcomes.c, at, _code(
                mr_verdict(search.plan, search.cluster, search.shape, &search.pod, row)
            ))
        return 0


cdef uint8_t _code(uint64_t verdict) noexcept nogil:
    """The code of a status."""
    if not verdict:
        return 0
    return MR_HOPELESS if verdict & MR_UNRESOLVABLE else MR_HELPABLE
